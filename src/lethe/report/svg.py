"""SVG elements as escaped text, and axes with round numbers."""

from __future__ import annotations

import html
import math


def escape(text: str) -> str:
    """Text for an element or an attribute; control characters, which XML forbids, go."""
    return html.escape("".join(c for c in text if c >= " " or c in "\t\n"), quote=True)


def shorten(text: str, length: int) -> str:
    """At most `length` characters.

    >>> shorten("weighted-noise", 9)
    'weighted…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def number(value: float) -> str:
    """A coordinate: two decimals, no trailing zeros, so that bytes stay few and stable."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(tag: str, *children: str, **attributes: object) -> str:
    """One element. Children are SVG text already; attributes are escaped here.

    An underscore in an attribute's name stands for a hyphen, and one at its end is dropped
    (``class_``). None leaves the attribute out; True gives an empty one.

    >>> element("text", escape("a<b"), x=1.0, class_="note")
    '<text x="1" class="note">a&lt;b</text>'
    """
    parts = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        shown = "" if value is True else number(value) if isinstance(value, float) else str(value)
        parts.append(f'{name.rstrip("_").replace("_", "-")}="{escape(shown)}"')
    return f"<{' '.join(parts)}>{''.join(children)}</{tag}>"


def text(words: str, x: float, y: float, **attributes: object) -> str:
    """A text element of escaped words."""
    return element("text", escape(words), x=float(x), y=float(y), **attributes)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from `low` to `high`.

    >>> ticks(0, 0.23, 5)
    [0.0, 0.05, 0.1, 0.15, 0.2]
    """
    span = max(high - low, 1e-12)
    raw = span / wanted
    scale = 10.0 ** math.floor(math.log10(raw))
    step = min((m * scale for m in (1, 2, 5, 10)), key=lambda s: abs(span / s - wanted))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(at * step, 12) for at in range(first, last + 1)]


def log_ticks(low: float, high: float, wanted: int = 7) -> list[float]:
    """1, 2 and 5 of each decade, or the decades alone where those would be far too many.

    >>> log_ticks(0.009, 0.3)
    [0.01, 0.02, 0.05, 0.1, 0.2]
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if 3 * math.log10(high / low) <= wanted + 3 else (1,)
    every = [round(m * 10.0**d, 12) for d in decades for m in steps]
    return [tick for tick in every if low <= tick <= high]
