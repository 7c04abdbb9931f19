"""The three audits of rows: figures worked by hand, candidates, rules, report and bad input."""

import json

import numpy as np
import pytest
from linkage_facts import by_name, only_mitigations
from valid_findings import check_document

from lethe.data.records import from_columns
from lethe.errors import InputError, NotMeasurable
from lethe.evidence.findings import Findings
from lethe.linkage.audit import audit_records, audit_synthetic, audit_table
from lethe.linkage.records.mitigations import (
    Sheet,
    coarser_times,
    noisy_times,
    some_facts,
    some_people,
    two_values,
    without_rare,
)
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.report import render

pytestmark = pytest.mark.usefixtures("no_drawing")


@pytest.fixture
def as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """No mitigation of records is tried: for tests of the records as they are."""
    only_mitigations(monkeypatch)


AGE = np.array([30, 30, 30, 41, 41, 52])
ZIP = np.array([1, 1, 2, 2, 2, 3])
SICK = np.array([1, 1, 0, 0, 1, 1])


def whole(findings: Findings) -> str:
    """The document follows its schema, reads back as itself and makes a page."""
    document = json.loads(findings.to_bytes())
    check_document(document)
    assert Findings.from_json(document).to_bytes() == findings.to_bytes()
    return render(findings)


def test_a_small_table_by_hand() -> None:
    columns = {"age": AGE, "zip": ZIP, "sick": SICK}
    found = audit_table(
        columns,
        ["age", "zip"],
        "sick",
        settings=TableSettings(ks=(2, 3), suppress=0.2, rule=("unique<=0.2", "prosecutor<=0.5")),
    )
    # Classes: (30, 1) twice, (30, 2), (41, 2) twice, (52, 3).
    base = by_name(found)["baseline"]
    assert base["k"] == 1 and base["classes"] == 4
    assert base["risk"]["value"] == pytest.approx(4 / 6)
    assert base["unique"]["value"] == pytest.approx(2 / 6)
    # (30, 1) are both sick, and the two that are alone are known as well.
    assert base["certain"]["value"] == pytest.approx(4 / 6)
    dropped = by_name(found)["suppress-2"]
    assert dropped["k"] == 2 and dropped["released"] == 4
    assert dropped["risk"]["value"] == pytest.approx(2 / 6)
    assert dropped["certain"]["value"] == pytest.approx(2 / 6)
    assert dropped["utility"]["value"] == pytest.approx(4 / 6)
    assert dropped["utility_loss"]["value"] == pytest.approx(2 / 6)
    assert dropped["risk_change"]["value"] == pytest.approx(-2 / 6)
    assert [ruling["outcome"] for ruling in found.rules] == ["fail", "fail"]
    assert all(not one["guarantee"]["proven"] for one in found.guarantees)
    assert {one["guarantee"]["kind"] for one in found.guarantees} == {"empirical-only"}
    page = whole(found)
    assert "no proof of privacy" in page and "Who hides among whom" in page


def test_k_anonymous_rows_can_still_tell_the_secret() -> None:
    """Two classes of three rows; in one of them all are sick."""
    columns = {"age": np.array([30, 30, 30, 40, 40, 40]), "sick": np.array([1, 1, 1, 0, 1, 0])}
    found = audit_table(columns, ["age"], "sick", settings=TableSettings(ks=(3,), suppress=0.0))
    made = by_name(found)["k-3"]
    assert made["k"] == 3 and made["utility"]["value"] == 1.0
    assert made["certain"]["value"] == 0.5
    assert any("still certain in 50 %" in words for words in found.verdict["words"])
    assert any("no proof" in text for text in made["guarantee"]["assumptions"])


def test_risk_against_a_population_table() -> None:
    columns = {"age": np.array([30, 41])}
    everybody = {"age": np.array([30, 30, 30, 41])}
    told = audit_table(columns, ["age"], population=everybody).table
    assert told is not None
    assert told["journalist"]["highest"] == 1.0
    assert told["journalist"]["mean"]["value"] == pytest.approx((1 / 3 + 1) / 2)
    with pytest.raises(InputError, match="released persons belong to the population"):
        audit_table(columns, ["age"], population={"age": np.array([30, 50])})
    with pytest.raises(InputError, match="other types in table and population"):
        audit_table(columns, ["age"], population={"age": np.array(["thirty", "old"])})


