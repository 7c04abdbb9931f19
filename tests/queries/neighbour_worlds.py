"""Two tables that differ in one record, any question of the grammar, and what may differ then.

`pairs` draws a schema, a file format, a table with hostile cells and a neighbour of it; `questions`
draws questions, well-formed and not. `World` is one of the two: registered, with a budget of its
own. `loss` gets the exact statistics that noise was put on in both worlds and says which share of
the paid privacy loss the two really are apart: above 1 the guarantee is broken.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from lethe.data.schema import Schema
from lethe.data.source import File
from lethe.errors import LetheError
from lethe.evidence.of_answers import Charge
from lethe.queries import ask as asking
from lethe.queries import release as releasing
from lethe.queries.grammar import name_text
from lethe.queries.lattice import Exact, Groups
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.mechanisms import additive, choosing, threshold
from lethe.queries.mechanisms.additive import Law, Noised
from lethe.queries.mechanisms.threshold import Found
from lethe.queries.plan import make_plan
from lethe.queries.privacy import Answer, Neighbours, Privacy, Spend
from lethe.queries.query import parse
from lethe.queries.registration import register
from lethe.queries.table import OpenTable

BIG = 2**53
NAMES = ["c", "k0", "u0", "person", "rows", "found", "listed", "a b", 'q"x', "é", "select", "count"]
"""Of columns: those that the statements use themselves, and those that must be quoted."""
DAYS = [0, 18262, 18262, 18262, -719162, 2932896, -719163, 2932897, 2**31 - 1, -(2**31)]
TEXTS = [
    "Kent",
    "Essex",
    "",
    " ",
    "O'Hara",
    'a "quoted" text',
    "two\nlines",
    "carriage\rreturn",
    "\0",
    "nan",
    "x" * 1_000_000,
    "\x1f",
    "K\x1f1",
    "2020-01-01",
    "20200101",
    "01",
    "1",
    "1e3",
    "9007199254740993",
    "true",
    "é",
    "-0",
    "infinity",
]
NUMBERS = [0.0, -0.0, 1.0, 1.5, -2.25, 17.0, 100.0, 1e308, -1e308, 5e-324, math.inf, -math.inf]
NUMBERS += [math.nan, float(BIG), float(BIG + 2), 1e-9, 99.99999999]


def _whole(low: int, high: int) -> list[int]:
    return [v for v in (0, 1, 2, 17, 100, -1, BIG - 1, BIG, BIG + 1) if low <= v <= high] + [
        low,
        high,
        low + 1,
        high - 1,
    ]


MOMENTS = [0, 1, 1_577_836_800_000_000, -62135596800000000, 253402300799999999, 2**63 - 1, -(2**63)]
# How columns of a declared type may be stored, with cells that are hostile there.
STORED: dict[str, list[tuple[Any, list[Any]]]] = {
    "whole": [
        *(
            (kind, _whole(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
            for kind, bits in ((pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32), (pa.int64(), 64))
        ),
        (pa.uint8(), _whole(0, 255)),
        (pa.uint64(), _whole(0, 2**64 - 1)),
        (pa.float64(), NUMBERS),
        (pa.decimal128(38, 2), [Decimal(v) for v in ("0", "1", "1.5", "17.00", "9" * 36, "-0.01")]),
        (pa.bool_(), [True, False]),
        (pa.string(), TEXTS),
    ],
    "number": [
        (pa.float64(), NUMBERS),
        (pa.float32(), [v for v in NUMBERS if not abs(v) > 1e38 or math.isinf(v)]),
        (pa.int16(), _whole(-(2**15), 2**15 - 1)),
        (pa.decimal128(20, 3), [Decimal(v) for v in ("0", "1.5", "17", "9" * 17, "-3.125")]),
        (pa.string(), TEXTS),
    ],
    "bool": [(pa.bool_(), [True, False]), (pa.int8(), [0, 1, 2, -128]), (pa.string(), TEXTS)],
    "text": [(pa.string(), TEXTS), (pa.dictionary(pa.int32(), pa.string()), TEXTS)],
    "date": [
        (pa.date32(), DAYS),
        (pa.timestamp("ms"), [d * 86_400_000 + 1 for d in DAYS]),
        (pa.string(), TEXTS),
    ],
    "time": [
        (pa.timestamp("us"), MOMENTS),
        (pa.timestamp("ms"), MOMENTS),
        (pa.timestamp("ns"), MOMENTS),
        (pa.timestamp("s"), [0, 253402300799, 253402300800, 2**40]),
        (pa.date32(), DAYS),
    ],
}
DECLARED: dict[str, list[dict[str, Any]]] = {
    "whole": [
        {},
        {"bounds": [0, 100]},
        {"bounds": [0, 100], "outside": "clamp"},
        {"bounds": [-(2**70), 2**70]},
        {"values": [0, 1, 17, BIG + 1]},
    ],
    "number": [{}, {"bounds": [0, 100]}, {"bounds": [-1.5, 99.5], "outside": "clamp"}],
    "bool": [{}, {"values": [True]}],
    "text": [{}, {"values": ["Kent", "Essex", "O'Hara"]}],
    "date": [{}, {"bounds": ["2000-01-01", "2030-12-31"]}, {"values": ["2020-01-01"]}],
    "time": [{}, {"bounds": ["0001-01-01", "9999-12-31"], "outside": "clamp"}],
}
LITERALS = {
    "whole": ["0", "1", "17", "100", "17.5", "-1", "1e2", "9007199254740993", "1e30", "-0", "1.0"],
    "number": ["0", "-0", "1.5", "17", "1e2", "100.0", "9007199254740993", "0.1", "1e308", "1e999"],
    "bool": ["true", "false", "1"],
    "text": ["'Kent'", "'Essex'", "'O''Hara'", "''", "'1'", "'2020-01-01'", "'x'"],
    "date": ["'2020-01-01'", "'20200101'", "'2020-W01-3'", "'1970-01-01'"],
    "time": ["'1970-01-01'", "'1970-01-01 00:00'", "'2020-01-01T00:00:00'", "'0001-01-01'"],
}
BOUNDS = ["[0, 100]", "[0, 1]", "[-1.5, 99.5]", "[18, 2018]", "[0, 1e9]"]
BOUNDS += ["[9007199254740990, 2e16]", "[0, 1e-310]", "[0, 1e-20]", "[-1e20, 1e29]"]
PRIVACIES: list[dict[str, Any]] = [
    {"epsilon": 1.0},
    {"epsilon": 1.0, "delta": 1e-6},
    {"rho": 0.5},
    {"mu": 1.0},
]


@dataclass(frozen=True)
class Pair:
    """Two neighbouring tables of one schema, and how they are stored."""

    schema: Schema
    stored: Mapping[str, Any]
    rows: tuple[list[dict[str, Any]], list[dict[str, Any]]]
    form: str
    privacy: Mapping[str, Any]
    writer: Mapping[str, Any] = field(default_factory=dict)


WRITERS: list[dict[str, Any]] = [
    {},
    {"use_dictionary": False},
    {"use_dictionary": False, "row_group_size": 3},
    {"row_group_size": 2, "write_page_index": True},
    {"write_statistics": False},
]
"""How a Parquet file is written; nothing of it may show."""


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """A schema of two to four columns besides the person's, and tables of up to seven rows."""
    form = draw(st.sampled_from(["parquet", "int96", "csv", "duckdb"]))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True))
    columns, stored, cells = {}, {}, {}
    for name in names:
        kind = draw(st.sampled_from(sorted(STORED)))
        columns[name] = {"type": kind, **draw(st.sampled_from(DECLARED[kind]))}
        stored[name], hostile = draw(st.sampled_from(STORED[kind]))
        if form == "csv":
            stored[name], hostile = pa.string(), [*TEXTS, *map(_as_text, hostile)]
        if form == "duckdb" and str(stored[name]) in ("timestamp[s]", "timestamp[ms]"):
            stored[name], hostile = pa.timestamp("us"), MOMENTS
        cells[name] = [None, *hostile]
    columns["who"], stored["who"] = {"type": "whole"}, pa.int64()
    if form == "csv":
        stored["who"] = pa.string()
    people = [None, 1, 2, 3]

    def row(person: Any) -> dict[str, Any]:
        made = {name: draw(st.sampled_from(cells[name])) for name in names}
        made["who"] = person if form != "csv" or person is None else str(person)
        return made

    rows = [row(draw(st.sampled_from(people))) for _ in range(draw(st.integers(0, 6)))]
    privacy = dict(draw(st.sampled_from(PRIVACIES)))
    privacy["relation"] = draw(st.sampled_from(["add/remove", "replace-one"]))
    if draw(st.booleans()):
        privacy |= {"person": "who", "rows": draw(st.integers(1, 3))}
        other = [made for made in rows if made["who"] != "1" and made["who"] != 1]
        if privacy["relation"] == "replace-one":
            # another person in the place of person 1
            other += [row(9) for _ in range(draw(st.integers(0, 3)))]
    else:
        at = draw(st.integers(0, len(rows)))
        other = [*rows[:at], row(draw(st.sampled_from(people))), *rows[at:]]
        if privacy["relation"] == "replace-one":
            rows = [*rows[:at], row(draw(st.sampled_from(people))), *rows[at:]]
        elif draw(st.booleans()):
            rows, other = other, rows
    schema = Schema.of(columns)
    writer = draw(st.sampled_from(WRITERS)) if form in ("parquet", "int96") else {}
    return Pair(schema, stored, (rows, other), form, privacy, writer)


