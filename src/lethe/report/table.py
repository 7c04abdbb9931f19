"""What the page shows of released rows: three kinds of audit, one list of blocks to print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lethe.report.blocks import Block, Json, share_cell, share_text, text_cell
from lethe.report.numbers import Cell, facts, fixed, grouped, measured
from lethe.report.table_candidates import candidate_blocks
from lethe.report.table_figures import table_figures
from lethe.report.table_records import record_blocks


def table_view(document: Json) -> dict[str, Any] | None:
    """What the template prints.

    Args:
        document: `Findings.to_json()`.

    Returns:
        None where something else was audited.
    """
    section = document.get("table")
    if section is None:
        return None
    kind = section["kind"]
    made = {"quasi": _quasi, "records": record_blocks, "synthetic": _synthetic}[kind]
    return {
        "kind": kind,
        "blocks": [*made(section), *candidate_blocks(document, kind)],
        "figures": table_figures(section),
        "people": _people(document["records"]),
    }


def words_of_table(document: Json) -> list[tuple[str, list[str]]]:
    """The box in plain words."""
    proven = [one["candidate"] for one in document["guarantees"] if one["guarantee"]["proven"]]
    said = "Nothing here is proven: every number says what these attacks found."
    if proven:
        said = (
            f"A proof comes with {', '.join(proven)} only, under the assumptions in “What is "
            "proven”; every number says what these attacks found."
        )
    said += " k-anonymity is a property of a table and no proof of privacy."
    return [("What was found", list(document["table"]["words"])), ("Proof", [said])]


def _quasi(section: Json) -> list[Block]:
    found = section["anonymity"]
    rows = [
        ("Rows", grouped(section["rows"])),
        ("Different quasi-identifiers (classes)", grouped(found["classes"])),
        ("Smallest class, k", grouped(found["k"])),
        (
            "Prosecutor: highest chance to find a person known to be in the table",
            fixed(found["prosecutor"], 4),
        ),
        ("Marketer: rows that a linkage of everybody gets right", share_text(found["marketer"])),
        ("Alone in their class", share_text(found["unique"])),
        *((f"In classes below {k}", share_text(one)) for k, one in found["below"].items()),
    ]
    if "journalist" in section:
        told = section["journalist"]
        rows += [
            ("Journalist: highest chance against the population table", fixed(told["highest"], 4)),
            ("Journalist: mean chance", share_text(told["mean"])),
            ("Unique in the population table too", share_text(told["unique"])),
        ]
    if population := section.get("population"):
        if "refused" in population:
            rows.append(("Unique in the population", str(share_cell(population))))
        else:
            said = f"estimate, {population['model']} model, {grouped(population['people'])} people"
            rows += [
                (
                    f"Unique rows that are unique in the population ({said})",
                    str(share_cell(population["of_uniques"])),
                ),
                (
                    "Rows that are unique in the population (same estimate)",
                    str(share_cell(population["of_rows"])),
                ),
            ]
    blocks = [
        Block(
            "Who hides among whom",
            [
                f"Somebody who knows {', '.join(section['quasi'])} of a person looks for rows "
                "with the same values. Shares are counted in all rows, so they have no sampling "
                "error."
            ],
            rows,
        )
    ]
    if "disclosure" in section:
        blocks.append(_disclosure(section))
    return [*blocks, _subsets(section["uniqueness"])]


def _disclosure(section: Json) -> Block:
    told, varied = section["disclosure"], section["diversity"]
    rows = [
        (f"{j} ruled out", [share_cell(told["certain"][j]), share_cell(told["guessed"][j])])
        for j in told["certain"]
    ]
    return Block(
        f"What the classes give away of {section['sensitive']}",
        [
            "A class whose rows all have one sensitive value tells it without naming a row "
            "(homogeneity). Somebody who can rule values out for a person learns it from more "
            "classes (background knowledge). This is why k-anonymity alone is not enough.",
        ],
        [
            ("Guessed right without the classes", share_text(told["blind"])),
            ("Fewest different values in a class (distinct l)", grouped(varied["distinct_l"])),
            ("Entropy l", fixed(varied["entropy_l"], 3)),
            (f"t-closeness ({varied['distance']})", fixed(varied["t"], 4)),
            ("Largest share of one value in a class (alpha)", fixed(varied["alpha"], 4)),
        ],
        ("Other values", "Certain", "Best guess is right"),
        rows,
    )


def _subsets(found: Json) -> Block:
    rows = [
        (", ".join(one["columns"]), [text_cell(m), share_cell(one["unique"])])
        for m, listed in found["subsets"].items()
        for one in listed[:5]
    ]
    return Block(
        "Which few columns single people out",
        ["The five worst sets of each size, of all that there are."],
        [
            (f"Singled out by some {m} column(s) or fewer", share_text(one))
            for m, one in found["singled_out"].items()
        ],
        ("Columns", "How many", "Rows that are unique"),
        rows,
    )


def _synthetic(section: Json) -> list[Block]:
    heads = ("Attack", "Original", "Control", "Blind", "Excess", "Beats the random guess")
    near = section.get("distances")
    copied = {one["name"]: one for one in section["attacks"] if one["name"].startswith("identical")}
    lines = [*facts(section["rows"])]
    for name, words in (
        ("identical, synthetic rows", "Synthetic rows identical to an original row"),
        ("identical, original rows", "Original rows with an identical synthetic row"),
    ):
        if name in copied:
            rates = copied[name]
            lines += [(words, share_text(rates["main"]))]
            lines += [("The same of the control", share_text(rates["control"]))]
    if near is not None:
        lines += [
            (
                "Mean distance to the closest synthetic row, original",
                str(measured(near["original"], 4)),
            ),
            ("The same, control", str(measured(near["control"], 4))),
            ("Original less control, below 0 = nearer", str(measured(near["change"], 4))),
        ]
    return [
        Block(
            "Attacks on the synthetic rows",
            [
                "Excess is (original - control) / (1 - control): what is known of the original "
                "people beyond what is known of anybody; of closest, the share of pairs of an "
                "original and a control row in which the original is nearer, less the share in "
                "which the control is. 0 is nothing. All limits hold at once."
            ],
            lines,
            heads,
            _rates(section["attacks"]),
        ),
        Block(
            "The same attacks on a known leak",
            ["The original rows handed out in place of the synthetic ones."],
            (),
            heads,
            _rates(section["leaky"]),
        ),
    ]


def _rates(attacks: Sequence[Json]) -> list[tuple[str, Sequence[Cell]]]:
    return [
        (
            one["name"] if one.get("powered", True) else f"{one['name']} (underpowered)",
            [
                *(share_cell(one[key]) for key in ("main", "control", "baseline", "excess")),
                text_cell("yes" if one["works"] else "no"),
            ],
        )
        for one in attacks
    ]


def _people(records: Json) -> dict[str, Any] | None:
    """The most exposed people; personal data, only where it was asked for."""
    if not records["kept"] or not records["exposed"]:
        return None
    keys = [key for key in records["exposed"][0] if key not in ("rank", "id")]
    rows = [(str(row["id"]), [_plain(row[key]) for key in keys]) for row in records["exposed"]]
    return {"heads": [key.replace("_", " ") for key in keys], "rows": rows}


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "–"
    return grouped(value) if isinstance(value, int) else fixed(value, 2)
