"""What tests in Chromium share: whether there is one, and what axe finds on a page."""

from typing import Any

from lethe.errors import InputError
from lethe.report.pdf import find_browser


def browser_here() -> str | None:
    """Return the path of Chromium, or None where there is none."""
    try:
        return str(find_browser())
    except InputError:
        return None


def barriers(tab: Any) -> list[str]:
    """Rules of accessibility that the page breaks; what holds is not sent over, which is slow."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(tab, options={"resultTypes": ["violations"]})
    return [str(one["id"]) for one in found.response["violations"]]
