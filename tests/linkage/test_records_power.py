"""What a pass on records rests on: safe releases pass, blinded ones never, plants are seen."""

from collections.abc import Callable

import numpy as np
import pytest
from linkage_facts import only_mitigations

from lethe.data.records import from_columns
from lethe.evidence.findings import Findings
from lethe.linkage.audit import audit_records
from lethe.linkage.records import attackers
from lethe.linkage.records.likelihood import Sampling, read
from lethe.linkage.settings import RecordSettings

Columns = dict[str, np.ndarray]
RULES = ("top-1<=0.3", "match<=0.3", "exposed<=0.3", "false-match<=0.1")


def few_items(seed: int, people: int = 500, dated: bool = False) -> Columns:
    """Everybody has 8 to 12 of 18 items, so that six of them name nearly nobody."""
    rng = np.random.default_rng(seed)
    columns = held_items(rng, people, 1 / np.arange(8, 26), (8, 13))
    if dated:
        facts = len(columns["item"])
        columns["value"] = rng.integers(1, 6, facts).astype(float)
        columns["time"] = rng.integers(0, 2000, facts)
    return columns


def many_items(seed: int, people: int = 500) -> Columns:
    """Everybody has 11 to 26 of 200 items: six of them name anybody."""
    return held_items(np.random.default_rng(seed), people, 1 / np.arange(3, 203), (11, 27))


def held_items(
    rng: np.random.Generator, people: int, weight: np.ndarray, held: tuple[int, int]
) -> Columns:
    """Everybody's different items, by their weights."""
    items = [
        rng.choice(len(weight), rng.integers(*held), replace=False, p=weight / weight.sum())
        for _ in range(people)
    ]
    person = np.repeat(np.arange(people), [len(one) for one in items])
    return {"person": person, "item": np.concatenate(items)}


def audit(columns: Columns, release: str = "baseline", **asked: object) -> Findings:
    """The verdict on a release, which other ones have no part in: they are left out."""
    settings = RecordSettings(targets=110, rule=RULES, release=release, **asked)
    unit = "days" if "time" in columns else None
    ratings = from_columns(columns, unit=unit) if unit else from_columns(columns)
    with pytest.MonkeyPatch.context() as patch:
        only_mitigations(patch, release)
        return audit_records(ratings, settings=settings)


def outcomes(findings: Findings) -> dict[str, str]:
    return {one["rule"].split(" ")[0]: one["outcome"] for one in findings.rules}


SAFE: dict[str, Callable[[int], Findings]] = {
    "few items": lambda seed: audit(few_items(seed)),
    "few people": lambda seed: audit(many_items(seed), "some-people", share=0.05),
    "few facts": lambda seed: audit(many_items(seed, 400), "some-facts", share=0.1),
    "many pseudonyms": lambda seed: audit(many_items(seed, 400), "pseudonyms-60", pseudonyms=60),
}


@pytest.mark.parametrize("name", SAFE)
def test_a_safe_release_passes(name: str) -> None:
    """Of rules whose limit is at least twice the true risk."""
    findings = SAFE[name](0)
    assert set(outcomes(findings).values()) == {"pass"}, findings.rules
    power = next(one for one in findings.checks if one["name"] == "power")
    assert power["status"] == "pass" and "planted leaks were seen from top-1 of" in power["detail"]


@pytest.mark.slow
def test_nine_of_ten_safe_releases_pass() -> None:
    passed = [
        set(outcomes(make(seed)).values()) == {"pass"}
        for make in SAFE.values()
        for seed in range(10)
    ]
    assert np.mean(passed) >= 0.9


def constant(seed: int) -> Columns:
    """Values and times, which named everybody, are all equal."""
    columns = few_items(seed, 300, dated=True)
    columns["value"][:], columns["time"][:] = 3.0, 7
    return columns


def copied(seed: int) -> Columns:
    """Each record is that of twelve people."""
    columns = many_items(seed, 40)
    person = np.concatenate([columns["person"] + 1000 * copy for copy in range(12)])
    return {"person": person, "item": np.tile(columns["item"], 12)}


def permuted(seed: int) -> Columns:
    """Items change hands between people."""
    columns = many_items(seed, 300)
    item = np.random.default_rng(seed).permutation(columns["item"])
    _, kept = np.unique(columns["person"] * 1000 + item, return_index=True)
    return {"person": columns["person"][kept], "item": item[kept]}


BLINDED = {"constant": constant, "copied": copied, "permuted": permuted}


def check_blinded(name: str, seed: int) -> None:
    findings = audit(BLINDED[name](seed))
    leaks = {key: came for key, came in outcomes(findings).items() if key != "false-match"}
    assert "pass" not in leaks.values(), (name, seed, findings.rules)


@pytest.mark.parametrize("name", BLINDED)
def test_blinded_records_never_pass(name: str) -> None:
    check_blinded(name, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", BLINDED)
def test_blinded_records_never_pass_over_seeds(name: str) -> None:
    for seed in range(1, 30):
        check_blinded(name, seed)


def test_a_truth_of_other_tables_stops() -> None:
    """Known pairs that are found beyond doubt, as other people than the truth says."""
    columns, seen = many_items(0, 300), np.arange(60)
    release, mine = from_columns(columns, name="release"), columns["person"] < 60
    aux = from_columns({name: column[mine] for name, column in columns.items()}, name="aux")
    for truth, status in ((seen, set()), (np.roll(seen, 1), {"fail"})):
        found = audit_records(
            release, aux=aux, truth=(seen, truth), settings=RecordSettings(targets=40)
        )
        assert {one["status"] for one in found.checks if one["name"] == "truth"} == status


def test_attackers_who_see_nothing_earn_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same safe release, by attackers who name the wrong record."""

    def astray(facts, known, sampling: Sampling, *, hidden=None):
        found = read(facts, known, sampling, hidden=hidden)
        for links in found.values():
            links.best[:] = (links.best + 1) % facts.people
        return found

    monkeypatch.setattr(attackers, "read", astray)
    findings = audit(few_items(0))
    leaks = {key: came for key, came in outcomes(findings).items() if key != "false-match"}
    assert set(leaks.values()) == {"not-enough-evidence"}
    reasons = [one["reason"] for one in findings.rules if "reason" in one]
    assert all("was not seen" in why or "planted" in why for why in reasons)


def test_too_few_people_are_told_how_many_it_would_take() -> None:
    settings = RecordSettings(targets=40, rule=("top-1<=0.97",))
    found = audit_records(from_columns(many_items(0)), settings=settings)
    assert found.rules[0]["outcome"] == "not-enough-evidence"
    assert "would decide it if the value stayed" in found.verdict["words"][1]
