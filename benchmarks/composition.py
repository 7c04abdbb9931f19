"""What several private answers cost together, under every rule of composition that holds.

A budget adds up by one rule that was fixed beforehand (`lethe.queries.charge`). This file is for
display: which of the rules proves most about answers that were given. The costs must have been
fixed beforehand, answers may depend on earlier ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.special import ndtri

from lethe.errors import InputError, check_at_least, check_between, check_choice, require
from lethe.evidence.gdp import gdp_epsilon
from lethe.evidence.guarantee import Guarantee

KINDS = ("pure-dp", "approx-dp", "zcdp", "gdp")
_GRID = 1e-4  # width of the cells of a privacy loss distribution
_OUT = 1 + 1e-12
_DELTA_ROUNDING = 2.0**-52  # an answer, on delta: rounding of the Fourier transforms


@dataclass(frozen=True)
class Bound:
    """(epsilon, delta) of answers together.

    Attributes:
        epsilon: upper bound.
        delta: that it goes with.
        rule: by which it was found.
    """

    epsilon: float
    delta: float
    rule: str


def basic(parts: Sequence[Guarantee]) -> Bound:
    """Epsilons and deltas add (Dwork et al. 2006); of pure and approximate DP.

    >>> pure = Guarantee("pure-dp", {"epsilon": 0.5}, "add/remove", "record")
    >>> basic([pure] * 3).epsilon
    1.5
    """
    _check(parts, ("pure-dp", "approx-dp"))
    epsilon = math.fsum(part.parameters["epsilon"] for part in parts)
    return Bound(epsilon, math.fsum(_delta(part) for part in parts), "basic")


def advanced(parts: Sequence[Guarantee], delta: float) -> Bound:
    """sqrt(2 ln(1/d') sum e^2) + sum e (e^e - 1), at delta' more (Dwork, Rothblum, Vadhan 2010).

    For k equal ones that is e sqrt(2k ln(1/d')) + k e (e^e - 1) and k d + d'.

    Args:
        parts: pure or approximate DP.
        delta: of all together, above the sum of theirs.
    """
    _check(parts, ("pure-dp", "approx-dp"))
    spent = math.fsum(_delta(part) for part in parts)
    spare = _spare(delta, spent)
    each = [part.parameters["epsilon"] for part in parts]
    epsilon = math.sqrt(2 * math.log(1 / spare) * math.fsum(e * e for e in each))
    epsilon += math.fsum(e * math.expm1(min(e, 700.0)) for e in each)
    return Bound(epsilon * _OUT, delta, "advanced")


def zcdp_sum(parts: Sequence[Guarantee]) -> float:
    """rho of all together: it adds; epsilon of pure DP is epsilon^2/2 (Bun and Steinke 2016)."""
    _check(parts, ("pure-dp", "zcdp"))
    return math.fsum(
        p.parameters["rho"] if p.kind == "zcdp" else p.parameters["epsilon"] ** 2 / 2 for p in parts
    )


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of rho-zCDP at delta (Canonne, Kamath and Steinke 2020, corollary 13).

    The least over alpha > 1 of rho alpha + ln(1/(alpha delta))/(alpha - 1) + ln(1 - 1/alpha),
    which is below rho + 2 sqrt(rho ln(1/delta)) always.

    >>> round(zcdp_epsilon(0.5, 1e-5), 2)
    4.73
    """
    check_at_least("rho", rho, 0)
    check_between("delta", delta, 0, 1, open_low=True, open_high=True)
    if rho == 0:
        return 0.0

    def at(alpha: float) -> float:
        far = -math.log(alpha * delta) / (alpha - 1)
        return max(0.0, rho * alpha + far + math.log1p(-1 / alpha))

    middle = 1 + math.sqrt(math.log(1 / delta) / rho)
    best = min(at(1 + (middle - 1) * 1.02**i) for i in range(-150, 151))
    return min(best, rho + 2 * math.sqrt(rho * math.log(1 / delta))) * _OUT


def gdp_sum(parts: Sequence[Guarantee]) -> float:
    """mu of all together: squares add (Dong, Roth and Su 2022, corollary 2).

    An epsilon of pure DP counts as mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)).
    """
    _check(parts, ("pure-dp", "gdp"))
    return math.sqrt(math.fsum(_mu(p) ** 2 for p in parts)) * _OUT


def pld(parts: Sequence[Guarantee], delta: float, *, grid: float = _GRID) -> Bound:
    """The privacy loss distributions of all, composed numerically by dp-accounting, upwards.

    Pure DP enters as randomized response, which is its worst case (Kairouz, Oh and Viswanath
    2015), approximate DP with its delta besides, Gaussian DP as the Gaussian mechanism. For
    answers with Laplace noise see `pld_of_laplace`.

    Raises:
        InputError: zCDP, which has no single worst case, or a delta that rounding drowns.
    """
    _check(parts, ("pure-dp", "approx-dp", "gdp"))
    dp = require("dp_accounting", "dp")
    kinds = Counter((p.kind, tuple(sorted(p.parameters.items()))) for p in parts)
    losses = None
    for (kind, values), times in kinds.items():
        one = _loss(dp, kind, dict(values), grid)
        losses = _more(losses, one.self_compose(times) if times > 1 else one)
    return _read(losses, delta, len(parts), "PLD")


def pld_of_laplace(
    scales: Sequence[float], delta: float, *, sensitivity: float = 1.0, grid: float = _GRID
) -> Bound:
    """Answers with Laplace noise of these scales, each moved by `sensitivity`; as `pld`.

    Tighter than `pld`, which knows of each answer only its epsilon = sensitivity / scale.
    """
    dp = require("dp_accounting", "dp")
    losses = None
    for scale, times in Counter(scales).items():
        check_between("scale", scale, 0, math.inf, open_low=True, open_high=True)
        one = dp.pld.privacy_loss_distribution.from_laplace_mechanism(
            scale,
            sensitivity=sensitivity,
            pessimistic_estimate=True,
            value_discretization_interval=grid,
        )
        losses = _more(losses, one.self_compose(times) if times > 1 else one)
    return _read(losses, delta, len(scales), "PLD of Laplace noise")


def bounds(parts: Sequence[Guarantee], delta: float) -> tuple[Bound, ...]:
    """All bounds that hold for these answers at this delta; lower epsilons are better.

    Rules that cannot hold all kinds among `parts`, or whose delta would be above `delta`, are left
    out.
    """
    kinds = _check(parts, KINDS)
    check_between("delta", delta, 0, 1, open_low=True, open_high=True)
    found = []
    spent = math.fsum(_delta(part) for part in parts)
    if kinds <= {"pure-dp", "approx-dp"} and spent <= delta:
        found.append(replace(basic(parts), delta=delta))
        if spent < delta:
            found.append(advanced(parts, delta))
    if kinds <= {"pure-dp", "zcdp"}:
        found.append(Bound(zcdp_epsilon(zcdp_sum(parts), delta), delta, "zCDP"))
    if kinds <= {"pure-dp", "gdp"} and math.isfinite(gdp_sum(parts)):
        found.append(Bound(gdp_epsilon(gdp_sum(parts), delta) * _OUT, delta, "GDP"))
    only_gdp = kinds == {"gdp"}  # its own rule is exact
    if (
        kinds <= {"pure-dp", "approx-dp", "gdp"}
        and not only_gdp
        and _countable(parts, delta, spent)
    ):
        found.append(pld(parts, delta))
    if not found:
        raise InputError(
            f"answers of the kinds {sorted(kinds)} have no common bound at delta={delta:g}: "
            "take a larger delta, or look at each kind by itself."
        )
    return tuple(found)


def tightest(parts: Sequence[Guarantee], delta: float) -> Bound:
    """The least of `bounds`, with the name of its rule; for display, never for a ledger.

    >>> pure = Guarantee("pure-dp", {"epsilon": 0.1}, "add/remove", "record")
    >>> tightest([pure] * 100, 1e-6).rule
    'PLD'
    """
    return min(bounds(parts, delta), key=lambda bound: bound.epsilon)


def sequential(parts: Sequence[Guarantee]) -> Guarantee:
    """One guarantee of one kind for all together, by the kind's own rule."""
    kinds = _check(parts, KINDS)
    if len(kinds) > 1:
        raise InputError(f"kinds {sorted(kinds)} differ: convert them first, or see `tightest`.")
    kind = kinds.pop()
    if kind == "zcdp":
        return _of_all(parts, {"rho": zcdp_sum(parts)})
    if kind == "gdp":
        return _of_all(parts, {"mu": gdp_sum(parts)})
    both = basic(parts)
    given = {"epsilon": both.epsilon} | ({"delta": both.delta} if kind == "approx-dp" else {})
    return _of_all(parts, given)


def parallel(parts: Sequence[Guarantee]) -> Guarantee:
    """One guarantee for answers about disjoint parts of the data.

    Under add/remove a row is in one part, so all cost the largest alone. Under replace-one a row
    may leave one part and enter another: two parts change, each as if a row had gone or come. If
    each part keeps its guarantee when its number of rows changes by one too, all cost the two
    largest together: up to twice epsilon, delta and rho, or the root of two times mu.

    Assumes:
        The partition does not depend on the data, and under the unit ``user`` all rows of a person
        lie in one part.
    """
    _check(parts, KINDS)
    if len({part.kind for part in parts}) > 1:
        raise InputError("answers about parts must be of one kind to be composed in parallel.")
    taken = 1 if parts[0].relation == "add/remove" else min(2, len(parts))
    names = sorted({name for part in parts for name in part.parameters})
    tops = [sorted((p.parameters.get(n, 0.0) for p in parts), reverse=True) for n in names]
    rows = [
        _of_all(parts, {n: top[i] for n, top in zip(names, tops, strict=True)})
        for i in range(taken)
    ]
    return rows[0] if taken == 1 else sequential(rows)


def group(one: Guarantee, size: int) -> Guarantee:
    """The same promise for any `size` people at once.

    g epsilon with delta (e^(g epsilon) - 1)/(e^epsilon - 1) (Vadhan 2017, lemma 2.2), g^2 rho, or
    g mu. Holds for add/remove and for replace-one, in the relation's own steps.

    >>> pair = group(Guarantee("zcdp", {"rho": 0.1}, "add/remove", "record"), 2)
    >>> pair.parameters["rho"]
    0.4
    """
    _check([one], KINDS)
    check_at_least("size", size, 1)
    if size != int(size):
        raise InputError(f"size={size!r} must be a whole number of people.")
    given = one.parameters
    if one.kind == "zcdp":
        return replace(one, parameters={"rho": given["rho"] * size**2})
    if one.kind == "gdp":
        return replace(one, parameters={"mu": given["mu"] * size})
    epsilon = given["epsilon"]
    if one.kind == "pure-dp":
        return replace(one, parameters={"epsilon": epsilon * size})
    if epsilon == 0:
        more = float(size)
    elif epsilon * size < 700:
        more = math.expm1(epsilon * size) / math.expm1(epsilon)
    else:
        more = math.inf
    delta = min(1.0, given["delta"] * more) if given["delta"] > 0 else 0.0
    return replace(one, parameters={"epsilon": epsilon * size, "delta": delta})


def _check(parts: Sequence[Guarantee], kinds: Sequence[str]) -> set[str]:
    if not parts:
        raise InputError("nothing to compose: give at least one guarantee.")
    for part in parts:
        check_choice("kind", part.kind, kinds)
    if len({(part.relation, part.unit) for part in parts}) > 1:
        raise InputError(
            "relations or units differ: a guarantee about records under add/remove says nothing "
            "about people or replacements; compose those of one relation and unit."
        )
    return {part.kind for part in parts}


def _of_all(parts: Sequence[Guarantee], parameters: dict[str, float]) -> Guarantee:
    """The claim on all parts: it needs what each of them assumes, and ends with any of them."""
    assumed = dict.fromkeys(text for part in parts for text in part.assumptions)
    voided = dict.fromkeys(text for part in parts for text in part.voided_by)
    return replace(
        parts[0], parameters=parameters, assumptions=tuple(assumed), voided_by=tuple(voided)
    )


def _delta(part: Guarantee) -> float:
    return part.parameters.get("delta", 0.0)


def _spare(delta: float, spent: float) -> float:
    check_between("delta", delta, 0, 1, open_low=True, open_high=True)
    if not spent < delta:
        raise InputError(f"delta={delta:g} must be above the {spent:g} that the answers spent.")
    return delta - spent


def _mu(part: Guarantee) -> float:
    if part.kind == "gdp":
        return part.parameters["mu"]
    epsilon = part.parameters["epsilon"]
    return -2 * float(ndtri(1 / (1 + math.exp(epsilon)))) * _OUT if epsilon < 700 else math.inf


def _countable(parts: Sequence[Guarantee], delta: float, spent: float) -> bool:
    """Whether the numeric composition resolves this delta, and the losses are of usual size."""
    fine = delta - spent > 20 * len(parts) * _DELTA_ROUNDING
    sizes = [p.parameters.get("epsilon", p.parameters.get("mu", 0.0)) for p in parts]
    return fine and max(sizes) <= 20 and math.fsum(sizes) <= 1000


def _loss(dp: Any, kind: str, given: dict[str, float], grid: float) -> Any:
    make = dp.pld.privacy_loss_distribution
    if kind == "gdp":
        return make.from_gaussian_mechanism(
            1 / given["mu"], pessimistic_estimate=True, value_discretization_interval=grid
        )
    worst = dp.pld.common.DifferentialPrivacyParameters(given["epsilon"], given.get("delta", 0.0))
    return make.from_privacy_parameters(worst, value_discretization_interval=grid)


def _more(losses: Any, one: Any) -> Any:
    return one if losses is None else losses.compose(one)


def _read(losses: Any, delta: float, answers: int, rule: str) -> Bound:
    margin = answers * _DELTA_ROUNDING
    check_between("delta", delta, 20 * margin, 1, open_low=True, open_high=True)
    read: Callable[[float], float] = losses.get_epsilon_for_delta
    return Bound(float(read(delta - margin)), delta, rule)
