"""Run a mechanism many times on two inputs, and tabulate its answers.

The two inputs of a run follow each other in an order drawn by lot, each with a seed of its own: a
mechanism that counts its calls tells nothing by that. `reuse` says whether successive answers share
their noise: all limits take the runs as independent.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import math
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.of_answers import OddAnswer
from lethe.queries.mechanism_audit.encode import Encoder, Form, Output
from lethe.queries.mechanism_audit.events import PLACES, REPEATED, Outcomes
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.training.users_code import seeded

Float = NDArray[np.float64]
_SELDOM = 100  # calls after which it is looked whether anything writes past Python
_FEWEST = 30  # answers that a correlation is taken of
_SURELY = 4.0  # standard deviations by which a part of a clock's text must depend on the input
_SOME = 500  # answers by which it is decided which places vary
_LARGEST = 1e300  # of numbers whose differences are taken
Mechanism = Callable[..., Any]
_SEED_NAMES = ("seed", "rng_seed", "random_state")
_REQUIRED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, eq=False)
class Trials:
    """What left a mechanism, encoded.

    Attributes:
        first: (n,) on the first data set, in the order of the runs.
        second: (n,) on its neighbour; the i-th came right after the i-th of `first`, or before.
        turned: (n,) whether it came before.
        forms: what each form says.
        raised: whether no run returned anything.
    """

    first: list[Output]
    second: list[Output]
    turned: NDArray[np.bool_]
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
    rng = np.random.default_rng(sequence)
    seeds, turned = rng.integers(2**32, size=(runs, 2)).tolist(), rng.random(runs) < 0.5
    name = _seed_parameter(mechanism)
    encoder, failures = Encoder(), 0
    sides: tuple[list[Output], list[Output]] = ([], [])
    calls = [  # laid out before, so that a clock sees none of the order
        ((pair.first, pair.second)[side], both[side], sides[side])
        for both, turn in zip(seeds, turned.tolist(), strict=True)
        for side in ((1, 0) if turn else (0, 1))
    ]
    with seeded(int(sequence.generate_state(1)[0])), _watched() as beside:
        for data, drawn_seed, outputs in calls:
            try:
                answer, more = _called(mechanism, data, name, drawn_seed), beside
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # an analyst sees whatever is raised, exits too
                answer, more = None, partial(beside, raised=error)
                failures += 1
            outputs.append(encoder.encode(answer, more))
    return Trials(*sides, turned, encoder.forms, failures == 2 * runs)


@contextlib.contextmanager
def _watched() -> Iterator[Callable[..., dict[str, Any]]]:
    """A function that says what was printed, written, warned and logged since its last call."""
    before = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    logged, records = logging.Handler(), list[logging.LogRecord]()
    logged.emit = records.append  # type: ignore[assignment]  # it does nothing else
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

        printed = [stream.bytes.tell for stream in streams]

        def beside(**channels: Any) -> dict[str, Any]:
            nonlocal calls, written
            calls += 1
            if not (
                written or warned or records or printed[0]() or printed[1]() or calls % _SELDOM == 0
            ):
                return channels
            for name, stream in zip(("printed", "printed as error"), streams, strict=True):
                if stream.bytes.tell():
                    channels[name] = stream.bytes.getvalue().decode("utf-8", "surrogateescape")
                    stream.bytes.seek(0)
                    stream.bytes.truncate()
            if (written or calls % _SELDOM == 0) and (size := os.fstat(file).st_size):
                if written:
                    channels["written"] = os.pread(file, size, 0)
                os.ftruncate(file, 0)
                os.lseek(file, 0, os.SEEK_SET)
                written = True  # look after each call from now on
            if warned:
                channels["warned"] = [
                    (warning.category, warning.message, warning.filename, warning.lineno)
                    for warning in warned
                ]
                warned.clear()
            if records:
                usual = vars(logging.makeLogRecord({}))
                channels["logged"] = [
                    (
                        *(r.name, r.levelname, r.pathname, r.lineno, r.getMessage()),
                        {key: value for key, value in vars(r).items() if key not in usual},
                    )
                    for r in records
                ]
                records.clear()
            return channels

        yield beside


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
    names = [
        parameter
        for parameter in parameters
        if parameter.kind in _REQUIRED and parameter.default is parameter.empty
    ]
    if len(names) > 2 or not parameters:
        raise InputError(
            f"the mechanism takes {len(names)} arguments; expected mechanism(data) or "
            "mechanism(data, seed)."
        )
    return "" if len(names) == 2 else None


def reuse(
    pairs: Sequence[tuple[Outcomes, Outcomes]],
    turns: Sequence[NDArray[np.bool_]],
    confidence: float,
) -> Measured:
    """The largest rank correlation, without sign, between an answer and the next.

    Looked at are the places of the answers that surely depend on the input, or that which depends
    on it most: a choice that sees no order. A clock or a counter goes on whatever the input; there
    it is looked at whether the step from one answer to the next tells which input came first.

    Args:
        pairs: answers on both inputs of each pair, in the order of the runs.
        turns: (n,) of each pair, whether the answer on the second input came first.
        confidence: two-sided, of all intervals together.

    Returns:
        An estimate in [0, 1] with the interval of the one that is most surely above 0 (Fisher's z
        with the variance of Fieller, Hartley and Pearson 1957); refused where no answer varies.
    """
    correlations = [
        (abs(value), len(left))
        for (first, second), turned in zip(pairs, turns, strict=True)
        for left, right in _successive(first, second, turned)
        if (value := _correlation(left, right)) is not None
    ]
    if not correlations:
        return Refusal("the answers never vary, or only as a clock or a counter does")
    from scipy.special import ndtri

    z = float(ndtri(1 - (1 - confidence) / (2 * len(correlations))))
    value, n = max(correlations, key=lambda pair: pair[0] * np.sqrt(pair[1]))
    half, centre = z * np.sqrt(1.06 / (n - 3)), np.arctanh(min(value, 1 - 1e-12))
    ends = max(0.0, float(np.tanh(centre - half))), float(np.tanh(centre + half))
    method = f"rank correlation, largest of {len(correlations)}, Fisher's z, Bonferroni"
    return Estimate(value, min(ends[0], value), max(ends[1], value), confidence, method, n)


def _successive(
    first: Outcomes, second: Outcomes, turned: NDArray[np.bool_]
) -> Iterator[tuple[Float, Float]]:
    """Yield the ranks of one pair's answers and of those that follow."""
    from scipy.stats import rankdata

    order, clocks = np.stack([turned, ~turned], axis=1).astype(int), list[str]()
    noisy: list[tuple[tuple[bool, bool, float], Float]] = []
    for path, place in _places(first, second):
        calls = np.take_along_axis(place, order, axis=1)
        part = any(path.startswith(f"{clock} ") for clock in clocks)  # of the clock's text
        if _goes_on(calls.ravel()):
            clocks.append(path)
            within, between = calls[:, 1] - calls[:, 0], calls[1:, 0] - calls[:-1, 1]
            both = turned.astype(np.float64), rankdata(within)
            # Steps between answers to one input differ too if the time that it takes does.
            same = turned[1:] != turned[:-1]
            timed = _correlation(turned[1:][same].astype(np.float64), rankdata(between[same]))
            if not part and abs(_correlation(*both) or 0.0) > 2 * abs(timed or 0.0):
                yield both
            continue
        ranks = rankdata(place).reshape(place.shape)
        gap = abs(float(np.diff(ranks.mean(axis=0))[0])) / float(ranks.std())
        surely = gap * math.sqrt(len(place) / 2) > _SURELY
        if surely or not part:
            varies = bool((place.max(axis=0) > place.min(axis=0)).all())
            noisy.append(((varies, surely, gap), place))
    best = max((merit for merit, _ in noisy), default=None)
    for merit, place in noisy:
        if merit == best or merit[:2] == (True, True):
            ranks = rankdata(place, axis=0)
            calls = np.take_along_axis(ranks, order, axis=1)
            yield calls[:, 0], calls[:, 1]
            yield calls[:-1, 1], calls[1:, 0]
            yield from zip(ranks[:-1].T, ranks[1:].T, strict=True)


