"""What the page shows of the candidates of an audit of rows, beside risk and utility."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.report.blocks import Block, Json, share_cell, text_cell
from lethe.report.numbers import fixed, grouped

_NONE = "–"


def candidate_blocks(document: Json, kind: str) -> list[Block]:
    """What each release changes, and what could not be tried."""
    made = {"quasi": _quasi, "records": _records}.get(kind)
    return [*([made(document)] if made else []), *_skipped(document["frontier"])]


def _quasi(document: Json) -> Block:
    listed, secret = document["candidates"], document["table"]["sensitive"]
    population = any("journalist" in one for one in listed)
    heads = ["Candidate", "k", "Rows released", "Unique", "Risk changed by"]
    heads += ["Journalist: highest", "Journalist: mean"] if population else []
    heads += [f"{secret} certain", "Best guess is right", "t"] if secret else []
    rows = []
    for one in listed:
        cells = [
            text_cell(grouped(one["k"])),
            text_cell(grouped(one["released"])),
            share_cell(one["unique"]),
            share_cell(one["risk_change"]),
        ]
        if population:
            cells += [share_cell(one.get(key)) for key in ("journalist", "population_marketer")]
        if secret:
            cells += [share_cell(one["certain"]), share_cell(one["guessed"])]
            cells.append(text_cell(_NONE if one.get("t") is None else fixed(one["t"], 4)))
        rows.append((one["name"], cells))
    words = []
    if secret:
        words.append("k is met and a sensitive value can still be certain: compare the columns.")
    if population:
        words.append(
            "Journalist: against the population table, in the classes as they are released."
        )
    if any(one["guarantee"]["proven"] for one in listed):
        words.append(
            "Synthetic rows are nobody's: k, unique and certain speak of the table's classes that "
            "synthetic rows agree with, by chance too, so they are upper limits; certain also "
            "needs the value to be right. Rows released are synthetic ones."
        )
    return Block("After each mitigation", words, (), heads, rows)


def _records(document: Json) -> Block:
    listed = document["candidates"]
    heads = [
        "Candidate",
        "Facts",
        "People",
        "Records",
        "Top-1",
        "Changed by",
        "Facts exposed",
        "Where right",
        "Named rightly",
        "False match",
    ]
    rows = [
        (
            one["name"],
            [
                text_cell(grouped(one["facts"])),
                text_cell(grouped(one["people"])),
                text_cell(grouped(one["records"])),
                share_cell(one["risk"]),
                share_cell(one["risk_change"]),
                share_cell(one["exposed"]),
                text_cell(_share(one, "exposed_where_right")),
                share_cell(one["match"]),
                share_cell(one["false_match"]),
            ],
        )
        for one in listed
    ]
    words = [
        "The same people are looked for, with the same facts known of them. A person may have "
        "several records, under pseudonyms; any of them is right. Facts exposed is the share of a "
        "person's facts that lie in the record the best guess rightly names, 0 where it is wrong: "
        "the mean over all people looked for, and where it is right."
    ]
    return Block("After each mitigation", words, (), heads, rows)


def _share(one: Mapping[str, Any], key: str) -> str:
    return _NONE if one[key] is None else fixed(one[key], 4)


def _skipped(frontier: Json) -> list[Block]:
    rows = [(one["name"], [text_cell(one["why"])]) for one in frontier.get("skipped") or ()]
    return [Block("Not measured", (), (), ("What", "Why"), rows)] if rows else []
