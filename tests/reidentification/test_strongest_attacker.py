"""The strongest attacker decides: what each learns and holds, and what the audit reads off it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reidentification_people import audit_embeddings, few_attackers, population, quick
from sklearn.covariance import ledoit_wolf

from lethe.evidence.estimate import Estimate
from lethe.evidence.rules import UNDECIDED
from lethe.reidentification import attackers
from lethe.reidentification.attackers import Panel, controlled, tallies
from lethe.reidentification.audit import VectorsSubject, _permuted, measure
from lethe.reidentification.enrolled import ENROLLED
from lethe.reidentification.family import ATTACKERS, NORMALISED, allowed
from lethe.reidentification.gallery import covariance_within, sampled, split_periods, split_rows
from lethe.reidentification.released import Released
from lethe.reidentification.sight import ALL, folds, learn, pooled, sight_of
from lethe.reidentification.sweep import Battery, sample_of
from lethe.reidentification.tally import Tally
from lethe.reidentification.task import task_of

FEWER = tuple(
    replace(next(a for a in ATTACKERS if a.name == "all vectors"), name=name, vectors=number)
    for name, number in (("clean gallery", 1), ("2 vectors", 2))
)
EVERY = (*ATTACKERS, *FEWER)
NAMES = {attacker.name: attacker for attacker in EVERY}
FAST = {"plays": 0, "radius_points": 20, "radius_draws": 50, "refine": 0, "surface": ()}


def drifting(users=300, dimensions=12, rows=5, seed=0):
    """Two periods; four loud directions change with the period, the quiet ones stay a person's."""
    rng = np.random.default_rng([seed, 72])
    stays = 0.5 * rng.standard_normal((users, dimensions))
    loud = np.r_[np.full(4, 2.0), np.zeros(dimensions - 4)]
    drift = rng.standard_normal((2, users, dimensions)) * loud
    owner = np.repeat(np.arange(users), 2 * rows)
    period = np.tile(np.repeat([1, 2], rows), users)
    vectors = stays[owner] + drift[period - 1, owner]
    return vectors + 0.4 * rng.standard_normal(vectors.shape), owner, period


def lifts(vectors, split, attackers=EVERY, clean=None):
    sight = sight_of(vectors, split)
    panel = Panel(tuple(attackers), folds(len(split.users)))
    held = sight if clean is None else sight_of(clean, split)
    return {t.attacker.name: t.lift(0.95) for t in tallies(panel, [(sight, sight)], held)}


def results(document):
    """Every candidate with its risk and its valid results."""
    for candidate in document["candidates"]:
        found = [r for r in candidate["risk_from"]["results"] if r["valid"]]
        yield candidate, [r["estimate"] for r in found if "refused" not in r["estimate"]]


# ---------------------------------------------------------------- attackers


def test_a_metric_learned_from_other_people_finds_what_drift_hides():
    """Item (i): scatter within a period says nothing of what changes from one to the next."""
    vectors, owner, period = drifting()
    some = [NAMES[name] for name in ("cosine", "nearest row", "plda", "plda, all vectors")]
    found = lifts(vectors, split_periods(owner, period, 1, 2), some)
    assert found["plda"].low > 3 * max(found["cosine"].high, found["nearest row"].high)
    assert found["plda, all vectors"].low > found["plda"].high


def test_knowledge_never_hurts_under_noise():
    """Clean enrolment beats noisy, and more vectors of a person beat fewer."""
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(400), 12)
    vectors = rng.standard_normal((400, 8))[owner] + 0.3 * rng.standard_normal((4800, 8))
    noisy = vectors + 1.5 * rng.standard_normal(vectors.shape)
    names = ("clean gallery", "l2", "all vectors", "2 vectors", "plda")
    some = [NAMES[name] for name in (*names, "plda, clean gallery, all vectors")]
    found = lifts(noisy, split_rows(owner), some, vectors)
    assert found["clean gallery"].value > found["l2"].value
    assert found["all vectors"].low > found["2 vectors"].high > found["2 vectors"].low
    assert found["all vectors"].low > found["clean gallery"].high
    assert found["plda, clean gallery, all vectors"].low > found["plda"].high


