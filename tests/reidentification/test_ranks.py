"""Exact ranks: worked by hand, against exact arithmetic, on tight vectors, on every backend."""

import functools
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError, MissingExtra
from lethe.reidentification import ranks as ranks_module
from lethe.reidentification.ranks import ranks
from lethe.reidentification.ranks_numba import TILES, host_tile, tile_of

# The compiled kernel knows the vectors of x86 and Arm; elsewhere nothing would be compiled.
BACKENDS = ["numpy", "torch", *(["numba"] if host_tile() else [])]


def ranked(backend, probes, gallery, true, metric="cosine", **options):
    """On the CPU, whatever computes."""
    return ranks(probes, gallery, true, metric, backend=backend, device="cpu", **options)


def exact_counts(probes, gallery, true, metric):
    """Closer and tied users of integer vectors, in whole numbers: nothing is rounded."""
    closer, tied = [], []
    for probe, owner in zip(probes.tolist(), true.tolist(), strict=True):
        keys = []
        for user in gallery.tolist():
            if metric == "l2":
                keys.append(-sum((a - b) ** 2 for a, b in zip(probe, user, strict=True)))
            else:  # the square of the cosine with its sign, but for the probe's length
                dot = sum(a * b for a, b in zip(probe, user, strict=True))
                keys.append(Fraction(dot * abs(dot), sum(b * b for b in user)))
        closer.append(sum(key > keys[owner] for key in keys))
        tied.append(sum(key == keys[owner] for key in keys) - 1)
    return np.array(closer), np.array(tied)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_case_worked_by_hand(backend):
    # Distances of the probe at 0 to users at 1, -1, 2, -1: of user 0 they are 1, with two ties.
    gallery = np.array([[1.0], [-1.0], [2.0], [-1.0]])
    found = ranked(backend, np.array([[0.0]] * 3), gallery, np.array([0, 1, 2]), "l2")
    assert found.closer.tolist() == [0, 0, 3]
    assert found.tied.tolist() == [2, 2, 0]
    assert found.rank.tolist() == [2.0, 2.0, 4.0]
    assert found.tie_share == pytest.approx(2 / 3)
    assert found.users == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_cosine_does_not_see_the_length(backend):
    gallery = np.array([[1.0, 0.0], [0.0, 5.0], [1.0, 1.0]])
    found = ranked(backend, np.array([[9.0, 1.0]]), gallery, np.array([2]))
    assert found.rank.tolist() == [2.0]  # the first user points the same way
    longer = ranked(backend, np.array([[9e-200, 1e-200]]), gallery * [[1e200], [3], [1]], [2])
    assert longer.rank.tolist() == [2.0]


@st.composite
def integer_problems(draw):
    dimensions, users = draw(st.integers(1, 5)), draw(st.integers(2, 40))
    seed, top = draw(st.integers(0, 10_000)), draw(st.sampled_from([1, 2, 9]))
    rng = np.random.default_rng(seed)
    probes = rng.integers(-top, top + 1, (draw(st.integers(1, 30)), dimensions))
    gallery = rng.integers(-top, top + 1, (users, dimensions))
    for table in (probes, gallery):
        table[~table.any(axis=1), 0] = 1
    return probes, gallery, rng.integers(0, users, len(probes))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("metric", ["cosine", "l2"])
@given(problem=integer_problems())
@settings(max_examples=40)
def test_ranks_and_ties_are_those_of_exact_arithmetic(backend, metric, problem):
    probes, gallery, true = problem
    found = ranked(backend, probes.astype(np.float32), gallery.astype(np.float32), true, metric)
    closer, tied = exact_counts(probes, gallery, true, metric)
    assert (found.closer == closer).all()
    assert (found.tied == tied).all()


def tight(spread, users=300, probes=130, dimensions=64, seed=0):
    """Vectors that share most of what they are, as a network's do, saved as float32."""
    rng = np.random.default_rng([seed, 1])
    common = rng.standard_normal(dimensions)
    gallery = common + spread * rng.standard_normal((users, dimensions))
    true = rng.integers(0, users, probes)
    found = gallery[true] + 3 * spread * rng.standard_normal((probes, dimensions))
    return found.astype(np.float32), gallery.astype(np.float32), true


