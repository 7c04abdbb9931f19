"""The page as PDF, printed by a headless Chromium that is already there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from lethe.errors import InputError, RunFailed
from lethe.files import write_whole

_LINUX = ("chromium-headless-shell", "chromium", "chromium-browser")  # without windows it is faster
BROWSERS = (*_LINUX, "google-chrome", "chrome", "msedge")
_SECONDS = 120


def find_browser() -> str:
    """The browser that prints: ``LETHE_BROWSER``, or the first of `BROWSERS` on the path.

    Raises:
        InputError: there is none.
    """
    named = os.environ.get("LETHE_BROWSER")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        tried = f"LETHE_BROWSER={named!r} is" if named else f"{', '.join(BROWSERS)} are"
        raise InputError(
            f"a PDF is printed by Chromium, and {tried} not on the path: install chromium, or "
            "open the HTML page and print it."
        )
    return found


def to_pdf(page: Path, out: Path) -> None:
    """Print a page of ours to `out`, whole or not at all.

    Args:
        page: HTML file; it loads nothing, so no request leaves the machine.
        out: PDF file.

    Raises:
        InputError: no browser.
        RunFailed: the browser printed nothing; its words are in the message.
    """
    browser = find_browser()
    # A profile of its own: the user's browser may be open, and holds its profile.
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "page.pdf"
        command = [browser, "--headless", "--disable-gpu", "--no-pdf-header-footer"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # Chromium refuses its sandbox to root
            command.append("--no-sandbox")
        command += [f"--user-data-dir={folder}/profile", f"--print-to-pdf={made}"]
        command.append(page.resolve().as_uri())
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunFailed(f"{browser} did not print {page}: {error}.") from error
        if done.returncode != 0 or not made.is_file():
            last = done.stderr.strip().splitlines()[-1:] or ["no word"]
            raise RunFailed(f"{browser} did not print {page}: {last[0]}")
        write_whole(out, made.read_bytes())
