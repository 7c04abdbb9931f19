"""Input that looks like safety: no change of form turns a fail into a pass."""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pandas
import pytest

from lethe.cli import run
from lethe.data.meaning import one_meaning
from lethe.errors import InputError
from lethe.linkage.audit import audit_records, audit_synthetic, audit_table
from lethe.linkage.inputs import table_checks
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings

pytestmark = pytest.mark.usefixtures("no_drawing")

Rows = dict[str, np.ndarray]
SETTINGS = SyntheticSettings(attacks=60, columns=(1,), rule=("excess<=0.3",))
QUASI = ["age", "born", "job"]


def text(cells: object) -> np.ndarray:
    return np.array(list(cells), dtype=object)


def people(rows: int, seed: int) -> Rows:
    rng = np.random.default_rng([seed, 3])
    born = np.datetime64("1950-01-01") + rng.integers(0, 20000, rows).astype("m8[D]")
    return {
        "age": rng.integers(18, 90, rows),
        "pay": rng.lognormal(8, 0.5, rows).round(2),
        "born": born,
        "job": text(f"job {n}" for n in rng.integers(0, 30, rows)),
        "town": text(f"{n:05d}" for n in rng.integers(0, 60, rows)),
        "sick": rng.random(rows) < 0.3,
    }


def seen(original: Rows, synthetic: Rows, control: Rows, **more: object) -> tuple[str, set[str]]:
    """The outcome of the rule, "refused" for none, and the checks that stop."""
    settings = SyntheticSettings(**{**SETTINGS.__dict__, **more})
    try:
        found = audit_synthetic(original, synthetic, control, QUASI, "sick", settings=settings)
    except InputError:
        return "refused", set()
    stops = {one["name"].partition(": ")[2] for one in found.checks if one.get("effect") == "stops"}
    assert (found.verdict["outcome"] == "not-enough-evidence") or not stops
    return found.verdict["outcome"], stops


SPELLINGS = {
    "rows in another order": lambda t: {name: column[::-1] for name, column in t.items()},
    "columns in another order": lambda t: dict(reversed(t.items())),
    "capitals": lambda t: {**t, "job": text(cell.upper() for cell in t["job"])},
    "blanks": lambda t: {**t, "job": text(f" {cell}" for cell in t["job"])},
    "a suffix": lambda t: {**t, "job": text(f"{cell} X" for cell in t["job"])},
    "zeros lost": lambda t: {**t, "town": t["town"].astype(int)},
    "zeros lost in text": lambda t: {**t, "town": text(str(int(cell)) for cell in t["town"])},
    "dates as text": lambda t: {**t, "born": text(map(str, t["born"]))},
    "a day later, as text": lambda t: {**t, "born": text(map(str, t["born"] + 1))},
    "a time of day": lambda t: {
        **t, "born": t["born"] + np.arange(len(t["born"])).astype("m8[m]")
    },
    "another date": lambda t: {
        **t, "born": text(day.strftime("%d.%m.%Y") for day in t["born"].tolist())
    },
    "numbers as text": lambda t: {**t, "age": text(f"{age}.0" for age in t["age"])},
    "float32": lambda t: {**t, "pay": t["pay"].astype(np.float32)},
    "months": lambda t: {**t, "age": 12 * t["age"]},
    "a tenth more": lambda t: {**t, "age": 1.1 * t["age"]},
    "cents": lambda t: {**t, "pay": 100 * t["pay"]},
    "true and false": lambda t: {**t, "sick": text(str(cell).upper() for cell in t["sick"])},
    "one very rich person": lambda t: {**t, "pay": np.append(t["pay"][1:], 1e12)},
}  # fmt: skip


def test_a_plain_copy_fails() -> None:
    original, control = people(200, 1), people(200, 2)
    assert seen(original, original, control)[0] == "fail"


