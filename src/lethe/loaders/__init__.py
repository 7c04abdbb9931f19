"""Real data becomes a `Dataset`: built-in sets by name, tables and arrays by file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lethe.columns import SUFFIXES
from lethe.errors import InputError, check_choice, did_you_mean
from lethe.loaders.builtin import BUILTIN, builtin
from lethe.loaders.dataset import TASKS, Dataset, by_content
from lethe.loaders.persons import IDENTICAL
from lethe.loaders.tables import load_table

__all__ = ["BUILTIN", "Dataset", "load", "load_table"]


def load(
    target: str | Path,
    label: str | None = None,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    rows: int | None = None,
    seed: int = 0,
    missing: str = "refuse",
    task: str | None = None,
    group: str | None = None,
    slices: Sequence[str] = (),
) -> Dataset:
    """Load a built-in set by its name, or a file; the options are those of `load_table`.

    Args:
        target: "digits", "breast-cancer", "diabetes" (regression), or the path of a file.
            A file that has the name of a built-in set is meant by ``./digits``.
        task: "classification" (the default for files) or "regression". Built-in sets have theirs.
        group: column that names the person of each record, see `load_table`; or
            "identical-records", by which exact copies of a record are kept together.
        slices: columns by which the risk is reported, see `load_table`.

    Raises:
        InputError: neither a built-in set nor a file, or as `load_table`.

    >>> len(load("digits", rows=100))
    100
    """
    if group == IDENTICAL:
        plain = load(
            target,
            label,
            id_column=id_column,
            drop=drop,
            rows=rows,
            seed=seed,
            missing=missing,
            task=task,
            slices=slices,
        )
        return by_content(plain)
    name = str(target)
    if name in BUILTIN:
        for option, value in (
            ("label", label),
            ("id_column", id_column),
            ("drop", drop or None),
            ("group", group),
            ("slice", list(slices) or None),
        ):
            if value is not None:
                raise InputError(
                    f"{option}={value!r} is for files; the built-in set {name!r} is complete. "
                    f"Leave it out, or name a file such as ./{name}.csv."
                )
        data = builtin(name, rows, seed)
        if task is not None and check_choice("task", task, TASKS) != data.task:
            raise InputError(
                f"task={task!r} does not fit the built-in set {name!r}, which is for {data.task}."
            )
        return data
    path = Path(target)
    if not path.exists() and path.suffix.lower() not in SUFFIXES and path.name == name:
        raise InputError(
            f"{name!r} is neither a file nor a built-in set.{did_you_mean(name, BUILTIN)} "
            f"Built-in sets: {', '.join(map(repr, BUILTIN))}; files: {', '.join(SUFFIXES)}."
        )
    return load_table(
        path,
        label,
        id_column=id_column,
        drop=drop,
        rows=rows,
        seed=seed,
        missing=missing,
        task=task or "classification",
        group=group,
        slices=slices,
    )