def _as_text(cell: Any) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


@st.composite
def questions(draw: st.DrawFn, schema: Schema) -> str:
    """A question about some of the columns; some have the wrong type or spelling."""
    names = st.sampled_from(list(schema))
    aggregate = draw(st.sampled_from(sorted(AGGREGATES)))
    column = draw(names)
    if aggregate in ("sum", "mean", "variance", "median", "quantile", "bins") and draw(
        st.integers(0, 9)
    ):
        column = _of_types(draw, schema, ("whole", "number", "bool")) or column
    second = _of_types(draw, schema, ("whole", "number", "bool")) or draw(names)
    text = AGGREGATES[aggregate].format(
        x=name_text(column),
        y=name_text(second),
        bounds=draw(st.sampled_from(BOUNDS)),
        other=draw(st.sampled_from(BOUNDS)),
        among=_list(draw, schema, column),
    )
    if draw(st.integers(0, 2)) == 0:
        text += f" where {_condition(draw, schema, draw(names))}"
        if draw(st.booleans()):
            word = draw(st.sampled_from(["and", "or", "and not"]))
            text += f" {word} {_condition(draw, schema, draw(names))}"
    if draw(st.integers(0, 1)) == 0:
        key = draw(names)
        text += f" by {name_text(key)}"
        if draw(st.integers(0, 2)):
            text += f" among {_list(draw, schema, key)}"
    return text


