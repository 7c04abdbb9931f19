"""Optional measurements of an audit of vectors beyond identification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.run import check
from lethe.errors import InputError, NotMeasurable
from lethe.evidence.document import CheckRow
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.of_vectors import (
    Beyond,
    Grouping,
    Linked,
    NameControl,
    TwoReleases,
    Unattacked,
)
from lethe.evidence.risk import family_confidence
from lethe.reidentification.attributes import People, people_of
from lethe.reidentification.by_user import scaled, share_of_users
from lethe.reidentification.gallery import covariance_within, inverse_root, means
from lethe.reidentification.ranks import ranks
from lethe.reidentification.released import Released
from lethe.reidentification.scored import CURVES, Scorer, grouped, singling_out
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.sweep import Battery, Say
from lethe.reidentification.texts import retrieved
from lethe.reidentification.vectors import Float, check_vectors

# Two releases about the same people: aligned from those who are known in both, then linked.
#
# A new version of an encoder, or another service, gives vectors that mean nothing beside the old
# ones, until a few people whose vectors are known in both show how one space lies in the other.

SAME, PROCRUSTES, MAPPED = "as they are", "procrustes", "learned map and metric"
PAPERS = {
    SAME: "nearest vector, cosine",
    PROCRUSTES: "Schonemann 1966, orthogonal Procrustes on principal components",
    MAPPED: "Hoerl and Kennard 1970, ridge regression; distance in its leave-one-out residuals",
}
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


def by_person(
    vectors: Any, user_ids: NDArray[Any], other: Any, other_ids: NDArray[Any]
) -> tuple[Float, Float]:
    """Means (G, d) and (G, e) of all rows of the people who are in both releases.

    Raises NotMeasurable: fewer than 10 of them.
    """
    shared = np.intersect1d(user_ids.astype(str), other_ids.astype(str))
    if len(shared) < 10:
        raise NotMeasurable(f"{len(shared)} people are in both releases; linkage needs 10.")
    tables = []
    for table, ids in ((vectors, user_ids), (other, other_ids)):
        rows = check_vectors("vectors", table)
        names = ids.astype(str)
        mine = np.isin(names, shared)
        tables.append(means(rows[mine], np.searchsorted(shared, names[mine]), len(shared)))
    return tables[0], tables[1]


def aligned(
    first: Float, second: Float, known: NDArray[np.bool_], method: str
) -> tuple[Float, Float]:
    """Both releases (G, r) in one space, in which the nearest by cosine is the guess.

    Args:
        known: (G,) people whose vectors the attacker knows in both.
        method: one of `PAPERS`.

    Raises:
        InputError: as they are, with other dimensions.
        NotMeasurable: fewer than 5 known people.
    """
    if method == SAME:
        if first.shape[1] != second.shape[1]:
            raise InputError("vectors of other dimensions cannot be compared as they are.")
        return first - first.mean(axis=0), second - second.mean(axis=0)
    number = int(known.sum())
    if number < 5:
        raise NotMeasurable(f"{number} people are known in both releases; alignment needs 5.")
    if method == PROCRUSTES:
        size = min(first.shape[1], second.shape[1], number - 1)
        a, b = (_components(table, size) for table in (first, second))
        left, _, right = np.linalg.svd(b[known].T @ a[known])
        return a, b @ left @ right
    return _mapped(first, second, known)


def _components(vectors: Float, size: int) -> Float:
    centred = vectors - vectors.mean(axis=0)
    turn = np.linalg.svd(centred, full_matrices=False)[2][:size]
    return np.asarray(centred @ turn.T)


def _mapped(first: Float, second: Float, known: NDArray[np.bool_]) -> tuple[Float, Float]:
    """Second mapped onto first by ridge regression, both whitened by the error of the map."""
    centre, other = first[known].mean(axis=0), second[known].mean(axis=0)
    x, y = second[known] - other, first[known] - centre
    size, turn = np.linalg.eigh(x @ x.T)
    size = np.maximum(size, 0)
    best: tuple[float, Float, float] | None = None
    for ridge in _RIDGES:
        added = ridge * float(size.mean() + 1e-12)
        hat = (turn * (size / (size + added))) @ turn.T
        left_out = (y - hat @ y) / np.maximum(1 - np.diag(hat), 1e-3)[:, None]
        error = float((left_out**2).sum())
        if best is None or error < best[0]:
            best = error, left_out, added
    assert best is not None
    _, residual, added = best
    matrix = np.linalg.solve(x.T @ x + added * np.eye(x.shape[1]), x.T @ y)
    white = inverse_root(covariance_within(residual, max(len(residual) - 1, 1)))
    return (first - centre) @ white, (second - other) @ matrix @ white


def linked(
    first: Float,
    second: Float,
    share: float,
    method: str,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> Linked:
    """Link the unknown people of two releases (G, d) and (G, e); row g is one person in both.

    The interval takes the unknown people as what was sampled, the known ones as they are.

    Args:
        share: of people known in both, in (0, 1); drawn by the seed.

    Raises: as `aligned`.

    >>> rng = np.random.default_rng(0)
    >>> first = rng.standard_normal((200, 6))
    >>> turned = first @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    >>> linked(first, turned, 0.1, "procrustes").top_1.value
    1.0
    """
    people = len(first)
    known = np.zeros(people, bool)
    drawn = np.random.default_rng([seed, 100]).permutation(people)
    known[drawn[: round(share * people)]] = True
    a, b = aligned(first, second, known, method)
    gallery, probes = a[~known], b[~known]
    owner = np.arange(len(gallery))
    if len(owner) < 2:
        raise NotMeasurable("linkage needs 2 people who are not known in both.")
    metric = "l2" if method == MAPPED else "cosine"

    def found(names: NDArray[np.intp], sure: float) -> Estimate:
        credit = ranks(probes, gallery, names, metric).first
        return share_of_users(credit, np.ones(len(credit)), sure)

    top = found(owner, confidence)
    # A control of many results must not fail by chance: a tenth of the error.
    other_names = np.random.default_rng([seed, 101]).permutation(len(owner))
    shuffled = found(other_names, family_confidence(confidence, 10))
    users = len(owner)
    return Linked(
        method, share, int(known.sum()), users, top, scaled(top, users), scaled(shuffled, users)
    )


def link_all(
    first: Float,
    second: Float,
    shares: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[list[Linked], dict[str, str]]:
    """Run all methods at all shares (limits hold at once for the methods); and list failures."""
    sure = family_confidence(confidence, len(PAPERS))
    done, skipped = [], {}
    for share in shares:
        for method in PAPERS:
            try:
                done.append(linked(first, second, share, method, confidence=sure, seed=seed))
            except (InputError, NotMeasurable) as error:
                skipped[f"{method}, {share:.0%} known"] = str(error)
    return done, skipped


def attributes_of(
    model: Released, settings: EmbeddingSettings
) -> tuple[tuple[People, ...], tuple[Unattacked, ...]]:
    """People by value of each attribute, and reasons for attributes that cannot be attacked."""
    ready, refusals = [], []
    for name, values in model.attributes.items():
        try:
            ready.append(
                people_of(name, values, model.user_ids, settings.seed, settings.confidence)
            )
        except NotMeasurable as error:
            refusals.append(Unattacked(name, str(error)))
    return tuple(ready), tuple(refusals)


def verification_controls(
    battery: Battery, settings: EmbeddingSettings, say: Say
) -> tuple[dict[str, str], tuple[NameControl, ...]]:
    """Attackers that verify permuted people, with reasons; and the results of all attackers."""
    if not settings.verification:
        return {}, ()
    say(f"{battery.model.name}: verification, its control under other names")
    controls = Scorer(battery.panel(noise=False), settings.confidence, settings.seed).controls(
        battery.clean
    )
    failed = {
        name: f"people claimed to be others are verified: EER {value:.3g}, below 0.5"
        for name, (value, _, high) in controls.items()
        if high < 0.5
    }
    return failed, tuple(NameControl(name, *limits) for name, limits in controls.items())


def beyond(
    model: Released,
    other: Released | None,
    battery: Battery,
    settings: EmbeddingSettings,
    say: Say,
    asked: Beyond,
) -> Beyond:
    """Add singling out by size, clusters, a second release, and texts, as requested."""
    sure = settings.confidence
    if settings.verification:
        say(f"{model.name}: singling out by number of people and of vectors")
        panel = battery.panel(noise=False)
        curves = singling_out(panel, CURVES, battery.clean, sure)
        clusters: Grouping | Refusal
        try:
            clusters = grouped(battery.clean, settings.seed, confidence=sure)
        except NotMeasurable as error:
            clusters = Refusal(str(error))
        asked = replace(asked, singling_out=curves, clusters=clusters)
    if other is not None:
        say(f"{model.name} and {other.name}: linking two releases")
        try:
            shared = by_person(
                model.representations, model.user_ids, other.representations, other.user_ids
            )
            done, skipped = link_all(
                *shared, settings.known_share, confidence=sure, seed=settings.seed
            )
            releases = TwoReleases(other.name, len(shared[0]), done, skipped)
        except NotMeasurable as error:
            releases = TwoReleases(other.name, refused=str(error))
        asked = replace(asked, two_releases=releases)
    if model.texts is not None:
        say(f"{model.name}: texts behind the vectors")
        texts = retrieved(
            model.representations,
            model.user_ids,
            model.texts,
            metric=settings.metric,
            confidence=sure,
        )
        asked = replace(asked, texts=texts)
    return asked


def further_checks(on: str, further: Beyond) -> list[CheckRow]:
    """Self-checks of the optional measurements: chance with permuted people."""
    rows: list[CheckRow] = []
    if controls := further.verification_controls:
        bad = [control.name for control in controls if control.high < 0.5]
        detail = (
            f"{', '.join(bad)}: equal error rate below 0.5 under other names: they decide nothing"
            if bad
            else "equal error rate of all attackers holds 0.5 where people are claimed to be others"
        )
        status = "fail" if bad else "pass"
        rows.append(check("verification of permuted identities", status, detail, on))
    results = further.two_releases.results if further.two_releases else None
    if results:
        bad = [
            f"{linked.method} at {linked.share:.0%}"
            for linked in results
            if (linked.permuted.low or 0.0) > 1
        ]
        detail = (
            f"{', '.join(bad)}: people are linked under other names"
            if bad
            else "lift of 1 within limits where the unknown people are looked for under other names"
        )
        rows.append(check("linkage of permuted identities", "fail" if bad else "pass", detail, on))
    return rows


def asked_further(settings: EmbeddingSettings) -> Mapping[str, Any]:
    """Settings of the optional measurements that were requested."""
    listed: dict[str, Any] = {}
    if settings.verification:
        listed["verification"] = True
    if settings.score_norm:
        listed["score_norm"] = True
    if settings.mitigations:
        listed["mitigations"] = list(settings.mitigations)
    return listed
