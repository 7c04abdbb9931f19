"""The README of the study: its commands run, and its figures of the stand-in are what is made."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from prepare import main
from pyarrow import parquet
from readers.store import open_news
from readers.synthetic import write_synthetic_news

README = Path(__file__).parents[3] / "examples" / "reader_engagement" / "README.md"
PAGE = README.read_text(encoding="utf-8")
COMMANDS = re.findall(r"^python examples/reader_engagement/prepare.py (.*)$", PAGE, re.M)


def test_every_command_is_found() -> None:
    assert len(COMMANDS) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_synthetic_news(tmp_path / "PATH", 60, 40)
    write_synthetic_news(tmp_path / "SMALL", 60, 40)
    smaller = command.replace("50000", "59").replace("10000", "0")
    assert main([*shlex.split(smaller), *(["--quiet"] if "--check" not in command else [])]) == 0
    if "--check" not in command:
        assert open_news(tmp_path / "features").meta["cohort"]["main"] > 40


def test_the_table_of_the_stand_in_is_what_is_made(tmp_path: Path) -> None:
    made = write_synthetic_news(tmp_path / "made", 2000, 500, seed=0)
    rows = parquet.read_table(made / "train" / "behaviors.parquet")
    read, scroll = (rows[name].to_numpy() for name in ("next_read_time", "next_scroll_percentage"))
    there = ~np.isnan(read) & ~np.isnan(scroll)
    far, long = scroll[there] > 50, read[there] > 30
    counts = np.unique(rows["user_id"].to_numpy(), return_counts=True)[1]
    history = parquet.read_table(made / "train" / "history.parquet", columns=["read_time_fixed"])
    lengths = np.diff(history["read_time_fixed"].combine_chunks().offsets.to_numpy())
    wanted = {
        "seconds read": [
            f"{one:,.0f}" for one in np.nanpercentile(read, [10, 25, 50, 75, 90, 95, 99])
        ],
        "mean, sd": [f"{np.nanmean(read):.1f}", f"{np.nanstd(read):.0f}"],
        "scroll, P10": [f"{one:.0f}" for one in np.nanpercentile(scroll, [10, 25, 50, 75])],
        "correlation": [f"{np.corrcoef(read[there], scroll[there])[0, 1]:.3f}"],
        "scrolled": [f"{100 * one.mean():.1f}" for one in (far, long, far & long)],
        "impressions a": [f"{np.median(counts):.0f}", f"{counts.mean():.1f}", f"{counts.max():,}"],
        "history: least": [
            f"{one:,.0f}"
            for one in (lengths.min(), np.median(lengths), lengths.mean(), lengths.max())
        ],
    }
    for name, figures in wanted.items():
        (cell,) = re.findall(rf"^\| {name}[^|]*\|[^|]*\|([^|]*)\|$", PAGE, re.MULTILINE)
        assert re.findall(r"\d[\d,.]*\d|\d", cell) == figures, name