def test_columns_that_need_a_look_are_named() -> None:
    columns = {
        "id": np.arange(4),
        "same": np.zeros(4, int),
        "gap": np.array([1.0, np.nan, 1.0, 1.0]),
    }
    found = audit_table(columns, list(columns), settings=TableSettings(ks=(2,)))
    details = {check["name"]: check["detail"] for check in found.checks}
    assert "every row has a value of its own" in details["column id"]
    assert "all rows have the same value" in details["column same"]
    assert "1 values are missing" in details["column gap"]
    # Each row is a class of its own, so nothing is left when small classes go.
    assert {one["name"]: one["why"] for one in found.frontier["skipped"]} == {
        "suppress-2": "no row would be left"
    }
    whole(found)


def test_all_rows_equal_hide_everybody() -> None:
    found = audit_table({"a": np.ones(7, int)}, ["a"], settings=TableSettings(ks=(2, 7)))
    assert by_name(found)["baseline"]["k"] == 7
    assert found.frontier["operating_point"] is None
    whole(found)


def test_tables_that_cannot_be_audited() -> None:
    columns = {"age": AGE, "sick": SICK}
    with pytest.raises(InputError, match="Did you mean 'age'"):
        audit_table(columns, ["aged"])
    with pytest.raises(InputError, match="each once"):
        audit_table(columns, ["age", "age"])
    with pytest.raises(InputError, match="also in quasi"):
        audit_table(columns, ["age"], "age")
    with pytest.raises(InputError, match="at least 2 rows"):
        audit_table({"age": AGE[:1]}, ["age"])
    with pytest.raises(InputError, match="is no candidate. Did you mean 'k-5'"):
        audit_table(columns, ["age"], settings=TableSettings(release="k-55"))
    with pytest.raises(InputError, match="unknown metric 'top-1'"):
        TableSettings(rule=("top-1<=0.5",))


def test_utility_is_what_the_queries_say() -> None:
    columns = {"age": AGE, "zip": ZIP, "sick": SICK}
    asked = ("SELECT count(*) FROM release", "SELECT avg(sick) FROM release")
    found = audit_table(columns, ["age"], settings=TableSettings(ks=(2,), queries=asked))
    # One row of six is alone: 5 of 6 are counted, and 3 of 5 sick in place of 4 of 6.
    expected = 1 - (1 / 6 + (4 / 6 - 3 / 5) / (4 / 6)) / 2
    assert by_name(found)["suppress-2"]["utility"]["value"] == pytest.approx(expected)