def _correlation(left: Float, right: Float) -> float | None:
    if len(left) < _FEWEST or min(np.ptp(left), np.ptp(right)) == 0:
        return None
    return float(np.corrcoef(left, right)[0, 1])


def _places(first: Outcomes, second: Outcomes) -> Iterator[tuple[str, Float]]:
    """Paths that vary and what stands there, (n, 2): texts by length and alphabet, and numbers."""
    exact = np.stack([first.exact, second.exact], axis=1)
    words = {form.text: form.words for form in first.forms}
    some = first.outputs if len(words) > 1 else ()  # else numbers say it all
    words_of = [{**words[output.form], **dict(output.texts)} for output in some]
    paths = dict.fromkeys(path for text in words_of[:_SOME] for path in text)
    varying = (path for path in paths if len({text.get(path) for text in words_of[:_SOME]}) > 1)
    for path in islice(varying, PLACES):
        texts = [text.get(path, "") for text in words_of]
        kinds = sorted(set(texts), key=lambda text: (len(text), text))
        rank = {text: place for place, text in enumerate(kinds)}
        yield path, np.asarray([rank[text] for text in texts], np.float64)[exact]
    seen = np.concatenate([side.numbers[:_SOME] for side in (first, second)])
    for column in (seen != seen[0]).any(axis=0).nonzero()[0][:PLACES].tolist():
        numbers = np.stack([side.numbers[:, column] for side in (first, second)], axis=1)
        numbers = np.clip(numbers, -_LARGEST, _LARGEST)
        least = np.nanmin(numbers, initial=0.0) - 1.0
        place = np.where(np.isnan(numbers), least, numbers)
        if place.max() > place.min():
            yield first.paths[column], place


