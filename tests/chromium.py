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


def barriers(tab: Any, contrast: bool = True) -> list[str]:
    """Rules of accessibility that the page breaks; what holds is not sent over, which is slow.

    Args:
        contrast: whether to judge colours, half of the time, which pages of one style share.
    """
    from axe_playwright_python.sync_playwright import Axe

    rules = {"color-contrast": {"enabled": contrast}}
    options = {"resultTypes": ["violations"], "iframes": False, "rules": rules}
    return [str(one["id"]) for one in Axe().run(tab, options=options).response["violations"]]
