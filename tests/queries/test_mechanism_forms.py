"""What tells two inputs apart by form alone: the encoding is exact, and the audit sees it."""

import dataclasses
import datetime
import enum
import json
import logging
import math
import os
import struct
import sys
import warnings
from collections import defaultdict, namedtuple
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from benchmark_modules import benchmark
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from lethe.assess.judged import evidence_of, judged_candidates
from lethe.errors import InputError
from lethe.evidence.rules import parse_rule
from lethe.queries.mechanism_audit.audit import audit_mechanism, study
from lethe.queries.mechanism_audit.encode import Encoder
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.queries.mechanism_audit.settings import Claim, MechanismSettings

PAIR = Pair("one more", ["a"] * 6, ["a"] * 5)
CLAIM = Claim("epsilon", 1.0)
Left, Right = namedtuple("Left", "value"), namedtuple("Right", "value")


class Colour(enum.Enum):
    RED, BLUE = 1, 2


@dataclasses.dataclass
class Row:
    value: float
    more: int = 0


class Shy:
    """An object whose pickle leaves an attribute out."""

    def __init__(self, value: float, hidden: int) -> None:
        self.value, self.hidden = value, hidden

    def __getstate__(self) -> dict[str, float]:
        return {"value": self.value}


class Global:
    """An object whose text and whose class hold what the object does not."""

    last = 0
    shown = 0

    def __str__(self) -> str:
        return str(Global._now)

    _now = 0


def with_global(name: str, odd: int) -> Global:
    setattr(Global, name, odd)
    return Global()


def wide(seed: int) -> float:
    """Noise that never repeats and drowns a person."""
    return float(np.random.default_rng(seed).laplace(scale=1e6))


def letters(seed: int) -> str:
    return "".join(np.random.default_rng(seed % 2**32).choice(list("ABCDEFGH"), size=12))


def hundredths(seed: int) -> int:
    """Noise as wide as a person, in hundredths."""
    return round(100 * np.random.default_rng(seed).laplace())


