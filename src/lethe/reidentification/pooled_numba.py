"""Ranks of all draws of a pool at several sigmas from four products a tile (extra `fast`).

With p, g clean and e, f noise the product of a noisy pair is p.g + s (e.g) + s q (p.f + s (e.f)), q
= 1 / sqrt(m) for a gallery mean of m rows. A block of probes and a tile of users need these four
once; each draw and sigma adds them up under its own shifts. float32 decides where its error bound
allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lethe.training.environment import INSTALLED, compiled


def _sure(
    product: Any,
    r: Any,
    t: Any,
    step: Any,
    factor: Any,
    summand: Any,
    s: Any,
    low: Any,
    high: Any,
    sure: Any,
    perhaps: Any,
) -> None:
    """For each probe of a block: users of a tile surely above its owner's score, and who may be."""
    nb, nt = len(low), len(step)
    for i in range(nb):
        other = nb + (i + r) % nb
        clean, moved = product[i, :nt], product[other, :nt]
        turned, both = product[i, nt + t : 2 * nt + t], product[other, nt + t : 2 * nt + t]
        least, most = low[i], high[i]
        closer, near = np.float32(0), np.float32(0)
        for j in range(nt):
            score = clean[j] + s * moved[j] + step[j] * (turned[j] + s * both[j])
            score = score * factor[j] + summand[j]
            closer += np.float32(1) if score > most else np.float32(0)
            near += np.float32(1) if score >= least else np.float32(0)
        sure[i], perhaps[i] = closer, near


def _exact(p: Any, e: Any, g: Any, f: Any, s: Any, step: Any, cosine: Any) -> Any:
    """The score of one pair in float64."""
    product, square = 0.0, 0.0
    for k in range(len(p)):
        v = g[k] + step * f[k]
        product += (p[k] + s * e[k]) * v
        square += v * v
    return product / np.sqrt(square) if cosine else product - square / 2


def _scores(
    clean: Any,
    moved: Any,
    t: Any,
    step: Any,
    factor: Any,
    summand: Any,
    s: Any,
    high: Any,
    score: Any,
) -> Any:
    """Scores of a tile for one probe, written down; returns how many are surely above."""
    nt = len(step)
    turned, both = clean[nt + t : 2 * nt + t], moved[nt + t : 2 * nt + t]
    closer = np.float32(0)
    for j in range(nt):
        found = clean[j] + s * moved[j] + step[j] * (turned[j] + s * both[j])
        found = found * factor[j] + summand[j]
        score[j] = found
        closer += np.float32(1) if found > high else np.float32(0)
    return closer


def _decided(
    score: Any,
    t: Any,
    low: Any,
    high: Any,
    skip: Any,
    own: Any,
    p: Any,
    e: Any,
    g: Any,
    f: Any,
    steps: Any,
    sigma: Any,
    cosine: Any,
) -> tuple[Any, Any]:
    """Of the scores in doubt, but for the owner's (`skip`): closer and tied, in float64."""
    closer, tied, nt = 0, 0, len(g)
    for j in range(nt):
        if score[j] >= low and score[j] <= high and j != skip:
            found = _exact(p, e, g[j], f[(j + t) % nt], sigma, steps[j], cosine)
            closer += found > own
            tied += found == own
    return closer, tied


def _count(
    first: int,
    blocks: Any,
    tiles: Any,
    narrow: Any,
    stacked: Any,
    probes: Any,
    probe_noise: Any,
    gallery: Any,
    gallery_noise: Any,
    owner: Any,
    shifts: Any,
    sigmas: Any,
    steps: Any,
    forms: Any,
    band: Any,
    cosine: bool,
    closer: Any,
    tied: Any,
) -> None:
    """Add to closer and tied (draws, levels, probes from `first` on) for some blocks of probes.

    The arrays are those of `pooled._Ready`.
    """
    draws, levels = len(shifts), len(sigmas)
    room = np.empty(int(np.max(np.diff(tiles))), np.float32)
    for block in range(len(blocks) - 1):
        start, nb = blocks[block], blocks[block + 1] - blocks[block]
        left = narrow[2 * start : 2 * (start + nb)]
        own = np.empty((draws, levels, nb))
        low = np.empty((draws, levels, nb), np.float32)
        high = np.empty((draws, levels, nb), np.float32)
        sure, perhaps = np.empty(nb, np.float32), np.empty(nb, np.float32)
        for i in range(nb):
            p, user = probes[start + i], owner[start + i]
            tile = np.searchsorted(tiles, user, side="right") - 1
            at, nt = tiles[tile], tiles[tile + 1] - tiles[tile]
            for draw in range(draws):
                e = probe_noise[start + (i + shifts[draw, 0]) % nb]
                f = gallery_noise[at + (user - at + shifts[draw, 1]) % nt]
                long, noisy = np.sqrt(np.sum(p * p)), np.sqrt(np.sum(e * e))
                for level in range(levels):
                    s = sigmas[level]
                    score = _exact(p, e, gallery[user], f, s, steps[level, user], cosine)
                    slack = band[draw, level, 0] * (long + s * noisy) + band[draw, level, 1]
                    own[draw, level, i] = score
                    low[draw, level, i] = score - slack
                    high[draw, level, i] = score + slack
        for tile in range(len(tiles) - 1):
            at, nt = tiles[tile], tiles[tile + 1] - tiles[tile]
            # Users, then their noise twice: no turn of the noise runs over the end.
            product = np.empty((2 * nb, 3 * nt), np.float32)
            product[:, : 2 * nt] = np.dot(left, stacked[2 * at : 2 * (at + nt)].T)
            product[:, 2 * nt :] = product[:, nt : 2 * nt]
            for draw in range(draws):
                r, t = shifts[draw, 0] % nb, shifts[draw, 1] % nt
                for level in range(levels):
                    s = np.float32(sigmas[level])
                    # Rows by themselves: only what lies in one piece is done in vectors.
                    step = forms[draw, level, 0, at : at + nt]
                    factor = forms[draw, level, 1, at : at + nt]
                    summand = forms[draw, level, 2, at : at + nt]
                    least, most = low[draw, level], high[draw, level]
                    _sure(product, r, t, step, factor, summand, s, least, most, sure, perhaps)
                    for i in range(nb):
                        more, same = int(sure[i]), 0
                        if perhaps[i] > sure[i]:
                            other = (i + r) % nb
                            score = room[:nt]
                            above = _scores(
                                product[i],
                                product[nb + other],
                                t,
                                step,
                                factor,
                                summand,
                                s,
                                most[i],
                                score,
                            )
                            more, same = _decided(
                                score,
                                t,
                                least[i],
                                most[i],
                                owner[start + i] - at,
                                own[draw, level, i],
                                probes[start + i],
                                probe_noise[start + other],
                                gallery[at : at + nt],
                                gallery_noise[at : at + nt],
                                steps[level, at : at + nt],
                                sigmas[level],
                                cosine,
                            )
                            more += int(above)
                        closer[draw, level, start + i - first] += more
                        tied[draw, level, start + i - first] += same


if INSTALLED:
    # Sums may be taken in any order: the bound holds for every one.
    _sure = compiled(_sure, fastmath={"reassoc", "nsz", "contract"})
    _scores = compiled(_scores, fastmath={"reassoc", "nsz", "contract"})
    _exact = compiled(_exact)
    _decided = compiled(_decided)
    count = compiled(_count)
