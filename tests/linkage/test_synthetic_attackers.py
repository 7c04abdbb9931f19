"""Attacks on synthetic rows: each kind of leak is seen and counted, and no audit passes blind."""

from collections.abc import Callable, Iterator
from math import comb

import numpy as np
import pytest

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate
from lethe.evidence.findings import Findings
from lethe.linkage.audit import audit_synthetic
from lethe.linkage.inputs import table_checks
from lethe.linkage.settings import SyntheticSettings
from lethe.linkage.synthetic import control as control_room
from lethe.linkage.synthetic import ratios
from lethe.linkage.synthetic.control import file_checks
from lethe.linkage.synthetic.copies import Writer, chance_of, decoded, in_pairs, nearness, tail
from lethe.linkage.synthetic.nearest import mix, ranked
from lethe.linkage.synthetic.ratios import discriminator, domias, gen_lra, surroundings
from lethe.report.of_rows import Synthetic
from lethe.training.fingerprint import hash_array

Rows = dict[str, np.ndarray]
QUASI = ("age", "town", "debt")


@pytest.fixture(autouse=True, scope="module")
def trees_of_the_same_rows_are_fitted_once() -> Iterator[None]:
    """Most blinded audits compare the same original with the same control."""
    fitted: dict[tuple[str, int], np.ndarray] = {}

    def scores(features: np.ndarray, seed: int = 0) -> np.ndarray:
        key = hash_array(features), seed
        if key not in fitted:
            fitted[key] = cross_fitted(features, seed)
        return fitted[key].copy()

    cross_fitted = ratios.cross_fitted
    with pytest.MonkeyPatch.context() as patch:
        for room in (ratios, control_room):
            patch.setattr(room, "cross_fitted", scores)
        yield


def words(cells: object) -> np.ndarray:
    return np.array(list(cells), dtype=object)


def mixed(rng: np.random.Generator, rows: int) -> Rows:
    town = rng.integers(0, 12, rows)
    income = rng.lognormal(8 + town / 12, 0.7, rows).round(1)
    income[rng.random(rows) < 0.05] = np.nan
    return {
        "age": rng.integers(18, 95, rows),
        "town": words(f"town {n}" for n in town),
        "debt": rng.normal(0, 900, rows).round(),
        "income": income,
        "ill": words(np.where(rng.random(rows) < 0.2 + 0.05 * town, "yes", "no")),
    }


def coarse(rng: np.random.Generator, rows: int) -> Rows:
    fine = mixed(rng, rows)
    bands = {name: words(f"band {n // 10}" for n in fine["age"]) for name in ("age",)}
    debt = words(f"{n}" for n in rng.integers(0, 5, rows))
    return {**bands, "town": fine["town"], "debt": debt, "ill": fine["ill"]}


def normal(rng: np.random.Generator, rows: int) -> Rows:
    numbers = rng.normal(size=(rows, 5)) @ np.triu(np.ones((5, 5)))
    return dict(zip((*QUASI, "pay", "ill"), numbers.T, strict=True))


KINDS: dict[str, Callable[[np.random.Generator, int], Rows]] = {
    "mixed": mixed,
    "coarse": coarse,
    "normal": normal,
}


def taken(rows: Rows, which: object) -> Rows:
    return {name: column[which] for name, column in rows.items()}


def below(*tables: Rows) -> Rows:
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def three(kind: str, rows: int, seed: int) -> tuple[Rows, Rows, Rows]:
    rng = np.random.default_rng([seed, 5])
    original, control, made = (KINDS[kind](rng, rows) for _ in range(3))
    return original, control, made


def audited(original: Rows, made: Rows, control: Rows, *rules: str) -> Findings:
    settings = SyntheticSettings(rule=rules or ("excess<=0.25",))
    return audit_synthetic(original, made, control, QUASI, "ill", settings=settings)


def outcome(original: Rows, made: Rows, control: Rows) -> str:
    try:
        return str(audited(original, made, control).verdict["outcome"])
    except InputError:
        return "refused"


def headline(found: Findings) -> str:
    room = Synthetic(found.to_json())
    worst = room.worst(room.judged)
    return f"{worst.headline} {worst.detail}"


def moved(rows: Rows, rng: np.random.Generator, by: float = 0.01) -> Rows:
    """Numbers moved by a share of a standard deviation."""
    return {
        name: column + by * np.nanstd(column) * rng.normal(size=len(column))
        if column.dtype.kind == "f"
        else column
        for name, column in rows.items()
    }


