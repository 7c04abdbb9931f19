"""The short form of a report as Markdown: for a merge request, a wiki, a mail.

It holds the first screen, the rules, what is proven, what was not tested and the
limits; everything else is in the page. Words from data are escaped, so that they stay text.
"""

from __future__ import annotations

import re

from lethe.report.catalogue import say
from lethe.report.first_screen import First
from lethe.report.page import Release, Runs, read, together
from lethe.report.sections import Bullets, Facts, Folded, Part, Table, Words

# A full stop or a hyphen begins a list only at the start of a line, where no word of ours stands.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&!])")
_BLANK = 4 * "\\_"
_SHORT = ("rules", "proof", "checks", "not-run", "limits")


def markdown(runs: Runs, title: str | None = None) -> str:
    """The report in short.

    Args:
        runs: findings and manifest of each, as in `lethe.report.page.render_several`.
        title: of the system; the name of the first release without one.

    Returns:
        Markdown with tables (CommonMark with the tables of GitHub).
    """
    releases = [read(findings, manifest) for findings, manifest in runs]
    lines = [f"# {say('page.heading', name=words(title or releases[0].first.name))}", ""]
    if len(releases) > 1:
        lines += _first(together(releases))
    for one in releases:
        lines += _release(one)
    return "\n".join(lines).rstrip() + "\n"


def words(text: str) -> str:
    r"""Text from data, with everything that Markdown or HTML would read as markup escaped.

    >>> words("a|b <script> *c*")
    'a\\|b &lt;script&gt; \\*c\\*'
    """
    flat = " ".join(str(text).split())
    escaped = _SPECIAL.sub(lambda m: f"\\{m[1]}" if m[1] not in "<>&" else m[1], flat)
    return re.sub(r"&", "&amp;", escaped).replace("<", "&lt;").replace(">", "&gt;")


def _first(first: First) -> list[str]:
    """The first screen, with lines to sign."""
    outcome = f"{first.outcome.words}. {first.rules}"
    texts = [words(" ".join(first.detail)), words(outcome)]
    lines = [f"**{words(first.lead + first.headline)}**", ""]
    lines += [part for text in texts if text for part in (text, "")]
    for card in first.cards:
        rest = "; ".join(line.rstrip(".") for line in card.lines if line)
        more = f", {words(rest)}" if rest else ""
        lines.append(f"- {words(card.title)}: **{words(card.large)}**{more}")
    to_fill = first.signed, say("sign.accepted"), say("sign.date")
    lines += [f"- {words(text)}: {_BLANK}" for text in to_fill]
    lines.append("")
    if first.options is not None:
        lines += [*_table(first.options), words(" ".join(first.notes)), ""]
    return lines


def _release(release: Release) -> list[str]:
    first = release.first
    lines = [f"## {words(release.title)}", "", *_first(first)]
    # Without options, what was asked or tried is the heart of the report.
    listed = (*_SHORT, "attacks") if first.options is None or not first.options.marks else _SHORT
    for section in release.sections:
        if section.id in listed:
            lines += [f"### {words(section.title)}", "", words(section.lead), ""]
            for part in section.parts:
                lines += _part(part, section.id)
    return lines


def _part(part: Part, section: str) -> list[str]:
    if isinstance(part, Words):
        return [words(part.text), ""]
    if isinstance(part, Bullets):
        return [*(f"- {words(item)}" for item in part.items), ""]
    if isinstance(part, Facts):
        return [*(f"- {words(label)}: {words(text)}" for label, text in part.rows), ""]
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Folded) and section in ("rules", "not-run", "limits"):
        return [line for one in part.parts for line in _part(one, section)]
    return []


def _table(table: Table) -> list[str]:
    rows = [[name, *map(str, cells)] for name, cells in table.rows]
    lines = [
        [words(head) for head in table.heads],
        ["---"] * len(table.heads),
        *([words(cell) or "–" for cell in row] for row in rows),
    ]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]