def reference(probes, gallery, true, metric):
    """Ranks by float64 where its rounding cannot matter, by fractions everywhere else."""
    p, g = probes.astype(np.float64), gallery.astype(np.float64)
    if metric == "cosine":
        table = -(p @ g.T) / np.sqrt((g * g).sum(1))
        size = np.broadcast_to(np.sqrt((p * p).sum(1))[:, None], table.shape)
    else:
        table = size = np.stack([((g - one) ** 2).sum(1) for one in p])
    row = np.arange(len(p))
    gap = table - table[row, true][:, None]
    # A sum of 64 products is off by less than 1e-13 of the sum of their sizes.
    bound = 1e-13 * (size + size[row, true][:, None])
    rank = 1 + (gap < -bound).sum(1)
    for at, other in zip(*np.nonzero(np.abs(gap) <= bound), strict=True):
        pair = [exact(p[at], g[of], metric) for of in (other, true[at])]
        rank[at] += pair[0] < pair[1]
    return rank


@functools.cache
def tight_ranks(spread, metric):
    return reference(*tight(spread), metric)


def exact(probe, vector, metric):
    """A fraction that grows with the distance."""
    one, other = ([Fraction(float(x)) for x in values] for values in (probe, vector))
    if metric == "l2":
        return sum((b - a) ** 2 for a, b in zip(one, other, strict=True))
    alike = sum(a * b for a, b in zip(one, other, strict=True))
    return -alike * abs(alike) / sum(b * b for b in other)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4])
def test_tight_vectors_keep_their_ranks(backend, metric, spread):
    found = ranked(backend, *tight(spread), metric)
    assert (found.rank == tight_ranks(spread, metric)).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_tight_groups_far_apart(backend):
    """No centre helps here: most pairs of a group are decided in float64."""
    rng = np.random.default_rng(5)
    gallery = 1e-7 * rng.standard_normal((200, 8)) + np.repeat([[-1.0], [1.0]], 100, axis=0)
    true = rng.integers(0, 200, 90)
    probes = gallery[true] + 1e-7 * rng.standard_normal((90, 8))
    found = ranked(backend, probes, gallery, true, "l2")
    assert (found.rank == reference(probes, gallery, true, "l2")).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_vectors_are_all_tied(backend):
    gallery = np.repeat(np.random.default_rng(0).standard_normal((1, 7)), 50, axis=0)
    for metric in ("cosine", "l2"):
        found = ranked(backend, gallery[:9] * 2, gallery, np.arange(9), metric)
        assert (found.closer == 0).all() and (found.tied == 49).all()
        assert found.tie_share == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_doubled_users_tie_under_cosine(backend):
    """g and 3 g point the same way, to rounding only."""
    rng = np.random.default_rng(3)
    half = rng.standard_normal((60, 16))
    found = ranked(backend, rng.standard_normal((60, 16)), np.vstack([half, 3 * half]), range(60))
    assert (found.tied == 1).all()
    assert (found.closer % 2 == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_doubled_users_tie_where_all_sit_close(backend):
    """Rounding of the directions is then large beside the distances, and is no difference."""
    probes, half, true = tight(1e-5, users=60, probes=200)
    found = ranked(backend, probes, np.vstack([half, half.astype(float) / 3]), true)
    assert (found.tied == 1).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_probes_far_outside(backend):
    gallery = np.random.default_rng(0).standard_normal((40, 3))
    probes = np.array([[1e45, 0, 0], [0.0, 0, 1e5], [1e200, 0, 0]])
    found = ranked(backend, probes, gallery, np.array([0, 1, 2]), "l2")
    for row, axis in ((0, 0), (1, 2), (2, 0)):  # so far out one axis alone counts
        order = np.argsort(-gallery[:, axis])
        assert found.rank[row] == 1 + np.flatnonzero(order == row)[0]


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_backends_agree_bit_for_bit(backend):
    """Sizes that fill no tile, block or chunk; a rank must not depend on who counted."""
    rng = np.random.default_rng(8)
    for users, probes, dimensions in ((2, 1, 1), (33, 97, 5), (1500, 700, 63), (31, 6145, 2)):
        gallery = rng.standard_normal((users, dimensions)).astype(np.float32)
        true = rng.integers(0, users, probes)
        found = (gallery[true] + rng.standard_normal((probes, dimensions))).astype(np.float32)
        for metric in ("cosine", "l2"):
            first = ranked("numpy", found, gallery, true, metric)
            second = ranked(backend, found, gallery, true, metric)
            assert (first.closer == second.closer).all()
            assert (first.tied == second.tied).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_threads_change_nothing(backend):
    rng = np.random.default_rng(2)
    gallery, true = rng.standard_normal((90, 4)), rng.integers(0, 90, 13_000)
    probes = gallery[true] + rng.standard_normal((13_000, 4))
    one, three = (ranked(backend, probes, gallery, true, workers=n) for n in (1, 3))
    assert (one.closer == three.closer).all() and (one.tied == three.tied).all()


def test_small_blocks_change_nothing(monkeypatch):
    probes, gallery, true = tight(1e-4)
    before = ranks(probes, gallery, true, backend="numpy")
    monkeypatch.setattr(ranks_module, "ROWS", 7)
    monkeypatch.setattr(ranks_module, "USERS", 24)
    after = ranks(probes, gallery, true, backend="numpy")
    assert (before.rank == after.rank).all()


def test_order_of_users_and_scale_do_not_matter():
    probes, gallery, true = tight(1e-2)
    before = ranks(probes, gallery, true)
    order = np.random.default_rng(0).permutation(len(gallery))
    moved = ranks(probes, gallery[order], np.argsort(order)[true])
    assert (before.rank == moved.rank).all()
    assert (before.rank == ranks(probes * 4, gallery * 0.5, true).rank).all()


def test_tiles_by_cpu():
    assert tile_of({"avx512f": True, "fma": True}) == TILES["avx512f"]
    assert tile_of({"avx512f": False, "fma": True}) == TILES["fma"]
    assert tile_of({"sse2": True}) is None
    for probes, vectors, width in TILES.values():
        assert probes * vectors + vectors <= (16 if width == 8 else 32)


def test_without_numba_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtra, match=r"lethe-privacy\[fast\]"):
        ranks(np.eye(2), np.eye(2), [0, 1], backend="numba")


