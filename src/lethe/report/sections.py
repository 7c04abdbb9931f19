"""What a report is made of: sections of words, facts, tables, charts and folded details.

Rooms fill these; a renderer of any medium prints them and asks for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from lethe.evidence.estimate import Refusal
from lethe.evidence.plain import described
from lethe.report.catalogue import say
from lethe.report.numbers import UNITS, Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Row = tuple[str, Sequence[Cell | str]]
"""Name of a row, and its cells: numbers, or texts."""


@dataclass(frozen=True)
class Words:
    """A paragraph.

    Attributes:
        text: plain text.
        tone: "" or ``warning``, ``note``, ``strong``.
    """

    kind: ClassVar[str] = "words"
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences.

    Attributes:
        anchor: links to the items, which are numbered, begin with it; empty = without numbers.
    """

    kind: ClassVar[str] = "bullets"
    items: Sequence[str]
    anchor: str = ""


@dataclass(frozen=True)
class Facts:
    """Rows of label and text; an empty text is printed as a dash.

    Attributes:
        rows: label, text.
        absent: labels that nobody filled in.
        title: heading; may be empty.
    """

    kind: ClassVar[str] = "facts"
    rows: Sequence[tuple[str, str]]
    absent: frozenset[str] = frozenset()
    title: str = ""


@dataclass(frozen=True)
class Mark:
    """A row of the table of options.

    Attributes:
        limit: upper limit of its risk, as the slider reads it; empty = not known.
        best: whether it is the recommended one.
    """

    limit: str
    best: bool


@dataclass(frozen=True)
class Table:
    """Numbers side by side; the first column names the row.

    Attributes:
        title: what it shows; the name of the box it scrolls in.
        heads: of the columns, that of the names first.
        rows: name, and cells (numbers, at the right) or texts (at the left).
        note: below the title; may be empty.
        marks: of every row, how the slider and the eye find it; empty = rows without marks.
    """

    kind: ClassVar[str] = "table"
    title: str
    heads: Sequence[str]
    rows: Sequence[Row]
    note: str = ""
    marks: Sequence[Mark] = ()

    @property
    def numeric(self) -> list[bool]:
        """Of every column, whether it holds numbers."""
        columns = [
            any(isinstance(cells[place], Cell) for _, cells in self.rows)
            for place in range(len(self.heads) - 1)
        ]
        return [False, *columns]

    def made_by(self, methods: Sequence[str]) -> list[tuple[str, list[int]]]:
        """Of every column with intervals, its heading and the numbers of their methods.

        Args:
            methods: of the document; the first has number 1.
        """
        numbers = {method: number for number, method in enumerate(methods, start=1)}
        columns = []
        for place, head in enumerate(self.heads[1:]):
            cells = [cells[place] for _, cells in self.rows]
            known = {numbers.get(cell.method) for cell in cells if isinstance(cell, Cell)}
            columns.append((head, sorted(number for number in known if number)))
        return [(head, known) for head, known in columns if known]


Column = str | tuple[str, str | Callable[[Any], Cell | str]]
"""Of a table over results: a heading, and the path to a number (see `unit_of`), printed as its unit
says, or how to print a row. A path alone is the key of its heading, too; ``key=path`` has another.
"""


def table(
    title: str,
    first: str,
    rows: Sequence[tuple[str, Any]],
    columns: Sequence[Column],
    heads: str = "",
    note: str = "",
    units: Mapping[str, Callable[[Any], Cell | str]] = UNITS,
) -> Table:
    """A table over results: a row for each, a column for each field.

    A column that is refused throughout for one reason becomes a sentence of the note.

    Args:
        title: what it shows.
        first: heading of the names.
        rows: names, and results of one type, see `lethe.evidence.plain`.
        columns: in the order of the page.
        heads: where the catalogue keeps the headings of fields, such as ``slices.``.
        note: below the title.
        units: how fields are printed, by unit.
    """

    def reader(column: Column) -> tuple[str, Callable[[Any], Cell | str]]:
        if isinstance(column, str):
            key, _, path = column.partition("=")
            column = say(heads + key), path or key
        head, how = column
        if not isinstance(how, str):
            return head, how
        form = units[unit_of(type(rows[0][1]), how)] if rows else str
        return head, lambda row: form(value_of(row, how))

    notes, kept = [note] * bool(note), list[tuple[str, Sequence[Cell | str]]]()
    for head, read in map(reader, columns):
        cells = [read(row) for _, row in rows]
        reasons = {cell.reason if isinstance(cell, Cell) else "" for cell in cells}
        if len(cells) > 1 and len(reasons) == 1 and (reason := reasons.pop()):
            notes.append(say("unmeasured.column", column=head, reason=reason.rstrip(".")))
        else:
            kept.append((head, cells))
    body = [(name, [cells[at] for _, cells in kept]) for at, (name, _) in enumerate(rows)]
    return Table(title, [first, *(head for head, _ in kept)], body, " ".join(notes))


