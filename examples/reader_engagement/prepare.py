"""From the files of EB-NeRD to features.

python prepare.py PATH --check              # are all files and columns there?
python prepare.py PATH --out features
python prepare.py PATH --keep SMALL --users 50000 --blind 10000 --out features
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from readers.ebnerd import prepare_news
from readers.layout import SPLITS, WHERE, Layout, check_layout, check_usable, news_paths
from readers.people import read_activity
from readers.store import News

from lethe.data.columns import list_names
from lethe.errors import LetheError


def prepare(
    path: Path,
    /,
    *,
    out: Path = Path("ebnerd-features"),
    users: int | None = None,
    blind: int | None = None,
    keep: Path | None = None,
    seed: int = 42,
    blind_seed: int = 123,
    check: Annotated[bool, Parameter(negative=())] = False,
    allow_leaks: Annotated[bool, Parameter(negative=())] = False,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Check a folder of EB-NeRD, look for leaks between its weeks, and write features.

    The files are licensed: get them from recsys.eb.dk. They are streamed, so the large release
    needs little memory. Exit code 2 says that something needed is missing, and what.

    Parameters
    ----------
    path
        Folder with articles.parquet, and train and validation with behaviors.parquet and
        history.parquet each.
    out
        Folder for the features; they are personal data as the files are.
    users
        Main users, on whom models are trained. [everybody who is not blind]
    blind
        Users of both weeks whom no model sees. [a tenth of them, at most 10,000]
    keep
        Another EB-NeRD folder, such as the small release, whose users are main users in any case.
    seed
        Draws the main users.
    blind_seed
        Draws the blind users.
    check
        Only look at files and columns.
    allow_leaks
        Go on though the weeks leak into each other.
    quiet
        No progress, only the result.
    """
    layout = check_layout(path)
    _print_layout(layout)
    if layout.problems or check:
        return 2 if layout.problems else 0

    def say(words: str) -> None:
        if not quiet:
            print(words, file=sys.stderr, flush=True)

    found = prepare_news(
        path,
        out,
        users=users,
        blind=blind,
        keep=() if keep is None else _users_of(keep),
        seed=seed,
        blind_seed=blind_seed,
        allow_leaks=allow_leaks,
        say=say,
    )
    _print_features(found)
    return 0


def _users_of(folder: Path) -> list[int]:
    check_usable(folder)
    paths = news_paths(folder)
    found = [read_activity(paths[f"{split}/behaviors.parquet"]).users for split in SPLITS]
    return sorted({user for one in found for user in one.tolist()})


def _print_layout(layout: Layout) -> None:
    for file in layout.files:
        print(f"{file.name}: {'; '.join(file.problems) or f'{file.rows:,} rows'}")
        if file.absent and not file.problems:
            print(f"  without {list_names(file.absent)}, which no feature needs")
    if layout.problems:
        print(f"Not complete. {WHERE}")


def _print_features(news: News) -> None:
    people = news.meta["cohort"]
    print(f"{news.folder}: {people['main']:,} main users, {people['blind']:,} blind users")
    for name, window in news.meta["windows"].items():
        share = window["engaged"] / window["rows"] if window["rows"] else 0.0
        print(
            f"  {name}: {window['rows']:,} of {window['impressions']:,} impressions have a label, "
            f"{share:.1%} engaged; {window['blind_rows']:,} of blind users; "
            f"{window['without_history']:,} users without history left out"
        )
    for one in news.meta["checks"]:
        share = f" ({one['found'] / one['of']:.1%})" if one["of"] else ""
        state = "known" if one["allowed"] else "LEAK" if one["found"] else "none"
        print(f"  [{state}] {one['name']}: {one['found']:,} of {one['of']:,}{share}")
    for note in news.meta["notes"]:
        print(f"  {note}")


def main(words: list[str] | None = None) -> int:
    """The command line; an exit code."""
    app = App(name="prepare.py", help="Turn EB-NeRD into features; nothing is downloaded.")
    app.default(prepare)
    try:
        return int(app(words, exit_on_error=False, result_action="return_value"))
    except LetheError as error:
        print(f"prepare.py: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
