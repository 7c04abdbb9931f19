"""From the files of EB-NeRD to features, in one pass after the other and never all in memory.

The label is "engaged": the next page was scrolled beyond 50 % AND read for more than 30 s; rows
in which either is missing are left out. Columns, label, the 27 aggregates, sequences and the
features of article and context follow the reference study of reader engagement. Nothing is fitted
on the validation window or on blind users.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least
from lethe.files import whole_file, write_whole
from readers.articles import ARTICLE_NUMBERS, Articles, read_articles
from readers.features import AGGREGATES, aggregates
from readers.history import (
    Index,
    microseconds,
    numbers,
    read_histories,
    whole_numbers,
)
from readers.layout import SPLITS, check_usable, news_paths
from readers.leakage import (
    COPIED,
    Check,
    ItemCount,
    check_items,
    check_pairs,
    check_windows,
)
from readers.people import (
    BLIND_SEED,
    MAIN_SEED,
    Activity,
    Cohort,
    choose_cohort,
    read_activity,
)
from readers.sequences import STEPS, Moments, last_sequences
from readers.store import (
    ARTICLE,
    CONTEXT,
    FORMAT,
    META,
    ROW,
    News,
    open_news,
    user_dtype,
)

Say = Callable[[str], None]

SCROLL, READ = 50.0, 30.0
"""A reader is engaged beyond these: percent of the page, and seconds."""


def prepare_news(
    root: str | Path,
    out: str | Path,
    *,
    users: int | None = None,
    blind: int | None = None,
    keep: Sequence[int] = (),
    seed: int = MAIN_SEED,
    blind_seed: int = BLIND_SEED,
    steps: int = STEPS,
    batch: int = 2048,
    allow_leaks: bool = False,
    say: Say = lambda words: None,
) -> News:
    """Check an EB-NeRD folder, look for leaks, and write its features.

    Equal files, seeds and settings give equal bytes.

    Args:
        root: folder with ``articles.parquet``, ``train`` and ``validation``.
        out: folder that is written; ``meta.json`` comes last, so a broken run leaves none.
        users: main users, everybody by default; see `choose_cohort` for this and the next four.
        blind: people that no model sees.
        keep: ids that are main users in any case.
        seed: draws the main users.
        blind_seed: draws the blind users.
        steps: items of a sequence.
        batch: people whose histories are held in memory at once.
        allow_leaks: write the features though a check fails; the failure stays in ``meta.json``.
        say: told what is being done.

    Raises:
        InputError: files or columns are missing, a check for leaks fails, or nobody is left.
        MissingExtra: without pyarrow.
        RunFailed: the folder cannot be written.
    """
    check_at_least("steps", steps, 1)
    check_at_least("batch", batch, 1)
    check_usable(root)
    out, paths = Path(out), news_paths(root)
    say("users and times of the behaviours")
    activity = {split: read_activity(paths[f"{split}/behaviors.parquet"]) for split in SPLITS}
    cohort = choose_cohort(activity, users, blind, keep=keep, seed=seed, blind_seed=blind_seed)
    checks = check_windows(activity, cohort)
    _refuse(checks, allow_leaks)
    say("articles")
    articles = read_articles(paths["articles.parquet"])
    _write_articles(out, articles)
    windows: dict[str, dict[str, int]] = {}
    counts: dict[str, ItemCount] = {}
    pairs: dict[str, Index] = {}
    train: tuple[Moments, NDArray[np.intp]] | None = None
    for split, other in zip(SPLITS, reversed(SPLITS), strict=True):
        say(f"{split}: histories")
        counts[split] = ItemCount(_span(activity[split]), _span(activity[other]))
        asked = np.intersect1d(cohort.everybody, activity[split].users)
        reads, known = _write_users(
            paths[f"{split}/history.parquet"],
            out / f"{split}-users.bin",
            asked,
            cohort,
            steps,
            batch,
            counts[split],
        )
        say(f"{split}: behaviours")
        tally = _Tally(cohort, known, articles)
        with whole_file(out / f"{split}-rows.bin") as file:
            for part in _behaviours(paths[f"{split}/behaviors.parquet"]):
                tally.add(part, file)
        pairs[split] = tally.pairs()
        windows[split] = {"users": len(known), "without_history": len(asked) - len(known)}
        windows[split] |= tally.counts
        if split == "train":
            train = reads, tally.main_rows
    checks += check_items(counts)
    checks.append(check_pairs(pairs["train"], pairs["validation"]))
    _refuse(checks, allow_leaks)
    assert train is not None
    reads, weight = train
    if not weight.sum() or not windows["validation"]["rows"]:
        raise InputError(f"{root}: no main user has a row with a label. Take more users.")
    scale = _aggregate_moments(out / "train-users.bin", windows["train"]["users"], steps, weight)
    meta = {
        "format": FORMAT,
        "source": "EB-NeRD layout",
        "columns": [*AGGREGATES, *ARTICLE_NUMBERS, *CONTEXT],
        "steps": steps,
        "seeds": {"main": seed, "blind": blind_seed},
        "cohort": {"main": len(cohort.main), "blind": len(cohort.blind)},
        "windows": windows,
        "articles": len(articles.ids),
        "categories": list(articles.categories),
        "kinds": list(articles.kinds),
        "scalers": {
            "fitted_on": "main users of the train window",
            "aggregates": [scale.mean.tolist(), scale.deviation.tolist()],
            "read": [float(reads.mean[0]), float(reads.deviation[0])],
        },
        "checks": [asdict(check) for check in checks],
        "notes": [COPIED],
    }
    write_whole(out / META, json.dumps(meta, indent=1).encode() + b"\n")
    return open_news(out)


def engaged(
    read: NDArray[np.floating], scroll: NDArray[np.floating]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The label of rows, and which rows have one.

    Args:
        read: (n,) next_read_time in seconds, NaN where it is missing.
        scroll: (n,) next_scroll_percentage, the same.

    Returns:
        engaged (n,), which says nothing where there is no label; and labelled (n,).

    >>> engaged(np.array([31.0, 30.0, np.nan]), np.array([51.0, 51.0, 51.0]))
    (array([ True, False, False]), array([ True,  True, False]))
    """
    labelled = ~(np.isnan(read) | np.isnan(scroll))
    return (scroll > SCROLL) & (read > READ), labelled


