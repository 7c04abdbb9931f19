"""What a table reveals, against counts by definition; persons, groups, releases, weights."""

import csv
import functools
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linkage_facts import by_name

import lethe
from lethe.cli import run
from lethe.data.columns import encode, read_columns
from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.linkage.audit import audit_table
from lethe.linkage.codes import classes_of, persons_of
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.inference import Tolerance, anonymity, disclosure, diversity, secret_of
from lethe.linkage.table.population import uniqueness

pytestmark = pytest.mark.usefixtures("no_drawing")


@pytest.fixture
def unpublished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs write no page, which takes longer than an audit of few rows."""
    monkeypatch.setattr("lethe.report.page.files", lambda *_: ())


QUIET: dict[str, Any] = {"save": False, "quiet": True}


def value(candidate: dict[str, Any], measure: str) -> float:
    return candidate["measures"][measure]["value"]


# An independent count: loops over people, with the guesses that could be right tried one by one.


def right(guess: Any, truth: Any, share: float) -> bool:
    if isinstance(truth, str):
        return guess == truth
    return abs(guess - truth) <= share * abs(truth) * (1 + 1e-9) + 1e-12


def hits(truths: list[Any], share: float) -> int:
    """People whom the best single guess gets right."""
    tried = truths if isinstance(truths[0], str) else [t + share * abs(t) for t in truths]
    return max(sum(right(guess, truth, share) for truth in truths) for guess in tried)


def by_hand(quasi: list[tuple], secret: list[Any], share: float) -> dict[str, float]:
    classes: dict[tuple, list[Any]] = {}
    for key, truth in zip(quasi, secret, strict=True):
        classes.setdefault(key, []).append(truth)
    rows, whole = len(secret), Counter(secret)
    best = {key: hits(inside, share) for key, inside in classes.items()}
    apart = [
        sum(abs(Counter(inside)[v] / len(inside) - n / rows) for v, n in whole.items()) / 2
        for inside in classes.values()
    ]
    return {
        "marketer": len(classes) / rows,
        "unique": sum(len(inside) == 1 for inside in classes.values()) / rows,
        "guessed": sum(best.values()) / rows,
        "certain": sum(len(inside) for key, inside in classes.items() if best[key] == len(inside))
        / rows,
        "t": max(apart),
    }


@st.composite
def tables(draw: st.DrawFn) -> dict[str, np.ndarray]:
    rows = draw(st.integers(2, 24))
    ages = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    towns = draw(st.lists(st.sampled_from("ab"), min_size=rows, max_size=rows))
    secret = draw(
        st.one_of(
            st.lists(st.sampled_from(["flu", "cold", "none"]), min_size=rows, max_size=rows),
            st.lists(st.integers(-60, 60), min_size=rows, max_size=rows),
            st.lists(st.floats(-99, 99).map(lambda x: round(x, 1)), min_size=rows, max_size=rows),
        )
    )
    kind = object if isinstance(secret[0], str) else float
    return {
        "age": np.array(ages),
        "town": np.array(towns, object),
        "secret": np.array(secret, kind),
    }


@given(tables(), st.sampled_from(["0", "5%", "30%"]))
@settings(max_examples=30, deadline=None)
def test_every_metric_is_the_count_by_definition(
    table: dict[str, np.ndarray], tolerance: str
) -> None:
    found = audit_table(
        table, ["age", "town"], "secret", settings=TableSettings(ks=(2,), tolerance=tolerance)
    )
    share = 0.0 if tolerance == "0" else float(tolerance[:-1]) / 100
    keys = list(zip(table["age"].tolist(), table["town"].tolist(), strict=True))
    expected = by_hand(keys, table["secret"].tolist(), share)
    base = found.candidates[0]
    for metric, number in expected.items():
        assert value(base, metric) == pytest.approx(number, abs=1e-7), metric
    # The headline is the worst of all attacks, for each candidate, and none is a lower number.
    for candidate in found.candidates:
        shown = candidate["risk_from"]["results"]
        assert candidate["risk"]["value"] == max(one["estimate"]["value"] for one in shown)
        assert candidate["risk"]["value"] >= value(candidate, "marketer") - 1e-7
    # Suppressed rows are guessed as anybody: the same count over those that are left.
    if "suppress-2" in by_name(found):
        left = by_name(found)["suppress-2"]
        held = [key for key, size in Counter(keys).items() if size >= 2]
        inside = [at for at, key in enumerate(keys) if key in held]
        count = by_hand(
            [keys[at] for at in inside], [table["secret"].tolist()[at] for at in inside], share
        )
        for metric in ("certain", "marketer"):
            assert value(left, metric) == pytest.approx(
                count[metric] * len(inside) / len(keys), abs=1e-7
            )


def zips(rows: int = 600, seed: int = 0) -> dict[str, np.ndarray]:
    """A zip code tells the salary to half a percent."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 40, rows)
    return {
        "zip": code,
        "seen": np.datetime64("2020-01-01") + code,
        "sex": np.array(["f", "m"], object)[rng.integers(0, 2, rows)],
        "salary": (20000 + 2000 * code + rng.normal(0, 50, rows)).round(2),
        "ill": np.array(["flu", "cold", "none"], object)[code % 3],
    }


