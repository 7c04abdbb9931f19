"""`lethe split`: hold records out at random, before anything is trained on them."""

from __future__ import annotations

from pathlib import Path


def split(
    file: Path,
    /,
    *,
    person: str | None = None,
    share: float = 0.5,
    seed: int = 0,
    out: Path | None = None,
) -> int:
    """Hold out a random share of a table, by person where one is named.

    Writes the table with a column member (1 = to be trained on, 0 = held out), and beside it the
    rows to train on. Split before training: a hold-out by date or source lets an attacker tell
    members from others without the model.

    Args:
        file: csv or parquet.
        person: Column of the people; all rows of one stay together.
        share: Of the rows or people that are held out, in (0, 1). [0.5]
        seed: Of the draw. [0]
        out: File for the table with the column. [FILE-split, beside FILE]
    """
    import numpy as np

    from lethe.data.columns import as_text, check_column, read_columns, table_bytes
    from lethe.errors import InputError, check_at_least, check_between
    from lethe.files import write_for_owner

    check_at_least("seed", seed, 0)
    check_between("share", share, 0, 1, open_low=True, open_high=True)
    columns = read_columns(file)
    if "member" in columns:
        raise InputError(f"{file} has a column member already; it was split before. Drop it first.")
    codes = np.arange(len(next(iter(columns.values()))))
    if person is not None:
        check_column("person", person, columns, file)
        codes = np.unique(as_text(columns[person]), return_inverse=True)[1]
    people = int(codes.max()) + 1
    held = round(share * people)
    if not 0 < held < people:
        raise InputError(f"share={share:g} of {people} leaves one side empty; choose another.")
    inside = (np.random.default_rng([seed, 31]).permutation(people) >= held)[codes]
    place = out or file.with_name(f"{file.stem}-split{file.suffix}")
    train = place.with_name(f"{place.stem}-train{place.suffix}")
    marked = {**columns, "member": inside.astype(np.int64)}
    kept = {name: column[inside] for name, column in columns.items()}
    files = {
        path: table_bytes(made, path.suffix) for path, made in ((place, marked), (train, kept))
    }
    for path, content in files.items():
        if path.is_dir() or path.exists() and path.read_bytes() != content:
            raise InputError(f"{path} is there already, with other rows; name another --out.")
    for path, content in files.items():
        write_for_owner(path, content)
    what = "rows" if person is None else "people"
    print(
        f"{people - held} {what} to train on, {held} held out at random.\n"
        f"1. Train on {train} ({int(inside.sum())} rows).\n"
        f"2. lethe audit language-model MODEL_DIR --texts {place} --text COLUMN"
    )
    return 0
