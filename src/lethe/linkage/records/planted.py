"""Leaks of known size in a release of records: people of whom more is known than was stated.

An audit that identifies few people says something only if it would have identified them had the
release allowed it. So records of the release are looked for with facts copied from them, under the
adversary's own errors: nearly all of a short record, or many of a long one. Where pseudonyms split
people, those that are planted keep one. Who knows the record itself finds it but
for records that are equal, which is the size of the leak, whatever the attackers of the audit find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lethe.evidence.sight import Plant
from lethe.linkage.records.attackers import Adversary, draw_facts, look, popular, together
from lethe.linkage.records.facts import Float, Index, Int, Known
from lethe.linkage.records.likelihood import Sampling
from lethe.linkage.records.mitigations import Coarsened, Sheet
from lethe.linkage.utility import mean_share

KINDS = {"short records": 0.1, "long records": 0.9}
"""Quantile of the lengths near which records are planted."""
SHARES = (0.04, 0.1, 0.2, 0.4, 0.8)
"""Shares of the targets that are planted."""
_PLANTED, _FEWEST = 30, 10  # records of a kind that are looked for
_ENOUGH = 4 * _PLANTED  # records to choose from
_TIMES = 3  # as many right facts as the adversary knows are known of a planted record, at most


def plants_of(
    sheet: Sheet,
    release: Coarsened,
    released: tuple[Index, Int],
    facts: Index,
    adversary: Adversary,
    sampling: Sampling,
    phi: Mapping[str, float | None] | None,
    outcome: Mapping[str, Float],
    confidence: float,
    seed: int,
) -> list[Plant]:
    """Plant short and long records, and measure what the attackers find of them.

    Args:
        sheet: the original.
        release: the release, a mitigation of it.
        released: its index, and the person of each record in `release`; not looked at where
            pseudonyms split people.
        facts: the original, indexed: wrong facts are drawn from it.
        adversary: who is simulated in the audit: the planted facts are off as theirs are.
        sampling: how those facts are read in this release.
        phi: by attacker, from where on it answers; None = no attacker does.
        outcome: (Q,) by rule metric, what came of each target: 1 = the leak, 0 = none.
        confidence: of each limit.

    Returns: One entry a kind and size; none of a kind where too few records are long enough.
    """
    twin, (index, record) = release.sheet, released
    whole = np.ones(index.people, bool)
    if release.owner is not None:
        # Some people keep the first of their pseudonyms.
        people, first, code = np.unique(release.owner, return_index=True, return_inverse=True)
        kept = np.random.default_rng([seed, 90]).permutation(len(people))[code] < 10 * _PLANTED
        every = np.arange(len(release.owner))
        record = np.where(kept, first[code], every)
        twin, whole = replace(twin, person=record[twin.person]), kept & (record == every)
        index, record = twin.index(), np.arange(twin.people)
    counted = index.lengths(~popular(facts, adversary.outside_top))
    right = max(adversary.total - adversary.wrong_facts, 1)
    able = np.flatnonzero((counted > 0) & whole)
    # Where mitigations leave hardly any record that long, the longest.
    longest = np.sort(counted[able])[-_ENOUGH:]
    able = able[counted[able] >= min(right, longest.min(initial=right))]
    count = min(len(able) // 2, _PLANTED)
    rng = np.random.default_rng([seed, 91])
    equal = _equal_records(index)
    plants: list[Plant] = []
    for kind, quantile in KINDS.items():
        if count < _FEWEST:
            break
        length = np.quantile(counted[able], quantile, method="nearest")
        order = rng.permutation(able)
        near = np.argsort(np.abs(counted[order] - length), kind="stable")
        chosen = np.sort(order[near[:count]])
        many = min(int(counted[chosen].min()), _TIMES * right)
        wrong = min(adversary.wrong_facts, 1)
        knowing = replace(adversary, total=many + wrong, right=many)
        known = _known(sheet, twin, facts, record[chosen], knowing, rng)
        # All that is right of a planted record is in it, whatever a mitigation left out.
        read = replace(
            sampling,
            right=many / knowing.total,
            total=knowing.total,
            blur=replace(sampling.blur, shares=(1.0,)),
        )
        boards = {"likelihood": read, "fitting": read}
        links = look(index, dict.fromkeys(boards, known), boards)
        best = max(((link.best == chosen) * 1.0 for link in links.values()), key=np.sum)
        seen = {"top-1": best, "exposed": best}
        if phi is not None:
            named = together(links, phi).record
            seen |= {"match": (named == chosen) * 1.0, "false-match": (named >= 0) * 1.0}
        certain = np.array([(1 / equal[chosen]).mean()])
        plants += [
            Plant(
                kind,
                {key: float(_mixed(certain, outcome[key], share).mean()) for key in seen},
                {
                    key: mean_share(_mixed(now, outcome[key], share), confidence)
                    for key, now in seen.items()
                },
            )
            for share in SHARES
        ]
    return plants


def _mixed(planted: Float, before: Float, share: float) -> Float:
    """(Q,) a share of the targets is planted, at even distances; the others are as they were."""
    count, many = len(before), max(1, round(share * len(before)))
    kept = np.ones(count, bool)
    kept[np.arange(many) * count // many] = False
    return np.concatenate([planted[np.arange(many) * len(planted) // many], before[kept]])


def _known(
    sheet: Sheet,
    twin: Sheet,
    facts: Index,
    chosen: Int,
    adversary: Adversary,
    rng: np.random.Generator,
) -> Known:
    """Return the attacker's knowledge of some records: original values and times."""
    mine = np.flatnonzero(np.isin(twin.person, chosen))
    mine = mine[np.argsort(twin.person[mine], kind="stable")]
    rows = mine if twin.rows is None else twin.rows[mine]
    count = np.bincount(np.searchsorted(chosen, twin.person[mine]), minlength=len(chosen))
    facts_known = Known(
        np.concatenate([[0], np.cumsum(count)]),
        twin.item[mine].astype(np.int64),
        None if sheet.value is None else sheet.value[rows],
        None if sheet.time is None else sheet.time[rows].astype(np.float64),
    )
    apart = np.unique(twin.item[mine] + facts.items * twin.person[mine].astype(np.int64))
    most = np.unique(apart // facts.items, return_counts=True)[1].max()
    if most >= (facts.support > 0).sum():  # no fact about another item can be wrong
        adversary = replace(adversary, total=adversary.total - adversary.wrong_facts, right=None)
    return draw_facts(facts, facts_known, adversary, [rng] * len(chosen))


def _equal_records(facts: Index) -> Int:
    """(N,) records that hold the same facts, each itself included."""
    mark = facts.item.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for column, factor in ((facts.value, 0xBF58476D1CE4E5B9), (facts.time, 0x94D049BB133111EB)):
        if column is not None:
            mark ^= (column.astype(np.uint64) + np.uint64(1)) * np.uint64(factor)
            mark = (mark ^ (mark >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mark ^= mark >> np.uint64(32)
    # Facts of a record are summed in the order of its items: equal records have equal sums.
    total = np.bincount(facts.person, mark.astype(np.float64) / 2**64 + 1, facts.people)
    _, code, count = np.unique(total, return_inverse=True, return_counts=True)
    return np.asarray(count[code], dtype=np.int64)