AGGREGATES = {
    "count": "count()",
    "sum": "sum({x}) in {bounds}",
    "mean": "mean({x}) in {bounds}",
    "variance": "variance({x}) in {bounds}",
    "median": "median({x}) in {bounds}",
    "quantile": "quantile({x}, 0.9) in {bounds} step 7",
    "bins": "histogram({x}) in {bounds} bins 3",
    "categories": "histogram({x}) among {among}",
    "mode": "mode({x}) among {among}",
    "regress": "regress({x} in {bounds}, {y} in {other})",
}


def _of_types(draw: st.DrawFn, schema: Schema, types: Sequence[str]) -> str | None:
    fitting = [name for name in schema if schema[name].type in types]
    return draw(st.sampled_from(fitting)) if fitting else None


def _literal(draw: st.DrawFn, schema: Schema, name: str) -> str:
    column = schema[name]
    if column.values and draw(st.integers(0, 3)):
        value = column.shown(draw(st.sampled_from(column.values)))
        if isinstance(value, bool):
            return str(value).lower()
        return str(value) if not isinstance(value, str) else "'" + value.replace("'", "''") + "'"
    return draw(st.sampled_from(LITERALS[column.type]))


def _list(draw: st.DrawFn, schema: Schema, name: str) -> str:
    count = draw(st.integers(1, 3))
    values = [_literal(draw, schema, name) for _ in range(count)]
    return f"[{', '.join(dict.fromkeys(values) if draw(st.integers(0, 5)) else values)}]"


def _condition(draw: st.DrawFn, schema: Schema, name: str) -> str:
    form = draw(
        st.sampled_from(["{x} {op} {v}", "{x} in {l}", "{x} is null", "{x} between {v} and {w}"])
    )
    return form.format(
        x=name_text(name),
        op=draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="])),
        v=_literal(draw, schema, name),
        w=_literal(draw, schema, name),
        l=_list(draw, schema, name),
    )