def test_people_beyond_the_control_are_counted_exactly() -> None:
    mine, theirs = np.array([1.0, 2, 3, 9, 9]), np.array([2.5, 4, 5, 6, 7, 8, 9, 9])
    found = tail(mine, theirs, 0.125)
    assert (found.main.value, found.control.value) == (0.4, 0.125)  # two below 2.5, and it itself
    by_hand = sum(comb(5, k) * comb(8, 3 - k) for k in (2, 3)) / comb(13, 3)
    assert chance_of(found) == pytest.approx(by_hand)


@pytest.mark.parametrize("levels", [0, 40, 6])
def test_the_tail_is_right_about_scores_that_are_alike(levels: int) -> None:
    """200 draws: limits and p-values, with ties too, though the threshold is a control row's."""
    rng, above, rare = np.random.default_rng(levels), 0, 0
    for _ in range(200):
        mine, theirs = rng.random(400), rng.random(300)
        if levels:
            mine, theirs = (np.floor(levels * side) for side in (mine, theirs))
        found = tail(mine, theirs, 0.02)
        above += found.excess.low > 0
        rare += chance_of(found) < 0.05
    assert above <= 12 and rare <= 18  # 5 and 10 are expected at most


def test_pairs_and_trees_are_right_about_rows_that_are_alike() -> None:
    rng, outside = np.random.default_rng(1), 0
    for seed in range(20):
        tables = ranked(mix(*(mixed(rng, 100) for _ in range(3))))
        view = surroundings(tables, seed=seed)
        risks = [attack(view) for attack in (domias, gen_lra, discriminator)]
        outside += sum(not one.excess.low <= 0 <= one.excess.high for one in risks)
    assert outside <= 8  # of 60, 3 at 95 %
    scores = rng.random(50)
    assert in_pairs(scores, scores, 0.95).excess.value == 0


def test_near_copies_are_counted_and_named() -> None:
    """5 % of the rows; one row of 1e12 hides none of them."""
    original, control, made = three("normal", 1200, 0)
    near = moved(taken(original, slice(60)), np.random.default_rng(2))
    made = below(near, taken(made, slice(60, None)))
    made = {name: np.append(column[:-1], 1e12) for name, column in made.items()}
    found = audited(original, made, control)
    people = {one["share"]: one for one in found.table["people"]}
    assert 60 <= people[0.005]["people"] <= 75 and people[0.005]["expected"] == 6
    assert people[0.005]["p"] < 1e-8 and people[0.0]["people"] == 0
    assert "of the 1,200 original rows have a synthetic row closer than" in headline(found)
    assert found.candidates[0]["risk"]["low"] > 0.02


def parts(kind: str, seed: int = 0) -> Iterator[tuple[str, Rows, Rows, Rows]]:
    """Synthetic rows that hold a part of the original ones."""
    original, control, made = three(kind, 300, seed)
    half = 150
    for name, columns in {
        "some columns of half": ("age", "town", "debt"),
        "the secret and what is known of half": (*QUASI, "ill"),
    }.items():
        copied = {
            key: np.concatenate([original[key][:half], column[half:]]) if key in columns else column
            for key, column in made.items()
        }
        yield name, original, copied, control
    bands = {
        name: one // 30 * 30 if one.dtype.kind == "i" else np.round(one, -3)
        for name, one in original.items()
        if one.dtype != object
    }
    if kind == "mixed":
        yield "all, in bands", original, {**original, **bands}, control
    yield "all, moved by a tenth", original, moved(original, np.random.default_rng(0), 0.1), control
    shuffled = np.random.default_rng(3)
    values = {name: shuffled.permutation(column) for name, column in original.items()}
    yield "the values of each column", original, values, control


@pytest.mark.parametrize("kind", ["mixed", "normal"])
def test_parts_of_rows_are_found(kind: str) -> None:
    for name, original, made, control in parts(kind):
        risk = audited(original, made, control).candidates[0]["risk"]
        assert risk["low"] > 0.15, name


def several_spellings(rows: Rows) -> Rows:
    def spelled(column: np.ndarray) -> np.ndarray:
        forms = (str.upper, str.title, " {} ".format, "\u200b{}.".format, str)
        return words(forms[at % 5](cell) for at, cell in enumerate(column))

    return {name: spelled(one) if one.dtype == object else one for name, one in rows.items()}


