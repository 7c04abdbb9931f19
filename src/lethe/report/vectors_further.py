"""What the report says of vectors beyond identification: verification, attributes, two releases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lethe.evidence.estimate import Estimate
from lethe.evidence.of_vectors import (
    Beyond,
    Grouping,
    Retrieved,
    Scored,
    SinglingOut,
    TwoReleases,
    VectorModel,
    Verification,
)
from lethe.report.catalogue import say
from lethe.report.numbers import (
    amount,
    decimals,
    facts,
    grouped,
    percent,
    range_words,
    share,
    share_words,
)
from lethe.report.sections import Chart, Column, Facts, Folded, Part, Table, Words, named, table
from lethe.report.static_svg import COLOURS, DASHES, Slots, band, charts_of_data, new_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lethe.report.of_vectors import VectorCandidate

_STYLES = (("before", "solid"), ("after", "dashed"), ("ink", "chain"), ("muted", "dotted"))
_TICKS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)


def further_charts(
    model: VectorModel, mine: Sequence[VectorCandidate], prefix: str
) -> dict[str, Chart]:
    """Figures of what was asked for beyond the attack, by name."""
    charts = charts_of_data({"det": det}, mine[0].verification if mine else None, prefix)
    return charts | charts_of_data({"matched": matched}, model.further.singling_out, prefix)


def drawn(charts: Mapping[str, Chart], *names: str) -> list[Chart]:
    """Those of the named charts that there are."""
    return [charts[name] for name in names if name in charts]


def det(found: Scored | None, slots: Slots) -> Figure | None:
    """False non-match against false match, both on normal deviates, of three attackers."""
    from scipy.special import ndtri

    rows = [row for row in found.attacks if row.missed] if found else []
    if not found or not rows:
        return None
    best = sorted(rows, key=lambda row: getattr(row.eer, "value", 1.0))[:1]
    chosen = [row for row in rows if row.name in ("cosine", "plda")]
    chosen += [row for row in best if row not in chosen]
    figure, axes = new_axes(x="chart.det.x", y="chart.det.y")
    low, high = 0.0005, 0.9995

    def place(share: float) -> float:
        return float(ndtri(min(max(share, low), high)))

    for row, (colour, dashes) in zip(chosen, _STYLES, strict=False):
        pairs = list(zip(found.fprs, row.missed, strict=True))[:-1]
        x = [place(fpr) for fpr, _ in pairs]
        lines = [[place(limits[side]) for _, limits in pairs] for side in range(3)]
        axes.fill_between(x, lines[1], lines[2], color=COLOURS[colour], alpha=0.15, lw=0)
        axes.plot(x, lines[0], color=COLOURS[colour], dashes=DASHES[dashes], label=row.name)
    axes.plot([place(low), place(high)], [place(high), place(low)], color=COLOURS["muted"], lw=0.8)
    axes.plot([place(low), 0], [place(low), 0], color=COLOURS["muted"], lw=0.6)
    for setter in (axes.set_xticks, axes.set_yticks):
        setter([place(tick) for tick in _TICKS], [percent(tick) for tick in _TICKS])
    axes.set_xlim(place(low), place(0.6))
    axes.set_ylim(place(low), place(high))
    return figure


def matched(curves: SinglingOut | None, slots: Slots) -> Figure | None:
    """Share of people among the k likeliest by k: a line for each attacker."""
    if not curves or not curves.matched:
        return None
    figure, axes = new_axes(x="chart.matched.x", y="chart.matched.y")
    names = dict.fromkeys(row.name for row in curves.matched)
    for name, (colour, dashes) in zip(names, _STYLES, strict=False):
        mine = [row for row in curves.matched if row.name == name]
        places = [math.log10(row.k) for row in mine]
        band(axes, places, [row.share for row in mine], colour, dashes, name)
    shown: list[int] = []
    for k in sorted({row.k for row in curves.matched}):
        if not shown or math.log10(k / shown[-1]) > 0.28:
            shown.append(k)
    axes.set_xticks([math.log10(k) for k in shown], [grouped(k) for k in shown])
    axes.set_ylim(0, 1)
    return figure


def further_parts(
    further: Beyond, mine: Sequence[VectorCandidate], charts: Mapping[str, Chart]
) -> list[Part]:
    """Everything of one model that was asked for beyond the attack; nothing where nothing was."""
    parts: list[Part] = []
    if mine and mine[0].verification:
        parts += [*drawn(charts, "det", "matched"), _options(mine)]
        details = _verification(further, mine[0].verification)
        parts.append(Folded(say("verify.details"), details))
    parts += _attributes(further, mine)
    return [*parts, *_two_releases(further.two_releases), *_texts(further.texts)]


def also_found(models: Sequence[VectorModel], candidate: VectorCandidate) -> str:
    """What else was shown, in sentences: links to another release, attributes; may be empty."""
    lines = []
    for model in models:
        releases = model.further.two_releases
        linked = (releases.results if releases else None) or ()
        shown = [(link.top_1.low or 0.0, link) for link in linked if (link.lift.low or 0.0) > 1]
        if releases and shown:
            half = max(low for low, _ in shown) / 2
            # Of much the same success that which takes the least to know.
            best = min(
                ((low, link) for low, link in shown if low >= half),
                key=lambda pair: (pair[1].share, -pair[0]),
            )[1]
            top, known = _with_limits(best.top_1), share_words(best.share)
            lines.append(say("also.linked", share=top, other=releases.other, known=known))
    for inference in candidate.attributes or ():
        gain = inference.gain
        if isinstance(gain, Estimate) and (gain.low or 0.0) > 0:
            lines.append(say("also.attribute", name=inference.name, gain=_with_limits(gain)))
    return " ".join(lines)


def _with_limits(estimate: Estimate) -> str:
    """Such as 98.8 % (97.9 to 99.4 %)."""
    return f"{share_words(estimate.value or 0.0)} ({range_words(estimate)})"


def _options(mine: Sequence[VectorCandidate]) -> Table:
    """Every option and the strongest verification of it."""
    worst, measured = "verification.worst.", ".measured"
    columns: list[Column] = [
        (say("verify.head.utility"), lambda row: decimals(row.utility)),
        (say("verify.head.strongest"), lambda row: row.verification.worst["eer"].attack or "–"),
        (say("verify.head.eer"), lambda row: share(row.verification.worst["eer"].measured)),
        f"min_cllr={worst}min-cllr{measured}",
        f"d_sys={worst}d-sys{measured}",
        f"disclosure={worst}disclosure{measured}",
    ]
    rows = [(row.name, row) for row in mine if row.verification]
    title, first = say("verify.options"), say("verify.head.option")
    return table(title, first, rows, columns, "verify.head.", say("verify.options.note"))


def _verification(further: Beyond, first: Scored) -> list[Part]:
    """Every attacker on the release as it is, and how singling out grows."""

    def tag(row: Verification) -> str:
        return row.tag if row.valid else say("verify.invalid", why=row.why)

    columns: list[Column] = ["eer", "cllr", "min_cllr", "d_sys=linkability", "disclosure=expected"]
    columns += ["worst", (say("verify.head.tag"), tag)]
    title, note = say("verify.attackers"), say("verify.attackers.note")
    rows = named(first.attacks)
    parts: list[Part] = [table(title, say("attack"), rows, columns, "verify.head.", note)]
    control = [
        (row.name, str(share(Estimate(row.eer, row.low, row.high, 0.95, "", 0))))
        for row in further.verification_controls
    ]
    parts.append(Facts(control, title=say("verify.controls")))
    if curves := further.singling_out:
        parts += _curves(curves)
    clusters = further.clusters
    if isinstance(clusters, Grouping):
        where = {"n": grouped(clusters.vectors), "people": grouped(clusters.people)}
        agreement = [
            (say("verify.clusters.found", **where), str(decimals(clusters.agreement))),
            (say("verify.clusters.chance"), str(amount(clusters.permuted))),
        ]
        parts.append(Facts(agreement, title=say("verify.clusters")))
    return parts


def _curves(curves: SinglingOut) -> list[Part]:
    title, note, first = say("verify.sizes"), say("verify.sizes.note"), say("verify.head.people")
    columns: list[Column] = [("Top-1", "top_1"), (say("vectors.head.lift"), "lift")]
    sizes = [(f"{row.name}, {grouped(row.users)}", row) for row in curves.sizes]
    parts: list[Part] = [table(title, first, sizes, columns, note=note)]
    for key, listed in (("vectors", curves.vectors), ("enrolled", curves.enrolled)):
        rows = [(f"{row.name}, {grouped(row.vectors)}", row) for row in listed]
        parts.append(table(say(f"verify.{key}"), say(f"verify.head.{key}"), rows, columns[:1]))
    return parts


def _attributes(further: Beyond, mine: Sequence[VectorCandidate]) -> list[Part]:
    """What each option gives away of each attribute."""
    parts: list[Part] = []
    for first in (mine[0].attributes or ()) if mine else ():
        rows = [
            (option.name, inference)
            for option in mine
            for inference in option.attributes or ()
            if inference.name == first.name
        ]
        note = say(
            "attribute.note",
            people=grouped(first.people),
            majority=share_words(first.majority),
            kind=say(f"attribute.{first.kind}"),
        )
        columns: Sequence[Column] = (
            *("gain", "strongest", "logistic=attacks.0.gain", "network=attacks.1.gain"),
            *("even=attacks.0.balanced", "even_network=attacks.1.balanced", "auc=attacks.0.auc"),
        )
        title, head = say("attribute.title", name=first.name), say("verify.head.option")
        parts.append(table(title, head, rows, columns, "attribute.head.", note))
        beside = [(say("attribute.permuted"), str(share(first.permuted.balanced)))]
        if first.raw is not None:
            beside.append((say("attribute.raw"), str(share(first.raw.gain))))
            beside.append((say("attribute.over_raw"), str(share(first.over_raw))))
        parts.append(Facts(beside, title=say("attribute.beside", name=first.name)))
    parts += [Words(attribute.refused, "note") for attribute in further.attributes_refused]
    return parts


def _two_releases(links: TwoReleases | None) -> list[Part]:
    if links is None:
        return []
    title = say("releases.title", other=links.other)
    if links.refused:
        return [Words(f"{title}: {links.refused}", "note")]
    rows = [(f"{row.method}, {share_words(row.share)}", row) for row in links.results or ()]
    columns = ("unknown", "top=top_1", "lift", "permuted")
    first, note = say("releases.head.known"), say("releases.note")
    parts: list[Part] = [table(title, first, rows, columns, "releases.head.", note)]
    if links.skipped:
        parts.append(Facts(facts(links.skipped), title=say("releases.skipped")))
    return parts


def _texts(texts: Retrieved | None) -> list[Part]:
    if texts is None:
        return []
    rows = [(grouped(row.texts), row) for row in texts.sizes]
    columns: list[Column] = [("Top-1", "top_1"), (say("vectors.head.lift"), "lift")]
    return [
        table(say("texts.title"), say("texts.head.size"), rows, columns, note=say("texts.note"))
    ]