def test_a_number_that_the_class_narrows_is_the_headline() -> None:
    found = lethe.audit_table(zips(), "zip", "salary", **QUIET)
    base = found.candidates[0]
    assert value(base, "certain") == 1.0 and base["exact"]["certain"]["value"] == 0.0
    assert base["risk_from"]["attack"] == "homogeneity, within 5 %"
    assert "learns salary within 5 % for certain of 100 % of the rows" in " ".join(
        str(found).split()
    )
    near = found.table["disclosure"]["near"]
    assert near["blind"]["value"] < 0.2 and base["risk"]["method"].startswith("counted exactly")
    tight = audit_table(zips(), ["zip"], "salary", settings=TableSettings(tolerance="1")).candidates
    assert value(tight[0], "certain") < 0.05


def test_codes_that_all_lie_within_the_tolerance_are_still_attacked_exactly() -> None:
    """Ten diagnoses numbered from 1000: within 5 % everything is right, and blindly too."""
    code = np.arange(200) % 10
    found = audit_table({"zip": code, "icd": 1000 + code}, ["zip"], "icd")
    base = found.candidates[0]
    assert base["blind"]["value"] == 1 and base["risk"]["value"] == 1
    assert base["risk_from"]["attack"] == "homogeneity"


def test_what_everybody_has_is_no_leak() -> None:
    found = audit_table({"zip": np.arange(60) // 6, "ill": np.ones(60, int)}, ["zip"], "ill")
    assert found.candidates[0]["risk_from"]["attack"] == "marketer"


CHANGES = {
    "rows": lambda t: {name: column[::-1] for name, column in t.items()},
    "columns": lambda t: dict(reversed(t.items())),
    "capitals": lambda t: {**t, "ill": np.array([c.upper() for c in t["ill"]], object)},
    "invisible characters": lambda t: {
        **t,
        "ill": np.array([c + "\u200b" * (at % 3) for at, c in enumerate(t["ill"])], object),
    },
    "stops, quotes and accents": lambda t: {
        **t,
        "ill": np.array(
            [(c, f"{c}.", f"'{c}'", f"{c}\u0301")[n % 4] for n, c in enumerate(t["ill"])], "O"
        ),
    },
    "some capitals": lambda t: {
        **t,
        "ill": np.array([f" {c}" if at % 2 else c.upper() for at, c in enumerate(t["ill"])], "O"),
    },
    "numbers as text": lambda t: {**t, "salary": np.array([f"{x}" for x in t["salary"]], object)},
    "a unit": lambda t: {**t, "salary": np.array([f"{x:.2f} EUR" for x in t["salary"]], object)},
    "thousands": lambda t: {**t, "salary": np.array([f"$ {x:,.2f}" for x in t["salary"]], object)},
    "a decimal comma": lambda t: {
        **t, "salary": np.array([f"{x:.2f}".replace(".", ",") for x in t["salary"]], object)
    },
    "cents": lambda t: {**t, "salary": 100 * t["salary"]},
    "another currency": lambda t: {**t, "salary": 1.1 * t["salary"]},
    "float32": lambda t: {**t, "salary": t["salary"].astype(np.float32)},
    "dates as text": lambda t: {**t, "seen": np.array([str(d) for d in t["seen"]], object)},
    "a time of day": lambda t: {
        **t, "seen": t["seen"] + np.arange(len(t["seen"])).astype("m8[m]")
    },
}  # fmt: skip
RULES = ("certain<=0.5", "guessed<=0.6", "t<=0.3", "marketer<=0.01", "unique<=0.001")


@functools.cache
def failing(secret: str) -> Findings:
    """Findings on the unchanged rows, of which the first three rules fail."""
    found = audit_table(zips(), ["zip", "sex"], secret, settings=TableSettings(ks=(3,), rule=RULES))
    assert [one["outcome"] for one in found.rules][:3] == ["fail"] * 3
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_no_harmless_change_turns_a_fail_into_a_pass(change: str) -> None:
    """Whichever column holds the secret; of a change of one column, where that is the secret."""
    table = zips()
    changed = CHANGES[change](table)
    for secret in ("salary", "ill", "seen"):
        if change not in ("rows", "columns") and changed[secret] is table[secret]:
            continue
        before = failing(secret)
        after = audit_table(
            changed, ["zip", "sex"], secret, settings=TableSettings(ks=(3,), rule=RULES)
        )
        for old, new in zip(before.rules, after.rules, strict=True):
            assert old["outcome"] != "fail" or new["outcome"] == "fail", old["rule"]
        assert after.candidates[0]["risk"]["value"] >= before.candidates[0]["risk"]["value"] - 1e-7


def test_who_is_not_released_is_guessed_by_an_ordinary_means() -> None:
    """The zip code tells the salary of those whose rows were suppressed, by the rows of others."""
    rng = np.random.default_rng(5)
    table = {**zips(800), "age": rng.integers(0, 40, 800)}
    left = by_name(audit_table(table, ["zip", "age"], "salary"))["suppress-2"]
    assert left["released"] < 500
    sizes = Counter(zip(table["zip"].tolist(), table["age"].tolist(), strict=True))
    kept = np.array([sizes[key] > 1 for key in zip(table["zip"], table["age"], strict=True)])
    right = 0
    for zip_code, salary in zip(table["zip"], table["salary"], strict=True):
        seen = table["salary"][kept & (table["zip"] == zip_code)]
        right += len(seen) > 0 and abs(np.median(seen) - salary) <= 0.05 * salary
    assert right / 800 > 0.9 and value(left, "guessed") >= right / 800 - 1e-9
    assert left["risk"]["value"] > 0.8


@pytest.mark.parametrize("cells", ["E11.9 E12 E10.1", "0012 0453 0999", "flu cold none", "3-4 5-6"])
def test_codes_are_no_numbers(cells: str) -> None:
    column = np.array([*cells.split(), *cells.split()], object)
    assert secret_of(column, Tolerance(0.5)).words == ""


# Persons with several rows.


def visits(people: int = 60, rows: int = 5, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rows)
    return {
        "pid": who,
        "age": rng.integers(20, 30, people)[who],
        "sex": rng.integers(0, 2, people)[who],
        "dx": np.array(list("abc"), object)[rng.integers(0, 3, people)][who],
    }


def test_copies_of_a_persons_row_change_nothing() -> None:
    """Persons, not rows: the numbers are those of one row a person."""
    many = visits()
    once = {name: column[::5] for name, column in many.items() if name != "pid"}
    shuffled = np.random.default_rng(1).permutation(300)
    shuffled = shuffled[(shuffled % 5 == 0) | (shuffled % 3 > 0)]  # not as many rows of each
    some = {name: column[shuffled] for name, column in many.items()}
    settings = TableSettings(ks=(2, 3), suppress=0.1, population=400)
    whole = audit_table(once, ["age", "sex"], "dx", settings=settings)
    for table in (many, some):
        found = audit_table(table, ["age", "sex"], "dx", person="pid", settings=settings)
        assert found.threat_model["unit"] == "person, all rows"
        for one, other in zip(found.candidates, whole.candidates, strict=True):
            assert one["k"] == other["k"] and one["classes"] == other["classes"]
            for name in ("marketer", "unique", "prosecutor", "certain", "guessed", "t"):
                assert value(one, name) == pytest.approx(value(other, name), abs=1e-7), name
        for key in ("anonymity", "uniqueness", "columns", "population"):
            told, expected = (json.dumps(one.table[key]) for one in (found, whole))
            assert told == expected, key
    rows = audit_table(many, ["age", "sex"], "dx", settings=settings).candidates[0]
    assert value(rows, "unique") == 0 < value(whole.candidates[0], "unique")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=2, max_size=25))
