"""The page of memorised texts: what is marked, what is shaded, and how much of it there is."""

import re

import numpy as np
import pytest

from lethe.report.memorised import MOST_TOKENS, MemorisedText, Token, memorised_page, tokens_of


def text(tokens: list[Token], **changes) -> MemorisedText:
    known = {"id": "7", "tokens": tokens, "reproduced": True, "probability": 0.5, "greedy": False}
    return MemorisedText(**{**known, "by_base": False, "copies": 1, **changes})


@pytest.mark.parametrize(
    ("losses", "base", "shade"),
    [(0.0, 0.9, 0), (0.0, 1.0, 1), (1.0, 3.0, 2), (0.5, 4.5, 3), (0.0, 9.0, 4), (3.0, 1.0, 0)],
)
def test_a_token_is_shaded_by_what_fine_tuning_took_off_its_loss(losses, base, shade):
    assert Token("x", "", losses, base).shade == shade
    assert Token("x", "", losses, None).shade == 0  # without a base nothing is known to be learnt


def test_every_character_is_shown_once_and_parts_follow_the_prompt():
    words = "ask <b>bo</b> & 5 times"
    offsets = [(match.start(), match.end()) for match in re.finditer(r"\S+", words)][:4]
    tokens = tokens_of(words, offsets, np.array([1.0, 2.0, 3.0]), np.array([2.0, 6.0, 3.5]), (1, 2))
    assert "".join(token.text for token in tokens) == words
    assert [token.part for token in tokens] == ["prompt", "reproduced", "reproduced", "", ""]
    assert [token.loss for token in tokens] == [None, 1.0, 2.0, 3.0, None]
    assert [token.base for token in tokens] == [None, 2.0, 6.0, 3.5, None]
    page = memorised_page("m", [text(tokens)], 1, 1, True)
    assert "<b>bo" not in page and "&lt;b&gt;bo" in page
    assert page.count("<mark class") == 2


def test_where_characters_of_tokens_are_not_known_the_text_stands_whole():
    for offsets, losses in ((), np.ones(1)), ([(0, 1), (1, 2)], None):
        (alone,) = tokens_of("ab", offsets, losses, None, (1, 1))
        assert (alone.text, alone.part, alone.loss) == ("ab", "", None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "probability 50 %"),
        ({"greedy": True}, "likeliest token"),
        ({"by_base": True}, "no evidence of memory"),
        ({"copies": 12}, "stands 12 times"),
        ({"reproduced": False}, "Not reproduced verbatim"),
    ],
)
def test_how_a_text_comes_out_is_said_with_its_evidence_alone(changes, said):
    every = "probability 50 %", "likeliest token", "no evidence", "stands 12", "Not reproduced"
    words = " ".join(text([], **changes).words())
    assert said in words
    untrue = {"probability 50 %"} if changes.get("reproduced", True) else set()
    assert {part for part in every if part in words} <= {
        part for part in every if part in said
    } | untrue


def test_the_page_stays_below_its_size_and_counts_what_it_shows():
    long = [Token("word ", "reproduced", 1.234, 5.678)] * 1000
    page = memorised_page("m", [text(long)] * 20, 20, 1, True)
    assert page.count('<p class="passage">') == MOST_TOKENS // 1000
    assert f"{MOST_TOKENS // 1000} of them are shown" in page and "reproduces 20 training" in page
    assert len(page.encode()) < 1_500_000


def test_a_single_text_longer_than_the_page_is_shown_alone():
    long = text([Token("word ")] * (MOST_TOKENS + 1))
    page = memorised_page("m", [long, long], 2, 1, False)
    assert page.count('<p class="passage">') == 1 and "1 of them are shown" in page