def _refuse(checks: list[Check], allow: bool) -> None:
    bad = [str(check) for check in checks if check.bad]
    if bad and not allow:
        listed = "\n  ".join(bad)
        raise InputError(
            f"the windows leak into each other:\n  {listed}\nRepair the files, or go on with "
            "--allow-leaks (allow_leaks=True); the figures then say less than they seem to."
        )


def _span(activity: Activity) -> tuple[int, int]:
    return activity.first, activity.last


def _write_articles(out: Path, articles: Articles) -> None:
    table = np.empty(len(articles.category), ARTICLE)
    table["category"], table["kind"] = articles.category, articles.kind
    table["numbers"] = articles.numbers
    write_whole(out / "articles.bin", table.tobytes())


def _write_users(
    source: Path,
    target: Path,
    asked: Index,
    cohort: Cohort,
    steps: int,
    batch: int,
    count: ItemCount,
) -> tuple[Moments, Index]:
    """Stream histories into the table of users, by ascending id.

    Returns:
        moments of log read times over main users' real steps, and the ids (users,) of the table.
    """
    reads, ids = Moments(1), []
    dtype = user_dtype(steps)
    unsorted = target.with_suffix(".unsorted")
    with whole_file(unsorted) as file:
        for past in read_histories(source, asked, batch):
            count.add(past)
            table = np.zeros(len(past), dtype)
            table["id"] = past.user_ids
            table["blind"] = np.isin(past.user_ids, cohort.blind)
            table["aggregates"] = aggregates(past)
            table["sequence"], table["length"] = last_sequences(past, steps)
            real = np.arange(steps) < table["length"][:, None]
            reads.add(table["sequence"][..., :1][real & ~table["blind"][:, None]])
            file.write(table.tobytes())
            ids.append(past.user_ids)
    every = np.concatenate(ids)
    order = np.argsort(every, kind="stable")
    try:
        with whole_file(target) as file:
            if len(every):
                found = np.memmap(unsorted, dtype, mode="r", shape=(len(every),))
                for first in range(0, len(order), batch):
                    file.write(found[order[first : first + batch]].tobytes())
    finally:
        unsorted.unlink(missing_ok=True)
    return reads, every[order]


