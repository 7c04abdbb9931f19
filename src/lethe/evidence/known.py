"""A baseline file: failures that are known, so that a gate stops only what is new or worse."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lethe.errors import InputError
from lethe.evidence.derive import measured_of
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.gate import Judged
from lethe.evidence.rules import FAIL, PASS
from lethe.files import write_whole

FORMAT = "lethe-baseline/1"
Key = tuple[str, str, str, str]
_BAD = {PASS: 0, FAIL: 2}


def write_baseline(path: Path, judged: Sequence[Judged]) -> None:
    """Write down where every rule stands now."""
    entries = [
        {key: value for key, value in one.to_json().items() if key in _KEPT} for one in judged
    ]
    text = json.dumps({"format": FORMAT, "rules": entries}, indent=1, ensure_ascii=False)
    write_whole(path, (text + "\n").encode())


_KEPT = ("subject", "release", "candidate", "rule", "outcome", "evidence")


def read_baseline(path: Path) -> dict[Key, Mapping[str, Any]]:
    """The entries of a baseline file by subject, release, candidate and rule.

    Raises:
        InputError: it cannot be read, or is none.
    """
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a baseline: {error}.") from error
    whole = isinstance(document, dict) and document.get("format") == FORMAT
    entries = document.get("rules") if whole else None
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise InputError(f"{path} is no baseline of this version; write one: --write-baseline.")
    return {(e["subject"], e["release"], e["candidate"], e["rule"]): e for e in entries}


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and set(_KEPT) <= set(entry)


def compare(judged: Sequence[Judged], before: Mapping[Key, Mapping[str, Any]]) -> list[Judged]:
    """The outcomes against a baseline.

    A rule that stands in the baseline passes where it did no better then, unless its metric has
    got worse beyond both intervals; it fails where its metric has, even if its limit still
    holds. A rule that does not stand there is judged as it is.
    """
    return [_against(one, before.get(_key(one))) for one in judged]


def _key(one: Judged) -> Key:
    return one.subject, one.kind, one.candidate, str(one.rule)


def _against(one: Judged, entry: Mapping[str, Any] | None) -> Judged:
    if entry is None:
        return replace(one, note="not in the baseline file")
    then = measured_of(entry["evidence"])
    if got_worse(then, one.evidence):
        note = f"worse than in the baseline file, {then}, beyond both intervals"
        return replace(one, outcome=FAIL, note=note)
    if one.outcome != PASS and _BAD.get(one.outcome, 1) <= _BAD.get(entry["outcome"], 1):
        note = f"{one.outcome}, as is known: {then} in the baseline file"
        return replace(one, outcome=PASS, note=note)
    return one


def got_worse(then: Measured | None, now: Measured | None) -> bool:
    """Whether a metric rose beyond both intervals: its lower limit above the upper one of then.

    Limits that are proven, without an estimate, are compared as they are. False where a limit
    is missing.

    >>> a = Estimate(0.10, 0.08, 0.12, 0.95, "", 100)
    >>> b = Estimate(0.15, 0.13, 0.17, 0.95, "", 100)
    >>> got_worse(a, b), got_worse(b, a), got_worse(a, a)
    (True, False, False)
    """
    if not isinstance(then, Estimate) or not isinstance(now, Estimate) or then.high is None:
        return False
    both_proven = then.value is then.low is None and now.value is now.low is None
    low = now.high if both_proven else now.low
    return low is not None and low > then.high and not math.isclose(low, then.high, rel_tol=1e-6)
