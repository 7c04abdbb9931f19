"""The audit of representations as a whole, against naive computations of its parts."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from reidentification_people import SINGLE, audit_embeddings, few_attackers, population, quick
from scipy.special import ndtr
from valid_findings import check_document

from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.evidence.roc import auc
from lethe.reidentification import sweep
from lethe.reidentification.audit import VectorsSubject, audit_released, measure, people
from lethe.reidentification.candidates import RECOMMENDED
from lethe.reidentification.certificates import Limit, identification_bound
from lethe.reidentification.clean import RAW, split_of
from lethe.reidentification.released import Released
from lethe.reidentification.surface import operating_point
from lethe.training.folder import RunFolder

PEOPLE = population()


SMALL = {"plays": 0, "refine": 0, "surface": (), "averaged": (1,), "draws": 2, "sigmas": (1.0,)}
JUDGED = {"rule": ("lift<=2", "bound<=0.9"), "release": "noise-2", "norm": 3.0, "diameter": 60.0}


@pytest.fixture
def few():
    with few_attackers():
        yield


@pytest.fixture(scope="module")
def measured():
    features = np.c_[PEOPLE["representations"][:, 1:3], np.ones(len(PEOPLE["labels"]))]
    model = Released("one", **PEOPLE, features=features)
    return measure(model, quick(**JUDGED), lambda text: None)


@pytest.fixture(scope="module")
def findings(measured):
    return VectorsSubject([measured], quick(**JUDGED)).findings()


@pytest.fixture(scope="module")
def model(findings):
    return findings.to_json()["representations"]["models"][0]


def candidate(findings, name):
    return next(one for one in findings.candidates if one["name"] == name)


def test_the_document_fits_the_schema_and_the_arrays_are_left_alone(findings):
    document = findings.to_json()
    check_document(document)
    assert Findings.from_json(json.loads(findings.to_bytes())).to_bytes() == findings.to_bytes()
    for name, fresh in population().items():
        if name != "head":
            np.testing.assert_array_equal(PEOPLE[name], fresh)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_the_clean_attack_is_that_of_a_full_sort(model, metric):
    split = split_of(Released("one", **PEOPLE), quick())
    vectors = PEOPLE["representations"]
    gallery = np.stack(
        [vectors[split.gallery_rows[split.gallery_user == u]].mean(0) for u in range(40)]
    )
    probes = vectors[split.probe_rows]
    if metric == "cosine":
        gallery = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
        probes = probes / np.linalg.norm(probes, axis=1, keepdims=True)
    apart = np.linalg.norm(probes[:, None] - gallery[None], axis=2)
    place = np.argsort(apart, axis=1).argsort(axis=1)[np.arange(len(probes)), split.probe_user]
    found = next(one for one in model["attacks"] if one["name"] == metric)
    assert found["top"]["1"]["value"] == pytest.approx(np.mean(place == 0))
    assert found["top"]["5"]["value"] == pytest.approx(np.mean(place < 5))
    assert found["mrr"]["value"] == pytest.approx(np.mean(1 / (place + 1)))
    assert found["lift"]["1"]["value"] == pytest.approx(40 * np.mean(place == 0))


def test_utility_is_three_quantities(model):
    """Smoothed: that of the clean logit. One draw: the mean over all pairs, in closed form."""
    z, labels = PEOPLE["representations"][:, 0], PEOPLE["labels"].astype(bool)
    utility = model["utility"]
    assert utility["smoothed"]["value"] == pytest.approx(auc(labels, z), abs=2e-5)
    for level in utility["levels"]:
        sigma = level["sigma"]
        gaps = z[labels][:, None] - z[~labels][None]
        pairs = ndtr(gaps / (np.sqrt(2) * sigma)) if sigma else (gaps > 0)
        assert level["value"]["value"] == pytest.approx(np.mean(pairs), abs=2e-5)
    four = {row["sigma"]: row["value"] for row in utility["averaged"]["4"]}
    one = {row["sigma"]: row["value"] for row in utility["levels"]}
    assert four[2.0] == pytest.approx(one[1.0])
    assert four[1.0]["value"] > one[1.0]["value"]


def test_sigma_and_draws_count_only_together(model):
    cells = {(cell["sigma"], cell["draws"]): cell for cell in model["surface"]}
    assert cells[2.0, 4]["lift"] == cells[1.0, 1]["lift"]
    assert cells[2.0, 4]["lift"]["value"] > cells[2.0, 1]["lift"]["value"]


def test_radii_of_a_linear_head_are_distances_to_the_hyperplane(measured, model):
    exact = np.abs(PEOPLE["representations"][:, 0])
    study = measured.radii
    np.testing.assert_allclose(study.closed.radius, exact[study.rows])
    assert model["radii"]["closed_form"]["mean"] == pytest.approx(exact[study.rows].mean())
    for sigma, radii in study.sampled.items():
        # One certificate in a thousand may be wrong; of 120 more than 3 never are by chance.
        assert (radii.radius > exact[study.rows] + 1e-12).sum() <= 3
        assert radii.radius.max() <= radii.cap + 1e-12 <= 2.47 * sigma
    right = ((PEOPLE["representations"][:, 0] > 0) == PEOPLE["labels"])[study.rows]
    assert model["radii"]["accuracy"]["closed form"][0]["value"] == pytest.approx(right.mean())


def test_no_attack_exceeds_what_nobody_exceeds(findings, model):
    for level in model["levels"]:
        assert level["top"]["1"]["low"] <= level["bound"]
        if level["optimal"] is not None:
            assert level["top"]["1"]["low"] <= level["optimal"]["high"]
    check = next(one for one in findings.checks if one["name"] == "no attack beats a proof")
    assert check["status"] == "pass"


FAST = quick(
    sigmas=(0.0, 0.1), surface=(), draws=2, plays=300, refine=0, metric="l2", rule=("bound<=0.5",)
)


def world(kind: str) -> dict[str, object]:
    """People whom an attacker names although a few values hide it from a careless proof."""
    rng = np.random.default_rng(4)
    owner = np.repeat(np.arange(40), 6)
    vectors = rng.normal(size=(40, 5))[owner] * 10 + 0.01 * rng.normal(size=(240, 5))
    if kind == "a head that reads two values":
        vectors[:, 0] = owner % 2
    elif kind == "two values far apart":
        vectors = np.column_stack([1e7 * (owner % 2), 2.0 * owner, vectors[:, 2] / 1e5])
    elif kind == "a day in nanoseconds":
        vectors = np.column_stack(
            [1.7e18 + 8.64e13 * (owner % 5), 2000.0 * owner, vectors[:, 2] / 99]
        )
    elif kind == "a column twice":
        vectors = np.column_stack([vectors[:, 0], vectors, vectors[:, 0]])
    head = (np.eye(vectors.shape[1])[0], -float(np.median(vectors[:, 0])))
    labels = (vectors[:, 0] > np.median(vectors[:, 0])).astype(int)
    return {"representations": vectors, "user_ids": owner, "labels": labels, "head": head}


def shown(found) -> dict[str, tuple[float, list[float]]]:
    """Lower limit of the strongest attack on one vector, and all limits, by candidate."""
    rows = {}
    for one in found.candidates:
        assert "all vectors" not in str(one["risk_from"]["results"])
        low = max(result["estimate"]["low"] or 0.0 for result in one["risk_from"]["results"])
        limits = [one["measures"]["bound"].get("high", 1.0)]
        limits += [
            entry["guarantee"]["parameters"].get("success", 1.0)
            for entry in found.guarantees
            if entry["candidate"] == one["name"]
        ]
        rows[one["name"]] = low / 40, limits
    return rows


WORLDS = (
    "a head that reads two values",
    "two values far apart",
    "a day in nanoseconds",
    "a column twice",
)


@pytest.mark.parametrize("kind", WORLDS)
def test_no_option_has_a_limit_below_an_attack_on_it(kind: str) -> None:
    asked = replace(FAST, mitigations=("shaped-noise", "k-same-4"))
    with few_attackers(SINGLE):
        found = audit_embeddings(**world(kind), settings=asked)
    for name, (low, limits) in shown(found).items():
        assert min(limits) >= low, name
    assert max(low for low, _ in shown(found).values()) > 0.5
    assert not [c for c in found.checks if c["status"] == "fail" and "proof" in c["name"]]


@pytest.mark.parametrize("false", ["closed_form", "optimal_attacker"])
def test_a_false_proof_is_dropped_and_no_release_passes(false, monkeypatch) -> None:
    label = identification_bound(0.01, 40, (), confidence=0.95)
    monkeypatch.setattr(sweep, false, lambda *_, **__: Limit(0.01, label))
    with few_attackers(SINGLE):
        audit = measure(Released("one", **world("a column twice")), FAST, lambda text: None)
    for release in ("baseline", "noise-0.1", "logit-only", "adaptive-noise-0.1"):
        found = VectorsSubject([audit], replace(FAST, release=release)).findings()
        assert found.verdict["outcome"] != "pass", release
    for name, (low, limits) in shown(found).items():
        assert min(limits) >= low, name
    check = next(one for one in found.checks if one["name"] == "no attack beats a proof")
    assert check["status"] == "fail" and "noise-0.1 (l2)" in check["detail"]
    noisy = candidate(found, "noise-0.1")["measures"]["bound"]
    assert "beat the limit on every attacker" in noisy["refused"]
    for level in found.representations["models"][0]["levels"]:
        limits = [level["bound"], level["optimal"] and level["optimal"]["high"]]
        assert all(limit is None or limit >= level["top"]["1"]["low"] for limit in limits)


def test_permuted_names_give_chance(model):
    for name, permuted in model["controls"]["permuted_lift"].items():
        assert permuted["low"] <= 1 <= permuted["high"], name


def test_rules_are_judged_on_the_named_release(findings):
    outcomes = {one["rule"]: one for one in findings.rules}
    lift = candidate(findings, "noise-2")["risk"]
    assert outcomes["lift <= 2"]["evidence"] == lift
    wanted = "pass" if lift["high"] <= 2 else "fail" if lift["low"] > 2 else "not-enough-evidence"
    assert outcomes["lift <= 2"]["outcome"] == wanted
    assert outcomes["bound <= 0.9"]["outcome"] == "pass"


def test_every_mechanism_stands_on_the_frontier_with_its_label(findings):
    kinds = {}
    for one in findings.guarantees:
        kinds.setdefault(one["candidate"].rstrip("0123456789."), set()).add(
            one["guarantee"]["kind"]
        )
    assert kinds["baseline"] == {"empirical-only"}
    assert kinds["noise-"] == {"identification-bound", "gdp"}
    assert kinds["subspace-noise-"] == {"empirical-only"}
    assert kinds["adaptive-noise-"] == {"identification-bound", "empirical-only"}
    assert kinds["clipped-noise-"] == {"gdp"}
    assert kinds["logit-only"] == {"empirical-only"}
    assert kinds["label-only"] == {"identification-bound"}
    subspace = next(one for one in findings.candidates if one["name"].startswith("subspace"))
    assert subspace["utility"] == candidate(findings, "baseline")["utility"]
    assert candidate(findings, "label-only")["bound"] < 0.2
    assert candidate(findings, "logit-only")["bound"] == 1


def test_risk_and_utility_are_compared_in_pairs(findings):
    base, noisy = candidate(findings, "baseline"), candidate(findings, "noise-1")
    change = noisy["risk"]["value"] - base["risk"]["value"]
    assert noisy["risk_change"]["value"] == pytest.approx(change)
    assert noisy["risk_change"]["high"] < 0
    loss = base["utility"]["value"] - noisy["utility"]["value"]
    assert noisy["utility_loss"]["value"] == pytest.approx(loss)
    apart = base["utility"]["high"] - base["utility"]["low"]
    assert noisy["utility_loss"]["high"] - noisy["utility_loss"]["low"] < apart


def test_scaling_vectors_against_the_head_only_renames_sigma():
    twice = {**PEOPLE, "representations": 2 * PEOPLE["representations"]}
    twice["head"] = (PEOPLE["head"][0] / 2, 0.0)
    models = [Released("one", **PEOPLE), Released("two", **twice)]
    found = audit_released(models, quick(**{**SMALL, "sigmas": (1.0, 2.0)}))
    one, two = candidate(found, "one: noise-1"), candidate(found, "two: noise-2")
    assert one["risk"]["value"] == pytest.approx(two["risk"]["value"])
    assert one["utility"]["value"] == pytest.approx(two["utility"]["value"])
    assert one["bound"] == pytest.approx(two["bound"])
    relative = [c["settings"]["sigma_over_rms"] for c in (one, two)]
    assert relative[0] == pytest.approx(relative[1])
    assert found.baseline == {"candidate": "one: baseline"}
    check_document(found.to_json())


@pytest.mark.usefixtures("few")
def test_an_operating_point_is_found_where_there_is_room():
    """People differ by little and the task by much: noise hides the one and spares the other."""
    close = population(users=110, spread=0.1, task=20.0)
    close["representations"][:, 1:] *= 0.2
    found = audit_embeddings(**close, settings=quick(metric="l2", lift=12.0, surface=(), draws=2))
    point = found.representations["models"][0]["point"]
    assert point["privacy"] < point["utility"]
    assert point["recommended"] == pytest.approx((point["privacy"] + point["utility"]) / 2)
    assert found.frontier["operating_point"] == RECOMMENDED
    sigma = candidate(found, RECOMMENDED)["settings"]["sigma"]
    assert sigma == pytest.approx(point["recommended"], rel=1e-6)


@pytest.mark.usefixtures("few")
def test_where_there_is_no_room_both_sides_are_priced():
    found = audit_embeddings(**PEOPLE, settings=quick(**SMALL, lift=1.001))
    point = found.representations["models"][0]["point"]
    assert point["recommended"] is None
    assert found.frontier["operating_point"] is None
    assert "no measured sigma is private enough, utility ends at" in point["words"]


def test_nobody_is_named_unless_asked(findings):
    assert findings.records == {"kept": False, "exposed": []}
    assert b"reader-9" not in findings.to_bytes()


def test_exposed_people_get_pseudonyms_and_a_table_of_their_own(measured):
    settings = quick(keep_records=True)
    found = VectorsSubject([measured], settings).findings()
    exposed = found.records["exposed"]
    assert [one["id"] for one in exposed[:2]] == ["person 1", "person 2"]
    assert len(exposed) == 40
    named = [one["named"] for one in exposed]
    assert named == sorted(named, reverse=True)
    assert b"reader-9" not in found.to_bytes()
    table = people([measured], settings)
    assert {row.id for row in table} == set(PEOPLE["user_ids"].tolist())
    # Of the attacker that decides, whose trials are people here: all new vectors are of one.
    assert {row.attack for row in table} == {"gaussian, directions, all vectors"}
    mean = np.mean([row.named for row in table])
    assert mean == pytest.approx(measured.candidates[0].candidate.measures["top-1"].value)


@pytest.mark.usefixtures("few")
def test_missing_labels_leave_utility_out_and_say_so():
    found = audit_embeddings(
        PEOPLE["representations"], PEOPLE["user_ids"], head=PEOPLE["head"], settings=quick(**SMALL)
    )
    section = found.representations["models"][0]
    assert "labels" in section["utility"]["refused"]
    assert section["radii"]["closed_form"] is not None
    assert all(one["utility"]["value"] is None for one in found.candidates)
    # Without a diameter.
    assert "gdp" not in {one["guarantee"]["kind"] for one in found.guarantees}
    assert any("no differential privacy" in text for text in found.limits)
    assert any("utility was not measured" in text for text in found.limits)
    text = " ".join(found.verdict["words"] + section["words"])
    assert "fails even without noise" not in text and "not measured" in text
    assert "not measured" in str(operating_point(1.0, None, measured=False))
    assert "fails" in str(operating_point(1.0, None))
    check_document(found.to_json())


@pytest.mark.usefixtures("few")
def test_vectors_alone_are_enough():
    asked = quick(**SMALL)
    found = audit_embeddings(PEOPLE["representations"], PEOPLE["user_ids"], settings=asked)
    section = found.representations["models"][0]
    assert "refused" in section["radii"]
    assert {one["name"] for one in found.candidates} == {"baseline", "noise-1"}
    assert {one["name"] for one in found.frontier["skipped"]} >= {"subspace", "logit", "label"}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("kind", ["module", "classes"])
def test_other_heads_are_measured_by_drawing(kind):
    rng = np.random.default_rng(5)
    if kind == "module":
        torch.manual_seed(0)
        head = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        labels = PEOPLE["labels"]
    else:
        head = (rng.standard_normal((3, 6)), np.zeros(3))
        labels = (PEOPLE["representations"] @ head[0].T).argmax(axis=1)
    asked = quick(**{**SMALL, "sigmas": (1.0, 2.0)}, repeats=3, radius_points=20, radius_draws=50)
    vectors, owner = PEOPLE["representations"], PEOPLE["user_ids"]
    found = audit_embeddings(vectors, owner, labels, head, settings=asked)
    section = found.representations["models"][0]
    assert section["utility"]["measure"] == ("AUC" if kind == "module" else "accuracy")
    assert not section["utility"]["closed_form"]
    values = [level["value"]["value"] for level in section["utility"]["levels"]]
    if kind == "classes":
        assert values[0] == 1
        assert values[1] > values[-1]
    check_document(found.to_json())


@pytest.mark.usefixtures("few")
def test_copied_inputs_are_warned_of_and_raw_features_attacked():
    owner = np.unique(PEOPLE["user_ids"], return_inverse=True)[1]
    copied = np.random.default_rng(1).standard_normal((40, 2))[owner]
    found = audit_embeddings(**PEOPLE, features=copied, settings=quick(**SMALL))
    check = next(one for one in found.checks if one["name"] == "copied inputs")
    assert check["status"] == "warn"
    raw = next(a for a in found.representations["models"][0]["attacks"] if a["name"] == RAW)
    assert raw["top"]["1"]["value"] == 1


@pytest.mark.usefixtures("few")
def test_gallery_and_probes_of_two_periods():
    n = len(PEOPLE["labels"])
    period = np.where(np.arange(n) % 2, "later", "before")
    asked = quick(**SMALL, known="before", later="later")
    found = audit_embeddings(**PEOPLE, period=period, settings=asked)
    assert found.data["probes"] <= (period == "later").sum()
    assert "period before" in found.threat_model["knowledge"]
    with pytest.raises(InputError, match="needs a period"):
        audit_embeddings(**PEOPLE, settings=quick(known="before", later="later"))


def test_an_unknown_release_is_refused(measured):
    with pytest.raises(InputError, match="no candidate"):
        VectorsSubject([measured], quick(release="noise-7")).findings()


@pytest.mark.usefixtures("few")
def test_a_head_of_several_classes_has_the_logits_alone_as_an_option():
    rng = np.random.default_rng(0)
    owner, weight = np.repeat(np.arange(30), 8), rng.standard_normal((4, 9))
    rows = rng.standard_normal((30, 9))[owner] + 0.4 * rng.standard_normal((240, 9))
    asked = quick(**{**SMALL, "draws": 1}, radius_points=9)
    labels = (rows @ weight.T).argmax(axis=1)
    found = audit_embeddings(rows, owner, labels, (weight, np.zeros(4)), settings=asked)
    candidate = next(c for c in found.candidates if c["name"] == "logit-only")
    assert candidate["top_1"]["low"] > 0.2 and candidate["utility_loss"]["value"] == 0


@pytest.mark.usefixtures("few")
def test_noise_levels_that_were_finished_before_a_stop_are_not_attacked_again(
    tmp_path, monkeypatch
):
    """Stopped at the third noise level; other settings or a damaged file begin anew."""
    made = population(users=12)
    model = Released("one", made["representations"], made["user_ids"])
    attack, attacked = sweep.tallies, []

    def audited(stop=None, **changed):
        attacked.clear()

        def counted(*given, **options):
            attacked.append(1)
            if len(attacked) == stop:
                raise KeyboardInterrupt
            return attack(*given, **options)

        monkeypatch.setattr(sweep, "tallies", counted)
        asked = quick(plays=0, refine=0, surface=(), averaged=(1,), **changed)
        with RunFolder(tmp_path / "run", "one") as folder:
            return audit_released([model], asked, folder=folder).to_bytes()

    with pytest.raises(KeyboardInterrupt):
        audited(stop=4)  # the release as it is, two levels, and the one that is stopped
    kept = sorted((tmp_path / "run" / "levels").iterdir())
    assert len(kept) == 2 and {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    kept[0].write_bytes(b"damaged")
    again = audited()
    assert len(attacked) == 3
    assert audited() == again and len(attacked) == 1
    assert (
        audit_released([model], quick(plays=0, refine=0, surface=(), averaged=(1,))).to_bytes()
        == again
    )
    audited(draws=3)
    assert len(attacked) == 4