def test_nothing_is_learned_from_the_people_who_are_attacked():
    """Changing the vectors of one fold leaves the metric that this fold is attacked with alone."""
    vectors, owner, period = drifting(users=60)
    split = split_periods(owner, period, 1, 2)
    sight, fold = sight_of(vectors, split), folds(60)
    moved = vectors.copy()
    moved[fold[owner]] += np.random.default_rng(1).standard_normal(12) * 5
    changed = sight_of(moved, split)
    before, after = learn(sight, ~fold), learn(changed, ~fold)
    np.testing.assert_array_equal(before.matrix, after.matrix)
    np.testing.assert_array_equal(before.probe_centre, after.probe_centre)
    assert abs(fold.mean() - 0.5) <= 0.01


@pytest.mark.parametrize("name", NAMES)
def test_people_who_cannot_be_told_apart_are_named_by_chance(name):
    """Nothing but noise: the lift is 1 for every attacker, learned metrics included."""
    rng = np.random.default_rng(11)
    owner = np.repeat(np.arange(60), 8)
    total = []
    for _ in range(12):
        split = split_rows(owner)
        found = lifts(rng.standard_normal((480, 10)), split, (NAMES[name],))
        total.append(found[name].value)
    error = np.std(total, ddof=1) / np.sqrt(len(total))
    assert abs(np.mean(total) - 1) < 4 * max(error, 0.05)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, ALL]))
@settings(max_examples=25)
def test_pooled_probes_are_means_of_the_first_rows_of_a_person(seed, number):
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(np.arange(7), rng.integers(1, 9, 7)))
    probes = rng.standard_normal((len(owner), 3))
    found, whose = pooled(probes, owner, number)
    for row, person in zip(found, whose, strict=True):
        mine = probes[owner == person]
        np.testing.assert_allclose(row, mine[: number or None].mean(axis=0))
    assert sorted(whose) == sorted(set(owner))


