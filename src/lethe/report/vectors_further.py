"""What the report says of vectors beyond identification: verification, attributes, two releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lethe.evidence.estimate import Estimate
from lethe.evidence.of_vectors import (
    Beyond,
    Grouping,
    Inference,
    Retrieved,
    SinglingOut,
    TwoReleases,
)
from lethe.evidence.plain import read
from lethe.report.catalogue import say
from lethe.report.numbers import (
    Cell,
    amount,
    facts,
    grouped,
    number,
    percent,
    range_words,
    rate,
    share,
    share_words,
)
from lethe.report.sections import Chart, Facts, Folded, Part, Row, Table, Words
from lethe.report.static_svg import (
    COLOURS,
    DASHES,
    MARGINS,
    SIZE,
    Slots,
    band,
    charts_of_data,
    legend,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Json = Mapping[str, Any]

_STYLES = (("before", "solid"), ("after", "dashed"), ("ink", "chain"), ("muted", "dotted"))
_TICKS = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)


def of_candidates(model: Json, candidates: Sequence[Json], several: bool) -> list[Json]:
    """The candidates of one model, the release as it is first."""
    lead = f"{model['name']}: "
    return [one for one in candidates if not several or one["name"].startswith(lead)]


def further_charts(model: Json, mine: Sequence[Json], prefix: str) -> dict[str, Chart]:
    """Figures of what was asked for beyond the attack, by name."""
    first = (mine[0].get("verification") or {}) if mine else {}
    curves = read(Beyond, model).singling_out
    found = charts_of_data({"det": det}, first, prefix)
    return found if curves is None else found | charts_of_data(_CURVES, curves, prefix)


def det(found: Json, slots: Slots) -> Figure | None:
    """False non-match against false match, both on normal deviates, of three attackers."""
    from scipy.special import ndtri

    rows = [one for one in found.get("attacks", ()) if one.get("missed")]
    if not rows:
        return None
    best = sorted(rows, key=lambda one: one["eer"]["value"])[:1]
    chosen = [one for one in rows if one["name"] in ("cosine", "plda")]
    chosen += [one for one in best if one not in chosen]
    figure, axes = new_axes(*SIZE, MARGINS)
    low, high = 0.0005, 0.9995

    def place(share: float) -> float:
        return float(ndtri(min(max(share, low), high)))

    for one, (colour, dashes) in zip(chosen, _STYLES, strict=False):
        pairs = list(zip(found["fprs"], one["missed"], strict=True))[:-1]
        x = [place(fpr) for fpr, _ in pairs]
        lines = [[place(limits[at]) for _, limits in pairs] for at in range(3)]
        axes.fill_between(x, lines[1], lines[2], color=COLOURS[colour], alpha=0.15, lw=0)
        axes.plot(x, lines[0], color=COLOURS[colour], dashes=DASHES[dashes], label=one["name"])
    axes.plot([place(low), place(high)], [place(high), place(low)], color=COLOURS["muted"], lw=0.8)
    axes.plot([place(low), 0], [place(low), 0], color=COLOURS["muted"], lw=0.6)
    inside = [tick for tick in _TICKS if low <= tick <= high]
    for setter in (axes.set_xticks, axes.set_yticks):
        setter([place(tick) for tick in inside], [percent(tick) for tick in inside])
    axes.set_xlim(place(low), place(0.6))
    axes.set_ylim(place(low), place(high))
    legend(axes, x="chart.det.x", y="chart.det.y")
    return figure


def _drawn(rows: Sequence[Any], x: str, y: str, axes: Axes, logarithmic: bool = True) -> None:
    names = dict.fromkeys(row.name for row in rows)
    for name, (colour, dashes) in zip(names, _STYLES, strict=False):
        mine = [row for row in rows if row.name == name]
        at = [math.log10(getattr(row, x)) for row in mine]
        measured = [vars(getattr(row, y)) for row in mine]
        band(axes, at, measured, colour, dashes, name, logarithmic=logarithmic)
    ticks = sorted({getattr(row, x) for row in rows})
    shown: list[int] = []
    for tick in ticks:
        if not shown or math.log10(tick / shown[-1]) > 0.28:
            shown.append(tick)
    axes.set_xticks([math.log10(tick) for tick in shown], [grouped(tick) for tick in shown])


def _by_number(
    rows: str, x: str, y: str, name: str, curves: SinglingOut, slots: Slots
) -> Figure | None:
    """Shares by a number that grows, such as the k of Top-k: a line for each attacker."""
    if not getattr(curves, rows):
        return None
    figure, axes = new_axes(*SIZE, MARGINS)
    _drawn(getattr(curves, rows), x, y, axes, logarithmic=False)
    axes.set_ylim(0, 1)
    legend(axes, x=f"chart.{name}.x", y=f"chart.{name}.y")
    return figure


def sizes(curves: SinglingOut, slots: Slots) -> Figure:
    """Top-1 by the number of people, beside chance."""
    figure, axes = new_axes(*SIZE, MARGINS)
    _drawn(curves.sizes, "users", "top_1", axes)
    users = sorted({row.users for row in curves.sizes})
    axes.plot(
        [math.log10(one) for one in users],
        [1 / one for one in users],
        color=COLOURS["muted"],
        lw=1,
        dashes=DASHES["dotted"],
        label=say("chart.sweep.chance"),
    )
    axes.set_yscale("log")
    decades = [10.0**-at for at in range(len(str(users[-1])))]
    axes.set_yticks(decades, [percent(one) for one in decades])
    axes.minorticks_off()
    axes.set_ylim(0.5 / users[-1], 1.3)
    legend(axes, x="chart.crowd.x", y="chart.sweep.y")
    return figure


_CURVES: Mapping[str, Callable[[SinglingOut, Slots], Figure | None]] = {
    "matched": partial(_by_number, "matched", "k", "share", "matched"),
    "crowd": sizes,
    "joined": partial(_by_number, "vectors", "vectors", "top_1", "joined"),
}


def further_parts(model: Json, mine: Sequence[Json], charts: Mapping[str, Chart]) -> list[Part]:
    """Everything of one model that was asked for beyond the attack; nothing where nothing was."""
    parts: list[Part] = []
    further = read(Beyond, model)
    if mine and mine[0].get("verification"):
        parts += [charts[name] for name in ("det", "matched") if name in charts]
        parts.append(_options(mine))
        parts.append(Folded(say("verify.details"), _verification(further, mine[0], charts)))
    parts += _attributes(further, mine)
    return [*parts, *_two_releases(further.two_releases), *_texts(further.texts)]


def also_found(models: Sequence[Json], candidate: Json) -> str:
    """What else was shown, in sentences: links to another release, attributes; may be empty."""
    said = []
    for model in models:
        releases = read(Beyond, model).two_releases
        linked = (releases.results if releases else None) or ()
        shown = [(one.top_1.low or 0.0, one) for one in linked if (one.lift.low or 0.0) > 1]
        if releases and shown:
            half = max(low for low, _ in shown) / 2
            # Of much the same success that which takes the least to know.
            best = min(
                ((low, one) for low, one in shown if low >= half),
                key=lambda pair: (pair[1].share, -pair[0]),
            )[1]
            found, known = _with_limits(best.top_1), share_words(best.share)
            said.append(say("also.linked", share=found, other=releases.other, known=known))
    for inference in _inferences(candidate):
        gain = inference.gain
        if isinstance(gain, Estimate) and (gain.low or 0.0) > 0:
            said.append(say("also.attribute", name=inference.name, gain=_with_limits(gain)))
    return " ".join(said)


def _inferences(candidate: Json) -> Sequence[Inference]:
    found: Sequence[Inference] = read(Sequence[Inference], candidate.get("attributes") or ())
    return found


def _with_limits(found: Estimate) -> str:
    """Such as 98.8 % (97.9 to 99.4 %)."""
    return f"{share_words(found.value or 0.0)} ({range_words(found)})"


def _options(mine: Sequence[Json]) -> Table:
    """Every option and the strongest verification of it."""
    rows: list[Row] = []
    for one in mine:
        found = one.get("verification")
        if not found:
            continue
        worst = found["worst"]
        cells: list[Cell | str] = [
            rate(one["utility"]),
            str(worst["eer"].get("attack") or "–"),
            share(worst["eer"]),
            *(rate(worst[key]) for key in ("min-cllr", "d-sys", "disclosure")),
        ]
        rows.append((one["name"], cells))
    keys = ("option", "utility", "strongest", "eer", "min_cllr", "d_sys", "disclosure")
    heads = [say(f"verify.head.{key}") for key in keys]
    return Table(say("verify.options"), heads, rows, say("verify.options.note"))


def _verification(further: Beyond, first: Json, charts: Mapping[str, Chart]) -> list[Part]:
    """Every attacker on the release as it is, and how singling out grows."""
    rows: list[Row] = []
    for one in first["verification"]["attacks"]:
        cells: list[Cell | str] = [
            share(one["eer"]),
            *(rate(one[key]) for key in ("cllr", "min_cllr", "linkability", "expected")),
            amount(one["worst"]),
            one["tag"] if one["valid"] else say("verify.invalid", why=one["why"]),
        ]
        rows.append((one["name"], cells))
    keys = ("eer", "cllr", "min_cllr", "d_sys", "disclosure", "worst", "tag")
    heads = [say("attack"), *(say(f"verify.head.{key}") for key in keys)]
    parts: list[Part] = [Table(say("verify.attackers"), heads, rows, say("verify.attackers.note"))]
    control = [
        (one.name, str(share(Estimate(one.eer, one.low, one.high, 0.95, "", 0))))
        for one in further.verification_controls
    ]
    parts.append(Facts(control, title=say("verify.controls")))
    if curves := further.singling_out:
        parts += [charts[name] for name in ("crowd", "joined") if name in charts]
        parts += _curves(curves)
    clusters = further.clusters
    if isinstance(clusters, Grouping):
        where = {"n": grouped(clusters.vectors), "people": grouped(clusters.people)}
        agreement = [
            (say("verify.clusters.found", **where), str(rate(clusters.agreement))),
            (say("verify.clusters.chance"), str(number(clusters.permuted))),
        ]
        parts.append(Facts(agreement, title=say("verify.clusters")))
    return parts


def _curves(curves: SinglingOut) -> list[Part]:
    parts: list[Part] = []
    by_size = [
        (f"{one.name}, {grouped(one.users)}", [share(one.top_1), amount(one.lift)])
        for one in curves.sizes
    ]
    heads = [say("verify.head.people"), "Top-1", say("vectors.head.lift")]
    parts.append(Table(say("verify.sizes"), heads, by_size, say("verify.sizes.note")))
    for key, listed in (("vectors", curves.vectors), ("enrolled", curves.enrolled)):
        rows = [(f"{one.name}, {grouped(one.vectors)}", [share(one.top_1)]) for one in listed]
        heads = [say(f"verify.head.{key}"), "Top-1"]
        parts.append(Table(say(f"verify.{key}"), heads, rows))
    return parts


def _attributes(further: Beyond, mine: Sequence[Json]) -> list[Part]:
    """What each option gives away of each attribute."""
    parts: list[Part] = []
    for first in _inferences(mine[0]) if mine else ():
        name = first.name
        rows: list[Row] = []
        for option in mine:
            found = next((x for x in _inferences(option) if x.name == name), None)
            if found is None:
                continue
            cells: list[Cell | str] = [
                share(found.gain),
                found.strongest,
                *(share(one.gain) for one in found.attacks[:2]),
                *(share(one.balanced) for one in found.attacks[:2]),
                number(found.attacks[0].auc),
            ]
            rows.append((option["name"], cells))
        note = say(
            "attribute.note",
            people=grouped(first.people),
            majority=share_words(first.majority),
            kind=say(f"attribute.{first.kind}"),
        )
        keys = ("gain", "strongest", "logistic", "network", "even", "even_network", "auc")
        heads = [say("verify.head.option"), *(say(f"attribute.head.{key}") for key in keys)]
        parts.append(Table(say("attribute.title", name=name), heads, rows, note))
        parts.append(Facts(_beside(first), title=say("attribute.beside", name=name)))
    parts += [Words(attribute.refused, "note") for attribute in further.attributes_refused]
    return parts


def _beside(first: Inference) -> list[tuple[str, str]]:
    rows = [(say("attribute.permuted"), str(share(first.permuted.balanced)))]
    if first.raw is not None:
        rows.append((say("attribute.raw"), str(share(first.raw.gain))))
        rows.append((say("attribute.over_raw"), str(share(first.over_raw))))
    return rows


def _two_releases(found: TwoReleases | None) -> list[Part]:
    if found is None:
        return []
    title = say("releases.title", other=found.other)
    if found.refused:
        return [Words(f"{title}: {found.refused}", "note")]
    rows = [
        (
            f"{one.method}, {share_words(one.share)}",
            [
                Cell("estimate", grouped(one.unknown)),
                share(one.top_1),
                amount(one.lift),
                amount(one.permuted),
            ],
        )
        for one in found.results or ()
    ]
    keys = ("known", "unknown", "top", "lift", "permuted")
    heads = [say(f"releases.head.{key}") for key in keys]
    parts: list[Part] = [Table(title, heads, rows, say("releases.note"))]
    if found.skipped:
        parts.append(Facts(facts(found.skipped), title=say("releases.skipped")))
    return parts


def _texts(found: Retrieved | None) -> list[Part]:
    if found is None:
        return []
    rows = [(grouped(one.texts), [share(one.top_1), amount(one.lift)]) for one in found.sizes]
    heads = [say("texts.head.size"), "Top-1", say("vectors.head.lift")]
    return [Table(say("texts.title"), heads, rows, say("texts.note"))]
