"""A statement of `lethe.queries.table` in the words of another database, through sqlglot.

PostgreSQL differs from DuckDB where it matters: it rounds halves to even, its products of floating
point numbers fail where they overflow or vanish, and it counts the length of a text in characters.
Such places are rewritten so that both give the same whole numbers and no cell makes either fail.
What is not known to mean the same in both is refused.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lethe.data.schema import Schema
from lethe.errors import InputError, check_choice, require

if TYPE_CHECKING:
    from sqlglot import exp

_SAME = (
    "Abs Alias And Between Boolean Case Cast Coalesce Column Count DPipe DataType Div EQ Explode "
    "Floor From GT GTE Greatest Group Identifier If In Is Join LT LTE Least Literal MD5 Mul NEQ "
    "Neg Not Null Or Order Ordered Paren Placeholder Qualify Round RowNumber Select Star Sub "
    "Subquery Sum Table TableAlias Where Window Anonymous"
).split()
"""What a statement may be made of: known to mean the same in both, or rewritten."""
_TINY, _HUGE = 1e-150, 1e150
"""Beyond, a factor makes no difference: bounds are at most 1e30, and steps at least 1e-40."""
_FACTORS = 1e-100, 1e100


@functools.lru_cache(128)  # of the statement and the types of its columns alone
def to_postgres(text: str, schema: Schema) -> str:
    """A statement about the table `rows` as PostgreSQL has it.

    Args:
        text: in DuckDB's words, made by `lethe.queries.table.statement`.
        schema: of the rows.

    Returns:
        The statement, with the parameters $1, $2, ... in the order of the marks in `text`.

    Raises:
        InputError: it holds something whose meaning there is not known.
        MissingExtra: sqlglot is not installed.
    """
    tree = _parsed(text)
    for node in tree.walk():
        if type(node).__name__ not in _SAME:
            raise _unknown(node)
    reals = {
        alias.alias
        for alias in tree.find_all(_exp().Alias)
        if isinstance(alias.this, _exp().Column) and _type(alias.this, schema) == "number"
    }
    holder = _exp().Paren(this=tree)
    for node in reversed(list(tree.walk())):  # what is inside comes first
        made = _rewritten(node, schema, reals)
        if made is not node:
            node.replace(made)
    return str(holder.this.sql("postgres"))


def as_text(text: str, dialect: str) -> str:
    """A statement in the words of a database that is not asked: generated, and not run by anybody.

    No guarantee covers it: what rounding, overflow and missing cells do there was not looked at.

    Args:
        dialect: "spark" or "bigquery".

    Raises:
        InputError: another dialect.
        MissingExtra: sqlglot is not installed.
    """
    exp, bytes_of = _exp(), {"spark": "octet_length", "bigquery": "byte_length"}
    name = bytes_of[check_choice("dialect", dialect, bytes_of)]
    tree = _parsed(text)
    for node in list(tree.find_all(exp.Anonymous)):
        if node.name.lower() == "strlen":
            node.set("this", name)
    return str(tree.sql(dialect))


def _exp() -> Any:
    return require("sqlglot", "postgres").exp


def _parsed(text: str) -> exp.Expression:
    """The tree, with numbers on its parameters: a translation puts them in another order."""
    sqlglot = require("sqlglot", "postgres")
    marks = [t for t in sqlglot.tokenize(text, read="duckdb") if t.token_type.name == "PLACEHOLDER"]
    for number, mark in reversed(list(enumerate(marks, 1))):
        text = f"{text[: mark.start]}${number}{text[mark.end + 1 :]}"
    tree: exp.Expression = sqlglot.parse_one(text, read="duckdb")
    return tree


def _type(column: Any, schema: Schema) -> str | None:
    return schema[column.name].type if column.name in schema else None


def _rewritten(node: Any, schema: Schema, reals: set[str]) -> Any:
    exp = _exp()
    if isinstance(node, exp.Placeholder):
        return exp.Parameter(this=exp.Literal.number(node.this))
    if isinstance(node, exp.DataType) and node.this == exp.DType.INT128:
        return exp.DataType(this=exp.DType.DECIMAL)
    if isinstance(node, exp.Anonymous):
        if node.name.lower() != "strlen":
            raise _unknown(node)
        return exp.cast(exp.func("octet_length", *node.expressions), "text")
    if isinstance(node, exp.MD5):  # in the order of its bytes
        return exp.Collate(this=node.copy(), expression=exp.to_identifier("C", quoted=True))
    if isinstance(node, exp.Cast):
        return _cast(node, schema, reals)
    if isinstance(node, exp.Mul | exp.Div):
        return _times(node)
    if isinstance(node, exp.Sub):
        less = node.expression.unnest()
        less = less.this if isinstance(less, exp.Neg) else less
        if isinstance(less, exp.Literal) or _constant(less) is not None:
            return node
        raise _unknown(node)
    if isinstance(node, exp.Round):
        if node.args.get("decimals") is not None:
            raise _unknown(node)
        return _each(node.this, _half_away)
    return node


def _cast(node: Any, schema: Schema, reals: set[str]) -> Any:
    exp = _exp()
    if not isinstance(node.this, exp.Column):
        return node
    if node.is_type("bigint", "double", "int") and _type(node.this, schema) == "bool":
        return exp.cast(exp.cast(node.this.copy(), "int"), node.to.copy())
    if node.is_type("text") and node.this.name in reals:
        # DuckDB writes 1.0 where PostgreSQL writes 1.
        pattern, with_point = (exp.Literal.string(part) for part in (r"^(-?[0-9]+)$", r"\1.0"))
        return exp.Anonymous(this="regexp_replace", expressions=[node.copy(), pattern, with_point])
    return node


def _is_unit(node: Any) -> bool:
    """Whether it is one of the steps u0, u1, ... of a row, which a layout keeps small."""
    is_name = isinstance(node, _exp().Column) and not node.this.args.get("quoted")
    return is_name and node.name[:1] == "u" and node.name[1:].isdecimal()


def _constant(node: Any) -> float | None:
    exp = _exp()
    if isinstance(node, exp.Cast) and node.is_type("double") and node.this.is_string:
        return float(node.this.name)
    return None


def _double(number: float) -> Any:
    exp = _exp()
    return exp.Cast(this=exp.Literal.string(repr(number)), to=exp.DataType(this=exp.DType.DOUBLE))


def _each(node: Any, changed: Callable[[Any], Any]) -> Any:
    """A function of a number, taken in every branch of a CASE instead of after it.

    So nothing is computed twice, and of fixed values nothing at all.
    """
    exp = _exp()
    if isinstance(node, exp.Paren):
        return _each(node.this, changed)
    if not isinstance(node, exp.Case) or node.this is not None:
        whole = node if isinstance(node, exp.Column | exp.Cast) else exp.paren(node.copy())
        return exp.paren(changed(whole))
    found = exp.Case()
    for branch in node.args["ifs"]:
        found = found.when(branch.this.copy(), _each(branch.args["true"], changed), copy=False)
    default = node.args.get("default")
    return found if default is None else found.else_(_each(default, changed), copy=False)


def _half_away(number: Any) -> Any:
    """Rounded with halves away from zero; every step is exact."""
    exp, value = _exp(), _constant(number)
    if value is not None:
        away = math.trunc(value) + math.trunc((value - math.trunc(value)) * 2)
        return _double(float(away))

    def whole(part: Any) -> Any:
        return exp.Anonymous(this="trunc", expressions=[part])

    rest = exp.paren(exp.Sub(this=number.copy(), expression=whole(number.copy())))
    twice = exp.Mul(this=rest, expression=exp.Literal.number(2))
    return exp.Add(this=whole(number.copy()), expression=whole(twice))


def _times(node: Any) -> Any:
    """A product or quotient with a fixed number that no cell makes fail; others are of steps."""
    exp = _exp()
    factor = _constant(node.expression)
    if factor is None:
        if isinstance(node, exp.Mul) and _is_unit(node.this) and _is_unit(node.expression):
            return node
        raise _unknown(node)
    if not _FACTORS[0] < abs(factor) < _FACTORS[1]:
        raise _unknown(node)
    divides = isinstance(node, exp.Div)

    def times(number: Any) -> Any:
        value = _constant(number)
        if value is not None:
            return _double(value / factor if divides else value * factor)
        size = exp.Abs(this=number.copy())
        if divides:
            made = exp.Div(this=number.copy(), expression=_double(factor), typed=True, safe=False)
        else:
            made = exp.Mul(this=number.copy(), expression=_double(factor))
        inside = exp.Between(this=size, low=_double(_TINY), high=_double(_HUGE))
        smaller = exp.LT(this=size.copy(), expression=_double(_TINY))
        above = exp.GT(this=number.copy(), expression=_double(0.0))
        below = exp.LT(this=number.copy(), expression=_double(0.0))
        up = _HUGE if factor > 0 else -_HUGE
        return (
            exp.Case()
            .when(inside, made, copy=False)
            .when(smaller, _double(0.0), copy=False)
            .when(above, _double(up), copy=False)
            .when(below, _double(-up), copy=False)
        )

    return _each(node.this, times)


def _unknown(node: Any) -> InputError:
    return InputError(
        f"{type(node).__name__} in the statement of this aggregate is not known to mean the same "
        "in PostgreSQL. Ask about a file, or change the aggregate's layout."
    )