@given(st.integers(2, 40), st.integers(1, 9), st.integers(0, 99))
@settings(max_examples=25)
def test_shrinkage_is_that_of_ledoit_and_wolf(n, d, seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
    scale = np.sqrt((rows**2).sum(axis=0) / n)
    wanted = ledoit_wolf(rows / scale, assume_centered=True)[0] * scale * scale[:, None]
    np.testing.assert_allclose(covariance_within(rows, n), wanted, rtol=1e-6, atol=1e-9)


def test_draws_that_repeat_each_other_are_no_further_trials():
    """Vectors a thousand times the noise: thirty draws of forty people are forty trials."""
    rng = np.random.default_rng(2)
    owner = np.repeat(np.arange(40), 8)
    vectors = 1000 * rng.standard_normal((320, 3))
    split, panel = split_rows(owner), Panel((NAMES["all vectors"],), folds(40))
    sights = [sight_of(vectors + rng.standard_normal(vectors.shape), split) for _ in range(30)]
    clean = sight_of(vectors, split)
    (tally,) = tallies(panel, [(sights[0], sight) for sight in sights], clean)
    (single,) = tallies(panel, [(sights[0], sights[0])], clean)
    assert tally.agreement > 0.9 and tally.draws == 30
    assert tally.lift(0.95).high > 0.8 * single.lift(0.95).high
    loud = [sight_of(vectors + 1e5 * rng.standard_normal(vectors.shape), split) for _ in range(30)]
    (other,) = tallies(panel, [(loud[0], sight) for sight in loud], clean)
    assert other.agreement < 0.3 and other.lift(0.95).width < 0.7 * single.lift(0.95).width


@pytest.mark.parametrize("name", ["cosine", "l2", "2 vectors", "all vectors"])
def test_of_some_people_attackers_find_what_they_find_of_them_among_all(name):
    """A subset of those who are looked for weakens nobody who learns from nobody."""
    vectors, owner, _ = drifting(users=60)
    whole = split_rows(owner)
    part = sampled(whole, 0, 100)
    drawn = np.unique(part.probe_user)
    panel = Panel((NAMES[name],), folds(60))
    hits = []
    for split in (whole, part):
        sight = sight_of(vectors, split)
        (found,) = tallies(panel, [(sight, sight)], sight)
        hits.append(found.hits[drawn])
        assert found.lift(0.95).n == (
            len(np.unique(split.probe_user)) if name.endswith("s") else len(split.probe_rows)
        )
    assert 2 <= len(drawn) < 60 and np.array_equal(*hits)
    assert found.tries.sum() == found.tries[drawn].sum() and len(found.linear().influence) < 60


def test_of_some_people_metrics_are_learned_from_these():
    vectors, owner, _ = drifting(users=200)
    sight = sight_of(vectors, sampled(split_rows(owner), 0, 500))
    learned = learn(sight, folds(200))
    half = np.flatnonzero(folds(200) & (np.bincount(sight.owner, minlength=200) > 0))
    alone = learn(sight, np.isin(np.arange(200), half))
    assert 30 < len(half) < 70 and np.array_equal(learned.matrix, alone.matrix)


def test_an_attacker_whose_interval_is_narrow_or_below_another_draws_no_more():
    """Everybody is found in the first draw; of people who look alike the best gets every draw."""
    rng = np.random.default_rng(4)
    owner = np.repeat(np.arange(400), 6)
    for distance, draws in ((5.0, (1, 1)), (0.3, (2, 4))):
        vectors = distance * rng.standard_normal((400, 10))[owner]
        vectors += 0.3 * rng.standard_normal(vectors.shape)
        sight = sight_of(vectors, split_rows(owner))
        panel = Panel((NAMES["l2"], NAMES["all vectors"]), folds(400))
        single, joined = tallies(panel, [(sight, sight)] * 4, sight)
        assert (single.draws, joined.draws) == draws
        narrow = joined.lift(0.95)
        assert (narrow.width / 2 <= 0.01 * narrow.value) == (joined.draws == 1)
    assert single.lift(0.95).high < narrow.low
    # Nobody is given up for an attacker whose self-check failed.
    panel = replace(panel, unsound=frozenset({"all vectors"}))
    assert [found.draws for found in tallies(panel, [(sight, sight)] * 4, sight)] == [3, 4]


def test_more_noise_is_drawn_where_it_decides_who_is_named_and_only_there():
    tries, rng = np.full(1000, 4.0), np.random.default_rng(5)
    for hits, precise in (
        (rng.integers(0, 2, 1000) * 4.0, True),
        (rng.binomial(4, 0.5, 1000), False),
    ):
        tally = Tally(NAMES["all vectors"], "release", hits, tries, 4)
        assert tally.precise == precise
        limit, error = tally.lift(0.95), np.sqrt(np.var(hits / 4) / 1000)
        assert limit.width / 1000 == pytest.approx(2 * 1.96 * error, rel=0.05)


def test_who_joins_all_vectors_is_left_out_where_everybody_has_one():
    rng = np.random.default_rng(5)
    model = Released("one", rng.standard_normal((60, 4)), np.repeat(np.arange(20), 3))
    split = split_rows(model.user_ids, min_rows=3)
    split = replace(split, probe_rows=split.probe_rows[::2], probe_user=split.probe_user[::2])
    assert np.array_equal(split.probe_user, np.arange(20))
    asked = quick(**FAST)
    battery = Battery(model, split, sample_of(model, split), asked)
    noisy, plain = ([a.name for a in battery.panel(noise=n).attackers] for n in (True, False))
    models = [f"{metric}, all vectors" for metric in ("density", "gaussian", "softmax")]
    joining = ("all vectors", "plda, clean gallery, all vectors", *models)
    assert noisy == ["cosine", "l2", "plda", "nearest row", *joining]
    read = ("gaussian, ranks", "gaussian, directions", "gaussian, lengths")
    further = [f"{name}, all vectors" for name in ("histogram", "covariance", *read)]
    assert plain == [*noisy[:4], *models, *further]


def test_a_threat_model_rules_attackers_out():
    assert allowed() == ATTACKERS and allowed(normalised=True)[-2:] == NORMALISED
    assert all(a.vectors == 1 for a in allowed(vectors=1))
    assert {a.vectors for a in allowed(vectors=3)} == {1, 3}
    names = [a.name for a in allowed(vectors=3)]
    assert {"3 vectors", "plda, 3 vectors"} < set(names) and len(set(names)) == len(names)
    assert not any(a.clean_gallery for a in allowed(clean_gallery=False))
    asked = quick(**FAST, sigmas=(1.0,), draws=1, joined=1, clean_gallery=False)
    some = audit_embeddings(**population(users=20), settings=asked)
    run = {r["attack"] for c in some.candidates for r in c["risk_from"]["results"]}
    assert run <= {a.name for a in allowed(False, 1)}
    not_run = {row["name"] for row in some.attacks_not_run}
    assert {"all vectors", "plda, all vectors"} <= not_run


# ---------------------------------------------------------------- controls


@pytest.mark.parametrize("decimals", [0, 12])
def test_whoever_the_owner_is_a_fixed_metric_is_ranked_once(decimals):
    """With ties, and without: as ranking the probes anew for every permutation."""
    vectors, owner, period = drifting(users=120)
    sight = sight_of(np.round(vectors, decimals) + 0.0, split_periods(owner, period, 1, 2))
    panel, rng = Panel(EVERY, folds(120)), np.random.default_rng(0)
    for attacker in EVERY:
        if attacker.metric == attackers.PLDA:
            continue
        seen = panel.seen(attacker, sight, sight)
        others = [rng.permutation(len(seen.gallery))[seen.owner] for _ in range(5)]
        fits = panel.fits(attacker, seen)
        slow = [panel.rank(attacker, replace(seen, owner=one), fits).first for one in others]
        fast = np.empty((len(others), len(seen.owner)))
        ranked = panel.rank(attacker, seen, fits, others, fast)
        np.testing.assert_array_equal(ranked.closer, panel.rank(attacker, seen, fits).closer)
        np.testing.assert_allclose(fast, np.stack(slow), atol=1e-12, err_msg=attacker.name)


@pytest.mark.parametrize("pairs", [4e9, 2e5])
def test_a_control_has_power_or_says_that_it_has_none(pairs, monkeypatch):
    """Item (n): one permutation of 300 people gave 0.71 [0.02, 3.98] and passed."""
    monkeypatch.setattr(attackers, "_CONTROL_PAIRS", pairs)  # 2e5: tried on some of the people
    vectors, owner, period = drifting(users=160, rows=4)
    sight = sight_of(vectors, split_periods(owner, period, 1, 2))
    panel = Panel(ATTACKERS, folds(160))
    for attacker in ATTACKERS:
        _, lift = controlled(panel, attacker, panel.seen(attacker, sight, sight))
        assert lift.low <= 1.1 and 0.8 <= lift.high <= 2 and lift.n >= 10, attacker.name
    wide = Estimate(0.71, 0.02, 3.98, 0.95, "t", 10)
    assert [row.status for row in _permuted("baseline", {"cosine": wide})] == ["warn"]
    assert "no power" in _permuted("baseline", {"cosine": wide})[0].detail
    sharp = replace(wide, low=0.8, high=1.3)
    assert [row.status for row in _permuted("baseline", {"cosine": sharp})] == ["pass"]


def test_an_attacker_who_finds_people_under_other_names_decides_nothing(monkeypatch):
    """A metric fitted on the very pairs it is used on: the control fails, the others decide."""
    monkeypatch.setattr(
        Panel,
        "fits",
        lambda self, attacker, seen: (
            ()
            if attacker.metric in ("cosine", "l2")
            else (attackers.enrol(attacker.metric, seen),)
            if attacker.metric in ENROLLED
            else (learn(seen, np.ones(len(seen.gallery), bool)),)
        ),
    )
    # More dimensions than pairs: whatever pairs there are, the metric brings them together.
    people = population(users=12, dimensions=60, spread=0.3)
    asked = quick(**FAST, sigmas=(1.0,), draws=2)
    found = audit_embeddings(people["representations"], people["user_ids"], settings=asked)
    failed = [row for row in found.checks if row["status"] == "fail"]
    assert failed and all(row["name"] == "permuted identities" for row in failed)
    voided = {row["detail"].split(":")[0] for row in failed}
    for candidate in found.candidates:
        assert candidate["risk_from"]["attack"] not in voided
    void = [r for r in found.candidates[0]["risk_from"]["results"] if r["attack"] in voided]
    assert void and not any(r["valid"] for r in void)
    assert all("permuted identities" in r["why"] for r in void)


# ---------------------------------------------------------------- the document


@pytest.fixture(scope="module")
def telling():
    """Every person's logit is his own: what the head reads identifies, all else is loud noise."""
    people = population(users=60, spread=0.2, seed=4)
    owner = np.unique(people["user_ids"], return_inverse=True)[1]
    rng = np.random.default_rng(5)
    people["representations"][:, 0] = 4 * rng.standard_normal(60)[owner]
    people["representations"][:, 0] += 1e-3 * rng.standard_normal(len(owner))
    people["labels"] = (people["representations"][:, 0] > 0).astype(int)
    asked = quick(**FAST, draws=3, sigmas=(20.0,), rule=("lift<=2",))
    return audit_embeddings(**people, settings=asked)


def named(document, start):
    return next(c for c in document.candidates if c["name"].startswith(start))


def test_noise_that_spares_the_logit_is_judged_on_the_logit(telling):
    """Item (h): cosine sees noise alone, and the released logit shows the person."""
    noisy, logit = named(telling, "subspace-noise"), named(telling, "logit-only")
    lift = {(r["attack"], r["view"]): r["estimate"] for r in noisy["risk_from"]["results"]}
    assert lift["cosine", "release"]["high"] < 6
    alone = next(r["estimate"] for r in logit["risk_from"]["results"] if r["attack"] == "l2")
    assert lift["l2", "logits"]["value"] == pytest.approx(alone["value"])
    assert noisy["risk"]["low"] >= lift["l2", "logits"]["low"] > 2
    assert noisy["risk"]["low"] > 2 and noisy["tier"] == "identifiable"


@pytest.fixture(scope="module")
def measured():
    asked = quick(**FAST, sigmas=(0.5, 2.0), draws=3)
    return measure(Released("one", **population(users=50, seed=2)), asked, lambda text: None)


@pytest.fixture(scope="module")
def found(measured):
    return VectorsSubject([measured], quick(**FAST, sigmas=(0.5, 2.0), draws=3)).findings()


def test_no_valid_result_has_a_limit_above_that_of_the_risk(found, telling):
    """The contract: what a candidate is judged on is the worst that the document knows of it."""
    for document in (found.to_json(), telling.to_json()):
        for candidate, estimates in results(document):
            assert candidate["risk"]["low"] >= max(e["low"] for e in estimates)
            assert candidate["risk"]["high"] >= max(e["high"] for e in estimates)
            ratio = candidate["risk"]["high"] / candidate["top_1"]["high"]
            assert ratio == pytest.approx(candidate["risk"]["low"] / candidate["top_1"]["low"])
        for level in document["representations"]["models"][0]["levels"]:
            for result in level["attacks"]:
                assert result["estimate"]["high"] <= level["risk"]["high"] or not result["valid"]
                assert result["estimate"]["low"] <= level["risk"]["low"] or not result["valid"]


def test_tiers_and_the_operating_point_read_the_strongest(measured, found):
    """Item (j): single probes against a noisy gallery are not what decides."""
    levels = measured.curve.levels
    assert any((level.worst.low or 0) > (level.lift.high or 0) for level in levels)
    for level in levels:  # between what single probes reach and what the strongest does
        if level.lift.high < level.worst.high:
            private = measured.curve.private_from((level.lift.high + level.worst.high) / 2)
            assert private is None or private > level.sigma
    private = measured.curve.private_from(measured.curve.levels[-1].worst.high * 1.01)
    for level in levels:
        if private is not None and level.sigma >= private:
            assert all(r.estimate.high <= level.worst.high for r in level.judged.attacks)
    knows = {r["knows"] for r in found.candidates[1]["risk_from"]["results"]}
    assert any("without noise" in text for text in knows)
    assert any("all new vectors" in text for text in knows)


def test_the_headline_names_the_strongest_attacker(found):
    """Item (k): the sentence takes the number that the table is worst at."""
    base = found.candidates[0]
    words = found.representations["models"][0]["words"][0]
    assert base["risk_from"]["attack"] in words
    best = max(base["risk_from"]["results"], key=lambda r: r["estimate"]["low"])
    assert best["attack"] == base["risk_from"]["attack"] != "cosine"
    assert f"{100 * base['top_1']['value']:.2g} %" in words


def test_a_rule_that_a_sample_cannot_decide_says_how_many_it_takes():
    """Forty people without a hit still allow a lift of several; a share has a number of people."""
    rng = np.random.default_rng(8)
    nothing = population(users=40, spread=0.0)
    vectors = rng.standard_normal(nothing["representations"].shape)
    asked = quick(**FAST, sigmas=(), rule=("lift<=2", "top-1<=0.01"))
    found = audit_embeddings(vectors, nothing["user_ids"], settings=asked)
    assert [row["outcome"] for row in found.rules] == [UNDECIDED] * 2
    assert found.verdict["outcome"] == UNDECIDED
    said = [text for text in found.verdict["words"] if "it needs" in text]
    assert len(said) == 2 and "top-1<=" in said[0]
    needed = int(said[1].split("it needs ")[1].split(" ")[0].replace(",", ""))
    assert 300 < needed < 1000  # ln(1 / 20 / 12 / 2) / ln(0.99), and a few hundred people decide


# ---------------------------------------------------------------- utility


def test_across_periods_utility_counts_later_rows_only():
    """Item (l): a head that learned the earlier labels by heart is not as good as it looks."""
    rng = np.random.default_rng(9)
    people = population(users=40)
    n = len(people["labels"])
    period = np.where(np.arange(n) % 2, "first", "second")
    logits = people["representations"][:, 0]
    people["labels"] = np.where(period == "first", logits > 0, rng.random(n) > 0.5).astype(int)
    model = Released("one", **people, period=period)
    asked = {**FAST, "sigmas": (1.0,), "draws": 1}
    settings_ = quick(**asked, known="first", later="second", min_rows=2)
    task = task_of(model, settings_)
    assert set(period[task.rows]) == {"second"}
    assert task.at(0.0).value.low < 0.6 < task_of(model, quick(**FAST)).at(0.0).value.low
    with few_attackers():
        found = audit_embeddings(**people, period=period, settings=settings_)
    assert found.candidates[0]["utility"]["value"] == pytest.approx(task.at(0.0).value.value)
    assert all(c["utility"]["n"] == len(task.rows) for c in found.candidates if c["utility"]["n"])


def test_an_owner_is_not_above_itself_by_rounding():
    """Products of few probes round otherwise than those of many."""
    owner = np.array([1, 5])

    def score(chosen, people):
        table = -np.abs(np.arange(people.start, people.stop) - owner[chosen, None]).astype(float)
        return table + 1e-5 * len(table)

    credit, named = attackers._first(score, owner, [slice(0, 4), slice(4, 8)], True)
    assert credit.tolist() == [1, 1]
    assert named.tolist() == owner.tolist()


@pytest.mark.parametrize("name", ["l2", "nearest row, all vectors"])
def test_one_vector_does_not_hide_people_in_a_long_tail(name):
    """Two fifths of the people differ in values hundreds of times as far out as all others."""
    rng = np.random.default_rng(3)
    far = np.arange(200)[:, None] % 5 < 2
    people = np.where(far, rng.uniform(20, 1000, (200, 6)), 0.1 * rng.normal(size=(200, 6)))
    owner = np.tile(np.arange(200), 8)
    rows = people[owner] + 0.02 * rng.normal(size=(1600, 6))
    rows = np.hstack([rows, rng.normal(size=(1600, 1))])
    found = []
    for value in (0.0, 1e8):
        rows[0, -1] = value
        sight = sight_of(rows, split_rows(owner))
        panel = Panel((NAMES[name],), folds(200))
        seen = panel.seen(NAMES[name], sight, sight)
        found.append(panel.credit(NAMES[name], seen, panel.fits(NAMES[name], seen)).mean())
    assert found[1] > found[0] - 0.02 > 0.4