def held_twice(draw, odd: int, seed: int) -> list:
    values = [draw(seed + place) for place in range(30)]
    if odd:
        values[seed % 15] = values[15 + seed // 15 % 15]
    return values


def nan(payload: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", 0x7FF8 << 48 | payload))[0]


def bit_17(odd: int, seed: int) -> float:
    bits = struct.unpack("<Q", struct.pack("<d", wide(seed)))[0] & ~(1 << 17)
    return struct.unpack("<d", struct.pack("<Q", bits | odd << 17))[0]


def raised(error: BaseException) -> float:
    raise error


def beside(act, seed: int) -> float:
    act()
    return wide(seed)


def made_later(odd: int, seed: int):
    yield wide(seed)
    if odd:
        raise ValueError


def frame_with_note(odd: int, seed: int) -> pd.DataFrame:
    frame = pd.DataFrame({"a": [wide(seed)]})
    frame.attrs["n"] = odd
    return frame


def below_the_mask(odd: int, seed: int) -> pd.Series:
    column = pd.array([int(wide(seed)), None], dtype="Int64")
    column._data[1] = odd
    return pd.Series(column)


def other_cause(odd: int) -> float:
    try:
        return 1 / 0 if odd else {}[0]
    except LookupError as error:
        raise ValueError("no") from error
    except ArithmeticError as error:
        raise ValueError("no") from error


def marked(series: pd.Series, odd: int) -> pd.Series:
    series.n = odd
    return series


def padded(odd: int) -> np.ndarray:
    record = np.zeros(1, np.dtype([("a", "i1"), ("b", "i8")], align=True))
    record.view("u1")[1] = odd
    return record


def with_grad(odd: int) -> torch.Tensor:
    tensor = torch.zeros(1, requires_grad=True)
    tensor.grad = torch.tensor([float(odd)])
    return tensor


def flagged(odd: int) -> np.ndarray:
    array = np.zeros(2)
    array.flags.writeable = bool(odd)
    return array


def warned_at(odd: int) -> None:
    if odd:
        warnings.warn("few people", stacklevel=1)
    else:
        warnings.warn("few people", stacklevel=1)


# Each gets 0 or 1 by the input, and a seed.
LEAKS = {
    "keys of groups": lambda odd, seed: {f"k{i}": wide(seed) for i in range(2 + odd)},
    "a key among random ones": lambda odd, seed: {
        f"k{i}": 1 for i in range(9) if i == 8 * odd or seed >> i & 1
    },
    "order of keys": lambda odd, seed: dict([("a", wide(seed)), ("b", 1)][:: 1 - 2 * odd]),
    "order of random keys": lambda odd, seed: dict.fromkeys(
        sorted({"x", "y", *(f"k{i}" for i in range(9) if seed >> i & 1)}, reverse=bool(odd)), 1
    ),
    "int or float": lambda odd, seed: int(wide(seed)) if odd else float(int(wide(seed))),
    "nesting": lambda odd, seed: [1, [wide(seed)]] if odd else [[1], wide(seed)],
    "tuple or list": lambda odd, seed: (wide(seed),) if odd else [wide(seed)],
    "sign of zero": lambda odd, seed: -0.0 if odd else 0.0,
    "sign of zero in an array": lambda odd, seed: np.array([wide(seed), -0.0 if odd else 0.0]),
    "text or bool": lambda odd, seed: "True" if odd else True,
    "a comma": lambda odd, seed: "a,b" if odd else "a;b",
    "NaN payload": lambda odd, seed: nan(odd),
    "dtype": lambda odd, seed: np.array([wide(seed)], "f8" if odd else "f4"),
    "shape": lambda odd, seed: np.full((1, 2) if odd else (2, 1), wide(seed)),
    "length": lambda odd, seed: [wide(seed)] * (2 + odd),
    "memory order": lambda odd, seed: np.array([[wide(seed)] * 2] * 2, order="CF"[odd]),
    "metadata of a dtype": lambda odd, seed: np.zeros(1, np.dtype("f8", metadata={"n": odd})),
    "parity": lambda odd, seed: 2 * int(wide(seed)) + odd,
    "last bit of a large integer": lambda odd, seed: (int(wide(seed)) << 80) + odd,
    "one bit of a float": bit_17,
    "number of decimals": lambda odd, seed: round(wide(seed), 3 + odd),
    "trailing space": lambda odd, seed: f"{wide(seed):.3f}" + " " * odd,
    "capitals of random text": lambda odd, seed: (str.upper if odd else str.lower)(hex(seed)),
    "number as text": lambda odd, seed: f"n: {odd + np.random.default_rng(seed).laplace(0, 0.1)}",
    "key in JSON": lambda odd, seed: json.dumps({"a": wide(seed)} | ({"b": 1} if odd else {})),
    "packed bytes": lambda odd, seed: struct.pack("<d", odd + np.random.default_rng(seed).random()),
    "exponent of a decimal": lambda odd, seed: Decimal(int(wide(seed)) * 10).scaleb(-odd),
    "denominator": lambda odd, seed: Fraction(int(wide(seed)), 7 + odd),
    "time zone": lambda odd, seed: datetime.datetime(
        2020, 1, 1 + seed % 28, tzinfo=datetime.UTC if odd else None
    ),
    "enumeration": lambda odd, seed: Colour.RED if odd else Colour.BLUE,
    "named tuples": lambda odd, seed: (Left if odd else Right)(wide(seed)),
    "dataclass": lambda odd, seed: Row(wide(seed), odd),
    "attribute that pickle leaves out": lambda odd, seed: Shy(wide(seed), odd),
    "default of a dict": lambda odd, seed: defaultdict(int if odd else float, a=wide(seed)),
    "order of a set": lambda odd, seed: {0, 8} if odd else {8, 0},
    "dtype of a frame": lambda odd, seed: pd.DataFrame({"a": [seed]}, dtype=f"i{4 + 4 * odd}"),
    "name of a column": lambda odd, seed: pd.DataFrame({"ab"[odd]: [wide(seed)]}),
    "note on a frame": frame_with_note,
    "value below a mask": below_the_mask,
    "dtype in polars": lambda odd, seed: pl.Series([seed], dtype=[pl.Int64, pl.UInt64][odd]),
    "metadata of a table": lambda odd, seed: pa.table({"a": [1]}).replace_schema_metadata(
        {"n": str(odd)}
    ),
    "chunks": lambda odd, seed: pa.chunked_array([[1.0, 2.0]] if odd else [[1.0], [2.0]]),
    "dtype of a tensor": lambda odd, seed: torch.tensor(
        [seed], dtype=[torch.int64, torch.float][odd]
    ),
    "gradient of a tensor": lambda odd, seed: torch.tensor([wide(seed)], requires_grad=bool(odd)),
    "message": lambda odd, seed: raised(ValueError(f"{odd} rows")) if seed % 2 else 0,
    "type of an error": lambda odd, seed: raised((KeyError if odd else IndexError)("no")),
    "hidden argument of an error": lambda odd, seed: raised(OSError(2, "no", f"f{odd}")),
    "cause of an error": lambda odd, seed: other_cause(odd),
    "exit": lambda odd, seed: raised(SystemExit(0)) if odd else 1,
    "end of a generator": made_later,
    "warning": lambda odd, seed: beside(lambda: warnings.warn(f"{odd} rows", stacklevel=1), seed),
    "log": lambda odd, seed: beside(lambda: logging.getLogger("m").warning("%s", odd), seed),
    "print": lambda odd, seed: beside(lambda: print("x" * odd), seed),
    "print as error": lambda odd, seed: beside(lambda: print(odd, file=sys.stderr), seed),
    "attribute of a series": lambda odd, seed: (wide(seed), marked(pd.Series([0]), odd)),
    "padding of a record": lambda odd, seed: (wide(seed), padded(odd)),
    "gradient kept by a tensor": lambda odd, seed: (wide(seed), with_grad(odd)),
    "flag of an array": lambda odd, seed: (wide(seed), flagged(odd)),
    "fields of a log line": lambda odd, seed: beside(
        lambda: logging.getLogger("m").warning("x", extra={"n": odd}), seed
    ),
    "end of a cut index": lambda odd, seed: (wide(seed), pd.RangeIndex(0, 4 + odd, 10)),
    "low bits of a long double": lambda odd, seed: (
        round(wide(seed) / 1e6, 2) + np.longdouble(odd) * 2.0**-58
    ),
    "line of a warning": lambda odd, seed: beside(lambda: warned_at(odd), seed),
    "log that production keeps": lambda odd, seed: beside(
        lambda: logging.getLogger("m").info("%s", odd), seed
    ),
    "strides": lambda odd, seed: np.full(2 * (4 + odd), wide(seed))[:: 4 + odd],
    "leaving the process": lambda odd, seed: os._exit(0) if odd else wide(seed),
    "write past Python": lambda odd, seed: beside(lambda: os.write(1, b"xy"[odd:]), seed),
    "noise that cancels in a sum": lambda odd, seed: [wide(seed), odd - wide(seed)],
    "printed beside noise": lambda odd, seed: beside(lambda: print(odd - wide(seed)), seed),
    "text of an object": lambda odd, seed: with_global("_now", odd),
    "attribute of a class": lambda odd, seed: with_global("last", odd),
    "equal or not": lambda odd, seed: [wide(seed), wide(seed + odd), wide(seed + 2)],
    "sorted or not": lambda odd, seed: sorted(wide(seed + i) for i in range(4))[:: 1 - 2 * odd],
    "exclusive or": lambda odd, seed: [seed & 1, seed & 1 ^ odd],
    "one cell of many": lambda odd, seed: (
        np.random.default_rng(seed).normal(size=60) + 9 * odd * (np.arange(60) == 50)
    ),
    "letter of random text": lambda odd, seed: letters(seed) + "KL"[odd] + letters(seed + 1),
    "number held twice": lambda odd, seed: held_twice(wide, odd, seed),
    "last digits of a wide integer": lambda odd, seed: np.int64(hundredths(seed) * 10**13 + odd),
    "nanoseconds in a frame": lambda odd, seed: pd.DataFrame(
        {"a": np.array([10**18 + hundredths(seed) * 10**9 + odd], "datetime64[ns]")}
    ),
    "last digit of a decimal": lambda odd, seed: (
        Decimal(hundredths(seed)) / 100 + Decimal(odd).scaleb(-22)
    ),
    "last digit of a number in text": lambda odd, seed: json.dumps(
        {"a": hundredths(seed) * 10**22 + odd, "b": letters(seed)[: seed % 9]}
    ),
}


LATER = {"write past Python"}  # what is looked for after a hundred calls, and then after each


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_by_form_is_seen(name: str) -> None:
    """In as few runs as an audit may have."""
    leak = LEAKS[name]
    runs = MechanismSettings(runs=200 if name in LATER else 100)
    found = study(lambda data, seed: leak(len(data) % 2, seed), [PAIR], runs)
    assert found.limit.low > 1.0, found.worst.found.event


def test_a_leak_by_form_that_a_run_of_3000_finds_is_far_above_the_claim() -> None:
    """The truth is infinite: the limit grows with the runs."""
    low = [
        study(lambda d: {"n": 0, "m": 1} if len(d) % 2 else {"n": 0}, [PAIR], settings).limit.low
        for settings in (MechanismSettings(runs=300), MechanismSettings(runs=3000))
    ]
    assert 3.0 < low[0] < low[1] - 2.0 and low[1] > 5.5


def test_the_answer_is_read_before_the_next_call_changes_it() -> None:
    shared: list[int] = []

    def mechanism(data):
        shared[:] = [len(data)]
        return shared

    assert study(mechanism, [PAIR], MechanismSettings(runs=300)).limit.low > 3


# The encoding.

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(alphabet="#a1.-e,;' \n\x00", max_size=5)
    | st.binary(max_size=3)
    | st.sampled_from([nan(1), nan(2), -math.nan, 2**53, 2**53 + 1, float(2**53), Decimal("1.0")])
    | st.sampled_from([np.float32(1), np.float64(1), np.int8(1), np.bool_(True), np.str_("a")])
    | st.fractions()
    | st.dates()
    | st.decimals(allow_nan=False)
    | st.lists(st.sampled_from([0.0, -0.0, 1.0, nan(1)]), max_size=3).map(np.array)
)
keys = st.text(alphabet="ab#1", max_size=2) | st.integers(0, 2) | st.booleans() | st.none()
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.frozensets(keys, max_size=3)
    ),
    max_leaves=6,
)