def write(pair: Pair, rows: Sequence[Mapping[str, Any]], folder: Path) -> File:
    """Store a table as its pair says."""
    names = list(pair.schema)
    columns = [_array([row[name] for row in rows], pair.stored[name]) for name in names]
    table = pa.table(dict(zip(names, columns, strict=True)))
    path = folder / f"t.{'parquet' if pair.form == 'int96' else pair.form}"
    if path.suffix == ".parquet":
        long_times = pair.form == "int96"
        pq.write_table(table, path, use_deprecated_int96_timestamps=long_times, **pair.writer)
    elif pair.form == "duckdb":
        with duckdb.connect(str(path)) as base:
            base.register("given", table)
            base.execute("CREATE TABLE t AS SELECT * FROM given")
    else:
        lines = [",".join(map(_quoted, names))]
        lines += [",".join(_quoted(row[name]) for name in names) for row in rows]
        path.write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    return File(path)


def _array(cells: list[Any], kind: Any) -> Any:
    if pa.types.is_dictionary(kind):
        return pa.array(cells, pa.string()).dictionary_encode()
    if pa.types.is_date(kind):
        return pa.array(cells, pa.int32()).view(pa.date32())
    if pa.types.is_timestamp(kind):
        return pa.array([_fits(cell) for cell in cells], pa.int64()).view(kind)
    return pa.array(cells, kind)


def _fits(cell: int | None) -> int | None:
    return None if cell is None else max(-(2**63), min(2**63 - 1, cell))


def _quoted(cell: Any) -> str:
    return "" if cell is None else '"' + str(cell).replace('"', '""') + '"'