def two_values(rows: Rows) -> Rows:
    found = {}
    for name, column in rows.items():
        values = np.unique(column[column == column])
        found[name] = values[[0, -1]][np.arange(len(column)) % 2]
    return found


def constant(rows: Rows) -> Rows:
    return {name: np.repeat(column[:1], len(column)) for name, column in rows.items()}


def numbers(rows: Rows) -> list[str]:
    return [name for name, column in rows.items() if column.dtype != object]


def mirrored(rows: Rows, names: list[str]) -> Rows:
    """With some columns of numbers from the largest down, each within its own range."""
    return {
        name: np.nanmin(column) + np.nanmax(column) - column if name in names else column
        for name, column in rows.items()
    }


def bent(column: np.ndarray) -> np.ndarray:
    """A monotone function of a column that is no line; missing values stay."""
    low, high = np.nanmin(column), np.nanmax(column)
    return low + (high - low) * ((column - low) / (high - low)) ** 2


def encoded(rows: Rows, rng: np.random.Generator) -> Iterator[tuple[str, Rows]]:
    """Copies of rows that hide themselves: the leak is still there for who looks."""
    names = numbers(rows)
    some = names[::2]
    if names:
        yield "mirrored", mirrored(rows, names)
        yield "some columns mirrored", mirrored(rows, some)
        yield "mirrored and moved", moved(mirrored(rows, names), rng)
        yield "bent", {name: bent(one) if name in some else one for name, one in rows.items()}
        yield "one column shuffled", {**rows, names[0]: rng.permutation(rows[names[0]])}
    if len(names) == len(rows):
        turned = [*list(rows.values())[1:], rows["age"]]
        yield "columns exchanged", dict(zip(rows, turned, strict=True))


@pytest.mark.parametrize("kind", ["mixed", "normal"])
def test_encoded_copies_are_found_and_encoded_strangers_are_not(kind: str) -> None:
    """Each column of numbers mirrored or bent by itself, or under another column's name."""
    original, control, made = three(kind, 300, 2)
    copies, strangers = (dict(encoded(rows, np.random.default_rng(0))) for rows in (original, made))
    for name, rows in copies.items():
        if name != "one column shuffled":  # the others stay copies as they are
            assert hidden(original, rows, control).low > 0.2, name
        none = hidden(original, strangers[name], control)
        assert none.low <= 0 <= none.high, name


def hidden(original: Rows, made: Rows, control: Rows, confidence: float = 0.99) -> Estimate:
    near = nearness(decoded(mix(original, made, control)), 2000)
    found = in_pairs(near.main, near.control, confidence).excess
    assert isinstance(found, Estimate)
    return found


def test_the_attack_on_encoded_copies_is_right_about_rows_that_are_alike() -> None:
    """Of 60 draws at 90 %: symmetric columns, ties and missing values too."""
    above = 0
    for seed in range(60):
        original, control, made = three(("mixed", "normal")[seed % 2], 100, 50 + seed)
        above += hidden(original, made, control, 0.9).low > 0
    assert above <= 7  # 3 are expected at most


