"""One recoded release of a table: its classes, what they give away, and what it is good for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Codes, encode
from lethe.evidence.estimate import Measured
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.risk import AttackResult
from lethe.linkage.anonymity import anonymity, diversity
from lethe.linkage.answers import answers_kept
from lethe.linkage.codes import counted
from lethe.linkage.crowd import Crowd, crowd_of
from lethe.linkage.domains import columns_of, domains_of
from lethe.linkage.dp_rows import check_installed
from lethe.linkage.homogeneity import disclosure
from lethe.linkage.kept import counts_kept
from lethe.linkage.recoding import Ladder, ladder, released_columns
from lethe.linkage.settings import TableSettings
from lethe.linkage.table_rows import Table
from lethe.linkage.use import Use, split, use_of
from lethe.linkage.way import Way, less
from lethe.linkage.worth import Worth, counted_worth, lost

_ASSUMED = (
    "the adversary knows the quasi-identifiers that were named, exactly, and no other column",
    "one row a person",
)
_KNOWN = "the quasi-identifiers of everybody, exactly"
_NO_PROOF = "k-anonymity is no proof of privacy: classes can share a sensitive value"
Plan = tuple[str, str, tuple[int, ...], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Bench:
    """What every candidate of a table is measured with.

    Attributes:
        table: the original.
        ladders: of its quasi-identifiers.
        secret: (rows,) codes of the sensitive column; None without one.
        settings: of the audit.
        crowd: the population table; None without one.
        use: a model as utility; None = counts or queries.
        held_out: (rows,) which rows the model is tested on.
    """

    table: Table
    ladders: tuple[Ladder, ...]
    secret: Codes | None
    settings: TableSettings
    crowd: Crowd | None
    use: Use | None
    held_out: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Measurement:
    """A candidate, and its utility in parts."""

    way: Way
    worth: Worth


def bench_of(table: Table, settings: TableSettings) -> Bench:
    """Code the columns, and hold rows out where a model is the utility.

    Raises:
        InputError: columns, a population or a utility model that cannot be read, or a schema that
            does not declare what synthetic rows need.
        NotMeasurable: too few rows to hold some out.
        MissingExtra: synthetic rows are asked for without the libraries they need.
    """
    if settings.epsilon:
        check_installed()
        if settings.schema is not None:
            domains_of(settings.schema, settings.bins)
            columns_of(settings.schema, {**table.plain, **table.typed})
            for name in (*table.quasi, *(() if table.sensitive is None else (table.sensitive,))):
                _ = settings.schema[name]  # refuses a name that it does not have
    secret = None if table.sensitive is None else encode(table.columns[table.sensitive]).codes
    use = use_of(settings, table.plain)
    return Bench(
        table,
        tuple(ladder(name, table.columns[name], table.times) for name in table.quasi),
        secret,
        settings,
        None
        if table.population is None
        else crowd_of(table.columns, table.quasi, table.population),
        use,
        np.zeros(0, bool) if use is None else split(table.rows, settings),
    )


def measure_recoded(bench: Bench, plan: Plan, base: Measurement | None) -> Measurement:
    """Everything is a share of the rows of the table, those that are not released included.

    Args:
        bench: see `Bench`.
        plan: name, words, step of each ladder, and which rows are released.
        base: the table as it is; None for itself.

    Raises:
        NotMeasurable: the utility model has nothing to learn from.
    """
    name, words, steps, kept = plan
    table, ladders, settings = bench.table, bench.ladders, bench.settings
    rows, sure = table.rows, settings.confidence
    columns = [one.at(step)[kept] for one, step in zip(ladders, steps, strict=True)]
    weight = None if table.times is None else table.times[kept]
    found = anonymity(columns, confidence=sure, times=weight)
    alone = int((found.of_class.size == 1).sum())
    evidence: dict[str, Measured] = {
        "marketer": counted(found.classes / rows, rows, sure),
        "prosecutor": counted(found.prosecutor, rows, sure),
        "unique": counted(alone / rows, rows, sure),
    }
    details: dict[str, Any] = {
        "k": found.k,
        "classes": found.classes,
        "released": found.of_class.rows,
        "steps": {
            one.name: {
                "step": step,
                "of": len(one.steps) - 1,
                "groups": int(one.steps[step].max()) + 1,
            }
            for one, step in zip(ladders, steps, strict=True)
        },
    }
    part = found.of_class.rows / rows
    if bench.crowd is not None:
        told_of = bench.crowd.risk(ladders, steps, kept, table.times, sure)
        evidence["journalist"] = counted(told_of.highest, rows, sure)
        mean = counted(part * (told_of.mean.value or 0.0), rows, sure)
        evidence["population_marketer"] = mean
    if bench.secret is not None:
        secret = bench.secret[kept]
        told = disclosure(found.of_class, secret, ruled_out=settings.ruled_out, confidence=sure)
        varied = diversity(found.of_class, secret, distance=settings.distance)
        evidence["certain"] = counted(part * (told.homogeneous.value or 0.0), rows, sure)
        details |= {
            "guessed": told.guessed[0].to_json(),
            "blind": told.blind.to_json(),
            "distinct_l": varied.distinct_l,
            "entropy_l": varied.entropy_l,
            "t": varied.t,
            "alpha": varied.alpha,
        }
    taken = {f"step of {one.name}": step for one, step in zip(ladders, steps, strict=True) if step}
    assumed = (*_ASSUMED, _NO_PROOF) if name.startswith("k-") else _ASSUMED
    worth = _worth(bench, steps, kept)
    return concluded(bench, name, words, taken, evidence, details, worth, base, assumed)


def concluded(
    bench: Bench,
    name: str,
    words: str,
    taken: Mapping[str, Any],
    evidence: dict[str, Measured],
    details: dict[str, Any],
    worth: Worth,
    base: Measurement | None,
    assumed: tuple[str, ...] = (),
    proof: Guarantee | None = None,
) -> Measurement:
    """A candidate, compared with the table as it is."""
    rows, sure = bench.table.rows, bench.settings.confidence
    marketer = evidence["marketer"]
    details |= {
        key: evidence[key].to_json()
        for key in ("unique", "prosecutor", "journalist", "population_marketer", "certain")
        if key in evidence
    }
    loss = change = None
    if base is not None:
        loss = lost(base.worth, worth, sure)
        before, now = (getattr(one, "value", None) or 0.0 for one in (base.way.risk, marketer))
        change = less(now, before, rows, sure)
        evidence["utility-loss"] = loss
    attacks = [AttackResult("marketer", marketer, knows=_KNOWN)]
    if "population_marketer" in evidence:
        linked = evidence["population_marketer"]
        attacks.append(AttackResult("population", linked, knows=f"{_KNOWN}; a population table"))
    way = Way(
        name, words, taken, attacks, worth.utility, loss, change, evidence, details, assumed, proof
    )
    return Measurement(way, worth)


def _worth(bench: Bench, steps: Sequence[int], kept: NDArray[np.bool_]) -> Worth:
    table, ladders, settings = bench.table, bench.ladders, bench.settings
    if bench.use is not None:
        written = released_columns(table.plain, ladders, steps, np.ones(len(kept), bool))
        learnt, out = kept & ~bench.held_out, bench.held_out
        return bench.use.worth(taken(written, learnt), taken(table.plain, out), taken(written, out))
    if settings.queries:
        released = released_columns(table.plain, ladders, steps, kept)
        value = answers_kept(table.plain, released, settings.queries)
        return counted_worth(value, table.rows, settings.confidence, "released rows")
    original = [one.codes for one in ladders]
    codes = [one.at(step)[kept] for one, step in zip(ladders, steps, strict=True)]
    groups = [one.steps[step] for one, step in zip(ladders, steps, strict=True)]
    if bench.secret is not None:
        original.append(bench.secret)
        codes.append(bench.secret[kept])
        groups.append(np.arange(int(bench.secret.max()) + 1))
    times = None if table.times is None else (table.times, table.times[kept])
    value = counts_kept(original, codes, groups, times=times)
    return counted_worth(value, table.rows, settings.confidence, "released rows")


def taken(columns: Mapping[str, NDArray[Any]], rows: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Some rows."""
    return {name: column[rows] for name, column in columns.items()}
