"""The first screen speaks of one rate: headline, cards and options alike."""

import numpy as np
import pytest

import lethe
from lethe.report.first_screen import first_screen
from lethe.report.numbers import share_words
from lethe.report.of_model import Model


@pytest.mark.parametrize("gap", [0.5, 2.0])
def test_cards_and_options_speak_at_the_headlines_rate(gap):
    """At 1 % nothing can be told, at 10 % it can: "29 %" stood beside "4 %, nothing proven"."""
    rng = np.random.default_rng(3)
    half = rng.random((4, 600)) < 0.5
    members = np.stack([half, ~half], 1).reshape(8, 600)
    scores = rng.normal(size=members.shape) + 2 * rng.normal(size=600) + gap * members
    how = {"save": False, "quiet": True, "attack": "loss-threshold"}
    document = lethe.audit_scores(scores, members, **how).to_json()
    room = Model(document)
    rate = room.judged.measures[f"tpr@{room.fpr:g}"]
    screen, value = first_screen(room, {}, None), share_words(rate.value)
    assert f" {value} " in screen.headline
    assert screen.cards[1].large.startswith(value) and f": {value}" in screen.cards[3].large
    ((_, cells),) = screen.options.rows
    assert cells[1] == room.result_cell(rate)
    if gap < 1:
        assert room.judged.risk == room.judged.measures["tpr@0.01"] != rate
