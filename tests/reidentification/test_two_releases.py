"""Two releases about the same people, and texts behind vectors."""

import numpy as np
import pytest

from lethe.errors import InputError, NotMeasurable
from lethe.reidentification.beyond import (
    MAPPED,
    PAPERS,
    PROCRUSTES,
    SAME,
    aligned,
    by_person,
    link_all,
    linked,
)
from lethe.reidentification.texts import Texts, retrieved


def two(people=300, dimensions=10, other=10, noise=0.1, seed=0):
    """One latent vector a person, seen by two encoders that share nothing else."""
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((people, 10))
    first = latent @ rng.standard_normal((10, dimensions))
    second = latent @ rng.standard_normal((10, other))
    return (
        first + noise * rng.standard_normal(first.shape),
        second + noise * rng.standard_normal(second.shape),
    )


def test_a_rotation_is_undone_to_the_last_digit():
    rng = np.random.default_rng(0)
    first = rng.standard_normal((80, 5)) * [5, 4, 3, 2, 1]
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    known = np.arange(80) < 12
    a, b = aligned(first, 3 + first @ turn, known, PROCRUSTES)
    assert np.allclose(a, b)
    # scipy's own solution on the same points, as an oracle for the turn
    from scipy.linalg import orthogonal_procrustes

    centred = (first - first.mean(axis=0)) @ turn
    assert np.allclose(orthogonal_procrustes(centred, first - first.mean(axis=0))[0], turn.T)


def test_a_map_that_is_no_rotation_needs_the_learned_one():
    first, second = two(other=14)
    found = {method: linked(first, second, 0.2, method) for method in (PROCRUSTES, MAPPED)}
    assert found[MAPPED].top_1.low > 0.8 > found[PROCRUSTES].top_1.value
    with pytest.raises(InputError, match="other dimensions"):
        aligned(first, second, np.ones(300, bool), SAME)
    for one in found.values():
        assert one.known == 60 and one.unknown == 240
        assert one.permuted.low <= 1 <= one.permuted.high
        assert one.lift.value == pytest.approx(240 * one.top_1.value)


def test_more_known_people_link_more_and_unrelated_releases_link_nobody():
    first, second = two(noise=1.0)
    done, skipped = link_all(first, second, (0.01, 0.1, 0.5))
    values = [one.top_1.value for one in done if one.method == MAPPED]
    assert values == sorted(values) and len(values) == 2
    assert all("5" in why for why in skipped.values()) and len(skipped) == 2
    unrelated = np.random.default_rng(9).standard_normal(first.shape)
    for one in link_all(first, unrelated, (0.3,))[0]:
        assert one.lift.low <= 1 and one.top_1.high < 0.1
    assert {one.method for one in done} == set(PAPERS)


def test_people_are_matched_by_id_whatever_their_order():
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(20), 3)
    vectors = rng.standard_normal((60, 4))
    order = rng.permutation(60)
    first, second = by_person(vectors, ids, vectors[order], ids[order].astype(str))
    assert np.allclose(first, second)
    with pytest.raises(NotMeasurable, match="0 people"):
        by_person(vectors, ids, vectors, ids + 100)


def bags(texts):
    """Letters counted, as an encoder."""
    return np.array([[text.count(letter) + 0.01 for letter in "abcdefghij"] for text in texts])


def test_texts_are_found_behind_their_vectors_and_a_list_by_chance_is_chance():
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefghij"), 12)) for _ in range(400)]
    users = np.arange(400) // 4
    found = retrieved(bags(texts), users, Texts(texts, bags, ["aaaa", "bbbb"]))
    assert found.texts >= 400 and found.sizes[-1].top_1.value > 0.8
    noisy = bags(texts) + 2.0 * rng.standard_normal((400, 10))
    shares = [row.top_1.value for row in retrieved(noisy, users, Texts(texts, bags)).sizes]
    assert shares == sorted(shares, reverse=True) and 0.005 < shares[-1] < 0.5
    other = retrieved(rng.standard_normal((400, 10)), users, Texts(texts, bags))
    for row in other.sizes:
        assert row.top_1.low <= 1 / row.texts <= row.top_1.high
    with pytest.raises(InputError, match="dimensions"):
        retrieved(bags(texts)[:, :4], users, Texts(texts, bags))
    with pytest.raises(InputError, match="entries"):
        retrieved(bags(texts), users, Texts(texts[:-1], bags))