NAN = np.array([[np.nan, 1.0]])
BAD = {
    "zero vector": (lambda: ranks(np.zeros((1, 2)), np.eye(2), [0]), "no direction"),
    "zero user": (lambda: ranks(np.eye(2), np.array([[0.0, 0], [1, 0]]), [0, 1]), "gallery has 1"),
    "nan": (lambda: ranks(NAN, np.eye(2), [0]), "probes has NaN or infinite values in 1 rows"),
    "nan in the gallery": (lambda: ranks(np.eye(2), NAN.repeat(2, 0), [0, 1]), "gallery has NaN"),
    "one user": (lambda: ranks(np.eye(2), np.ones((1, 2)), [0, 0]), "needs 2"),
    "outside": (lambda: ranks(np.eye(2), np.eye(2), [0, 2]), "outside 0 to 1"),
    "fraction": (lambda: ranks(np.eye(2), np.eye(2), [0.0, 1.0]), "whole number"),
    "too few owners": (lambda: ranks(np.eye(2), np.eye(2), [0]), "whole number"),
    "dimensions": (lambda: ranks(np.ones((1, 3)), np.eye(2), [0]), "same number of dimensions"),
    "no probes": (lambda: ranks(np.ones((0, 2)), np.eye(2), []), "it must be"),
    "objects": (lambda: ranks(np.eye(2).astype(object), np.eye(2), [0, 1]), "dtype object"),
    "metric": (lambda: ranks(np.eye(2), np.eye(2), [0, 1], "cosin"), "Did you mean 'cosine'"),
    "workers": (lambda: ranks(np.eye(2), np.eye(2), [0, 1], workers=0), "at least 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, words = BAD[case]
    with pytest.raises(InputError, match=words):
        call()