@pytest.mark.parametrize("change", SPELLINGS)
def test_no_spelling_hides_a_copy(change: str) -> None:
    original, control = people(200, 1), people(200, 2)
    outcome, _ = seen(original, SPELLINGS[change](people(200, 1)), control)
    assert outcome in ("fail", "not-enough-evidence", "refused")
    same = "order|as text|time of day|float32|true and|very rich|capitals|blanks"
    assert (outcome == "fail") == bool(re.search(same, change))


@pytest.mark.slow
@pytest.mark.parametrize("change", SPELLINGS)
@pytest.mark.parametrize("seed", range(4))
def test_no_spelling_hides_some_copies(change: str, seed: int) -> None:
    original, control, made = (people(400, 10 * seed + at) for at in range(3))
    for name in made:
        made[name][:240] = original[name][:240]
    assert seen(original, made, control, attacks=200)[0] == "fail"
    assert seen(original, SPELLINGS[change](made), control, attacks=200)[0] != "pass"


@pytest.mark.parametrize("copied", [240, 0])
def test_decimals_of_whole_numbers_are_rounded_and_hide_no_copy(copied: int) -> None:
    original, control, made = (people(400, 10 + at) for at in range(3))
    made = joined(original, made, copied)
    for noise in (0.4, np.random.default_rng(0).normal(size=400)):
        decimals = {**made, "age": made["age"] + noise}
        outcome, stops = seen(original, decimals, control, attacks=100)
        assert (outcome == "fail") == (copied > 0) and not stops
    findings = audit_synthetic(original, decimals, control, QUASI, settings=SETTINGS)
    notes = [check for check in findings.checks if check["name"] == "input: vocabulary"]
    assert [note["effect"] for note in notes] == ["mends"] and "rounded" in notes[0]["detail"]
    other_units = (1.1 * made["age"], 12.5 * made["age"]) if copied else ()  # these are no rounding
    for wrong in other_units:
        assert "vocabulary" in seen(original, {**made, "age": wrong}, control)[1]


def joined(first: Rows, second: Rows, rows: int) -> Rows:
    """So many rows of the first, the others of the second."""
    return {
        name: np.concatenate([first[name][:rows], column[rows:]]) for name, column in second.items()
    }