@settings(max_examples=80, deadline=None)
def test_persons_hide_among_those_with_the_same_set_of_rows(rows: list[tuple[int, int]]) -> None:
    who, age = (np.array(column) for column in zip(*rows, strict=True))
    found = anonymity([encode(age).codes], times=persons_of(encode(who).codes))
    sets = Counter(frozenset(age[who == one].tolist()) for one in set(who.tolist()))
    people = sum(sets.values())
    assert found.k == min(sets.values()) and found.classes == len(sets)
    assert found.marketer.value == pytest.approx(len(sets) / people)
    alone = sum(size for size in sets.values() if size == 1) / people
    assert found.unique.value == pytest.approx(alone)
    assert sorted(found.of_class.sizes.tolist()) == sorted(sets.values())
    few = uniqueness({"age": encode(age).codes}, 1, times=persons_of(encode(who).codes))
    assert few.singled_out[1].value == pytest.approx(alone)


@pytest.mark.parametrize("seed", range(6))
def test_who_knows_all_rows_of_a_person_is_counted_by_definition(seed: int) -> None:
    """The adversary knows the set of a person's rows, and guesses a value that any of them has."""
    rng = np.random.default_rng(seed)
    people = int(rng.integers(3, 12))
    who = rng.integers(0, people, 35)
    table = {
        "p": np.array([f"x{w}" for w in who], object),
        "a": rng.integers(0, 3, 35) if seed % 2 else rng.integers(0, 3, people)[who],
        "b": rng.integers(0, 2, people)[who],
        "s": rng.choice([10.0, 10.3, 20.0, 30.0], 35),
    }
    settings = TableSettings(ks=(2,), accept=("identifiers",))
    base = audit_table(table, ["a", "b"], "s", person="p", settings=settings).candidates[0]
    known = list(zip(table["a"].tolist(), table["b"].tolist(), strict=True))
    sets = {
        person: frozenset(known[at] for at in np.flatnonzero(who == person))
        for person in set(who.tolist())
    }
    alike = Counter(sets.values())
    linked = sum(1 / alike[one] for one in sets.values()) / len(sets)
    assert value(base, "marketer") == pytest.approx(linked)
    near = [[right(1.05 * guess, truth, 0.05) for truth in table["s"]] for guess in table["s"]]

    def best(persons: list[Any]) -> int:
        """Persons of whom the best single guess is right for any row."""
        held = [np.flatnonzero(who == person) for person in persons]
        return max(sum(any(row[at] for at in rows) for rows in held) for row in near)

    guessed = certain = 0
    for cells in alike:
        inside = [person for person in sets if sets[person] == cells]
        guessed += best(inside)
        certain += len(inside) * (best(inside) == len(inside))
    assert base["blind"]["value"] == pytest.approx(best(list(sets)) / len(sets))
    assert value(base, "guessed") == pytest.approx(guessed / len(sets))
    assert value(base, "certain") == pytest.approx(certain / len(sets))