def _goes_on(calls: Float) -> bool:
    """Whether a place follows from its last two values whatever the input: a clock, a counter."""
    up, down = (calls[1:] > calls[:-1]).sum(), (calls[1:] < calls[:-1]).sum()
    if abs(int(up) - int(down)) > (up + down) / 2:
        return True
    if len(np.unique(calls[:_SOME])) > _SOME / REPEATED:
        return False
    values, codes = np.unique(calls, return_inverse=True)
    last = codes[:-2] * len(values) + codes[1:-1]
    states, follows = np.unique(last), np.unique(last * len(values) + codes[2:])
    return len(follows) <= len(states) < len(calls) / REPEATED


def repeats(pairs: Sequence[tuple[Outcomes, Outcomes]]) -> bool:
    """Whether the answer to the same data never changed, on no input, while inputs differ in it."""
    kinds = [set(side.exact.tolist()) for pair in pairs for side in pair]
    return all(len(kind) == 1 for kind in kinds) and any(
        set(first.exact.tolist()) != set(second.exact.tolist()) for first, second in pairs
    )


def others(first: Outcomes, second: Outcomes) -> list[OddAnswer]:
    """Errors and numbers that are none, with their shares on both sides."""
    names = [
        next((odd for place in form.words.items() if (odd := _odd_word(*place))), "")
        for form in first.forms
    ]
    shown: list[OddAnswer] = []
    for name in dict.fromkeys(filter(None, names)):
        same = np.asarray([other == name for other in names])
        shares = [float(same[side.form].mean()) for side in (first, second)]
        shown.append(OddAnswer(name, shares))
    return shown


def _odd_word(path: str, word: str) -> str:
    """An error, or a number that is not finite."""
    if path == "raised":
        return f"raises {word}"
    return next((part for part in word.split() if part in ("nan", "inf", "-inf")), "")
