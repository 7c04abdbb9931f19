"""What the page shows of sparse records."""

from __future__ import annotations

from lethe.report.blocks import Block, Json, share_cell, text_cell
from lethe.report.numbers import fixed, grouped, measured, percent, score


def record_blocks(section: Json) -> list[Block]:
    """Simulated adversaries, thresholds, worst facts and a real auxiliary table."""
    phi = section["phi"]
    rows = [
        (
            one["name"],
            [
                text_cell(grouped(one["targets"])),
                share_cell(one["top_1"]),
                share_cell(one["match"]),
                share_cell(one["precision"]),
                share_cell(one["abstention"]),
                share_cell(one["false_match"]),
                score(one["bits"]["gained"]),
            ],
        )
        for one in section["adversaries"]
    ]
    published = [
        (
            f"{one['facts']} facts",
            [text_cell(f"{one['days']} days"), text_cell(fixed(one["top_1"], 3))],
        )
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
    if section["false_matches"] is not None:
        blocks.append(_calibrated(section))
    if section["worst"]:
        blocks.append(_worst(section))
    if section["auxiliary"] is not None:
        blocks.append(_auxiliary(section["auxiliary"]))
    return blocks


def _calibrated(section: Json) -> Block:
    rate = percent(section["false_matches"])
    rows = []
    for one in section["adversaries"]:
        found = one["calibrated"]
        if "refused" not in found:
            cells = [share_cell(found[key]) for key in ("match", "abstention", "false_match")]
            rows.append((one["name"], [text_cell(f"{found['phi']:.3g}"), *cells]))
    text = (
        "How far does a record stand out for people who are not in the release? Those looked for "
        "were looked for again without their own records, and the threshold is where a record is "
        f"named for at most {rate} of such people, in expectation."
    )
    refused = {one["calibrated"].get("refused") for one in section["adversaries"]} - {None}
    heads = ("Known", "Threshold", "Named rightly", "No answer", "Not in it, yet named")
    return Block("A threshold for this release", [text, *sorted(refused)], (), heads, rows)


def _worst(section: Json) -> Block:
    bare = section["unicity"]
    return Block(
        "How few facts identify a person at worst",
        [
            "People for whom some set of so many of their own items is one that nobody else has "
            "all of, values and times left aside; and the same for items drawn at random.",
        ],
        (),
        ("Items known", "Those that tell most", "Drawn at random"),
        [(k, [share_cell(one), share_cell(bare.get(k))]) for k, one in section["worst"].items()],
    )


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
    told += _beyond("calibrated threshold", found["calibrated"])
    told += _beyond("each of a few facts must fit", found["fitting"])
    if points is None:
        rows = [(f"{one['phi']:g}", [share_cell(one["share"])]) for one in found["answered"]]
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
        [(f"{point['phi']:g}", [share_cell(point[key]) for key in keys]) for point in points],
    )


def _beyond(name: str, found: Json) -> list[tuple[str, str]]:
    if "refused" in found:
        return [(name.capitalize(), found["refused"])]
    if "phi" in found:
        name += f", {found['phi']:.3g}"
    labels = {
        "answered": "a record named",
        "right": "known pairs named rightly",
        "strange": "not in it, yet named",
    }
    return [
        (f"{label.capitalize()} ({name})", str(measured(found[key], 4)))
        for key, label in labels.items()
        if "refused" not in found[key]
    ]
