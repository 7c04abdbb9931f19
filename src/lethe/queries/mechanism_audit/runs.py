"""Running a mechanism many times on two inputs, and its answers as a table.

The inputs come in turns, each with a seed of its own. `reuse` says whether successive answers share
their noise: all limits take the runs as independent.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.queries.mechanism_audit.encode import Encoder, Form, Output
from lethe.queries.mechanism_audit.events import Outcomes
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.training.users_code import seeded

Float = NDArray[np.float64]
_SELDOM = 100  # calls after which it is looked whether anything writes past Python
_FEWEST = 30  # answers that a correlation is taken of
Mechanism = Callable[..., Any]
_SEED_NAMES = ("seed", "rng_seed", "random_state")
_REQUIRED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, eq=False)
class Trials:
    """What left a mechanism, encoded.

    Attributes:
        first: (n,) on the first data set, in the order of the runs.
        second: (n,) on its neighbour; the i-th came right after the i-th of `first`.
        forms: what each form says.
        raised: whether no run returned anything.
    """

    first: list[Output]
    second: list[Output]
    forms: dict[str, Form]
    raised: bool


def run_trials(mechanism: Mechanism, pair: Pair, runs: int, seed: int) -> Trials:
    """Everything that leaves a mechanism on both data sets of a pair.

    Observed are the answer, what is raised in its place, warnings, log records, and what is printed
    or written to the streams of the process. The global generators of Python, NumPy and torch are
    seeded once, and put back. A parameter `seed`, `rng_seed` or `random_state`, or a second one
    without a default, gets a fresh whole number each time. Every call gets its own copy of the
    data.

    Args:
        mechanism: mechanism(data) or mechanism(data, seed).
        runs: on each of them, >= 1.

    Raises:
        InputError: an answer that cannot be compared.
    """
    check_at_least("runs", runs, 1)
    sequence = np.random.SeedSequence(seed)
    seeds = np.random.default_rng(sequence).integers(2**32, size=(runs, 2)).tolist()
    name = _seed_parameter(mechanism)
    encoder, failures = Encoder(), 0
    sides: tuple[list[Output], list[Output]] = ([], [])
    with seeded(int(sequence.generate_state(1)[0])), _watched() as beside:
        for both in seeds:
            for data, given, outputs in zip((pair.first, pair.second), both, sides, strict=True):
                try:
                    answer, more = _called(mechanism, data, name, given), beside
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # an analyst sees whatever is raised, exits too
                    answer, more = None, partial(_with_error, error, beside)
                    failures += 1
                outputs.append(encoder.encode(answer, more))
    return Trials(*sides, encoder.forms, failures == 2 * runs)


def _with_error(error: BaseException, beside: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return {"raised": error, **beside()}


@contextlib.contextmanager
def _watched() -> Iterator[Callable[[], dict[str, Any]]]:
    """A function that says what was printed, written, warned and logged since its last call."""
    before = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    logged = _Log()
    with contextlib.ExitStack() as stack:
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        file, calls, written = stack.enter_context(_redirected()), 0, False
        streams = [_Stream(stream, before) for stream in (sys.stdout, sys.stderr)]
        stack.enter_context(contextlib.redirect_stdout(streams[0]))
        stack.enter_context(contextlib.redirect_stderr(streams[1]))
        stack.callback(logging.root.setLevel, logging.root.level)
        logging.root.setLevel(min(logging.INFO, logging.root.level))  # as services write them
        logging.root.addHandler(logged)
        stack.callback(logging.root.removeHandler, logged)
        stack.enter_context(no_way_out())

        printed, records = [stream.bytes.tell for stream in streams], logged.records

        def beside() -> dict[str, Any]:
            nonlocal calls, written
            calls += 1
            if not (
                written or warned or records or printed[0]() or printed[1]() or calls % _SELDOM == 0
            ):
                return {}
            found: dict[str, Any] = {}
            for name, stream in zip(("printed", "printed as error"), streams, strict=True):
                if stream.bytes.tell():
                    found[name] = stream.bytes.getvalue().decode("utf-8", "surrogateescape")
                    stream.bytes.seek(0)
                    stream.bytes.truncate()
            if (written or calls % _SELDOM == 0) and (size := os.fstat(file).st_size):
                if written:
                    found["written"] = os.pread(file, size, 0)
                os.ftruncate(file, 0)
                os.lseek(file, 0, os.SEEK_SET)
                written = True  # look after each call from now on
            if warned:
                found["warned"] = [
                    (one.category, one.message, one.filename, one.lineno) for one in warned
                ]
                warned.clear()
            if records:
                found["logged"] = [
                    (r.name, r.levelname, r.pathname, r.lineno, r.getMessage(), _extra(r))
                    for r in records
                ]
                records.clear()
            return found

        yield beside


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """What a log line carries beside its own fields."""
    own = vars(logging.makeLogRecord({}))
    return {key: value for key, value in vars(record).items() if key not in own}


@contextlib.contextmanager
def no_way_out() -> Iterator[None]:
    """`os._exit` is an answer like `sys.exit`, and does not end the audit without a word."""
    process, leave = os.getpid(), os._exit

    def left(status: int) -> NoReturn:
        if os.getpid() != process:
            leave(status)
        raise SystemExit(status)

    os._exit = left
    try:
        yield
    finally:
        os._exit = leave


class _Log(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class _Stream(io.TextIOWrapper):
    """Keeps what is printed, but by threads that ran before, such as that of a progress bar."""

    def __init__(self, real: Any, others: set[int | None]) -> None:
        self.bytes, self._real, self._others = io.BytesIO(), real, others
        super().__init__(self.bytes, "utf-8", "surrogateescape", newline="", write_through=True)

    def write(self, text: str) -> int:
        if threading.get_ident() in self._others:
            return int(getattr(self._real, "rich_proxied_file", self._real).write(text))
        return super().write(text)


@contextlib.contextmanager
def _redirected() -> Iterator[int]:
    """A file that takes what is written past Python to both streams of the process."""
    with tempfile.TemporaryFile() as file:
        kept = []
        for stream in (1, 2):
            with contextlib.suppress(OSError):
                kept.append((os.dup(stream), stream))
                os.dup2(file.fileno(), stream)
        try:
            yield file.fileno()
        finally:
            for copied, stream in kept:
                os.dup2(copied, stream)
                os.close(copied)


def answer_once(mechanism: Mechanism, data: Any) -> Any:
    """One answer, or whatever the mechanism raises."""
    return _called(mechanism, data, _seed_parameter(mechanism), 0)


def _called(mechanism: Mechanism, data: Any, name: str | None, seed: int) -> Any:
    copied = data.copy() if isinstance(data, np.ndarray) else copy.deepcopy(data)
    if name is None:
        return mechanism(copied)
    return mechanism(copied, **{name: seed}) if name else mechanism(copied, seed)


def _seed_parameter(mechanism: Mechanism) -> str | None:
    """The parameter that takes the seed; empty = the second; None = there is none.

    Raises InputError: it asks for more than data and a seed.
    """
    try:
        parameters = list(inspect.signature(mechanism).parameters.values())
    except (TypeError, ValueError):  # a built-in function tells nothing
        return None
    for parameter in parameters[1:]:
        if parameter.name in _SEED_NAMES:
            return "" if parameter.kind is inspect.Parameter.POSITIONAL_ONLY else parameter.name
    asked = [
        parameter
        for parameter in parameters
        if parameter.kind in _REQUIRED and parameter.default is parameter.empty
    ]
    if len(asked) > 2 or not parameters:
        raise InputError(
            f"the mechanism takes {len(asked)} arguments; expected mechanism(data) or "
            "mechanism(data, seed)."
        )
    return "" if len(asked) == 2 else None


def reuse(pairs: Sequence[tuple[Outcomes, Outcomes]], confidence: float) -> Measured:
    """The largest rank correlation, without sign, between an answer and the next.

    Looked at are answers to the same data, to a data set and its neighbour right after, and to the
    neighbour and the data set again, for the first place of each answer.

    Args:
        pairs: answers on both inputs of each pair, in the order they were given, in turns.
        confidence: two-sided, of all intervals together.

    Returns:
        An estimate in [0, 1] with the interval of the one that is most surely above 0 (Fisher's z
        with the variance of Fieller, Hartley and Pearson 1957); refused where no answer varies.
    """
    from scipy.stats import rankdata

    found: list[tuple[float, int]] = []
    for first, second in pairs:
        ranks, neighbours = (rankdata(_numbers(side)) for side in (first, second))
        for left, right in (
            (ranks, neighbours),
            (neighbours[:-1], ranks[1:]),
            (ranks[:-1], ranks[1:]),
            (neighbours[:-1], neighbours[1:]),
        ):
            if len(left) >= _FEWEST and min(np.ptp(left), np.ptp(right)) > 0:
                found.append((abs(float(np.corrcoef(left, right)[0, 1])), len(left)))
    if not found:
        return Refusal("the answers to the same data never vary")
    from scipy.special import ndtri

    z = float(ndtri(1 - (1 - confidence) / (2 * len(found))))
    value, n = max(found, key=lambda pair: pair[0] * np.sqrt(pair[1]))
    half, centre = z * np.sqrt(1.06 / (n - 3)), np.arctanh(min(value, 1 - 1e-12))
    ends = max(0.0, float(np.tanh(centre - half))), float(np.tanh(centre + half))
    method = f"rank correlation, largest of {len(found)}, Fisher's z, Bonferroni"
    return Estimate(value, min(ends[0], value), max(ends[1], value), confidence, method, n)


def repeats(pairs: Sequence[tuple[Outcomes, Outcomes]]) -> bool:
    """Whether the answer to the same data never changed, on no input, while inputs differ in it."""
    kinds = [set(side.exact.tolist()) for pair in pairs for side in pair]
    return all(len(kind) == 1 for kind in kinds) and any(
        set(first.exact.tolist()) != set(second.exact.tolist()) for first, second in pairs
    )


def _numbers(side: Outcomes) -> Float:
    """The first place that varies: its number, or one for each category, below all others."""
    known = np.isfinite(side.numbers)
    ends = [np.where(known, side.numbers, end) for end in (np.inf, -np.inf)]
    varies = np.flatnonzero(
        ends[0].min(axis=0, initial=np.inf) < ends[1].max(axis=0, initial=-np.inf)
    )
    if not len(varies):
        return side.form.astype(np.float64)
    numbers = side.numbers[:, varies[0]].copy()
    missing = np.isnan(numbers)
    least = np.nanmin(numbers)
    numbers[missing] = least - 1.0 - side.form[missing]
    return numbers