def _behaviours(path: Path, batch: int = 65_536) -> Iterator[Any]:
    from pyarrow import parquet

    columns = ["impression_id", "impression_time", "user_id", "device_type", "is_subscriber"]
    columns += ["is_sso_user", "article_ids_clicked", "next_read_time", "next_scroll_percentage"]
    with parquet.ParquetFile(path) as file:
        yield from file.iter_batches(batch, columns=columns)


class _Tally:
    """Turns behaviours into rows, and counts what became of them."""

    def __init__(self, cohort: Cohort, known: Index, articles: Articles) -> None:
        self.known, self.articles = known, articles
        self.blind = np.isin(known, cohort.blind)
        self.main_rows = np.zeros(len(known), np.intp)
        names = ("impressions", "rows", "engaged", "blind_rows", "without_label")
        self.counts = dict.fromkeys((*names, "without_article"), 0)
        self._pairs: list[Index] = []

    def add(self, part: Any, file: BinaryIO) -> None:
        """Append the labelled rows of the cohort to the file."""
        import pyarrow as pa
        from pyarrow import compute

        user = whole_numbers(part.column("user_id"))
        place = np.minimum(np.searchsorted(self.known, user), max(len(self.known) - 1, 0))
        ours = self.known[place] == user if len(self.known) else np.zeros(len(user), bool)
        label, there = engaged(
            numbers(part.column("next_read_time")), numbers(part.column("next_scroll_percentage"))
        )
        clicked = part.column("article_ids_clicked")
        some = compute.fill_null(compute.greater(compute.list_value_length(clicked), 0), False)
        some = np.asarray(some.to_numpy(zero_copy_only=False))
        kept = ours & there & some
        self.counts["impressions"] += int(ours.sum())
        self.counts["without_label"] += int((ours & ~there).sum())
        self.counts["without_article"] += int((ours & there & ~some).sum())
        part = part.filter(pa.array(kept))
        first = compute.list_element(part.column("article_ids_clicked"), 0)
        rows = np.empty(int(kept.sum()), ROW)
        rows["impression"] = whole_numbers(part.column("impression_id"))
        rows["time"] = microseconds(part.column("impression_time"))
        rows["user"] = place[kept]
        rows["article"] = self.articles.find(whole_numbers(first))
        flags = (("device", "device_type"), ("subscriber", "is_subscriber"), ("sso", "is_sso_user"))
        for name, column in flags:
            values = part.column(column)
            values = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
            rows[name] = np.nan_to_num(numbers(values))
        rows["engaged"] = label[kept]
        file.write(rows.tobytes())
        main = ~self.blind[rows["user"]]
        self.counts["rows"] += len(rows)
        self.counts["engaged"] += int(rows["engaged"].sum())
        self.counts["blind_rows"] += int((~main).sum())
        self.main_rows += np.bincount(rows["user"][main], minlength=len(self.known))
        pair = self.known[rows["user"][main]] * (len(self.articles.ids) + 1)
        self._pairs.append(pair + rows["article"][main])

    def pairs(self) -> Index:
        """One number for each (user, article) of the main users' rows."""
        return np.concatenate(self._pairs) if self._pairs else np.zeros(0, np.int64)


def _aggregate_moments(
    path: Path, users: int, steps: int, weight: NDArray[np.intp], batch: int = 8192
) -> Moments:
    """Moments of the aggregates over main users' train rows: each user as often as he has rows."""
    found = Moments(len(AGGREGATES))
    table = np.memmap(path, user_dtype(steps), mode="r", shape=(users,))
    for first in range(0, users, batch):
        at = slice(first, first + batch)
        found.add(table["aggregates"][at], weight[at].astype(np.float64))
    return found
