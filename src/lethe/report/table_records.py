"""What the page shows of sparse records."""

from __future__ import annotations

from lethe.report.blocks import Block, Json, share_cell, text_cell
from lethe.report.numbers import Cell, fixed, grouped, percent, score


def record_blocks(section: Json) -> list[Block]:
    """Simulated adversaries, thresholds, worst facts and a real auxiliary table."""
    phi = section["phi"]
    rows = [
        (
            one["name"],
            [
                text_cell(one["attacker"]),
                text_cell(grouped(one["targets"])),
                share_cell(one["top_1"]),
                share_cell(one["match"]),
                share_cell(one["precision"]),
                share_cell(one["abstention"]),
                share_cell(one["false_match"]),
                text_cell("–") if one["bits"] is None else score(one["bits"]["gained"]),
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
                "Each knows a few facts of a person, some of them wrong, and scores every record: "
                "by the number of facts that fit (fitting), by the sum of similarities "
                "(scoreboard-rh), or, where no fact is wrong, by the smallest of them "
                "(scoreboard). Top-1 is the best guess without any threshold; at eccentricity "
                f"{phi:g} an answer is given only where one record stands out, and by fitting only "
                "where every fact fits that can be right. False matches are records named for the "
                "same people, taken out of the release. Facts are drawn from the release at "
                "random. All shares named rightly have limits that hold at once.",
                f"There are {section['people']:,} people here. Fewer people, and items that few of "
                "them have, make right facts tell more, and wrong facts mislead more, than in the "
                "published attack on 480,189 people.",
            ],
            (),
            (
                "Known",
                "Attacker",
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
        blocks += _auxiliary(section["auxiliary"])
    return blocks


def _calibrated(section: Json) -> Block:
    rate = percent(section["false_matches"])
    rows = []
    for one in section["adversaries"]:
        found = one["calibrated"]
        if "refused" not in found:
            cells = [share_cell(found[key]) for key in ("match", "abstention", "false_match")]
            first = [text_cell(one["attacker"]), text_cell(f"{found['phi']:.3g}")]
            rows.append((one["name"], [*first, *cells]))
    text = (
        "How far does a record stand out for people who are not in the release? Those looked for "
        "were looked for again without their own records, and the threshold is where a record is "
        f"named for at most {rate} of such people, in expectation, by all attackers together."
    )
    refused = {one["calibrated"].get("refused") for one in section["adversaries"]} - {None}
    heads = ("Known", "Attacker", "Threshold", "Named rightly", "No answer", "Not in it, yet named")
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


def _auxiliary(found: Json) -> list[Block]:
    known = found["known_pairs"]
    lines = [
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
        lines.append((label, f"{grouped(clear['known_pairs'])} (a limit found afterwards)"))
    words = [
        "Each attacker answers from its threshold on, at which all of them together are expected "
        "to name a record for few people who are not in the release. Who was named as whom is "
        "personal data and stands in no report; --keep-records keeps it."
    ]
    if known is not None:
        words.append("People who are not known to be in both are taken as outside the release.")
    rows = [
        (
            attacker["name"],
            [text_cell(_phi(attacker["calibrated"])), *_answers(attacker["sure"])],
        )
        for attacker in found["attackers"]
    ]
    if found["together"] is not None:
        rows.append(("all together", [text_cell("–"), *_answers(found["together"])]))
    rows += [
        (f"{attacker['name']}, for comparison", [text_cell("1.5"), *_answers(attacker["compared"])])
        for attacker in found["attackers"]
    ]
    heads = ("Attacker", "Threshold", "A record named", "Known pairs, rightly", "Others, named")
    blocks = [Block("A real auxiliary table", words, lines, heads, rows)]
    title = "The same at every eccentricity, Scoreboard-RH"
    if found["curve"] is None:
        answered = [(f"{one['phi']:g}", [share_cell(one["share"])]) for one in found["answered"]]
        return [*blocks, Block(title, (), (), ("Eccentricity", "A record named"), answered)]
    keys = ("recall", "precision", "wrong", "false_match")
    heads = (
        "Eccentricity",
        "Known pairs named rightly",
        "Answers that are right",
        "Known pairs named wrongly",
        "Not in it, yet named",
    )
    points = [
        (f"{point['phi']:g}", [share_cell(point[key]) for key in keys]) for point in found["curve"]
    ]
    return [*blocks, Block(title, (), (), heads, points)]


def _phi(calibrated: Json) -> str:
    return calibrated["refused"] if "refused" in calibrated else f"{calibrated['phi']:.3g}"


def _answers(found: Json | None) -> list[Cell]:
    """Counts and shares: a record named, known pairs rightly, others named."""
    if found is None:
        return [text_cell("silent")] * 3
    counts = found["counts"]
    parts = (("named", "people"), ("right", "pairs"), ("others_named", "others"))
    return [
        text_cell("not told")
        if counts[count] is None
        else text_cell(f"{grouped(counts[count])} of {grouped(counts[total])}")
        for count, total in parts
    ]
