"""Texts that a language model memorised, token by token, in one page that needs no network.

The page holds personal data, as `explorer.html` of other releases does: it takes the same name, is
written beside the report, never into it, and only where a run was told to keep records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.report.catalogue import say
from lethe.report.numbers import fixed, grouped, share_words

MOST_TOKENS = 6_000
"""On the page, so that it stays below 1.5 MB."""
_SHADES = (1.0, 2.0, 4.0, 8.0)  # nats from which the four shades begin


@dataclass(frozen=True)
class Token:
    """A token of a text.

    Attributes:
        text: its characters, with the blanks behind them.
        part: ``prompt``, ``reproduced`` or "".
        loss: under the audited model, in nats, >= 0, lower = better known; None if not known.
        base: the same under the base model.
    """

    text: str
    part: str = ""
    loss: float | None = None
    base: float | None = None

    @property
    def learnt(self) -> float | None:
        """By how many nats fine-tuning lowered the loss; None without both losses."""
        return None if self.loss is None or self.base is None else self.base - self.loss

    @property
    def shade(self) -> int:
        """From 0 (less than 1 nat learnt) to 4 (8 nats or more)."""
        return sum((self.learnt or 0.0) >= start for start in _SHADES)

    def cells(self) -> list[str]:
        """Part, both losses and their difference for a table."""
        losses = (self.loss, self.base, self.learnt)
        numbers = ["–" if loss is None else fixed(loss, 2, exact=False) for loss in losses]
        return [say(f"memorised.part.{self.part}") if self.part else "", *numbers]


def tokens_of(
    text: str,
    offsets: Sequence[tuple[int, int]],
    losses: NDArray[np.floating] | None,
    base: NDArray[np.floating] | None,
    parts: tuple[int, int],
) -> list[Token]:
    """Tokens of a text; the whole text as one where their characters or losses are not known.

    Args:
        offsets: first and last character (exclusive) of each token; may be empty.
        losses: (T,) of each token after the first, in nats; T below the number of offsets.
        base: the same under the base model.
        parts: how many tokens are the prompt, and how many after it are reproduced.

    >>> tokens = tokens_of("ask bo", [(0, 3), (3, 6)], np.array([0.5]), None, (1, 1))
    >>> [(token.text, token.part, token.loss) for token in tokens]
    [('ask', 'prompt', None), (' bo', 'reproduced', 0.5)]
    """
    if losses is None or not offsets:
        return [Token(text)]
    starts = [0, *(start for start, _ in offsets[1:]), offsets[-1][1]]
    tokens = []
    for place in range(len(losses) + 1):
        part = "prompt" if place < parts[0] else "reproduced" if place < sum(parts) else ""
        known = [
            None if side is None or not place else float(side[place - 1]) for side in (losses, base)
        ]
        tokens.append(Token(text[starts[place] : starts[place + 1]], part, *known))
    cut = text[starts[len(tokens)] :]
    return [*tokens, *([Token(cut)] if cut else [])]


@dataclass(frozen=True)
class MemorisedText:
    """A training text and how the model reproduces it.

    Guarantee: tokens are called reproduced only where the model itself continues the prompt with
        all of them, greedily or within the tries of the audit.

    Attributes:
        id: as the audit names it.
        tokens: in order; a single one without losses where characters of tokens are not known.
        reproduced: whether the prompt is continued verbatim.
        probability: that one sample continues it so; None where the text is too short.
        greedy: whether taking the likeliest token every time does.
        by_base: whether the base model reproduces it, too.
        copies: how often the text stands in training.
    """

    id: str
    tokens: Sequence[Token]
    reproduced: bool
    probability: float | None
    greedy: bool
    by_base: bool
    copies: int

    def words(self) -> list[str]:
        """Sentences on whether and how the model reproduces the text."""
        if not self.reproduced:
            return [say("memorised.exposed")]
        chance = share_words(self.probability or 0.0)
        sentences = [say("memorised.reproduced", chance=chance)]
        sentences += [say("memorised.greedy")] * self.greedy
        sentences += [say("memorised.base")] * self.by_base
        return sentences + [say("memorised.copies", n=grouped(self.copies))] * (self.copies > 1)


def memorised_page(
    name: str, texts: Sequence[MemorisedText], extracted: int, prefix: int, base: bool
) -> str:
    """The page; texts beyond `MOST_TOKENS` are left out, and the page says how many it shows.

    Args:
        name: of the subject.
        texts: those that are reproduced first, then the most exposed ones.
        extracted: how many training texts are reproduced in all.
        prefix: tokens of the prompt.
        base: whether there is a base model to compare with.
    """
    from lethe.report.page import templates, whole_page

    shown, total = list[MemorisedText](), 0
    for text in texts:
        total += len(text.tokens)
        if total > MOST_TOKENS and shown:
            break
        shown.append(text)
    count = sum(text.reproduced for text in shown)
    lead = say("memorised.lead", n=grouped(count), of=grouped(extracted), prefix=prefix)
    title = say("memorised.title", name=name)
    template = templates().get_template("texts.html.j2")
    body = template.render(title=title, texts=shown, lead=lead, base=base)
    return whole_page(title, title, body, "texts", ())