def blinded(kind: str, rows: int, seed: int) -> Iterator[tuple[str, str]]:
    """What an audit that cannot be trusted comes to."""
    original, control, made = three(kind, rows, seed)
    rng, half = np.random.default_rng([seed, 6]), slice(rows // 2)
    both = below(original, control)
    files = {
        "constant": (original, constant(original), control),
        "constant but for the secret": (
            original,
            {**constant(original), "ill": original["ill"]},
            control,
        ),
        "two values": (original, two_values(original), control),
        **{name: (original, hiding, control) for name, hiding in encoded(original, rng)},
        "control for original": (control, original, original),
        "control for original, half": (
            control,
            below(taken(original, half), taken(made, half)),
            original,
        ),
        "original": (original, taken(original, rng.permutation(rows)), control),
        "both, shuffled": (original, taken(both, rng.permutation(2 * rows)), control),
        "both, moved": (original, moved(both, rng), control),
        "a fifth of both": (
            original,
            below(taken(original, slice(rows // 5)), taken(control, slice(rows // 5)), made),
            control,
        ),
        "control from the original": (
            original,
            original,
            below(taken(original, half), taken(control, half)),
        ),
        "spelled in several ways": (original, several_spellings(original), control),
        "every row twice": (original, below(original, original, made), control),
        "original repeated": (below(*[original] * 6), original, control),
        "another alphabet": (
            original,
            {
                name: words(f"{cell}".replace("o", "\u043e") for cell in one)
                if one.dtype == object
                else one
                for name, one in original.items()
            },
            control,
        ),
        "in other units": (
            original,
            {name: 100 * one if one.dtype != object else one for name, one in original.items()},
            control,
        ),
    }
    for name, tables in files.items():
        if kind == "coarse" and name in ("both, moved", "in other units", "a fifth of both"):
            continue  # no numbers; and people are not alone in their rows
        if kind == "normal" and name in ("spelled in several ways", "another alphabet"):
            continue  # no words: these are the original rows again
        yield name, outcome(*tables)


@pytest.mark.parametrize("kind", KINDS)
def test_no_blinded_audit_passes(kind: str) -> None:
    found = dict(blinded(kind, 150, 0))
    assert "pass" not in found.values(), found
    assert found["original"] == found["every row twice"] == "fail"
    # Without numbers a copy is the original itself, in any spelling.
    if kind != "normal":
        assert found["spelled in several ways"] == ("refused" if kind == "coarse" else "fail")


@pytest.mark.slow
def test_an_honest_control_hardly_ever_stops_the_verdict() -> None:
    """Two of 200 at most, of checks at p < 0.001 each: near rows come in pairs."""
    stopped = []
    for seed in range(200):
        rows = three("normal", 400, 500 + seed)
        original, control, made = mix(*rows)
        found = {"closest": nearness(ranked((original, made, control)), 400)}
        checks = file_checks((original, made, control), (rows[0], rows[2], rows[1]), found, seed)
        stopped += [check.name for check in checks if check.effect == "stops"]
    assert len(stopped) <= 2, stopped


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(1, 5))
def test_no_blinded_audit_passes_over_seeds(kind: str, seed: int) -> None:
    found = dict(blinded(kind, 500, seed))
    assert "pass" not in found.values(), found


def test_honest_rows_pass_where_there_are_enough() -> None:
    for kind in ("coarse", "normal"):  # mixed ones are below
        original, control, made = three(kind, 1000, 7)
        assert outcome(original, made, control) == "pass", kind


@pytest.mark.slow
def test_honest_rows_pass_nine_times_in_ten() -> None:
    outcomes = []
    for seed in range(14):
        for kind in KINDS:
            original, control, made = three(kind, 1000, 20 + seed)
            outcomes.append(outcome(original, made, control))
    assert len(outcomes) == 42 and outcomes.count("pass") >= 38 and "fail" not in outcomes


def test_each_metric_passes_and_a_planted_leak_is_seen() -> None:
    original, control, made = three("mixed", 1000, 3)
    every = ("excess", "identical", "closest", "singling-out", "inference", "linkability")
    found = audited(original, made, control, *(f"{metric}<=0.25" for metric in every))
    assert [rule["outcome"] for rule in found.rules] == ["pass"] * 6, found.rules
    assert found.verdict["outcome"] == "pass"
    plants = found.candidates[0]["plants"]
    assert {one["kind"] for one in plants} == {
        "verbatim",
        "numbers moved by 1 % of a standard deviation",
    }
    for one in plants:
        measured = one["measured"]["excess"]
        assert measured["low"] <= one["leak"]["excess"] <= measured["high"]


def test_rows_are_planted_as_the_file_writes_them() -> None:
    tables = mix(
        {"n": np.array([1.26, 7.5, np.nan, 1e9]), "c": words(["A", "b", "new", "b"])},
        {"n": np.array([0.0, 1.5, 2.5, 9.9]), "c": words(["a", "B", "b", "b"])},
    )
    written = Writer(tables[1], tables[0])(tables[0])
    assert written.columns[0].tolist() == [1.3, 7.5, 0.0, 9.9]  # digits, gaps, range
    a, b = tables[1].columns[1][:2].tolist()
    assert written.columns[1].tolist() == [a, b, b, b]


def test_repeated_rows_are_asked_about_and_no_column_is_a_person() -> None:
    rng = np.random.default_rng(0)
    rows = mixed(rng, 300)
    for repeated in (below(*[rows] * 6), taken(rows, np.repeat(np.arange(300), 6))):
        checks = list(table_checks(repeated, ("age", "town"), "ill"))
        assert [one.name for one in checks] == ["repeated-rows"]
        assert "300 different rows in 1,800" in checks[0].text
    for fine in (rows, coarse(rng, 3000)):
        assert not [one for one in table_checks(fine, QUASI, "ill") if "rows" in one.name]
