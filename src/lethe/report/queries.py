"""What the page shows of a ledger: what is left by the number of answers, and who spent it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lethe.report.blocks import Block, text_cell
from lethe.report.drawing import DASHES, legend
from lethe.report.numbers import Cell, grouped, percent
from lethe.report.static_svg import COLOURS, inline, new_axes, plain_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Json = Mapping[str, Any]
_SIZE, _MARGINS = (620.0, 250.0), (60.0, 14.0, 12.0, 42.0)
_ROWS = 10
_NAMES = {"epsilon": "epsilon", "rho": "rho", "mu2": "mu squared"}
_KINDS = {
    "pure-dp": "pure",
    "approx-dp": "approximate",
    "zcdp": "zero-concentrated",
    "gdp": "Gaussian",
}


def ledger_view(document: Json) -> dict[str, Any] | None:
    """What the template prints.

    Args:
        document: `Findings.to_json()`.

    Returns:
        None where something else was audited.
    """
    section = (document.get("queries") or {}).get("ledger")
    if section is None:
        return None
    return {
        "figure": _figure(section),
        "blocks": [_accounts(section), _analysts(section), _burn(section)],
    }


def words_of_ledger(document: Json) -> list[tuple[str, list[str]]]:
    """The box in plain words."""
    proven = (
        "Proven, if every mechanism costs what it claims and nothing about these people was "
        "released outside the ledger. The ledger adds up; it does not test the mechanisms."
    )
    return [("What was answered", list(document["queries"]["words"])), ("Proof", [proven])]


def _accounts(section: Json) -> Block:
    unit = "a record" if section["unit"] == "record" else "a user with all records"
    facts = [
        ("Budget", _amount(section["budget"], section)),
        ("Spent", f"{_amount(section['spent'], section)} ({_share(section)})"),
        ("Left", _amount(section["left"], section)),
        ("Answers paid for", grouped(section["queries"])),
        ("Answers stored", grouped(section["answers"])),
        ("Protected", f"{unit}, {section['relation']}"),
        ("Bound to the data", "yes, by a keyed hash" if section["bound"] else "no"),
        ("Entries, and the hash of the last", f"{grouped(section['entries'])}, {section['head']}"),
        *(
            (f"Answers of {_KINDS.get(kind, kind)} differential privacy", grouped(count))
            for kind, count in section["kinds"].items()
        ),
        *((f"Raised by entry {entry['number']}", entry["reason"]) for entry in section["raises"]),
    ]
    facts += [
        (f"Gone on with by entry {entry['number']}", f"{entry['found']}; {entry['reason']}")
        for entry in section["accepted"]
    ]
    if section["view"]:
        facts.append(("Read more tightly, for display only", section["view"]))
    return Block("The account", (), facts)


def _analysts(section: Json) -> Block:
    who = "All who can open the ledger may ask." if section["open"] else "No other analyst may ask."
    return Block(
        "Who spent it",
        [f"{who} What several analysts put together, the whole account bounds."],
        (),
        ["Analyst", "Own budget", "Spent", "Can still spend", "Queries", "At most"],
        [
            (
                one["analyst"],
                [
                    text_cell("–" if one["limit"] is None else _plain(one["limit"])),
                    text_cell(_plain(one["spent"])),
                    text_cell(_plain(one["left"])),
                    text_cell(grouped(one["queries"])),
                    _most(one),
                ],
            )
            for one in section["analysts"]
        ],
    )


def _burn(section: Json) -> Block:
    points = section["burn"]
    step = max(1, -(-len(points) // _ROWS))
    kept = [at for at in range(len(points)) if at % step == 0 or at == len(points) - 1]
    return Block(
        "What was left",
        [],
        (),
        ["Answers paid for", "Budget", "Left"],
        [
            (
                grouped(points[at]["queries"]),
                [text_cell(_plain(points[at]["budget"])), text_cell(_plain(points[at]["left"]))],
            )
            for at in kept
        ],
    )


def _figure(section: Json) -> str:
    name = _NAMES[section["rule"]]
    with plain_style():
        return inline(_drawn(section), "ledger-", f"{name} left by the number of answers.")


def _drawn(section: Json) -> Figure:
    """Steps down with every answer; a step up where the budget was raised."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_axes(*_SIZE, _MARGINS)
    points = section["burn"]
    asked = [one["queries"] for one in points]
    for key, colour, dashes, label in (
        ("budget", "muted", "dashed", "budget"),
        ("left", "before", "solid", "left"),
    ):
        axes.step(
            asked,
            [one[key]["amount"] for one in points],
            where="post",
            color=COLOURS[colour],
            lw=1.5,
            dashes=DASHES[dashes],
            label=label,
        )
    axes.set_xlim(0, max([*asked, 1]))
    axes.set_ylim(0, 1.08 * max(one["budget"]["amount"] for one in points))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("answers paid for")
    axes.set_ylabel(_NAMES[section["rule"]])
    legend(axes)
    return figure


def _amount(charge: Json, section: Json) -> str:
    return f"{_NAMES[section['rule']]} {_plain(charge)}"


def _plain(charge: Json) -> str:
    delta = f", delta {charge['delta']:.3g}" if charge["delta_units"] else ""
    return f"{charge['amount']:.6g}{delta}"


def _share(section: Json) -> str:
    return percent(round(section["spent"]["units"] / section["budget"]["units"], 6))


def _most(one: Json) -> Cell:
    return text_cell("–" if one["most_queries"] is None else grouped(one["most_queries"]))