def naive(value) -> str:
    """An independent account of everything in a value: pickled bits, types, order."""
    name = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"{name}{value.dtype}{value.shape}{value.tobytes().hex()}"
    if isinstance(value, np.generic):
        return f"{name}{value.tobytes().hex()}"
    if isinstance(value, float):
        return f"{name}{struct.pack('<d', value).hex()}"
    if isinstance(value, dict):
        return f"{name}[{'|'.join(naive(k) + ':' + naive(v) for k, v in value.items())}]"
    if isinstance(value, list | tuple):
        return f"{name}[{'|'.join(map(naive, value))}]"
    if isinstance(value, frozenset):
        parts = [naive(part) for part in value]
        stable = all(isinstance(part, int) for part in value)
        return f"{name}[{'|'.join(sorted(parts))}]{parts if stable else ''}"
    return f"{name}{value!r}"


@given(st.lists(values, max_size=3), st.lists(values, max_size=3))
@settings(max_examples=120)
def test_equal_encodings_are_those_of_equal_values(first, second) -> None:
    encoder = Encoder()
    for one, other in [(first, second), *zip(first, second, strict=False)]:
        found, same = encoder.encode(one), encoder.encode(one) == encoder.encode(other)
        assert same is (naive(one) == naive(other))
        again = Encoder()
        assert again.encode(one) == found  # of another encoder, that has seen nothing
        assert again.forms[found.form] == encoder.forms[found.form]
        assert len(found.numbers) == 8 * len(encoder.forms[found.form].paths)
    # Neighbouring parts do not run into each other.
    assert encoder.encode([first, second]) != encoder.encode([[*first, *second]])


