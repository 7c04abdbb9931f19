"""What the page shows of a mechanism that was run as a black box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lethe.report.blocks import Block, text_cell
from lethe.report.drawing import legend_above
from lethe.report.numbers import Cell, grouped, percent, score
from lethe.report.static_svg import COLOURS, Slots, inline, new_axes, plain_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Json = Mapping[str, Any]
_WIDTH, _ROW = 620.0, 24.0
_MARGINS = (230.0, 14.0, 28.0, 42.0)  # left, right, top, bottom


def mechanism_view(document: Json) -> dict[str, Any] | None:
    """What the template prints.

    Args:
        document: `Findings.to_json()`.

    Returns:
        None where something else was audited.
    """
    section = (document.get("queries") or {}).get("mechanism")
    if section is None:
        return None
    blocks = [_pairs(section), _events(section), _reach(section)]
    odd = _others(section)
    return {"blocks": blocks + [odd] * bool(odd.rows), "figure": _figure(section)}


def words_of_mechanism(document: Json) -> list[tuple[str, list[str]]]:
    """The box in plain words."""
    proven = (
        "Nothing here is proven. A lower limit above the claim shows that the claim is wrong; one "
        "below it shows nothing, since other inputs and other events were not tried."
    )
    return [("What was found", list(document["queries"]["words"])), ("Proof", [proven])]


def _pairs(section: Json) -> Block:
    claim = section["claim"]
    return Block(
        "Two neighbouring inputs, many answers on each",
        [
            "Both inputs of a pair differ in one person. If an event is much likelier on one of "
            "them, its odds bound the privacy loss from below. The event was chosen on other runs "
            "than the ones it is bounded on, and all limits hold at once."
        ],
        [
            ("Claimed", claim["words"]),
            ("Relation of neighbours", section["relation"]),
            ("Runs on each input", grouped(section["runs"])),
        ],
        ["Inputs", f"Lower limit on {claim['measure']}", "Observed", "Event: first", "neighbour"],
        [
            (
                one["name"],
                [
                    text_cell(f"{one['limit']['low']:.3f}"),
                    text_cell(
                        "–" if one["limit"]["value"] is None else f"{one['limit']['value']:.3f}"
                    ),
                    *(text_cell(percent(round(share, 5))) for share in one["shares"]),
                ],
            )
            for one in section["pairs"]
        ],
    )


def _events(section: Json) -> Block:
    return Block(
        "The events",
        ["What tells the answers on both inputs of a pair apart best, of what was tried."],
        [(one["name"], f"{one['event']} (by {one['statistic']})") for one in section["pairs"]],
    )


def _reach(section: Json) -> Block:
    reach, measure = section["reach"], section["claim"]["measure"]
    facts = [(f"Largest {measure} that so many runs can prove", f"{reach['largest']:.3g}")]
    if reach["power_at_half"] is not None:
        less, needed = reach["too_small_by"], reach["runs_needed"]
        facts.append((f"Audits that would find {reach['half']}", _share(reach["power_at_half"])))
        facts.append(
            (
                "Noise must be too small by this factor to be found in 95 of 100 audits",
                "more than 1,000" if less is None else f"{less:.3g}",
            )
        )
        if needed is not None:
            facts.append(("Runs on each input that would find half the noise", grouped(needed)))
    reused = section["reuse"]
    shown = reused["refused"] if "refused" in reused else str(score(reused))
    facts.append(("Rank correlation of an answer and the next", shown))
    return Block(
        "What so many runs could have shown",
        [
            "A quiet audit means something only if a wrong mechanism would not have been quiet. "
            "This is computed for a mechanism of the textbook on its worst inputs; on inputs that "
            "are not the worst, less is found."
        ],
        facts,
    )


def _others(section: Json) -> Block:
    rows: list[tuple[str, Sequence[Cell]]] = [
        (
            f"{one['name']}: {odd['answer']}",
            [text_cell(percent(round(share, 5))) for share in odd["shares"]],
        )
        for one in section["pairs"]
        for odd in one["others"]
    ]
    words = ["Errors and numbers that are none are answers like any other: an analyst sees them."]
    return Block("Answers that are no numbers", words, (), ["Inputs", "First", "Neighbour"], rows)


def _share(estimate: Json) -> str:
    ends = (percent(round(estimate[key], 4)) for key in ("value", "low", "high"))
    return "{} [{}, {}]".format(*ends)


def _figure(section: Json) -> str:
    with plain_style():
        slots = Slots()
        figure = _drawn(section, slots)
        label = f"Lower limits on {section['claim']['measure']} by pair of inputs, and the claim."
        return inline(figure, "mechanism-", label, slots)


def _drawn(section: Json, slots: Slots) -> Figure:
    """Limit and observed value of every pair; a line at the claim."""
    pairs, claim = section["pairs"], section["claim"]
    height = _ROW * len(pairs) + _MARGINS[2] + _MARGINS[3]
    figure, axes = new_axes(_WIDTH, height, _MARGINS)
    for at, one in enumerate(pairs):
        low, value = one["limit"]["low"], one["limit"]["value"]
        told = {"limit": "lower limit", "value": "observed"} if at == 0 else {}
        if value is not None:
            axes.plot([low, value], [-at, -at], color=COLOURS["before"], lw=1)
            axes.plot(
                [value],
                [-at],
                "o",
                ms=4,
                mfc="none",
                color=COLOURS["before"],
                label=told.get("value", ""),
            )
        axes.plot([low], [-at], "|", ms=11, color=COLOURS["before"], label=told.get("limit", ""))
    if claim["value"] is not None:
        axes.axvline(claim["value"], color=COLOURS["after"], lw=1.2, ls="--", label="claimed")
    axes.set_yticks(
        [-at for at in range(len(pairs))], [slots.put(one["name"], 44) for one in pairs]
    )
    axes.set_ylim(-len(pairs) + 0.5, 0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel(claim["measure"])
    legend_above(axes)
    return figure