def test_each_person_counts_once_in_guesses() -> None:
    """One person has 98 rows: the guess that suits him is no good guess for three others."""
    who = np.array([0] * 98 + [1, 2, 3])
    ill = np.array(["a"] * 98 + ["b"] * 3, object)
    found = disclosure(
        classes_of([np.zeros(101, int)], persons_of(who)), secret_of(ill, Tolerance())
    )
    assert found.exact.guessed.value == pytest.approx(3 / 4)
    varied = diversity(classes_of([np.zeros(101, int)], persons_of(who)), encode(ill).codes)
    assert varied.alpha == pytest.approx(3 / 4) and varied.t == pytest.approx(0)


def test_persons_that_cannot_be_told() -> None:
    table = visits()
    with pytest.raises(InputError, match="Did you mean 'pid'"):
        audit_table(table, ["age"], person="pidd")
    with pytest.raises(InputError, match="is also in quasi"):
        audit_table(table, ["age", "pid"], person="pid")
    gap = {**table, "pid": np.where(table["pid"] == 3, np.nan, table["pid"])}
    with pytest.raises(InputError, match="is missing in some rows"):
        audit_table(gap, ["age"], person="pid")
    with pytest.raises(InputError, match="one person each"):
        audit_table(table, ["age"], person="pid", population={"age": table["age"]})


def test_who_has_several_rows_is_asked_and_the_answer_works(tmp_path: Path) -> None:
    table = visits()
    asked = [one for one in audit_table(table, ["age"]).checks if one["name"] == "input: persons"]
    assert "--person pid" in asked[0]["detail"]
    pandas.DataFrame(table).to_csv(tmp_path / "visits.csv", index=False)
    line = ["audit", "table", str(tmp_path / "visits.csv"), "--quasi", "age,sex", "--quiet"]
    line += ["--sensitive", "dx", "--person", "pid", "--out", str(tmp_path / "run")]
    assert run([*line, "--group", "sex", "--rule", "unique[every sex]<=0.0001"]) == 1
    found = json.loads((tmp_path / "run" / "findings.json").read_text())
    assert found["table"]["people"] == 60 and found["data"]["people"] == 60
    assert not [one for one in found["checks"] if one["name"] == "input: persons"]
    assert "of the persons" in (tmp_path / "run" / "report.html").read_text()


