"""Every number on the page comes from the findings, the manifest, or a sentence of ours."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import numpy as np
import pytest
from documents import KINDS, MANIFEST, document, page_of

from lethe.evidence.estimate import rounded_up
from lethe.report.catalogue import catalogue

_NUMBER = re.compile(r"(?<![\w.])[−-]?\d[\d,]*(?:\.\d+)?(?:e[−-]?\d+)?")


def tokens(text: str) -> list[str]:
    return _NUMBER.findall(text)


def value_of(token: str) -> float:
    return float(token.replace("−", "-").replace(",", ""))


def step_of(token: str) -> float:
    """The place value of the last digit that is printed."""
    mantissa, _, power = token.replace("−", "-").replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(10.0 ** (int(power or 0) - decimals))


def numbers(value: Any) -> Iterator[float]:
    """All numbers of a document: values, those within texts and names, and lengths of lists."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(key)
            yield from numbers(item)
        yield len(value)
    elif isinstance(value, list):
        yield len(value)
        for item in value:
            yield from numbers(item)
    elif isinstance(value, str):
        yield from (value_of(token) for token in tokens(value))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)


def shown(page: str) -> str:
    """What a reader sees, without the axes of charts and what scripts and styles hold."""
    page = re.sub(r"<(script|style|title)\b.*?</\1>|<svg\b.*?</svg>", " ", page, flags=re.S)
    return unescape(re.sub(r"<[^>]*>", " ", page))


def derived(plain: dict[str, Any]) -> Iterator[float]:
    """What the page computes from the document, each by a rule that its words name."""
    statuses = [check["status"] for check in plain["checks"]]
    yield from (statuses.count(status) for status in ("pass", "warn", "fail"))
    yield len(statuses) - statuses.count("pass")
    outcomes = [rule["outcome"] for rule in plain["rules"]]
    yield from map(outcomes.count, set(outcomes))
    for rule in plain["rules"]:  # how far limit and measured value lie apart
        limit = value_of(tokens(rule["rule"])[-1])
        for end in ("low", "high"):
            measured = (rule["evidence"] or {}).get(end)
            if measured:
                yield from (limit - measured, limit / measured)
    yield len(plain["candidates"]) - 1  # options beside the baseline
    yield len(plain["limits"]) + 2  # two limits are ours
    for source in (one.get("risk_from") or {} for one in plain["candidates"]):
        yield sum(one["valid"] and one["powered"] for one in source.get("results", ()))
    yield len({x["candidate"] for x in plain["guarantees"] if x["guarantee"]["proven"]})
    yield len({x["candidate"] for x in plain["guarantees"]})
    people = plain["data"].get("people_in_the_attack") or plain["data"].get("people")
    rows = (plain.get("table") or {}).get("rows")
    for n in (people, rows):
        if isinstance(n, int):
            yield 1 / n  # a random guess
    if ledger := (plain.get("queries") or {}).get("ledger"):
        yield ledger["spent"]["units"] / ledger["budget"]["units"]
    claimed = [ledger[key]["amount"] for key in ("spent", "budget")] if ledger else []
    if mechanism := (plain.get("queries") or {}).get("mechanism"):
        claimed.append(mechanism["claim"]["value"])
    for claim in plain["guarantees"]:  # a proven share is rounded up, to two digits or three
        share = 100 * claim["guarantee"]["parameters"].get("success", 0.0)
        places = 10.0 ** -np.floor(np.log10(share or 1.0))
        yield from (np.ceil(share * places * step) / step / places for step in (10, 100))
    for epsilon in claimed:  # what epsilon allows, Kairouz, Oh and Viswanath 2015
        for fpr in (0.001, 0.01, 0.1):
            most = min(np.exp(epsilon) * fpr, 1 - np.exp(-epsilon) * (1 - fpr))
            yield from (rounded_up(most, digits) for digits in (2, 3))  # never rounded down
    yield 85  # seconds between start and end in the manifest


def without_source(html: str, plain: dict[str, Any]) -> list[str]:
    ours = {value_of(token) for token in tokens(json.dumps(catalogue(), ensure_ascii=False))}
    known = np.array([*numbers(plain), *numbers(MANIFEST), *derived(plain)])
    known = np.abs(known[np.isfinite(known)])
    known = np.unique(np.concatenate([known, 100 * known]))
    ours |= {float(number) for number in range(1, 21)}  # the twenty fields are numbered
    ours |= {float(html.split('id="reproduction"')[0].count('class="absent"'))}
    return [
        token
        for token in sorted(set(tokens(shown(html))))
        for value in [abs(value_of(token))]
        if value not in ours
        and np.abs(known - value).min() > 0.5001 * step_of(token) + 1e-9 * value
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_a_source(kind: str) -> None:
    assert without_source(page_of(kind), document(kind)) == []


def test_a_number_that_was_changed_is_found() -> None:
    html = page_of("table")
    assert "81.7 %" in html
    assert without_source(html.replace("81.7 %", "81.3 %"), document("table")) == ["81.3"]