def service(people: int = 120, seed: int = 0) -> dict[str, np.ndarray]:
    """Facts of people who each take 14 of 60 items, the first ones more often."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, 61)
    item = [rng.choice(60, 14, replace=False, p=weight / weight.sum()) for _ in range(people)]
    return {
        "person": np.repeat(np.arange(people), 14),
        "item": np.concatenate(item),
        "value": rng.integers(1, 3, 14 * people).astype(float),
        "time": rng.integers(10_000, 10_200, 14 * people),
    }


@pytest.fixture(scope="module")
def records() -> Findings:
    return audit_records(
        from_columns(service(), name="films", unit="days"),
        settings=RecordSettings(targets=60, rule=("top-1<=0.5", "exposed<=0.5"), keep_records=True),
    )


def test_more_facts_and_better_dates_name_more_people(records: Findings) -> None:
    assert records.table is not None
    rows = records.table["adversaries"]
    found = {one["name"]: one for one in rows if one["attacker"] == "scoreboard-rh"}
    dated, undated = found["3 of 4 facts, within 14 days"], found["3 of 4 facts, no dates"]
    assert dated["top_1"]["low"] > undated["top_1"]["high"]
    # With dates, who knows how many facts may be wrong does better than the sum of similarities.
    fitting = {one["name"]: one for one in rows if one["attacker"] == "fitting"}
    for name, one in found.items():
        if " of " in name and "no dates" not in name:
            assert fitting[name]["top_1"]["value"] >= one["top_1"]["value"] - 0.05
    # Who knows how facts are drawn does better than any published score.
    likely = {one["name"]: one for one in rows if one["attacker"] == "likelihood"}
    for name, one in found.items():
        others = one["top_1"]["value"], fitting[name]["top_1"]["value"]
        assert likely[name]["top_1"]["value"] >= max(others) - 0.05
    needed = [one["value"] for one in records.table["needed"]["shares"].values()]
    headline = likely["6 of 8 facts, within 14 days"]
    assert needed[-1] == headline["top_1"]["value"] and needed[-1] > needed[0]
    # 60 people are too few for one false match in a hundred.
    assert "at least 99 people" in headline["calibrated"]["refused"]
    worst = [one["value"] for one in records.table["worst"].values()]
    drawn = [one["value"] for one in records.table["unicity"].values()]
    assert worst == sorted(worst) and worst[3] == 1.0
    assert all(most >= one for most, one in zip(worst, drawn, strict=True))


@pytest.mark.usefixtures("as_it_is")
def test_a_threshold_lets_few_people_through_who_are_not_released() -> None:
    settings = RecordSettings(targets=110, false_matches=0.05)
    table = audit_records(from_columns(service(), unit="days"), settings=settings).table
    assert table is not None and table["false_matches"] == 0.05
    for name in {one["name"] for one in table["adversaries"]}:
        rows = [one for one in table["adversaries"] if one["name"] == name]
        # Five of 111 in all: shared out among the attackers.
        parts = [one["calibrated"]["false_match"]["value"] for one in rows]
        assert sum(parts) == pytest.approx(5 / 111) and max(parts) - min(parts) <= 1 / 111 + 1e-12
        for one in rows:
            assert one["calibrated"]["match"]["value"] <= one["top_1"]["value"]
    assert "at most 5 % of people" in table["words"][1]


def test_every_mitigation_is_attacked_again(records: Findings) -> None:
    found = by_name(records)
    assert list(found)[0] == "baseline"
    assert [one["name"] for one in records.frontier["skipped"]] == ["pseudonyms-year"]
    base = found["baseline"]["risk"]["value"]
    assert found["no-times"]["risk"]["value"] <= base
    for name in ("some-people", "together"):
        assert found[name]["risk"]["value"] < base
        assert found[name]["risk_change"]["value"] == pytest.approx(
            found[name]["risk"]["value"] - base
        )
        assert found[name]["utility"]["value"] < 1
    # Whose record is not released cannot be found in it.
    assert found["some-people"]["people"] == 60
    # Half of the targets, within 5 standard deviations; those who are in it are found as before.
    assert abs(found["some-people"]["risk"]["value"] - 0.5 * base) < 5 * (0.25 / 60) ** 0.5
    assert found["some-people"]["utility"]["value"] > 0.7
    assert found["some-facts"]["utility"]["value"] > 0.7
    assert found["weeks"]["utility"]["value"] == pytest.approx(1.0)
    assert [ruling["outcome"] for ruling in records.rules] == ["fail", "fail"]


def test_exposed_people_are_named_by_rank_only(records: Findings) -> None:
    exposed = records.records["exposed"]
    assert [row["id"] for row in exposed[:2]] == ["person 1", "person 2"]
    assert len(exposed) == 60
    standing = [row["eccentricity"] for row in exposed if row["named"]]
    assert standing == sorted(standing, reverse=True)
    page = whole(records)
    assert "Simulated adversaries" in page and "personal data" in page


def test_a_second_release_of_the_same_people(request: pytest.FixtureRequest) -> None:
    columns = service(80)
    first = from_columns(columns, name="first", unit="days")
    chosen = (columns["person"] < 5) | (columns["person"] >= 50)
    later = {name: column[chosen].copy() for name, column in columns.items()}
    names = 1000 - later["person"]  # other names, in another order
    strange = service(30, seed=1)
    aux = from_columns(
        {
            name: np.concatenate([names if name == "person" else later[name], more])
            for name, more in strange.items()
        },
        name="second",
        unit="days",
    )
    pairs = np.unique(later["person"])
    found = audit_records(
        first,
        aux=aux,
        truth=(1000 - pairs, pairs),
        settings=RecordSettings(targets=20, time_error=3),
    )
    assert found.table is not None
    told = found.table["auxiliary"]
    assert told["known_pairs"] == 35 and told["people"] == 65 and told["shared_items"] == 60
    assert told["curve"][0]["recall"]["value"] == 1.0
    # 80 released people cannot set a limit of one in a hundred; facts that all fit name each pair.
    by = {one["name"]: one for one in told["attackers"]}
    assert all("at least" in one["calibrated"]["refused"] for one in by.values())
    assert by["fitting"]["sure"] is None and told["together"]["counts"]["named"] == 0
    fitting = by["fitting"]["compared"]
    assert fitting["right"]["value"] == 1.0 and fitting["strange"]["value"] == 0.0
    assert fitting["answered"]["value"] == pytest.approx(35 / 65)
    # So many pairs are an adversary of every candidate.
    for candidate in found.candidates:
        attacks = [one["attack"] for one in candidate["risk_from"]["results"]]
        assert "fitting, 35 known pairs with second" in attacks
    strangers = [point["false_match"]["value"] for point in told["curve"]]
    assert strangers[-1] == 0 and strangers == sorted(strangers, reverse=True)
    assert "A real auxiliary table" in whole(found)

    request.getfixturevalue("as_it_is")
    blind = audit_records(first, aux=aux, settings=RecordSettings(targets=20)).table
    assert blind is not None and blind["auxiliary"]["curve"] is None
    assert blind["auxiliary"]["answered"][0]["share"]["value"] == 1.0

    with pytest.raises(InputError, match="truth names '500'"):
        audit_records(first, aux=aux, truth=(np.array([500]), np.array([0])))
    others = from_columns({**strange, "item": strange["item"] + 100}, unit="days")
    with pytest.raises(InputError, match="share no item"):
        audit_records(first, aux=others)


def test_clicks_have_neither_values_nor_times() -> None:
    columns = {name: service()[name] for name in ("person", "item")}
    found = audit_records(from_columns(columns), settings=RecordSettings(targets=20))
    skipped = {one["name"] for one in found.frontier["skipped"]}
    dated = {"weeks", "months", "years", "no-times", "noisy-times"}
    dated |= {"pseudonyms-month", "pseudonyms-year"}
    assert skipped == {*dated, "two-values", "noisy-values"}
    assert found.table is not None
    assert all("no dates" in one["name"] for one in found.table["adversaries"])
    whole(found)


def test_too_few_facts_are_refused() -> None:
    few = from_columns({"person": np.arange(3), "item": np.arange(3)})
    with pytest.raises(NotMeasurable, match="0 people have enough facts"):
        audit_records(few)


def sheet() -> Sheet:
    return Sheet(
        np.array([0, 0, 1, 2]),
        np.array([0, 1, 0, 0]),
        np.array([1.0, 2.0, 4.0, 5.0]),
        np.array([100, 106, 107, 140]),
        3,
        2,
    )


def test_coarser_sheets_by_hand() -> None:
    made = coarser_times(sheet(), 7).sheet
    assert made.time is not None and made.time.tolist() == [103, 103, 110, 138]
    assert coarser_times(sheet(), 0).sheet.time is None
    low_high = two_values(sheet()).sheet
    assert low_high.value is not None and low_high.value.tolist() == [1.5, 1.5, 4.5, 4.5]
    assert without_rare(sheet(), 2).sheet.item.tolist() == [0, 0, 0]
    rng = np.random.default_rng(0)
    moved = noisy_times(sheet(), 5, rng).sheet
    assert moved.time is not None and sheet().time is not None
    assert np.abs(moved.time - np.array([100, 106, 107, 140])).max() <= 5
    assert moved.time.min() >= 100 and moved.time.max() <= 140
    drawn = {int(np.argmax(some_people(sheet(), 0.5, rng).out)) for _ in range(40)}
    assert drawn == {0, 1, 2}  # each is left out in one of 40 draws but for 3 (2/3)^40 cases
    people = some_people(sheet(), 0.5, rng)
    assert people.out.sum() == 1 and people.share == pytest.approx(2 / 3)
    assert not set(people.sheet.person) & set(np.flatnonzero(people.out))
    many = Sheet(np.arange(5000), np.zeros(5000, int), None, None, 5000, 1)
    # 5 standard deviations of a binomial share.
    assert abs(len(some_facts(many, 0.3, rng).sheet.item) / 5000 - 0.3) < 5 * (0.21 / 5000) ** 0.5
    with pytest.raises(NotMeasurable, match="no fact is left"):
        without_rare(sheet(), 4)
    with pytest.raises(NotMeasurable, match="all values are equal"):
        two_values(Sheet(np.arange(2), np.arange(2), np.ones(2), None, 2, 2))


def people_rows(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    age = rng.normal(40, 12, rows)
    return {
        "age": age,
        "height": rng.normal(170, 9, rows),
        "town": rng.integers(0, 6, rows).astype(np.str_).astype(object),
        "pay": np.where(age + rng.normal(0, 4, rows) > 40, "high", "low").astype(object),
    }


def shown_results(findings: Findings) -> list[tuple[str, dict, dict]]:
    """Candidate, result and risk, of every powered result in the document, wherever it stands."""
    found = []
    for candidate in findings.candidates:
        for result in candidate["risk_from"]["results"]:
            if result["valid"] and result["powered"]:
                found.append((candidate["name"], result["estimate"], candidate["risk"]))
    section, base = findings.table or {}, findings.candidates[0]["risk"]
    for one in section.get("adversaries", ()):
        found += [(one["name"], one[key], base) for key in ("top_1", "match")]
        found.append((one["name"], one["calibrated"].get("match"), base))
    for point in section.get("curve", ()):
        found.append(("curve", point["recall"], base))
    for m, share in section.get("needed", {}).get("shares", {}).items():
        found.append((f"needed {m}", share, base))
    if section["kind"] == "synthetic":
        found += [
            (one["name"], one["excess"], base) for one in section["attacks"] if one["powered"]
        ]
        found += [
            ("baseline", found_, base) for found_ in findings.candidates[0]["excess"].values()
        ]
    if section["kind"] == "quasi":
        found.append(("marketer", section["anonymity"]["marketer"], base))
    return [row for row in found if row[1] is not None and "refused" not in row[1]]


def test_no_function_of_the_records_is_shown_to_name_more_people(records: Findings) -> None:
    """Every mitigation is one: whoever has the records can apply it, and then attack."""
    for seed in range(2):
        dated = from_columns(service(seed=seed), unit="days")
        found = audit_records(dated, settings=RecordSettings(targets=60)) if seed else records
        changes = [one["risk_change"] for one in found.candidates[1:]]
        assert len(changes) > 10 and all(change["low"] <= 0 for change in changes)


def test_no_result_has_a_limit_above_the_risk(records: Findings) -> None:
    """A contract over the three kinds of audits of rows."""
    rng = np.random.default_rng(5)
    original, control, fresh = (people_rows(rng, 200) for _ in range(3))
    for name in fresh:
        fresh[name][:40] = original[name][:40]
    settings = SyntheticSettings(attacks=100)
    synthetic = audit_synthetic(
        original, fresh, control, ["age", "height", "town"], "pay", settings=settings
    )
    columns = {"age": np.tile(AGE, 9), "zip": np.tile(ZIP, 9), "sick": np.tile(SICK, 9)}
    settings_of = TableSettings(ks=(2,))
    table = audit_table(columns, ["age", "zip"], "sick", population=columns, settings=settings_of)
    for findings in (records, synthetic, table):
        results = shown_results(findings)
        assert len(results) > 3
        for name, result, risk in results:
            assert result["low"] <= risk["low"] + 1e-9, (name, result, risk)
            assert result["high"] <= risk["high"] + 1e-9, (name, result, risk)