# Groups.


def test_every_level_of_a_group_is_counted_and_the_worst_decides() -> None:
    rng = np.random.default_rng(2)
    sex = np.repeat(["f", "m"], [40, 160]).astype(object)
    age = np.where(sex == "f", rng.integers(0, 80, 200), rng.integers(0, 8, 200))
    rules = (
        "unique[every  sex]<=0.3",
        "unique[sex = m]<=0.3",
        "unique<=0.3",
        "certain[sex=f]<=0.1",
    )
    found = audit_table(
        {"age": age, "sex": sex, "ill": age % 3},
        ["age"],
        "ill",
        settings=TableSettings(ks=(2,), group=("sex",), rule=rules),
    )
    alone = np.array([np.count_nonzero(age == one) == 1 for one in age])
    for candidate in found.candidates[:1]:
        for row in candidate["groups"]:
            inside = sex == row["name"][-1]
            assert row["people"] == inside.sum()
            assert row["unique"]["value"] == pytest.approx(alone[inside].mean(), abs=1e-7)
    for candidate in found.candidates:
        weights = np.array([row["people"] for row in candidate["groups"]]) / 200
        for metric in ("marketer", "unique", "certain", "guessed"):
            parts = [row[metric]["value"] for row in candidate["groups"]]
            assert np.dot(weights, parts) == pytest.approx(value(candidate, metric), abs=1e-6)
            assert max(parts) == value(candidate, f"{metric}[every sex]")
    assert [one["outcome"] for one in found.rules] == ["fail", "pass", "pass", "fail"]
    assert "worst group: sex=f" in " ".join(str(found).lower().replace("group,", "group:").split())
    frame = found.to_frame()
    assert "groups[sex=f].unique" in set(frame["metric"])
    with pytest.raises(InputError, match="is not declared. Add --group town"):
        TableSettings(rule=("unique[every town]<=0.1",))
    with pytest.raises(InputError, match="no row has sex=x"):
        audit_table(
            {"age": age, "sex": sex},
            ["age"],
            settings=TableSettings(group=("sex",), rule=("unique[sex=x]<=0.1",)),
        )


# Rows that can be handed out, own hierarchies, survey weights.