class World:
    """One of the two tables, registered, with an open table and a ledger of its own."""

    def __init__(self, pair: Pair, rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
        folder.mkdir()
        self.registered = register(write(pair, rows, folder), pair.schema)
        self.table = OpenTable(self.registered, threads=1)
        self.ledger = open_ledger(folder / "b.db")
        rule = "mu2" if "mu" in pair.privacy else "rho" if "rho" in pair.privacy else "epsilon"
        self.ledger.create(
            "t",
            Charge(rule, 10**15, 10**17 if rule == "epsilon" else 0),
            fingerprint=self.registered.fingerprint(),
            relation=pair.privacy["relation"],
            unit="user" if "person" in pair.privacy else "record",
            schema=self.registered.terms(pair.privacy.get("person"), pair.privacy.get("rows")),
        )

    def close(self) -> None:
        self.table.close()
        self.ledger.close()


@dataclass
class Outcome:
    """All that an analyst sees of a question, less the noisy values, and what noise was put on."""

    seen: Any
    exact: Groups | None
    entries: list[Any]
    plan: Any = None


def outcome(world: World, question: str, privacy: Privacy) -> Outcome:
    """Ask for real, payment and noise included."""
    caught: list[Groups] = []
    real = releasing.release

    def release(query: Any, groups: Groups, *rest: Any) -> Any:
        caught.append(groups)
        return real(query, groups, *rest)

    before = world.ledger.status("t").entries
    plan, found_groups = None, False
    with mock.patch.object(asking, "release", release):
        try:
            plan = make_plan(parse(question), world.table.schema, privacy)
            reply = asking.answer(world.table, plan, world.ledger, "t", "ann")
            found_groups = plan.query.finds_groups
            rows = [_shape(row) for row in reply.answers.rows]
            seen: Any = (
                "answered",
                None if found_groups else rows,  # which groups show has a delta of its own
                reply.answers.guarantee,
                reply.charge,
                reply.left,
                str(plan.query),
                plan.notes,
            )
        except LetheError as error:
            seen = (type(error).__name__, str(error), error.exit_code)
    entries = [
        (entry.kind, entry.analyst, public(entry, found_groups))
        for entry in world.ledger.entries("t")
        if entry.number >= before
    ]
    return Outcome(seen, caught[-1] if caught else None, entries, plan)


def public(entry: Any, found_groups: bool = False) -> Any:
    """An entry without what is drawn and the keyed hash; of groups that are found, not which."""
    body = json.loads(entry.body)
    if entry.kind != "answer":
        return {**body, "query": body.get("query", "").rpartition(" | ")[0]}
    answer = json.loads(body["answer"])
    for row in answer["rows"]:
        row.update({name: row[name] is None for name in ("value", "low", "high", "scale")})
    if found_groups:
        answer["rows"] = None
    return json.dumps(answer)


def _shape(row: Answer) -> tuple[Any, ...]:
    return (
        [[name, str(value)] for name, value in row.key.items()],
        sorted(row.key),
        type(row.value).__name__ if not isinstance(row.value, bool | str) else "choice",
        row.mechanism,
        row.confidence,
        row.notes,
        row.guarantee,
    )


@dataclass
class Boundary:
    """What the mechanisms were given, in the order in which they were asked."""

    calls: list[tuple[str, Any, Any, Spend]] = field(default_factory=list)

    def noised(self, exact: Sequence[int], *, l1: int, l2: float, spend: Spend) -> Noised:
        self.calls.append(("sum", tuple(exact), (l1, l2), spend))
        return Noised(tuple(map(float, exact)), Law("discrete laplace", 1.0))

    def exponential(self, candidates: Any, utility: Any, **given: Any) -> Answer:
        spend, whose = given["spend"], given.get("whose") or Neighbours()
        sensitivity, monotone = given["sensitivity"], given.get("monotone", False)
        self.calls.append(("score", tuple(utility), (sensitivity, monotone), spend))
        return Answer(candidates[0], None, None, 0.95, "x", 1.0, whose.guarantee(spend), {}, ("n",))

    def found_keys(
        self, counts: dict[int, int], *, groups: int, largest: int, total: int, spend: Spend
    ) -> Found:
        self.calls.append(("keys", dict(counts), (groups, largest, total), spend))
        return Found(dict(counts), 0, Law("discrete laplace", 1.0))


@contextmanager
def boundary() -> Iterator[Boundary]:
    """Noise off: everything below the statistics notes what it is given and hands it on."""
    seen = Boundary()
    with (
        mock.patch.object(additive, "noised", seen.noised),
        mock.patch.object(choosing, "exponential", seen.exponential),
        mock.patch.object(threshold, "found_keys", seen.found_keys),
    ):
        yield seen


def loss(first: Outcome, second: Outcome, privacy: Privacy) -> float:
    """Which share of the paid loss the exact statistics of both worlds are apart; 0 if refused."""
    if first.exact is None or second.exact is None:
        assert first.exact is second.exact is None
        return 0.0
    plan = first.plan
    sums, cells = len(plan.layout.sums), plan.layout.cells
    none = Exact(0, (0,) * sums, (0,) * cells)
    union = sorted({*first.exact, *second.exact}, key=lambda group: tuple(map(str, group)))
    if not union:
        return 0.0
    given = []
    for world in (first, second):
        padded = {group: world.exact.get(group, none) for group in union}
        with boundary() as seen:
            releasing.release(plan.query, padded, plan.layout, privacy)
        given.append(seen.calls)
    assert len(given[0]) == len(given[1])
    return sum(_apart(one, other, privacy.spend) for one, other in zip(*given, strict=True))


def _apart(one: Any, other: Any, whole: Spend) -> float:
    kind, mine, sensitivity, spend = one
    assert (kind, sensitivity, spend) == (other[0], other[2], other[3])
    theirs = other[1]
    if kind == "keys":
        groups, largest, total = sensitivity
        names = {*mine, *theirs}
        moved = [abs(mine.get(name, 0) - theirs.get(name, 0)) for name in names]
        share = max(
            sum(x > 0 for x in moved) / groups, max(moved, default=0) / largest, sum(moved) / total
        )
        return share * _part(spend, whole)
    moved = [a - b for a, b in zip(mine, theirs, strict=True)]
    if kind == "score":
        size, monotone = sensitivity
        if monotone:
            assert all(x >= 0 for x in moved) or all(x <= 0 for x in moved)
        share = max(map(abs, moved)) / size
        squared = whole.rho is not None or whole.mu is not None
        return (share**2 if squared else share) * _part(spend, whole)
    l1, l2 = sensitivity
    share = sum(map(abs, moved)) / l1
    root = math.sqrt(sum(x * x for x in moved)) / l2
    if spend.epsilon is not None and spend.delta is None:
        return share * _part(spend, whole)
    if spend.epsilon is not None:
        return root * _part(spend, whole)
    return root**2 * _part(spend, whole)


def _part(spend: Spend, whole: Spend) -> float:
    """The share of the whole cost that a call may spend, in the currency that adds up."""
    if whole.rho is not None:
        return spend.rho / whole.rho
    if whole.mu is not None:
        return (spend.mu / whole.mu) ** 2
    return spend.epsilon / whole.epsilon
