"""Singling out, linkability, inference: right on copies, silent on independent data."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.linkage.synthetic.copies import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    single_values,
    singled_out,
    singling_out,
)
from lethe.linkage.synthetic.nearest import (
    Quantiles,
    by_chance,
    guess_secret,
    linkability,
    mix,
    nearest_rows,
    right,
)
from lethe.linkage.synthetic.risk import rate_of, risk, risk_in

NAMES = ("age", "income", "debt", "town", "ill")


def inference(*tables, known, secret, tolerance=0.05, attacks=500, seed=0):
    found, _ = guess_secret(tables, known, secret, tolerance, attacks, seed, 0.95)
    return risk_in(found, 0.95)


def people(rows, seed):
    """Rows drawn alike: numbers with a tail, some missing, and categories that go together."""
    rng = np.random.default_rng([seed, 9])
    town = rng.integers(0, 12, rows)
    income = rng.lognormal(8 + town / 12, 0.7, rows).round(1)
    income[rng.random(rows) < 0.05] = np.nan
    ill = (rng.random(rows) < 0.2 + 0.05 * town).astype(int)
    columns = (
        rng.integers(18, 95, rows),
        income,
        rng.normal(0, 900, rows).round(),
        np.array([f'O\'Town "{one}"' for one in town], dtype=object),
        np.array(["no", "yes"], dtype=object)[ill],
    )
    return dict(zip(NAMES, columns, strict=True))


def three(original, synthetic, control):
    return mix(people(original, 1), people(synthetic, 2), people(control, 3))


def copied(rows=1_000):
    """The synthetic rows are the original ones."""
    return mix(people(rows, 1), people(rows, 1), people(rows, 3))


def test_statements_worked_by_hand():
    (table,) = mix({"a": np.array([1.0, 1, 2, np.nan]), "b": np.array(["x", "y", "y", "y"])})
    assert singled_out([((0, AT_MOST, 1.0), (1, EQUAL, 0.0))], table).tolist() == [0]
    # Rows 0 and 2 have a value that nobody else has; 2.0 is not among the synthetic ones.
    other = table.take([0, 1, 3])
    assert single_values((table, other, table)).main.sum() == 1
    assert single_values((table, table.take([0, 0, 2, 2]), table)).main.sum() == 2
    assert single_values((table.take([0, 1, 2, 2]), table, table)).main.sum() == 3  # once each
    both = [((0, AT_LEAST, 1.0), (1, EQUAL, 0.0)), ((0, AT_LEAST, 0.0),), ((0, AT_LEAST, 3.0),)]
    assert singled_out([*both, ((0, EQUAL, float("nan")),)], table).tolist() == [0, -1, -1, 3]


@pytest.mark.parametrize("columns", [1, 3])
def test_copies_are_singled_out(columns):
    found = singling_out(copied(), columns=columns, attacks=200)
    assert found.main.value > 0.9 and found.excess.low > 0.3 and found.works
    assert columns == 1 or found.baseline.value < 0.6 < 0.9 < found.main.low


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("control", [2_000, 200])
def test_independent_rows_are_no_risk_at_any_control_size(columns, control):
    """A correction that does nothing would show an excess here: 2,000 originals, fewer controls."""
    found = singling_out(three(2_000, 2_000, control), columns=columns, attacks=200, seed=4)
    assert found.excess.low <= 0 <= found.excess.high
    assert abs(found.excess.value) < 0.15


def test_what_cannot_be_singled_out():
    same = {"a": np.array(["x"] * 9), "b": np.array(["y"] * 9)}
    with pytest.raises(NotMeasurable, match="Take more columns"):
        singling_out(mix(same, same, same), columns=2, attacks=9)


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=30)
def test_neighbours_are_those_of_a_loop(seed, k):
    rng = np.random.default_rng(seed)

    def drawn(rows):
        number = rng.integers(0, 9, rows).astype(float)
        number[rng.random(rows) < 0.2] = np.nan
        return {"n": number, "c": rng.integers(0, 3, rows).astype(str), "one": np.full(rows, 7)}

    tables = mix(drawn(6), drawn(20))
    rows, among = map(Quantiles(tables), tables)
    found = nearest_rows(rows, among, [0, 1, 2], k, rng)
    for at in range(6):
        apart = []
        for other in range(20):
            x, y = rows.columns[0][at], among.columns[0][other]
            gap = float(np.isnan(x) != np.isnan(y))
            if not (np.isnan(x) or np.isnan(y)):
                gap = abs(x - y)
            apart.append(gap + (rows.columns[1][at] != among.columns[1][other]))
        assert len(set(found[at].tolist())) == k
        assert sorted(np.array(apart)[found[at]]) == pytest.approx(sorted(apart)[:k], abs=1e-6)


def test_ties_are_broken_by_chance():
    rows, among = mix({"c": np.array(["x"] * 400)}, {"c": np.array(["x", "x", "x", "x", "y"])})
    found = nearest_rows(rows, among, [0], 1, np.random.default_rng(0))[:, 0]
    counts = np.bincount(found, minlength=5)
    # 100 each, standard deviation 8.7.
    assert counts[4] == 0 and np.abs(counts[:4] - 100).max() < 4 * 8.7
    with pytest.raises(InputError, match="k=6"):
        nearest_rows(rows, among, [0], 6, np.random.default_rng(0))


LINK = dict(left=["age", "town"], right=["income", "debt"])


def test_copies_are_linked_and_independent_rows_are_not():
    found = linkability(copied(), **LINK, attacks=200)
    assert found.main.value > 0.5 and found.excess.low > 0.4 and found.works
    for control in (1_000, 200):
        found = linkability(three(1_000, 1_000, control), **LINK, attacks=200, seed=1)
        assert found.excess.low <= 0 <= found.excess.high
    assert found.main.value < 0.05 and not found.works


def test_a_coarse_table_is_linked_at_the_rate_of_chance():
    """Two binary columns: a fixed choice among ties would link far more than 1 in 25 rows."""
    rng = np.random.default_rng(0)
    tables = mix(*({c: rng.integers(0, 2, n).astype(str) for c in "ab"} for n in (900, 50, 900)))
    found = linkability(tables, left=["a"], right=["b"], attacks=900)
    a, b = (column == np.unique(column)[:, None] for column in tables[1].columns)
    share = np.mean(
        [
            (a[x] & b[y]).sum() / (a[x].sum() * b[y].sum())
            for x, y in zip(tables[0].columns[0], tables[0].columns[1], strict=True)
        ]
    )
    assert found.baseline.value == pytest.approx(1 / 50) and share == pytest.approx(
        1 / 50, abs=0.002
    )
    assert found.main.value == pytest.approx(share, abs=4 * np.sqrt(share / 900))


def test_chance_in_closed_form():
    for rows, k in ((7, 1), (7, 3), (7, 4), (1, 1)):
        sets = [
            frozenset(np.flatnonzero([bit >> i & 1 for i in range(rows)])) for bit in range(2**rows)
        ]
        sets = [one for one in sets if len(one) == k]
        meet = np.mean([bool(one & other) for one in sets for other in sets])
        assert by_chance(rows, k) == pytest.approx(meet)


TELL = dict(known=["age", "income", "debt", "town"], secret="ill")


def test_copies_tell_the_secret_and_independent_rows_no_more_than_anybody():
    found = inference(*copied(), **TELL, attacks=300)
    assert found.main.value == 1 and found.excess.low > 0.5 and found.works
    for control in (1_000, 200):
        found = inference(*three(1_000, 1_000, control), **TELL, attacks=300, seed=2)
        assert found.excess.low <= 0 <= found.excess.high


def test_a_negative_guess_is_wrong_and_a_missing_secret_no_target():
    truth = np.array([100.0, -100.0, 0.0, 0.0])
    assert right(np.array([-1.0, -104, 0, 0.1]), truth, 0.05).tolist() == [False, True, True, False]
    table = {"x": np.array([1.0, 2, 3]), "s": np.array([5.0, np.nan, 6.0])}
    found = inference(*mix(table, table, table), known=["x"], secret="s", attacks=9)
    assert found.main.n == 2 and found.main.value == 1
    assert isinstance(found.excess, Refusal)  # so does the control
    nothing = {"x": np.array([1.0]), "s": np.array([np.nan])}
    with pytest.raises(NotMeasurable, match="no control row"):
        inference(*mix(table, table, nothing), known=["x"], secret="s")


def test_rates_are_exact_and_dependent_hits_widen_them():
    hit = np.repeat([True, False], [30, 70])
    one, exact = rate_of(hit, 0.9), clopper_pearson(30, 100, 0.9)
    assert (one.value, one.low, one.high) == pytest.approx((0.3, exact.low, exact.high))
    alone = rate_of(hit, 0.9, np.append(np.arange(30), np.full(70, -1)))
    assert (alone.low, alone.high) == pytest.approx((exact.low, exact.high))
    same = rate_of(hit, 0.9, np.append(np.repeat([0, 1, 2], 10), np.full(70, -1)))
    assert same.low < exact.low - 0.05 and same.high > exact.high + 0.05
    with pytest.raises(NotMeasurable, match="at least 1 attack"):
        rate_of([], 0.9)


def tries(hits, n):
    return np.repeat([True, False], [hits, n - hits])


def test_the_excess_worked_by_hand():
    blind = clopper_pearson(70, 100)
    found = risk(tries(60, 100), tries(20, 100), blind)
    assert found.excess.value == pytest.approx(0.5) and not found.works
    m, c = clopper_pearson(60, 100), clopper_pearson(20, 100)
    log = [[np.log(1 - x) for x in (one.value, one.low, one.high)] for one in (m, c)]
    below = np.hypot(log[0][0] - log[0][1], log[1][0] - log[1][2])  # towards more failures
    above = np.hypot(log[0][0] - log[0][2], log[1][0] - log[1][1])
    assert found.excess.low == pytest.approx(1 - 0.5 * np.exp(below))
    assert found.excess.high == pytest.approx(1 - 0.5 * np.exp(-above))
    assert risk(tries(90, 100), tries(20, 100), blind).works


def test_the_excess_at_its_limits():
    blind = clopper_pearson(1, 100)
    found = risk(tries(100, 100), tries(20, 100), blind)
    m, c = clopper_pearson(100, 100, 0.975), clopper_pearson(20, 100, 0.975)
    assert (found.excess.value, found.excess.high) == (1, 1)
    assert found.excess.low == pytest.approx((m.low - c.high) / (1 - c.high))
    assert isinstance(risk(tries(9, 10), tries(9, 9), blind).excess, Refusal)
    none = risk(tries(0, 50), tries(0, 50), blind).excess
    assert none.low == pytest.approx(-none.high / (1 - none.high)) and none.high < 0.08


@pytest.mark.parametrize("control", [0.0, 0.03, 0.3, 0.8])
@pytest.mark.parametrize("excess", [0.0, 0.1, 0.7])
def test_the_interval_of_the_excess_covers(control, excess):
    """Exactly, over all outcomes of 30 and of 20 attempts that have any weight."""
    n, other = 30, 20
    main = control + excess * (1 - control)
    missed = 0.0
    blind = clopper_pearson(1, 2)
    for i in range(n + 1):
        for j in range(other):  # all of the control refuses: no claim, so no miss
            weight = binomial(i, n, main) * binomial(j, other, control)
            if weight > 1e-6:
                found = risk(tries(i, n), tries(j, other), blind).excess
                missed += weight * (not found.low - 1e-12 <= excess <= found.high + 1e-12)
    assert missed <= 0.05


def binomial(k, n, p):
    return comb(n, k) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda t: linkability(t, left=["aeg"], right=["debt"]), "Did you mean 'age'"),
        (lambda t: linkability(t, left=[], right=["debt"]), "at least 1 column"),
        (lambda t: linkability(t, **LINK, neighbours=99), "must be in 1..20"),
        (lambda t: inference(*t, known=["ill"], secret="ill"), "among the known"),
    ],
)
def test_attacks_that_cannot_be(call, told):
    with pytest.raises(InputError, match=told):
        call(three(20, 20, 20))


def test_tables_that_cannot_be_compared():
    one = {"a": np.array([1.0, 2])}
    for other, told in (
        ({"b": np.array([1.0])}, "different columns"),
        ({"a": np.array(["x"])}, "in one file numbers such as '1', elsewhere text such as 'x'"),
        ({"a": np.array([])}, "at least 1"),
        ({"a": np.array([np.inf])}, "infinite"),
    ):
        with pytest.raises(InputError, match=told):
            mix(one, other)
    days, codes = mix(
        {"d": np.array(["2024-01-02", "NaT"], "datetime64[D]"), "c": np.array(["7", "9"])},
        {"d": np.array(["2024-01-01"], "datetime64[D]"), "c": np.array(["8"])},
    )
    assert days.columns[0][0] - codes.columns[0][0] == 86_400 and np.isnan(days.columns[0][1])
    assert [table.columns[1].tolist() for table in (days, codes)] == [[0, 2], [1]]


# Defects of another library of the same attacks (Anonymeter 1.1.0) that are not in this one.


def test_the_baseline_is_that_of_the_most_frequent_value() -> None:
    names = np.array(["rare", "often"], object)
    rng = np.random.default_rng(5)
    tables = [
        {"known": rng.normal(size=2000), "secret": names[(rng.random(2000) < 0.8).astype(int)]}
        for _ in range(3)
    ]
    original, synthetic, control = mix(*tables)
    found = inference(original, synthetic, control, known=["known"], secret="secret", attacks=2000)
    often = float(np.mean(tables[0]["secret"] == "often"))
    assert found.baseline.value == pytest.approx(often)
    # A nearest row that knows nothing is worse than that, and the result says so.
    assert found.main.high < found.baseline.low and not found.works


@given(guess=st.floats(-1e6, 1e6), secret=st.floats(-1e6, 1e6), tolerance=st.floats(0, 0.5))
@settings(max_examples=100)
def test_a_guess_is_judged_alike_on_both_sides_of_zero(
    guess: float, secret: float, tolerance: float
) -> None:
    def judged(one: float, truth: float) -> bool:
        return bool(right(np.array([one]), np.array([truth]), tolerance)[0])

    assert judged(guess, secret) == judged(-guess, -secret)
    assert judged(guess, secret) == (abs(guess - secret) <= tolerance * abs(secret))


def test_missing_numbers_and_quotes_are_values_like_any_other() -> None:
    """A gap made every distance missing there, and strings with quotes never matched."""
    gaps = np.where(np.arange(200) % 3 == 0, np.nan, np.arange(200.0))
    quoted = np.array([f'it\'s "{at}"' for at in range(200)], object)
    tables = mix(*[{"gaps": gaps, "number": np.arange(200.0), "quoted": quoted}] * 3)
    found = linkability(tables, left=["quoted"], right=["number"], attacks=200)
    assert found.main.value == 1.0
    # A third of the rows has a gap, and of 67 rows alike one is drawn.
    found = linkability(tables, left=["quoted"], right=["gaps"], attacks=200)
    assert 133 / 200 <= found.main.value <= 133 / 200 + 8 / 200
    assert found.baseline.value == by_chance(200, 1) == pytest.approx(1 / 200)