def unit_of(kind: Any, path: str) -> str:
    """The unit of a field or property, such as ``share``; empty where its type says none.

    Args:
        path: a name, or names and keys on the way to a number, such as ``calibrated.match``.

    >>> unit_of(Facts, "title")  # a text has none
    ''
    """
    for name in path.split("."):
        known = [kind, *(part for part in get_args(kind) if part is not Refusal)]
        if several := [part for part in known if get_origin(part) in (Mapping, Sequence)]:
            kind = get_args(several[0])[-1]
            continue
        owner: Any = next(part for part in known if is_dataclass(part))
        if isinstance(made := getattr(owner, name, None), property):
            kind = get_type_hints(made.fget, include_extras=True)["return"]
        else:
            kind = next(hint for field, _, hint, _ in described(owner) if field == name)
    known = [kind, *get_args(kind)]
    return next((hint.__metadata__[0] for hint in known if hasattr(hint, "__metadata__")), "")


def value_of(result: Any, path: str) -> Any:
    """The value at a path, see `unit_of`; None where a part of the path is absent."""
    for name in path.split("."):
        if isinstance(result, Mapping):
            result = result.get(int(name) if name.isdigit() else name)
        elif isinstance(result, Sequence):
            result = result[int(name)]
        else:
            result = getattr(result, name, None)
    return result


@dataclass(frozen=True)
class Chart:
    """A figure.

    Attributes:
        title: what it shows.
        name: of its file, such as ``roc``; unique in a document.
        svg: as it stands in the page.
        draw: the same as a matplotlib figure, for `Findings.plot`.
        narrow: the same for a phone; empty = the same chart.
    """

    kind: ClassVar[str] = "chart"
    title: str
    name: str
    svg: str
    draw: Callable[[], Figure]
    narrow: str = ""


@dataclass(frozen=True)
class Folded:
    """Details that are closed until asked for."""

    kind: ClassVar[str] = "folded"
    title: str
    parts: Sequence[Part]


Part = Words | Bullets | Facts | Table | Chart | Folded


@dataclass(frozen=True)
class Section:
    """A heading, one sentence, one picture or table, and folded details.

    Attributes:
        id: where links lead.
        title: heading.
        lead: one sentence.
        parts: in the order of the page.
        nav: its entry in the navigation; empty = it has none.
        appendix: whether it stands behind the signed pages when printed.
    """

    id: str
    title: str
    lead: str
    parts: Sequence[Part] = ()
    nav: str = ""
    appendix: bool = False


def named(rows: Sequence[T]) -> list[tuple[str, T]]:
    """Results with their names, see `table`."""
    return [(str(row.name), row) for row in rows]  # type: ignore[attr-defined]  # they have one


def personal(kept: bool, shown: Table) -> list[Part]:
    """A list of people or records, folded and with its warning; a note where none was `kept`."""
    if not kept:
        return [Words(say("exposed.not_kept"), "note")]
    folded = Folded(shown.title, [Words(say("exposed.personal"), "warning"), shown])
    return [folded] if shown.rows else []


def charts(parts: Sequence[Part | Section]) -> list[Chart]:
    """Every chart, folded ones included, in order."""
    listed: list[Chart] = []
    for part in parts:
        if isinstance(part, Chart):
            listed.append(part)
        elif isinstance(part, Folded | Section):
            listed += charts(part.parts)
    return listed