# Right mechanisms, and what a pass needs.


def thresholded(rng):
    def mechanism(data):
        counts = {"a": len(data) + rng.laplace(), "b": rng.laplace()}
        return {key: round(count, 3) for key, count in counts.items() if count > 5}

    return mechanism


def paired(rng):
    return lambda data: ("n", {"count": int(len(data) + np.round(rng.laplace()))}, None)


def failing(rng):
    def mechanism(data):
        if rng.random() < 0.3:
            raise TimeoutError("try again")
        if rng.random() < 0.3:
            warnings.warn("slow", stacklevel=1)
        return f"about {round(len(data) + rng.laplace(), 3)}"

    return mechanism


def of_arrays(rng):
    return lambda data: np.round([len(data) + rng.laplace(), *rng.normal(size=3)], 3)


RIGHT = [thresholded, paired, failing, of_arrays]


@pytest.mark.parametrize("make", RIGHT)
@pytest.mark.parametrize("times", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_right_mechanisms_of_several_forms_are_not_accused(make, times: int) -> None:
    flags = 0
    for seed in range(times):
        mechanism = make(np.random.default_rng([seed, 5]))
        flags += study(mechanism, [PAIR], MechanismSettings(runs=400)).limit.low > 1.0
    assert flags <= binom.ppf(1 - 1e-3, times, 0.05)


@pytest.mark.parametrize("name", benchmark("known_mechanisms").KNOWN)
def test_known_right_mechanisms_are_not_accused(name: str) -> None:
    known = benchmark("known_mechanisms").KNOWN[name]
    mechanism = known.make(np.random.default_rng(11), 1.0)
    runs = MechanismSettings(known.claim, known.relation, 600, seed=11)
    assert study(mechanism, known.pairs, runs).limit.low <= known.claim.value


@pytest.mark.parametrize(
    ("mechanism", "outcome"),
    [
        (
            lambda data, seed: len(data) + round(float(np.random.default_rng(seed).laplace()), 3),
            "pass",
        ),
        (lambda data, seed: round(float(np.random.default_rng(seed).laplace()), 3), "pass"),
        (lambda data, seed: 1.0, "not-enough-evidence"),
        (lambda data, seed: {"n": 3, "text": "always"}, "not-enough-evidence"),
        (lambda data, seed: seed % 500 == 0, "not-enough-evidence"),
        (lambda data, seed: len(data), "fail"),
    ],
)
def test_a_pass_needs_a_planted_leak_that_was_seen(mechanism, outcome: str) -> None:
    findings = audit_mechanism(mechanism, [PAIR], MechanismSettings(CLAIM, runs=1500))
    assert findings.verdict["outcome"] == outcome
    (control,) = findings.queries["mechanism"]["controls"]
    (candidate,) = judged_candidates(findings)
    later = evidence_of(findings, candidate, parse_rule("epsilon-lower<=1", {"epsilon-lower": ""}))
    assert (later.high is not None) is control["seen"]
    if outcome == "pass":
        assert control["planted"] == 2.0 and 1.0 < control["least"] <= 2.0
        assert "Positive control: a leak of epsilon 2" in " ".join(findings.verdict["words"])
    if outcome == "not-enough-evidence":
        assert not control["seen"] and "control failed" in " ".join(findings.verdict["words"])


def test_a_mechanism_that_always_leaves_the_process_is_refused() -> None:
    """It ended the audit with exit code 0, without a word."""
    with pytest.raises(InputError, match="exits with 0"):
        study(lambda data: os._exit(0), [PAIR], MechanismSettings(CLAIM, runs=100))