@pytest.mark.usefixtures("unpublished")
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
def test_a_written_release_is_the_one_that_was_measured(ending: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame(
        {
            "age": rng.integers(18, 90, 300),
            "zip": [f"{n:05d}" for n in rng.integers(10000, 10090, 300)],
            "job": [f"job {n}" for n in rng.integers(0, 20, 300)],
            "ill": rng.choice(["flu", "none"], 300),
        }
    )
    file = tmp_path / f"people{ending}"
    getattr(frame, f"to_{ending[1:]}")(file, **({"index": False} if ending == ".csv" else {}))
    line = ["audit", "table", str(file), "--quasi", "age,zip", "--sensitive", "ill", "--quiet"]
    line += ["--out", str(tmp_path / "run"), "--write-release"]
    assert run([*line, "k-55"]) == 2
    assert run([*line, "k-5"]) == 0
    found = json.loads((tmp_path / "run" / "findings.json").read_text())
    measured = {one["name"]: one for one in found["candidates"]}["k-5"]
    rows = read_columns(tmp_path / "run" / f"k-5{ending}")
    assert list(rows) == list(frame) and len(rows["age"]) == measured["released"]
    again = audit_table(rows, ["age", "zip"], "ill").candidates[0]
    assert again["k"] == measured["k"] >= 5 and again["classes"] == measured["classes"]
    assert again["t"] == pytest.approx(measured["t"])
    # Nothing of the file's order is left: the same rows in another order are the same file.
    first = (tmp_path / "run" / f"k-5{ending}").read_bytes()
    turned = frame.iloc[::-1].reset_index(drop=True)
    getattr(turned, f"to_{ending[1:]}")(file, **({"index": False} if ending == ".csv" else {}))
    assert run([*line[:-3], "--out", str(tmp_path / "again"), "--write-release", "k-5"]) == 0
    assert (tmp_path / "again" / f"k-5{ending}").read_bytes() == first


@pytest.mark.usefixtures("unpublished")
def test_persons_get_new_numbers_and_left_in_addresses_are_not_written(tmp_path: Path) -> None:
    frame = pandas.DataFrame(visits())
    frame["pid"] = [f"p{n}" for n in 999 - frame["pid"]]
    frame.to_csv(tmp_path / "v.csv", index=False)
    line = ["audit", "table", str(tmp_path / "v.csv"), "--quasi", "age,sex", "--person", "pid"]
    line += ["--quiet", "--write-release", "suppress-2", "--out", str(tmp_path / "run")]
    assert run(line) == 0
    rows = read_columns(tmp_path / "run" / "suppress-2.csv")
    numbers = rows["pid"]
    assert sorted(set(numbers.tolist())) == list(range(1, int(numbers.max()) + 1))
    people = frame.groupby("pid")[["age", "sex"]].first().value_counts()
    assert numbers.max() == people[people >= 2].sum()
    frame["mail"] = [f"{name}@example.org" for name in frame["pid"]]
    frame.to_csv(tmp_path / "v.csv", index=False)
    line[-1] = str(tmp_path / "again")
    run(line)
    assert not (tmp_path / "again" / "suppress-2.csv").exists()


@pytest.mark.usefixtures("unpublished")
def test_own_hierarchies_decide_what_is_grouped(tmp_path: Path) -> None:
    ages = np.repeat([31, 35, 48, 52], 3)
    labels = {31: ("30s", "young"), 35: ("30s", "young"), 48: ("40s", "old"), 52: ("50s", "old")}
    table = {"age": ages, "ill": np.arange(12) % 2}
    path = tmp_path / "age.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("age", "ten", "two"), *((k, *v) for k, v in labels.items())])
    for given_labels in (labels, path, str(path)):
        found = audit_table(
            table, ["age"], settings=TableSettings(ks=(5,), hierarchies={"age": given_labels})
        )
        groups = {one["name"]: one["steps"]["age"]["groups"] for one in found.candidates}
        assert groups["coarser-1"] == 3 and groups["coarser-2"] == 2 and groups["coarser-3"] == 1
        assert by_name(found)["k-5"]["k"] == 6
    line = ["audit", "table", str(tmp_path / "t.csv"), "--quasi", "age", "--quiet"]
    line += ["--hierarchy", f"age={path}", "--write-release", "coarser-1"]
    pandas.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    assert run([*line, "--out", str(tmp_path / "run")]) == 0
    written = io.StringIO((tmp_path / "run" / "coarser-1.csv").read_text())
    assert {row["age"] for row in csv.DictReader(written)} == {"30s", "40s", "50s"}
    odd = {**labels, 35: ("30s", "old")}
    with pytest.raises(InputError, match="parts values again on step 2"):
        audit_table(table, ["age"], settings=TableSettings(hierarchies={"age": odd}))
    with pytest.raises(InputError, match="lacks '52'"):
        few = {key: line for key, line in labels.items() if key != 52}
        audit_table(table, ["age"], settings=TableSettings(hierarchies={"age": few}))
    with pytest.raises(InputError, match="hierarchies='zip' is not a column"):
        audit_table(table, ["age"], settings=TableSettings(hierarchies={"zip": labels}))


def test_survey_weights_are_read_row_by_row() -> None:
    rng = np.random.default_rng(4)
    table = {"age": rng.geometric(0.02, 300), "w": rng.choice([1.0, 16.0], 300)}
    found = audit_table(table, ["age"], settings=TableSettings(weight="w")).table["population"]
    assert found["people"] == round(table["w"].sum())
    equal = {**table, "w": np.full(300, 10.0)}
    same = audit_table(equal, ["age"], settings=TableSettings(weight="w")).table["population"]
    known = audit_table(table, ["age"], settings=TableSettings(population=3000)).table["population"]
    assert same["of_uniques"]["value"] == pytest.approx(known["of_uniques"]["value"])
    for odd, said in (
        ({**table, "w": table["w"] / 100}, "a number from 1 in every row"),
        ({**table, "w": np.array(["x", "y"] * 150, object)}, "no column of numbers"),
    ):
        with pytest.raises(InputError, match=said):
            audit_table(odd, ["age"], settings=TableSettings(weight="w"))
    with pytest.raises(InputError, match="Leave people or weight out"):
        TableSettings(weight="w", population=3000)
