"""The door to OpenDP: its samplers make all the noise, its maps say what it costs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lethe.errors import InputError, check_between, require

_LEAST, _MOST = 1e-9, 1e100  # of a scale, in units of the value


@functools.cache
def opendp() -> Any:
    """The library, with the features on that its constructors ask for.

    Raises:
        MissingExtra: it is not installed.
    """
    prelude = require("opendp.prelude", "queries")
    prelude.enable_features("contrib")
    return prelude


def scalar(kind: str) -> tuple[Any, Any]:
    """Domain and metric of one number, ``i64`` or ``f64``."""
    dp = opendp()
    return _atom(kind), dp.absolute_distance(T=kind)


def vector(kind: str, norm: str) -> tuple[Any, Any]:
    """Domain and metric of many numbers; `norm` is ``l1`` or ``l2``."""
    dp = opendp()
    metric = dp.l1_distance(T=kind) if norm == "l1" else dp.l2_distance(T="f64")
    return dp.vector_domain(_atom(kind)), metric


def scores(kind: str, monotonic: bool) -> tuple[Any, Any]:
    """Domain and metric of the scores of candidates."""
    dp = opendp()
    return dp.vector_domain(_atom(kind)), dp.linf_distance(T=kind, monotonic=monotonic)


def fitted(
    build: Callable[[float], Any], scale: float, distance: Any, most: float
) -> tuple[Any, float]:
    """A measurement of about this scale whose map was seen to be within `most`.

    The map rounds up, so that the scale of the formula may miss by a last digit: it grows by as
    much as is needed.

    Args:
        build: from a scale to a measurement.
        scale: by the formula.
        distance: of neighbours, as the map wants it.
        most: of the loss, in the measure's own currency.

    Returns:
        The measurement and its scale.

    Raises:
        InputError: a scale out of all proportion.
    """
    check_between("scale of the noise", scale, _LEAST, _MOST)
    grow = 2.0**-52
    while grow < 1e-3:
        measurement = build(scale)
        if measurement.map(distance) <= most:
            return measurement, scale
        scale, grow = scale * (1 + grow), 2 * grow
    raise InputError(
        f"no noise of about scale {scale:g} was seen to cost at most {most:g}: "
        "ask for a larger epsilon, rho or mu."
    )


def _atom(kind: str) -> Any:
    dp = opendp()
    return dp.atom_domain(T=kind, nan=False) if kind == "f64" else dp.atom_domain(T=kind)
