"""k-anonymity by recoding, the counts that are kept, and the answers that stay right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linkage_facts import text

from lethe.errors import InputError, NotMeasurable
from lethe.linkage.table.inference import anonymity
from lethe.linkage.table.recoding import coarsen, hierarchy, recode, released_columns
from lethe.linkage.utility import Original, answer_overlap, ask, count_overlap, error_of


def test_a_ladder_goes_from_all_apart_to_all_together() -> None:
    zips = hierarchy("zip", text("15213", "15217", "15106", "94110"))
    assert zips.kind == "prefix"
    assert [len(np.unique(step)) for step in zips.steps] == [4, 3, 2, 1]
    names = hierarchy("town", text("a", "a", "b", "c", "b", "a"))
    assert names.kind == "categories"
    assert [step.tolist() for step in names.steps] == [[0, 1, 2], [0, 1, 1], [0, 0, 0]]
    ages = hierarchy("age", np.array([30.0, 31, 32, 33, np.nan]))
    assert ages.kind == "ordered"
    # Two neighbours each, the missing one by itself; then all together.
    assert [step.tolist() for step in ages.steps[1:]] == [[0, 0, 1, 1, 2], [0, 0, 0, 0, 0]]


def test_the_released_table_says_what_a_group_stands_for() -> None:
    columns = {
        "zip": text("15213", "15217", "15106", "94110"),
        "age": np.array([20, 22, 40, 44]),
        "sick": np.array([0, 1, 0, 1]),
    }
    hierarchies = [hierarchy(name, columns[name]) for name in ("zip", "age")]
    kept = np.array([True, True, True, False])
    found = released_columns(columns, hierarchies, coarsen(hierarchies, 1), kept)
    assert found["zip"].tolist() == ["1521*", "1521*", "15106"]
    assert found["age"].tolist() == [21.0, 21.0, 42.0]
    assert found["sick"].tolist() == [0, 1, 0]
    whole = released_columns(columns, hierarchies, coarsen(hierarchies, 99), kept)
    assert whole["zip"].tolist() == ["*"] * 3
    assert whole["age"].tolist() == [31.5] * 3


@given(st.lists(st.integers(0, 400), min_size=7, max_size=60), st.sampled_from([1, 10, 1000]))
def test_means_are_written_with_one_decimal_more_than_the_numbers(
    numbers: list[int], scale: int
) -> None:
    column = np.array(numbers) / scale
    steps = [hierarchy("x", column)]
    kept = np.ones(len(column), bool)
    for times in range(1, len(steps[0].steps)):
        groups, plan = steps[0].steps[times][steps[0].codes], coarsen(steps, times)
        written = released_columns({"x": column}, steps, plan, kept)["x"]
        means = [column[groups == group].mean() for group in groups]
        # Rows of different groups stay different, and no mean moves by more than its last digit.
        assert len(np.unique(written)) == len(np.unique(np.round(means, 12)))
        assert np.abs(written - means).max() <= 0.051 / scale
        if len(np.unique(np.round(means, len(str(scale))))) == len(np.unique(np.round(means, 12))):
            assert np.array_equal(np.round(written, len(str(scale))), written)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), min_size=10, max_size=80),
    st.integers(2, 6),
    st.sampled_from([0.0, 0.05, 0.3]),
)
def test_recoded_rows_are_k_anonymous_and_few_are_left_out(
    rows: list[tuple[int, int]], k: int, suppress: float
) -> None:
    numbers, letters = zip(*rows, strict=True)
    hierarchies = [
        hierarchy("n", np.array(numbers)),
        hierarchy("l", text(*(f"value {letter}" for letter in letters))),
    ]
    found = recode(hierarchies, k, suppress)
    assert (~found.kept).mean() <= suppress
    groups = [one.at(step)[found.kept] for one, step in zip(hierarchies, found.steps, strict=True)]
    assert anonymity(groups).k >= k
    # Each step merges groups of the last one and never splits one.
    for one in hierarchies:
        for fine, coarse in zip(one.steps, one.steps[1:], strict=False):
            pairs = np.unique(np.stack([fine, coarse]), axis=1)
            assert len(np.unique(pairs[0])) == pairs.shape[1]


@pytest.mark.parametrize("start, by", [(0.0, 1 / 3), (1.7e9, 7.0), (1e-9, 1e-12)])
def test_a_mean_is_written_short_and_keeps_its_group_apart(start, by) -> None:
    numbers = start + by * np.arange(300)
    ages = hierarchy("n", numbers)
    written = released_columns({"n": numbers}, [ages], (1,), np.ones(300, bool))["n"]
    assert len(np.unique(written)) == len(np.unique(ages.at(1)))
    assert all(number == float(f"{number:.9g}") for number in written.tolist())
    assert np.abs(written - numbers).max() <= 6 * by


def test_recoding_refuses_what_cannot_be() -> None:
    one = hierarchy("n", np.arange(3))
    with pytest.raises(NotMeasurable, match="k=4 needs at least 4 rows, got 3"):
        recode([one], 4)


def naive(original, released, groups):
    """Overlap of one table of two columns, cell by cell."""
    total = 0.0
    for a in range(len(groups[0])):
        for b in range(len(groups[1])):
            count = np.sum((original[0] == a) & (original[1] == b))
            ga, gb = groups[0][a], groups[1][b]
            held = np.sum((released[0] == ga) & (released[1] == gb))
            cells = np.sum(groups[0] == ga) * np.sum(groups[1] == gb)
            total += min(count, held / cells)
    return total / len(original[0])


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_counts_kept_is_the_overlap_of_the_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.integers(1, 6, 2)
    original = [rng.integers(0, size, 40) for size in levels]
    groups = [np.unique(rng.integers(0, size, size), return_inverse=True)[1] for size in levels]
    kept = rng.random(40) < 0.7
    kept[0] = True
    released = [group[column][kept] for group, column in zip(groups, original, strict=True)]
    found = count_overlap(original, released, groups)
    assert found == pytest.approx(naive(original, released, groups))
    assert 0 <= found <= kept.mean() + 1e-12
    whole = [np.arange(size) for size in levels]
    assert count_overlap(original, original, whole) == 1.0


@given(st.integers(0, 10**6), st.booleans(), st.floats(0, 1))
def test_rows_recoded_are_compared_as_any_release_is(
    seed: int, grouped: bool, share: float
) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.integers(1, 6, 3)
    original = [rng.integers(0, size, 30) for size in levels]
    times = rng.integers(1, 9, 30) if grouped else None
    counted = Original(original, levels.tolist(), times)
    for _ in range(2):  # what is remembered of the original serves every recoding
        groups = [np.unique(rng.integers(0, n, n), return_inverse=True)[1] for n in levels]
        kept = rng.random(30) < share
        released = [group[column][kept] for group, column in zip(groups, original, strict=True)]
        whole = np.ones(30, int) if times is None else times
        assert counted.overlap(groups, kept) == count_overlap(
            [np.repeat(column, whole) for column in original],
            [np.repeat(column, whole[kept]) for column in released],
            groups,
        )


def test_counts_kept_by_hand() -> None:
    column = np.array([0, 0, 0, 1])
    together = np.zeros(2, int)
    # 4 rows spread over 2 values: 2 of the 3, and 1 of the 1, are right.
    assert count_overlap([column], [np.zeros(4, int)], [together]) == 0.75
    # Half of the rows, known to be half: 1 of 3 drawn stands for 2, 1 of 1 for 2.
    half = np.array([0, 1])
    assert count_overlap([column], [half], [np.arange(2)], scale=2.0) == 0.75
    # A value that the original does not have is nowhere right.
    assert count_overlap([column], [np.array([0, 0, -1, 1])], [np.arange(2)]) == 0.75


def test_error_of_answers_by_hand() -> None:
    right = {("a",): [10.0, 4.0], ("b",): [1.0]}
    assert error_of(right, right) == 0.0
    # 10 and 5: half wrong; 4 and 4: right; b is missing: wrong; c is made up: wrong.
    assert error_of(right, {("a",): [5.0, 4.0], ("c",): [1.0]}) == pytest.approx(2.5 / 4)
    assert error_of({(): [np.nan]}, {(): [np.nan]}) == 0.0
    assert error_of({(): [np.nan]}, {(): [1.0]}) == 1.0
    assert error_of({(): [1.0]}, {(): [-1.0]}) == 1.0


def test_queries_are_answered_by_duckdb_and_see_nothing_else(tmp_path) -> None:
    columns = {"sex": text("f", "m", "f"), "pay": np.array([1.0, 2.0, 3.0])}
    found = ask(columns, "SELECT sex, count(*), avg(pay) FROM release GROUP BY sex")
    assert found == {("f",): [2.0, 2.0], ("m",): [1.0, 2.0]}
    fewer = {name: column[:2] for name, column in columns.items()}
    assert answer_overlap(columns, fewer, ["SELECT count(*) FROM release"]) == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="Ask the table 'release'"):
        ask(columns, "SELECT count(*) FROM elsewhere")
    with pytest.raises(InputError, match="gives no number"):
        ask(columns, "SELECT sex FROM release")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match="disabled"):
        ask(columns, f"SELECT count(*) FROM '{tmp_path / 'secret.csv'}'")