def test_a_control_is_a_control() -> None:
    original, control, made = people(400, 1), people(400, 2), people(400, 3)
    assert seen(original, made, control)[1] == set()
    moved = {**original, "pay": original["pay"] + 0.01}
    cases = {
        "control-rows": (joined(original, control, 40), joined(moved, control, 40)),
        "control-source": ({**control, "age": control["age"] // 2 + 30},),
    }
    for name, controls in cases.items():
        for odd in controls:
            assert name in seen(original, made, odd)[1], name
    assert seen(control, original, original)[0] == "refused"
    assert "control-nearer" in seen(control, joined(original, made, 200), original)[1]
    for odd, said in (
        ({name: column[::-1] for name, column in original.items()}, "the control is the original"),
        (made, "the control is the synthetic rows"),
        ({name: column[:3] for name, column in control.items()}, "3 rows, 30 are needed"),
    ):
        with pytest.raises(InputError, match=said):
            audit_synthetic(original, made, odd, QUASI)


def test_honest_controls_may_share_rows_by_chance() -> None:
    """Few different rows: most control rows are in the original, as its own halves predict."""
    for seed in range(5):
        tables = [
            {name: people(300, 7 * seed + at)[name] for name in ("job", "town", "sick")}
            for at in range(3)
        ]
        for table in tables:
            table["town"] = text(cell[:4] for cell in table["town"])
        found = audit_synthetic(*tables, ["job", "town"], "sick", settings=SETTINGS)
        assert not [one for one in found.checks if one.get("effect") == "stops"]


def test_a_waived_check_is_on_the_first_screen_and_decides_again(tmp_path: Path) -> None:
    for name, rows in (("o", people(200, 1)), ("c", people(200, 2)), ("s", people(200, 3))):
        pandas.DataFrame(rows).to_csv(tmp_path / f"{name}.csv", index=False)
    made = SPELLINGS["a suffix"](people(200, 3))
    pandas.DataFrame(made).to_csv(tmp_path / "s.csv", index=False)
    asked = ["audit", "synthetic", str(tmp_path / "s.csv"), "--original", str(tmp_path / "o.csv")]
    asked += ["--control", str(tmp_path / "c.csv"), "--quasi", "age,job", "--quiet", "--out"]
    assert run([*asked, str(tmp_path / "stopped")]) == 3
    page = (tmp_path / "stopped" / "report.html").read_text()
    assert "--accept vocabulary" in page and "Not shown above chance" not in page
    assert run([*asked, str(tmp_path / "waived"), "--accept", "vocabulary"]) == 0
    found = json.loads((tmp_path / "waived" / "findings.json").read_text())
    assert found["reproduction"]["accept"] == ["vocabulary"]
    assert "--accept vocabulary" in " ".join(found["verdict"]["words"])
    with pytest.raises(InputError, match="Did you mean 'vocabulary'"):
        SyntheticSettings(accept=("vocabulry",))


def effects(
    rows: Rows, quasi: list[str], sensitive: str | None = None, person: str | None = None
) -> dict[str, str]:
    checks = table_checks(rows, quasi, sensitive, person=person)
    return {check.name: check.effect for check in checks}


def test_columns_that_identify_everybody_are_named() -> None:
    rng, n = np.random.default_rng(0), 400
    rows = {"age": rng.integers(18, 90, n), "score": rng.normal(size=n)}
    assert effects(rows, ["age"]) == {}
    unique = rng.permutation(10**6)[:n]
    for name, column, effect in (
        ("balance", unique, "asks"),
        ("PatientID", unique, "stops"),
        ("contact", text(f"p{k % 50}@example.org" for k in range(n)), "stops"),
        ("reach", text(f"+49 171 {k:07d}" for k in unique), "stops"),
        ("token", text(f"{k:032x}" for k in unique), "stops"),
        ("note", text(f"seen on day {k}" for k in unique), "asks"),
    ):
        assert effects({**rows, name: column}, ["age"]) == {"identifiers": effect}, name
        assert effects({**rows, name: column}, ["age", name]) == {}, name
    born = text(map(str, np.datetime64("1950-01-01") + np.arange(n)))
    assert effects({**rows, "born": born}, ["age"]) == {}  # a date in text is no name
    found = audit_table(
        {**rows, "mail": text(f"{k}@example.org" for k in unique)},
        ["age"],
        settings=TableSettings(rule=("unique<=0.9",)),
    )
    assert found.verdict["outcome"] == "not-enough-evidence"
    assert found.rules[0]["outcome"] == "not-enough-evidence"


def test_persons_with_several_rows_are_asked_about() -> None:
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(100), 5)
    fixed = {name: rng.integers(0, 50, 100)[who] for name in ("age", "zip", "job")}
    rows = {**fixed, "visit": rng.integers(0, 9, 500)}
    assert effects({**rows, "customer_no": who}, ["age", "zip"]) == {"persons": "asks"}
    assert effects({**rows, "code": who}, ["age", "zip"]) == {"persons": "asks"}
    assert effects({**rows, "code": rng.permutation(who)}, ["age", "zip"]) == {}
    assert effects({**rows, "customer_type": who % 3}, ["age", "zip"]) == {}


def test_a_file_that_holds_every_row_several_times_is_asked_about() -> None:
    """Of few columns too: four copies of each row hide people who are unique."""
    rng = np.random.default_rng(2)
    rows = {"age": rng.integers(0, 90, 200), "zip": rng.integers(0, 90, 200)}
    assert effects(rows, ["age", "zip"]) == {}
    copied = {name: np.tile(column, 4) for name, column in rows.items()}
    assert effects(copied, ["age", "zip"]) == {"repeated-rows": "asks"}
    spelled = {**copied, "id": text([f"{system}{n}" for system in "abcd" for n in range(200)])}
    assert effects(spelled, ["age", "zip"], person="id") == {"repeated-rows": "asks"}


def test_marks_of_suppression_are_asked_about() -> None:
    rows = {"age": text(["30", "*"] * 30), "zip": text(["10115", "*"] * 30)}
    assert effects(rows, ["age", "zip"]) == {"suppression-marks": "asks"}
    assert effects({**rows, "zip": text(["10115", "20095"] * 30)}, ["age", "zip"]) == {}


def test_text_stays_text_where_it_must() -> None:
    zips = text(["01099", *["10115"] * 199])
    assert one_meaning([{"zip": zips}])[0][0]["zip"].dtype == object
    codes = text(["A1", "B2", "7"] * 9)
    first, second = one_meaning([{"c": codes}, {"c": text(["7", "8"])}])[0]
    assert first["c"].dtype == second["c"].dtype == object
    days = text(map(str, np.datetime64("1950-01-01") + np.arange(98)))
    with pytest.raises(InputError, match="'n/a' in another. Make those blank"):
        one_meaning([{"born": days}, {"born": np.append(days, ["n/a"] * 2)}])
    odd = text(["unknown", *[str(n) for n in range(199)]])
    read, notes = one_meaning([{"n": odd}])
    assert read[0]["n"].dtype == np.float64 and "1 other cells" in notes[0]
    kept = one_meaning([{"n": odd}, {"n": np.arange(3)}], ["n"])[0]
    assert kept[0]["n"].tolist() == odd.tolist() and kept[1]["n"].tolist() == ["0", "1", "2"]
    with pytest.raises(InputError, match="'m' is not a column"):
        one_meaning([{"n": odd}], ["m"])


@pytest.mark.slow
def test_nothing_is_read_off_the_cells_before_private_rows() -> None:
    """One person's cell could change a type."""
    rows = {"age": np.tile(np.arange(4), 30), "when": text(["2020-01-01", "2021-01-01"] * 60)}
    assert audit_table(rows, ["age", "when"]).checks[0]["effect"] == "mends"
    private = audit_table(rows, ["age", "when"], settings=TableSettings(epsilon=(1.0,)))
    assert not [one for one in private.checks if one.get("effect") == "mends"]


def test_a_column_that_is_empty_in_one_file_is_empty_there() -> None:
    original, control, made = people(200, 1), people(200, 2), people(200, 1)
    for name, gaps in (("job", text([""] * 200)), ("born", np.full(200, np.nan))):
        assert seen(original, {**made, name: gaps}, control)[0] == "fail"


def test_a_file_of_facts_names_what_identifies_people(tmp_path: Path) -> None:
    from lethe.data.records import from_columns

    rng = np.random.default_rng(2)
    facts = {"person": np.repeat(np.arange(40), 8), "item": rng.integers(0, 60, 320)}
    mail = {"mail": text(f"{n}@example.org" for n in facts["person"])}
    found = audit_records(from_columns(facts), beside=mail)
    assert found.checks[0]["effect"] == "stops" and "mail" in found.checks[0]["detail"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (kind, {name: value})
        for kind, listed in (
            (TableSettings, ("seed=-1", "margin=-1", "confidence=1", "held_out=0", "ks=(1,)")),
            (TableSettings, ("suppress=1", "most=0", "distance='far'", "ruled_out=(-1,)")),
            (TableSettings, ("population=0", "epsilon=(0,)", "delta=0", "bins=0")),
            (RecordSettings, ("targets=1", "phi=-1", "facts=0", "time_error=-1", "sought=0")),
            (RecordSettings, ("value_error=-1", "value_scale=0", "time_scale=-1", "support=1")),
            (RecordSettings, ("pseudonyms=1", "share=0", "popular=1", "false_matches=0")),
            (SyntheticSettings, ("attacks=0", "neighbours=0", "columns=(0,)", "tolerance=-1")),
        )
        for name, _, text in (entry.partition("=") for entry in listed)
        for value in [ast.literal_eval(text)]
    ],
)
def test_settings_out_of_range_are_refused_at_the_door(kind, values):
    """No attack looks again at what the settings have refused."""
    with pytest.raises(InputError, match=next(iter(values))):
        kind(**values)
