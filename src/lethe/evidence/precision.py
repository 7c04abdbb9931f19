"""How narrow an interval must be: the rules on a width, absolute or relative to the value.

``width(METRIC[@FPR]) <= X`` asks for limits at most X apart, ``METRIC[@FPR] within X`` for at most
2 X (the value plus or minus X), and ``METRIC[@FPR] within X%`` for at most 2 X percent of the
value itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.rules import Rule, parse_rule

_WITHIN = re.compile(r"^(?P<left>.*\S)\s+within\s+(?P<limit>[^\s%]+)\s*(?P<percent>%?)\s*$")
_WIDTH = re.compile(r"^(?P<left>\s*width\(.*\))\s*<=?\s*(?P<limit>[^<=]\S*)\s*$")


@dataclass(frozen=True)
class Precision:
    """A width that is asked for.

    Attributes:
        rule: the metric; its `limit` is the width, or the width as a share of the value.
        relative: whether `limit` is a share of the value.
    """

    rule: Rule
    relative: bool = False

    def allowed(self, value: float | None) -> float | None:
        """The widest interval that is narrow enough around a value; None without a value."""
        if not self.relative:
            return self.rule.limit
        return None if value is None else self.rule.limit * abs(value)

    def met(self, measured: Measured | None) -> bool:
        """Whether an interval is narrow enough; what could not be measured is not."""
        if not isinstance(measured, Estimate) or measured.width is None:
            return False
        allowed = self.allowed(measured.value)
        return allowed is not None and measured.width <= allowed

    def __str__(self) -> str:
        if self.relative:
            return f"{self.rule.quantity} within {50 * self.rule.limit:g}%"
        return str(self.rule)


def parse_precision(text: str) -> Precision:
    """Read a width that is asked for.

    Raises:
        InputError: not of one of the three forms, a limit that is not above 0, or a rule on a
            value: that is a verdict, and to stop on a verdict is to choose it.

    >>> str(parse_precision("width(tpr@0.01) < 0.01"))
    'width(tpr@0.01) <= 0.01'
    >>> str(parse_precision("tpr@0.001 within 20%"))
    'tpr@0.001 within 20%'
    """
    within, width = _WITHIN.match(text), _WIDTH.match(text)
    if within:
        rule = parse_rule(f"width({within['left']}) <= {within['limit']}")
        relative = bool(within["percent"])
        limit = 2 * rule.limit / (100 if relative else 1)
        found = Precision(Rule(rule.metric, rule.fpr, limit, True), relative)
    elif width:
        found = Precision(parse_rule(f"{width['left']} <= {width['limit']}"))
    else:
        _refuse(text)
    if found.rule.limit <= 0:
        raise InputError(f"{text!r}: no interval is that narrow; ask for more than 0.")
    if found.rule.metric == "utility-loss":
        raise InputError(
            f"{text!r}: the plain model, which is measured first, has no utility loss. Ask for "
            "the width of tpr, tau, auc or top-t."
        )
    return found


def _refuse(text: str) -> NoReturn:
    rule = re.sub(r"<(?!=)", "<=", text)
    if "width" not in rule and "<=" in rule:
        metric = parse_rule(rule).quantity
        raise InputError(
            f"{text!r} is a verdict, not a width. Stopping as soon as a verdict looks good makes "
            "it wrong far more often than its interval says (25 % instead of 5 % in simulation); "
            f"stopping on a width does not. Ask for 'width({metric})<=0.01' and judge with --gate."
        )
    raise InputError(
        f"{text!r} is not of the form width(METRIC[@FPR]) <= X, METRIC[@FPR] within X or "
        "METRIC[@FPR] within X%, for example 'width(tpr@0.01)<=0.01' or 'tpr@0.001 within 20%'."
    )
