"""`lethe report` and `lethe view`: one page, or one PDF, from finished runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from lethe.evidence.findings import Findings


# `lethe context`: the form for what only people can say.

context = App(name="context", help="What only people know of a release: purpose, people, decision.")


@context.command
def init(run: Path | None = None, /, *, out: Path | None = None, force: bool = False) -> int:
    """Write a commented context.toml with every field that people must fill in.

    In a run folder the report reads it by itself: fill it in, then `lethe report RUN`.

    Args:
        run: Run folder; the form is written into it.
        out: Where to write it instead. [context.toml in RUN, else ./context.toml]
        force: Overwrite a form that is there.
    """
    from lethe.errors import InputError
    from lethe.files import write_whole
    from lethe.report.context_fields import form

    if run is not None and not run.is_dir():
        raise InputError(f"{run} is not a folder. Name the folder of a run, or use --out FILE.")
    path = out or (run or Path()) / "context.toml"
    if path.exists() and not force:
        raise InputError(f"{path} is there already; --force overwrites it.")
    write_whole(path, form().encode())
    print(f"Fill in {path}, then: lethe report {run or 'RUN'}")
    return 0


def report(
    run: Annotated[list[Path], Parameter(consume_multiple=True)],
    /,
    *,
    out: Path | None = None,
    pdf: Path | None = None,
    md: Path | None = None,
    context: Path | None = None,
    title: str | None = None,
) -> int:
    """Render finished runs again: all releases of a system in one document.

    With one run its own report.html is made again, for instance after context.toml was filled in.
    With several there is one verdict on all of them, and a part for each. The page needs no other
    file and no network.

    Args:
        run: Run folders, or findings.json files: model, embeddings, table and queries in any order.
        out: HTML file. [report.html in the folder of a single run, else ./report.html]
        pdf: Also print to this PDF; Chromium does it, if it is installed.
        md: Also write the short form as Markdown, for a merge request.
        context: TOML file with what only people know, for all runs. [context.toml in each run
            folder]
        title: Name of the system, at the head of a page on several runs.
    """
    from lethe.files import write_whole
    from lethe.report.markdown import markdown
    from lethe.report.page import render_several
    from lethe.report.pdf import to_pdf

    runs = [_read(path, context) for path in run]
    page = out or (_folder(run[0]) if len(run) == 1 else Path()) / "report.html"
    write_whole(page, render_several(runs, title).encode())
    print(f"report: {page}")
    if md is not None:
        write_whole(md, markdown(runs, title).encode())
        print(f"markdown: {md}")
    if pdf is not None:
        to_pdf(page, pdf)
        print(f"pdf: {pdf}")
    return 0


def view(folder: Path, /, *, out: Path | None = None, serve: bool = False, port: int = 8000) -> int:
    """Write one page over all runs in a folder: trends, rules, and what changed between runs.

    The page groups runs by subject and orders them by time. It marks runs on the same data, and
    rules that passed only after they had failed on those data. It needs no other file and no
    network.

    Args:
        folder: Folder that holds run folders, at any depth.
        out: HTML file. [runs.html in FOLDER]
        serve: Show the page to this machine alone, at http://127.0.0.1:PORT/, until interrupted.
        port: Of the page; 0 takes a free one.
    """
    from lethe.errors import InputError, check_between
    from lethe.files import write_whole
    from lethe.report.history import PastRun, history_page

    check_between("port", port, 0, 65535)
    runs, unread = [], []
    for file in sorted(folder.rglob("findings.json")):
        place = str(file.parent.relative_to(folder))
        try:
            runs.append(PastRun(place, *_read(file.parent, None)))
        except InputError as error:
            unread.append(f"not read: {place}: {error}")
    if not runs:
        raise InputError(f"{folder} holds no finished run. {' '.join(unread)}".rstrip())
    page = history_page(runs, folder.resolve().name).encode()
    write_whole(out or folder / "runs.html", page)
    print("\n".join([*unread, f"{len(runs)} runs: {out or folder / 'runs.html'}"]))
    if serve:
        _serve(page, port)
    return 0


def _folder(run: Path) -> Path:
    return run if run.is_dir() else run.parent


def _read(run: Path, context: Path | None) -> tuple[Findings, Mapping[str, Any]]:
    from dataclasses import replace

    from lethe.evidence.findings import Findings
    from lethe.runs.settings import read_toml
    from lethe.training.folder import RunFolder

    folder, findings = _folder(run), Findings.load(run)
    filled = context or folder / "context.toml"
    if context is not None or filled.is_file():
        findings = replace(findings, context=read_toml(filled))
    return findings, RunFolder.read_manifest(folder) or {}


def _serve(page: bytes, port: int) -> None:
    """Answer every request for `/` from this machine with the page."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from lethe.errors import InputError

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A name that another site lets point here must not read the page.
            known = self.headers.get("Host", "").rpartition(":")[0] in ("127.0.0.1", "localhost")
            self.send_response(200 if known and self.path == "/" else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page if known and self.path == "/" else b"")

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: the terminal shows the address alone."""

    try:
        listening = HTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InputError(
            f"port={port} cannot be listened at: {error.strerror}. 0 takes a free one."
        ) from error
    with listening as server:
        print(f"http://127.0.0.1:{server.server_address[1]}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()
