"""What the page shows of released rows: three kinds of audit, one list of blocks to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lethe.report.numbers import Cell, facts, fixed, grouped, measured, rate, score
from lethe.report.table_figures import table_figures

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Block:
    """A heading, words, rows of facts and a table; what is empty is not printed.

    Attributes:
        title: heading.
        words: paragraphs.
        facts: label and text.
        heads: of the table; the first is the name of a row.
        rows: name, and cells or texts.
    """

    title: str
    words: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    heads: Sequence[str] = ()
    rows: Sequence[tuple[str, Sequence[Cell]]] = field(default_factory=list)


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
    made = {"quasi": _quasi, "records": _records, "synthetic": _synthetic}[kind]
    return {
        "kind": kind,
        "blocks": [*made(section), *_candidates(document, kind)],
        "figures": table_figures(section),
        "people": _people(document["records"]),
    }


def words_of_table(document: Json) -> list[tuple[str, list[str]]]:
    """The box in plain words."""
    proven = "Nothing here is proven: every number says what these attacks found. k-anonymity is "
    proven += "a property of a table and no proof of privacy."
    return [("What was found", list(document["table"]["words"])), ("Proof", [proven])]


def _text(text: str) -> Cell:
    return Cell("estimate", text)


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
        ("Marketer: rows that a linkage of everybody gets right", _value(found["marketer"])),
        ("Alone in their class", _value(found["unique"])),
        *((f"In classes below {k}", _value(one)) for k, one in found["below"].items()),
    ]
    if "journalist" in section:
        told = section["journalist"]
        rows += [
            ("Journalist: highest chance against the population table", fixed(told["highest"], 4)),
            ("Journalist: mean chance", _value(told["mean"])),
            ("Unique in the population table too", _value(told["unique"])),
        ]
    if population := section.get("population"):
        if "refused" in population:
            rows.append(("Unique in the population", str(_rate(population))))
        else:
            said = f"estimate, {population['model']} model, {grouped(population['people'])} people"
            rows += [
                (
                    f"Unique rows that are unique in the population ({said})",
                    str(_rate(population["of_uniques"])),
                ),
                (
                    "Rows that are unique in the population (same estimate)",
                    str(_rate(population["of_rows"])),
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
        (f"{j} ruled out", [_rate(told["certain"][j]), _rate(told["guessed"][j])])
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
            ("Guessed right without the classes", _value(told["blind"])),
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
        (", ".join(one["columns"]), [_text(m), _rate(one["unique"])])
        for m, listed in found["subsets"].items()
        for one in listed[:5]
    ]
    return Block(
        "Which few columns single people out",
        ["The five worst sets of each size, of all that there are."],
        [
            (f"Singled out by some {m} column(s) or fewer", _value(one))
            for m, one in found["singled_out"].items()
        ],
        ("Columns", "How many", "Rows that are unique"),
        rows,
    )


def _records(section: Json) -> list[Block]:
    phi = section["phi"]
    rows = [
        (
            one["name"],
            [
                _text(grouped(one["targets"])),
                _rate(one["top_1"]),
                _rate(one["match"]),
                _rate(one["precision"]),
                _rate(one["abstention"]),
                _rate(one["false_match"]),
                score(one["bits"]["gained"]),
            ],
        )
        for one in section["adversaries"]
    ]
    published = [
        (f"{one['facts']} facts", [_text(f"{one['days']} days"), _text(fixed(one["top_1"], 3))])
        for one in section["published"]
    ]
    blocks = [
        Block(
            "Simulated adversaries",
            [
                "Each knows a few facts of a person, some of them wrong, and scores every record "
                f"(Scoreboard-RH). Top-1 is the best guess without any threshold; at eccentricity "
                f"{phi:g} an answer is given only where one record stands out. False matches are "
                "records named for people who were taken out of the release. Facts are drawn from "
                "the release at random.",
                f"There are {section['people']:,} people here. Fewer people, and items that few of "
                "them have, make right facts tell more, and wrong facts mislead more, than in the "
                "published attack on 480,189 people.",
            ],
            (),
            (
                "Known",
                "People",
                "Top-1",
                f"Named rightly, {phi:g}",
                "Answers that are right",
                "No answer",
                "Not in it, yet named",
                "Bits gained",
            ),
            rows,
        ),
        Block(
            "For comparison: published, Netflix Prize, 480,189 people",
            ["Best guess right, in an independent reproduction; 6 of 8 means 2 of 8 are wrong."],
            (),
            ("Known", "Dates within", "Top-1"),
            published,
        ),
    ]
    if section["auxiliary"] is not None:
        blocks.append(_auxiliary(section["auxiliary"]))
    return blocks


def _auxiliary(found: Json) -> Block:
    points = found["curve"]
    known = found["known_pairs"]
    told = [
        ("Auxiliary table", found["name"]),
        ("People looked for", grouped(found["people"])),
        ("Items in both", grouped(found["shared_items"])),
        ("People with a fact about such an item", grouped(found["people_with_a_shared_item"])),
        ("People known to be in both", "not told" if known is None else grouped(known)),
    ]
    if found["clear"] is not None:
        clear = found["clear"]
        label = (
            f"Known pairs beyond eccentricity {clear['eccentricity']:.3g}, where nobody is wrong"
        )
        told.append((label, f"{grouped(clear['known_pairs'])} (a limit found afterwards)"))
    if points is None:
        rows = [(f"{one['phi']:g}", [_rate(one["share"])]) for one in found["answered"]]
        return Block("A real auxiliary table", (), told, ("Eccentricity", "A record named"), rows)
    keys = ("recall", "precision", "wrong", "false_match")
    return Block(
        "A real auxiliary table",
        ["People who are not known to be in both are taken as outside the release."],
        told,
        (
            "Eccentricity",
            "Known pairs named rightly",
            "Answers that are right",
            "Known pairs named wrongly",
            "Not in it, yet named",
        ),
        [(f"{point['phi']:g}", [_rate(point[key]) for key in keys]) for point in points],
    )


def _synthetic(section: Json) -> list[Block]:
    heads = ("Attack", "Original", "Control", "Blind", "Excess", "Beats the blind guess")
    return [
        Block(
            "Attacks on the synthetic rows",
            [
                "Excess is (original - control) / (1 - control): what is known of the original "
                "people beyond what is known of anybody. 0 is nothing."
            ],
            facts(section["rows"]),
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
            one["name"],
            [
                *(_rate(one[key]) for key in ("main", "control", "baseline", "excess")),
                _text("yes" if one["works"] else "no"),
            ],
        )
        for one in attacks
    ]


def _candidates(document: Json, kind: str) -> list[Block]:
    """What the candidates change beside risk and utility."""
    listed = document["candidates"]
    if kind == "quasi":
        secret = document["table"]["sensitive"]
        heads = ["Candidate", "k", "Rows released", "Unique", "Risk changed by"]
        heads += [f"{secret} certain", "Best guess is right", "t"] if secret else []
        rows = [
            (
                one["name"],
                [
                    _text(grouped(one["k"])),
                    _text(grouped(one["released"])),
                    _rate(one["unique"]),
                    _rate(one["risk_change"]),
                    *(
                        [_rate(one["certain"]), _rate(one["guessed"]), _text(fixed(one["t"], 4))]
                        if secret
                        else []
                    ),
                ],
            )
            for one in listed
        ]
        words = ["k is met and a sensitive value can still be certain: compare the columns."]
        return [Block("After each mitigation", words if secret else (), (), heads, rows)]
    if kind == "records":
        heads = [
            "Candidate",
            "Facts",
            "People",
            "Top-1",
            "Changed by",
            "Named rightly",
            "False match",
        ]
        rows = [
            (
                one["name"],
                [
                    _text(grouped(one["facts"])),
                    _text(grouped(one["people"])),
                    _rate(one["risk"]),
                    _rate(one["risk_change"]),
                    _rate(one["match"]),
                    _rate(one["false_match"]),
                ],
            )
            for one in listed
        ]
        words = ["The same people are looked for, with the same facts known of them."]
        return [Block("After each mitigation", words, (), heads, rows)]
    return []


def _rate(one: Json | None) -> Cell:
    """A share; without its interval where that is the share itself, for it was counted."""
    if one is None or "refused" in one or not one["low"] == one["value"] == one["high"]:
        return rate(one)
    return _text(_value(one))


def _value(one: Json) -> str:
    """A share that was counted, without an interval of no width."""
    return measured({**one, "low": None, "high": None}, 4).value


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
