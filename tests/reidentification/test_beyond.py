"""An audit that asks for everything: one document, one page, every candidate looked at alike."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from reidentification_people import few_attackers, population, quick
from valid_findings import check_document

from lethe.assess.judged import metrics_of
from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.evidence.rules import judge, parse_rule
from lethe.reidentification import attributes, candidates
from lethe.reidentification.audit import audit_released
from lethe.reidentification.family import allowed
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.texts import Texts
from lethe.report import render

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from test_every_number import without_source  # noqa: E402  after the path

# Measured only where verification or an attribute is asked for.
OPTED = ("eer", "min-cllr", "d-sys", "disclosure", "attribute-gain")

MITIGATIONS = ("k-same-5", "leace", "shaped-noise-1")
RULES = ("eer>=0.4", "min-cllr>=0.1", "d-sys<=0.9", "attribute-gain<=0.5", "top-1<=0.9")


def encode(texts):
    return np.array([[float(len(text)), 1, 0, 0, 0, 0] for text in texts])


@pytest.fixture(scope="module")
def found() -> Findings:
    made = population(users=110)
    owner = np.unique(made["user_ids"], return_inverse=True)[1]
    rng = np.random.default_rng(0)
    centre = np.stack([made["representations"][owner == g].mean(axis=0) for g in range(110)])
    sex = np.where(centre[owner, 1] > 0, "f", "m")
    turned = made["representations"] @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    texts = Texts([f"{'x' * (row % 40)}" for row in range(len(owner))], encode)
    model = Released(
        "mlp",
        made["representations"],
        made["user_ids"],
        made["labels"],
        made["head"],
        features=made["representations"][:, 1:3],
        attributes={"sex": sex, "few": np.where(owner < 40, "a", "")},
        texts=texts,
    )
    asked = quick(
        sigmas=(2.0,),
        averaged=(1,),
        surface=(),
        draws=2,
        plays=100,
        refine=0,
        radius_points=20,
        score_norm=True,
        mitigations=MITIGATIONS,
        rule=RULES,
    )
    assert asked.verification  # a rule on it asks for it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attributes, "_STRENGTHS", (0.1,))
        patch.setattr(candidates, "Scorer", partial(candidates.Scorer, replicates=20))
        return audit_released([model], asked, other=Released("v2", turned, made["user_ids"]))


def test_every_candidate_is_attacked_and_verified_by_all(found):
    names = {one["name"] for one in found.candidates}
    assert set(MITIGATIONS) <= names
    every = {attacker.name for attacker in allowed(normalised=True)}
    for one in found.candidates:
        attacked = {result["attack"] for result in one["risk_from"]["results"]}
        verified = one["verification"]
        seen = {row["name"] for row in verified["attacks"]} | set(verified["skipped"])
        if one["name"] in ("logit-only", "label-only"):  # two numbers have no metric to learn
            continue
        assert attacked and attacked <= every
        assert {"plda", "plda, as-norm"} <= seen <= every, one["name"]
        if one["name"] not in ("k-same-5",):  # whose people's rows are equal: nothing to learn
            assert "plda" in attacked and "plda, all vectors" in attacked
        assert one["attributes"][0]["name"] == "sex"


def test_only_what_is_proven_is_called_so(found):
    kinds = {one["name"]: one["guarantee"] for one in found.candidates}
    assert kinds["leace"]["kind"] == "empirical-only" and kinds["leace"]["voided_by"]
    for name in ("k-same-5", "shaped-noise-1"):
        assert kinds[name]["kind"] == "identification-bound"
    assert not [one for one in found.checks if one["status"] == "fail"]


def test_k_same_names_one_of_k_and_verifies_nearly_all(found):
    one = next(c for c in found.candidates if c["name"] == "k-same-5")
    assert one["top_1"]["value"] <= one["guarantee"]["parameters"]["success"] + 1e-9
    # That of people who are equally likely stands beside it, and is not what was measured.
    listed = [row["guarantee"] for row in found.guarantees if row["candidate"] == "k-same-5"]
    assert [row["parameters"]["success"] for row in listed][1] <= 0.2
    assert "the people of the release are equally likely" in listed[1]["assumptions"]
    assert one["verification"]["worst"]["eer"]["value"] < 0.1


def test_rules_are_judged_and_judged_again_from_the_document(found):
    judged = {rule["rule"].partition(" ")[0]: rule for rule in found.rules}
    assert judged["eer"]["outcome"] == "fail" and judged["min-cllr"]["outcome"] == "pass"
    # One of two attributes could not be attacked: a limit on the gain is not shown to be met.
    assert judged["attribute-gain"]["outcome"] == "not-enough-evidence"
    assert judged["attribute-gain"]["evidence"]["high"] is None
    assert any("even if the vectors reveal the attribute" in sentence for sentence in found.limits)
    assert set(OPTED) <= set(metrics_of(found))
    for one in found.candidates:
        assert set(OPTED) <= set(one["measures"])
    rule = parse_rule("eer>=0.4", metrics_of(found))
    assert rule.at_least and str(rule) == "eer >= 0.4"
    for text in ("eer<=0.4", "lift>=3", "eer>=0.6", "min-cllr>=1.1"):
        with pytest.raises(InputError):
            parse_rule(text, metrics_of(found))
    assert judge(rule, None) == "not-tested"


def test_a_second_release_texts_and_refusals_are_in_it(found):
    model = found.representations["models"][0]
    best = max(model["two_releases"]["results"], key=lambda one: one["top_1"]["value"])
    assert best["top_1"]["value"] > 0.9 and best["name"] != "as they are"
    assert model["texts"]["texts"] == 40
    assert "'few' has 1 values" in model["attributes_refused"][0]["refused"]
    assert model["singling_out"]["sizes"][-1]["users"] == 110
    assert abs(model["clusters"]["permuted"]) < 0.05


def test_the_document_fits_its_schema_and_every_number_of_the_page_is_in_it(found):
    plain = found.to_json()
    check_document(plain)
    assert Findings.from_json(plain).to_bytes() == found.to_bytes()
    page = render(found, {})
    for words in (
        "Detection error trade-off",
        "Every option, strongest attacker",
        "Linked with v2",
    ):
        assert words in page
    assert without_source(page, plain) == []


def test_nothing_of_it_is_there_where_it_was_not_asked_for():
    made = population(users=12)
    asked = quick(sigmas=(1.0,), refine=0, plays=0, surface=(), radius_points=20)
    with few_attackers():
        plain = audit_released([Released("mlp", **made)], asked).to_json()
    assert "verification" not in str(plain["candidates"]) and "attributes" not in str(plain)
    assert set(plain["candidates"][0]["measures"]) == {"lift", "top-1", "bound", "utility-loss"}


def test_settings_refuse_what_makes_no_sense():
    for changed, match in (
        ({"mitigations": ("all", "pca-2")}, "stands alone"),
        ({"mitigations": ("quantised",)}, "needs a number"),
        ({"known_share": (1.0,)}, "known_share"),
    ):
        with pytest.raises(InputError, match=match):
            EmbeddingSettings(**changed)
    assert len(EmbeddingSettings(mitigations=("all",)).mitigations) > 4
