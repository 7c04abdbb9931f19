"""Extraction: the probability of a suffix without sampling, near copies, personal patterns."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_language import base_folder, narratives, scored_chunks

from lethe.evidence.estimate import Refusal
from lethe.membership.language.extraction import (
    continued,
    discoverable,
    edits,
    share_of,
    spans_of,
    suffix_of,
    token_spans,
)
from lethe.membership.language.models import load_model
from lethe.membership.language.tokens import TOP_K


@pytest.fixture(scope="module")
def model():
    return load_model(base_folder())


@given(st.floats(1e-9, 0.99), st.integers(1, 10**6), st.floats(0.01, 0.99))
def test_discoverable_is_the_probability_of_at_least_one_hit(chance, n, p):
    once = float(-np.expm1(n * np.log1p(-chance)))
    if abs(once - p) > 1e-6:
        assert bool(discoverable(np.array([np.log(chance)]), n, p)[0]) == (once >= p)


def test_the_probability_of_a_suffix_is_that_of_sampling(model):
    """Against samples of the model itself under top-k: two tokens, 20,000 draws."""
    text = narratives(1, seed=8)[0]
    ids = model.ids([text])[0]
    (_, scores), *_ = scored_chunks(model, [ids])
    prefix, size = 10, 2
    found = suffix_of(scores, prefix, size)
    rng = torch.Generator().manual_seed(0)
    drawn = torch.from_numpy(ids[:prefix].astype(np.int64))[None]
    with torch.no_grad():
        first = model.module(drawn).logits[0, -1].topk(TOP_K)
        picks = torch.multinomial(first.values.softmax(0), 20000, True, generator=rng)
        hit = first.indices[picks] == int(ids[prefix])
        after = torch.cat([drawn, torch.tensor([[int(ids[prefix])]])], 1)
        second = model.module(after).logits[0, -1].topk(TOP_K)
        picks = torch.multinomial(second.values.softmax(0), 20000, True, generator=rng)
        share = float((hit & (second.indices[picks] == int(ids[prefix + 1]))).double().mean())
    deviation = np.sqrt(np.exp(found.logprob) / 20000)
    assert abs(np.exp(found.logprob) - share) < 4 * deviation + 1e-4


def test_greedy_is_what_the_model_itself_continues_with(model):
    texts = narratives(30, seed=9)
    ids = model.ids(texts)
    scores = dict(scored_chunks(model, ids))
    made = continued(model, ids, 12, 3)
    for at, own in enumerate(made):
        same = (own == ids[at][12:15]).all()
        assert suffix_of(scores[at], 12, 3).greedy == same
    assert suffix_of(scores[0], 80, 80) is None


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_edits_are_those_of_the_slow_recursion(first, second):
    def slow(a, b):
        if not a or not b:
            return len(a) + len(b)
        return min(slow(a[1:], b) + 1, slow(a, b[1:]) + 1, slow(a[1:], b[1:]) + (a[0] != b[0]))

    if len(first) + len(second) < 11:
        assert edits(np.array(first), np.array(second)) == slow(first, second)


def test_personal_patterns_are_found_once_each_with_their_tokens(model):
    text = "the worker Ann Ko fell, ann@mail.org, 555-123-4567, 123-45-6789, DE44 5001 0517 5407"
    kinds = [kind for kind, _, _ in spans_of(text, ["Ann Ko"])]
    assert kinds == ["declared", "e-mail", "phone", "id number", "card or account"]
    assert spans_of("at 10:30 on 2015-01-02 he moved 1200 boxes") == []
    spans = spans_of(text, ["Ann Ko"])
    ids = model.ids([text])[0]
    for (_, low, high), (_, start, stop) in zip(
        spans, token_spans(model, text, spans), strict=True
    ):
        assert text[low:high] in model.tokenizer.decode(ids[start:stop])


def test_a_share_is_exact_for_texts_and_wider_for_people():
    flag = np.arange(100) < 10
    alone = share_of(flag, np.arange(100), 0.95)
    assert (alone.low, alone.high) == pytest.approx((0.0490, 0.1762), abs=2e-3)
    assert share_of(flag, np.repeat(np.arange(10), 10), 0.95).width > alone.width
    assert share_of(np.zeros(100, bool), np.arange(100), 0.95).high == pytest.approx(
        0.0362, abs=1e-3
    )
    assert isinstance(share_of(np.zeros(0, bool), np.zeros(0, int), 0.95), Refusal)
