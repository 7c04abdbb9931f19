"""Decision rules, one grammar for `--rule`, `--until` and `[rules]`.

``METRIC[@FPR] <= X`` or ``width(METRIC[@FPR]) <= X``. A rule passes when the *upper* limit
meets it, fails when the *lower* limit breaks it, and otherwise there is not enough evidence. Of
metrics where more is safer (`AT_LEAST`) the rule is ``METRIC >= X``, and the limits change places.
Rates and the AUC of a model, and shares of people in a table, may be asked of a group,
``tpr@0.01[class=8] <= 0.1``, or of the worst one, ``unique[every sex] <= 0.2``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from lethe.errors import InputError, check_between, did_you_mean
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.plain import short

# Numbers counted in a ledger of answers, for rules on it.

CONFIDENCE = 0.95


def counted(ledger: Mapping[str, Any]) -> dict[str, Estimate]:
    """The `QUERY_METRICS` of the section ``ledger`` of findings; both limits are the value.

    Args:
        ledger: with budget, spent, queries, raises and entries.
    """
    spent = ledger["spent"]
    numbers = {
        "spent": spent["amount"],
        "share": spent["units"] / ledger["budget"]["units"],
        "delta": spent["delta"],
        "queries": float(ledger["queries"]),
        "raises": float(len(ledger["raises"])),
    }
    method, entries = "counted in the ledger; n is its entries", ledger["entries"]
    return {
        name: Estimate(value, value, value, CONFIDENCE, method, entries)
        for name, value in numbers.items()
    }


METRICS = {
    "tpr": "training records recognised by the strongest attack",
    "tau": "ln(TPR/FPR) of the strongest attack",
    "auc": "share of pairs that the strongest attack distinguishes (AUC)",
    "top-t": "mean exposure t of the most exposed 1 % of records",
    "estimated": "true positive rate that 64 shadow models would reach, where one model is given",
    "utility-loss": "utility (accuracy, or R²) lost against the baseline",
}
EMBEDDING_METRICS = {
    "lift": "people identified by the strongest attacker, as a multiple of chance",
    "top-1": "share of vectors or people that the strongest attacker identifies",
    "bound": "upper limit on Top-1 of every attacker who sees one released vector",
    "eer": "equal error rate of the strongest verification",
    "min-cllr": "least Cllr of the strongest verification",
    "d-sys": "system linkability of the strongest verification",
    "disclosure": "ZEBRA's expected disclosure of the strongest verification, bits",
    "attribute-gain": "what the strongest attack on an attribute gains over a guess",
    "utility-loss": "utility (AUC, or accuracy) lost against the baseline",
}
TABLE_METRICS = {
    "prosecutor": "highest chance to find the row of a person who is in the table, 1 / k",
    "marketer": "share of rows that a linkage of everybody gets right",
    "journalist": "highest chance to find a released row's person in the population table",
    "unique": "share of rows that are alone with their quasi-identifiers",
    "certain": "share of rows whose sensitive value the quasi-identifiers reveal for certain",
    "guessed": "share of rows whose sensitive value the best guess from their class gets right",
    "t": "largest distance of the sensitive values of a class from those of the table",
    "utility-loss": "utility lost against the table as it is",
}
RECORD_METRICS = {
    "top-1": "share of people whose record the best guess names rightly",
    "match": "share of people whose record is named rightly beyond the threshold",
    "exposed": "share of a person's facts in the record that is named (theirs, or alike), mean",
    "false-match": "share of people outside the release for whom a record is named",
    "utility-loss": "utility lost against the records as they are",
}
SYNTHETIC_METRICS = {
    "singling-out": "excess of the singling-out attacks over their control",
    "linkability": "excess of the linkability attack over its control",
    "inference": "excess of the attribute inference attack over its control",
    "identical": "excess of rows that are identical to a released one over the control",
    "closest": "excess of original rows that lie nearer to the released ones than control rows do",
    "excess": "excess of the strongest of all attacks over its control",
}
MECHANISM_METRICS = {
    "epsilon-lower": "lower confidence limit on epsilon",
    "rho-lower": "lower confidence limit on rho of zero-concentrated DP",
    "mu-lower": "lower confidence limit on mu of Gaussian DP",
    "reuse": "rank correlation of successive answers",
}
LANGUAGE_METRICS = {
    "tpr": "training texts recognised by the strongest attack",
    "auc": "share of pairs that the strongest attack distinguishes (AUC)",
    "extraction": "share of training texts that are extracted, and not from the base model",
    "epsilon-lower": "lower confidence limit on epsilon, from canaries that stand once",
    "utility-loss": "held-out log-probability a token lost against the baseline, in nats",
}
QUERY_METRICS = {
    "spent": "what was spent, in the budget's currency: epsilon, rho or mu squared",
    "share": "share of the budget that was spent",
    "delta": "delta that was spent",
    "queries": "answers that were paid for",
    "raises": "how often the budget was raised",
}
METRICS_OF = {
    "model": METRICS,
    "embeddings": EMBEDDING_METRICS,
    "table/quasi": TABLE_METRICS,
    "table/records": RECORD_METRICS,
    "table/synthetic": SYNTHETIC_METRICS,
    "queries": QUERY_METRICS,
    "language-model": LANGUAGE_METRICS,
}
"""The metrics of each kind of audit; that of a mechanism has `MECHANISM_METRICS`."""
AT_FPR = ("tpr", "tau", "estimated")
BY_GROUP = ("tpr", "auc")
"""Metrics that rules may ask of a group of records."""
PEOPLE_BY_GROUP = ("marketer", "unique", "certain", "guessed")
"""Metrics that rules may ask of a group of people in a table."""
_CHANCE = {"auc": 0.5, "tau": 0.0, "lift": 1.0, "eer": 0.5, "min-cllr": 1.0}
"""What a random guess reaches, whatever was audited; of tpr it is the FPR itself."""
AT_LEAST = ("eer", "min-cllr")
"""Metrics of which more is safer: their rules read ``>=``."""
SHARES = (
    *("tpr", "estimated", "auc", "top-1", "match", "exposed"),
    *("false-match", "extraction", "bound", "eer"),
    *(name for name in (*TABLE_METRICS, *SYNTHETIC_METRICS) if name != "utility-loss"),
)
"""Metrics that are shares: a limit above 1 was meant in percent."""
PASS, FAIL, UNDECIDED, NOT_TESTED = "pass", "fail", "not-enough-evidence", "not-tested"

_RULE = re.compile(
    r"^\s*(?P<width>width\()?\s*(?P<metric>[a-z][a-z0-9-]*)\s*(?:@\s*(?P<fpr>[^\s)<\[]+))?\s*"
    r"(?:\[(?P<group>[^\]]+)\])?\s*"
    r"(?P<close>\))?\s*(?P<sign>[<>]=)\s*(?P<limit>\S+)\s*$"
)


@dataclass(frozen=True)
class Rule:
    """A decision rule, fixed before the run."""

    metric: str
    fpr: float | None
    limit: float
    on_width: bool = False
    group: str = ""  # ``class=8``, or ``every class`` for the worst; empty for all records

    @property
    def at_least(self) -> bool:
        """Whether the metric must stay above the limit, not below."""
        return self.metric in AT_LEAST and not self.on_width

    @property
    def quantity(self) -> str:
        """The metric as written in a rule, such as ``tpr@0.001`` or ``auc[class=8]``."""
        rate = "" if self.fpr is None else f"@{short(self.fpr)}"
        if self.metric == "estimated":
            return f"estimated(tpr{rate})"
        return f"{self.metric}{rate}{f'[{self.group}]' if self.group else ''}"

    def to_json(self) -> str:
        """Write the rule as its text."""
        return str(self)

    def __str__(self) -> str:
        left = f"width({self.quantity})" if self.on_width else self.quantity
        return f"{left} {'>=' if self.at_least else '<='} {short(self.limit)}"


@dataclass(frozen=True)
class Ruling:
    """The outcome of a rule on a candidate, with its evidence."""

    rule: Rule
    candidate: str
    outcome: str
    evidence: Measured | None
    reason: str = ""  # why it does not pass although the number meets it, and the way out


def _number(text: str, what: str, rule: str) -> float:
    try:
        return float(text)
    except ValueError:
        way_out = " Write a share, such as 0.05 for 5 %." * text.endswith("%")
        raise InputError(f"{what} {text!r} in rule {rule!r} is not a number.{way_out}") from None


def parse_rule(text: str, metrics: Mapping[str, str] = METRICS) -> Rule:
    """Read one rule.

    Args:
        metrics: those that the audit measures: `METRICS`, `EMBEDDING_METRICS`, ...

    Raises InputError: not of the grammar, an unknown metric, a missing or needless FPR, or a limit
    below chance.

    >>> str(parse_rule("tpr@0.001<=0.05"))
    'tpr@0.001 <= 0.05'
    """
    match = _RULE.match(re.sub(r"estimated\(\s*tpr\s*(@[^)]*)\)", r"estimated\1", text))
    if not match or bool(match["width"]) != bool(match["close"]):
        raise InputError(
            f"rule {text!r} is not of the form METRIC[@FPR] <= X or width(METRIC[@FPR]) <= X, "
            "for example 'tpr@0.001 <= 0.05'."
        )
    metric = match["metric"]
    if metric not in metrics:
        raise InputError(
            f"rule {text!r} names the unknown metric {metric!r}."
            f"{did_you_mean(metric, metrics)} Metrics: {', '.join(metrics)}."
        )
    fpr = None if match["fpr"] is None else _number(match["fpr"], "FPR", text)
    if (metric in AT_FPR) != (fpr is not None):
        way_out = f"write {metric}@0.01" if metric in AT_FPR else f"write {metric} without @"
        raise InputError(f"rule {text!r}: {way_out}.")
    if fpr is not None:
        check_between("FPR of a rule", fpr, 0, 1, open_low=True, open_high=True)
        if metric == "estimated" and fpr != 0.01:
            raise InputError(f"rule {text!r}: what is estimated is tpr@0.01; write that.")
    group = re.sub(" ?= ?", "=", " ".join((match["group"] or "").split()), count=1)
    grouped = PEOPLE_BY_GROUP if metrics is TABLE_METRICS else BY_GROUP
    if group and (metrics not in (METRICS, TABLE_METRICS) or metric not in grouped):
        raise InputError(
            f"rule {text!r}: groups are measured of models, with {', '.join(BY_GROUP)}, and of "
            f"tables, with {', '.join(PEOPLE_BY_GROUP)}; leave [{group}] out."
        )
    if group and not re.match(r"every \S|[^=]+=.", group):
        raise InputError(
            f"rule {text!r}: write [COLUMN=VALUE] or [every COLUMN], such as [every class]."
        )
    limit = _number(match["limit"], "limit", text)
    sign = ">=" if metric in AT_LEAST and not match["width"] else "<="
    if match["sign"] != sign:
        safer = "more" if sign == ">=" else "less"
        raise InputError(
            f"rule {text!r}: {safer} of it is safer; write '{text.replace(match['sign'], sign)}'."
        )
    if not math.isfinite(limit):
        raise InputError(f"limit {match['limit']!r} in rule {text!r} must be finite.")
    if metric in SHARES and not match["width"] and limit > 1:
        raise InputError(
            f"limit {limit:g} of rule {text!r} lies above 1, which no share exceeds: nothing could "
            f"fail. Write {limit / 100:g} for {limit:g} %."
        )
    chance = fpr if metric in ("tpr", "estimated") else _CHANCE.get(metric)
    if metric in AT_LEAST and not match["width"]:
        if chance is not None and limit > chance:
            raise InputError(
                f"limit {limit:g} of rule {text!r} lies above what a random guess leaves, "
                f"{chance:g}: nothing could pass. Set one below it."
            )
    elif chance is not None and limit < chance and not match["width"]:
        raise InputError(
            f"limit {limit:g} of rule {text!r} lies below what a random guess reaches, "
            f"{chance:g}: nothing could pass. Set one above it."
        )
    return Rule(metric, fpr, limit, bool(match["width"]), group)


def judge(rule: Rule, evidence: Measured | None) -> str:
    """Judge a rule: pass, fail, not-enough-evidence, or not-tested without a measurement."""
    if evidence is None:
        return NOT_TESTED
    if not isinstance(evidence, Estimate):
        return UNDECIDED
    if rule.on_width:
        if evidence.width is None:
            return UNDECIDED
        return PASS if evidence.width <= rule.limit else UNDECIDED
    if rule.at_least:
        if evidence.low is not None and evidence.low >= rule.limit:
            return PASS
        broken = evidence.high is not None and evidence.high < rule.limit
        return FAIL if broken else UNDECIDED
    if evidence.high is not None and evidence.high <= rule.limit:
        return PASS
    if evidence.low is not None and evidence.low > rule.limit:
        return FAIL
    return UNDECIDED


def sample_for_rule(rule: Rule, evidence: Estimate) -> int | None:
    """Sample size that would decide a rule if the value stayed; None where none would.

    An interval narrows with the root of n. Where all or nothing was found the exact limit follows
    its own law: 1 - high = tail^(1/n), or low = tail^(1/n).

    >>> from lethe.evidence.intervals import clopper_pearson
    >>> sample_for_rule(parse_rule("top-1<=0.05", RECORD_METRICS), clopper_pearson(0, 50))
    72
    """
    value, low, high, limit = evidence.value, evidence.low, evidence.high, rule.limit
    if value is None or low is None or high is None:
        return None
    if not rule.on_width and value == low == 0 < limit < high < 1:
        return math.ceil(evidence.n * math.log1p(-high) / math.log1p(-limit) - 1e-9)
    if not rule.on_width and value == high == 1 > limit > low > 0:
        return math.ceil(evidence.n * math.log(low) / math.log(limit) - 1e-9)
    end, room = (high, limit - value) if value < limit else (low, value - limit)
    reach, room = (high - low, limit) if rule.on_width else (abs(end - value), room)
    return math.ceil(evidence.n * max(reach / room, 1.0) ** 2) if room > 0 else None


def lower_for_rule(found: Measured | None, reach: float, limit: float) -> Measured | None:
    """Let a lower limit pass a rule only if the sample could have shown a larger one.

    Args:
        found: an estimate with a lower limit alone.
        reach: the largest limit that the sample could have shown.
        limit: of the rule.

    >>> print(lower_for_rule(Estimate(None, 0.5, None, 0.95, "", 100), 3.0, 2.0))
    - [0.5, 0.5]
    """
    if not isinstance(found, Estimate) or found.low is None or reach <= limit:
        return found
    return replace(found, high=found.low)


def joint_outcome(outcomes: Iterable[str]) -> str:
    """Joint outcome: fail before not-enough-evidence before pass; not-tested without rules."""
    seen = set(outcomes)
    if FAIL in seen:
        return FAIL
    if UNDECIDED in seen or (NOT_TESTED in seen and PASS in seen):
        return UNDECIDED
    return PASS if PASS in seen else NOT_TESTED


def exit_code(outcomes: Iterable[str]) -> int:
    """0 pass or no rule, 1 fail, 3 not enough evidence, which includes rules not tested.

    >>> exit_code(["pass", "not-enough-evidence", "fail"])
    1
    """
    listed = list(outcomes)
    if FAIL in listed:
        return 1
    return 3 if any(outcome != PASS for outcome in listed) else 0


# How narrow an interval must be: the rules on a width, absolute or relative to the value.
#
# ``width(METRIC[@FPR]) <= X`` asks for limits at most X apart, ``METRIC[@FPR] within X`` for at
# most 2 X (the value plus or minus X), and ``METRIC[@FPR] within X%`` for at most 2 X percent of
# the value itself.

_WITHIN = re.compile(r"^(?P<left>.*\S)\s+within\s+(?P<limit>[^\s%]+)\s*(?P<percent>%?)\s*$")
_WIDTH = re.compile(r"^(?P<left>\s*width\(.*\))\s*<=?\s*(?P<limit>[^<=]\S*)\s*$")


@dataclass(frozen=True)
class Precision:
    """A rule on the width of an interval."""

    rule: Rule  # the metric; its `limit` is the width, or the width as a share of the value
    relative: bool = False  # whether `limit` is a share of the value

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
    """Parse a rule on a width.

    Raises InputError: not of one of the three forms, a limit that is not above 0, or a rule on a
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
        precision = Precision(Rule(rule.metric, rule.fpr, limit, True), relative)
    elif width:
        precision = Precision(parse_rule(f"{width['left']} <= {width['limit']}"))
    else:
        _refuse(text)
    if precision.rule.limit <= 0:
        raise InputError(f"{text!r}: no interval is that narrow; ask for more than 0.")
    if precision.rule.metric == "utility-loss":
        raise InputError(
            f"{text!r}: the plain model, which is measured first, has no utility loss. Ask for "
            "the width of tpr, tau, auc or top-t."
        )
    return precision


def _refuse(text: str) -> NoReturn:
    rule = re.sub(r"<(?!=)", "<=", text)
    if "width" not in rule and "<=" in rule:
        metric = parse_rule(rule).quantity
        raise InputError(
            f"{text!r} is a verdict, not a width. Stopping as soon as a verdict looks good makes "
            "it wrong far more often than its interval says (25 % instead of 5 % in simulation); "
            f"stopping on a width does not. Ask for 'width({metric})<=0.01' and judge with --rule."
        )
    raise InputError(
        f"{text!r} is not of the form width(METRIC[@FPR]) <= X, METRIC[@FPR] within X or "
        "METRIC[@FPR] within X%, for example 'width(tpr@0.01)<=0.01' or 'tpr@0.001 within 20%'."
    )
