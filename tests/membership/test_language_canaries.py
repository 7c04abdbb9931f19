"""Canaries of a language model: planted as planned, watched, and bounds that hold."""

import json
import warnings

import numpy as np
import pytest
import torch
import transformers
from tiny_language import load_base, narratives

from lethe.errors import InputError
from lethe.evidence.one_run import one_run_epsilon
from lethe.membership.language.canaries import (
    CanarySigns,
    CanaryWatch,
    TextCanaries,
    TextCanary,
    canary_callback,
    canary_results,
    canary_scores,
    exposures,
    plan_text_canaries,
    training_checks,
)
from lethe.membership.language.fine_tune import FineTune, fine_tune
from lethe.membership.language.models import quiet
from lethe.membership.language.tokens import TokenScores

TEXTS = narratives(60, seed=2)


@pytest.fixture(scope="module")
def tokenizer():
    return load_base()[1]


def signs_of(score):
    """Scores of canaries of which no suffix is read."""
    none = np.zeros(len(score), bool)
    return CanarySigns(score, none, none)


@pytest.fixture(scope="module")
def plan(tokenizer):
    return plan_text_canaries(TEXTS, tokenizer, 72, seed=4)


def test_a_plan_has_each_kind_at_each_count_and_is_kept(plan, tokenizer, tmp_path):
    cells = {(one.kind, one.repetitions) for one in plan.canaries}
    assert len(cells) == 9
    assert len({one.text for one in plan.canaries} | set(TEXTS)) == len(TEXTS) + 72
    plan.save(tmp_path / "canaries.json")
    assert (tmp_path / "canaries.json").stat().st_mode & 0o077 == 0
    again = TextCanaries.load(tmp_path / "canaries.json")
    assert again.digest == plan.digest
    assert plan_text_canaries(TEXTS, tokenizer, 72, seed=4).digest == plan.digest
    assert plan_text_canaries(TEXTS, tokenizer, 72, seed=5).digest != plan.digest
    mixed = plan.insert(TEXTS)
    for one in plan.canaries:
        assert mixed.count(one.text) == one.repetitions * one.inserted
    assert sorted(set(mixed) - {one.text for one in plan.canaries}) == sorted(set(TEXTS))


def test_a_new_token_stands_in_no_text(plan, tokenizer):
    seen = {at for text in TEXTS for at in tokenizer(text)["input_ids"]}
    new = [one for one in plan.canaries if one.kind == "new-token"]
    last = [tokenizer(one.text)["input_ids"][-1] for one in new]
    assert len(set(last)) == len(new) and not seen & set(last)
    with pytest.raises(InputError, match="tokens that no text has"):
        plan_text_canaries(TEXTS, tokenizer, 2000, ("new-token",))


def watched(plan, tokenizer, change=lambda ids, labels: (ids, labels), left=()):
    model = load_base()[0]
    watch = CanaryWatch(plan, tokenizer)
    watch.begin(model)
    for text in [*plan.insert(TEXTS), *left]:
        ids = np.array([tokenizer(text)["input_ids"]])
        watch.see(*change(ids, ids.copy()))
    with torch.no_grad():
        next(model.parameters()).add_(0.01)
    return watch.end(model)


def test_what_masking_truncation_and_packing_do_is_seen(plan, tokenizer):
    planted = int(plan.inserted.sum())
    plain = watched(plan, tokenizer)
    assert plain["received"] == plain["planted"] == planted and plain["moved"] >= 1
    assert [status for _, status, _ in training_checks(plain, plan)] == ["pass", "pass"]

    def masked(ids, labels):
        return ids, np.full_like(labels, -100)

    def cut(ids, labels):
        return ids[:, :6], labels[:, :6]

    none = watched(plan, tokenizer, masked)
    assert none["received"] == 0 and none["without_loss"] == planted
    short = watched(plan, tokenizer, cut)
    assert short["received"] == 0 and short["without_loss"] == 0
    for seen in (none, short):
        assert training_checks(seen, plan)[0][1] == "fail"
    out = next(one.text for one in plan.canaries if not one.inserted)
    odd = training_checks(watched(plan, tokenizer, left=[out]), plan)
    assert odd[-1][0] == "left-out canaries stayed out" and odd[-1][1] == "fail"
    # Packed: one long row, canaries between other texts.
    model = load_base()[0]
    watch = CanaryWatch(plan, tokenizer)
    watch.begin(model)
    row = [at for text in plan.insert(TEXTS) for at in [*tokenizer(text)["input_ids"], 0]]
    watch.see(np.array([row]), np.array([row]))
    packed = watch.end(model)
    assert packed["received"] == planted and packed["moved"] == 0
    assert training_checks(packed, plan)[1][1] == "fail"
    with pytest.raises(InputError, match="another plan"):
        training_checks(packed, plan_text_canaries(TEXTS, tokenizer, 72, seed=6))


def test_the_callback_watches_a_trainer_and_changes_nothing(plan, tokenizer, tmp_path):
    class Rows(torch.utils.data.Dataset):
        def __init__(self, texts):
            self.rows = [tokenizer(text)["input_ids"] for text in texts]

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, at):
            own = self.rows[at]
            return {"input_ids": own, "labels": own}

    def collate(rows):
        wide = max(len(one["input_ids"]) for one in rows)
        ids = [one["input_ids"] + [0] * (wide - len(one["input_ids"])) for one in rows]
        labels = [one["labels"] + [-100] * (wide - len(one["labels"])) for one in rows]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)}

    def trained(callbacks):
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arguments = transformers.TrainingArguments(
                output_dir=str(tmp_path / "out"),
                max_steps=3,
                per_device_train_batch_size=8,
                report_to="none",
                use_cpu=True,
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                dataloader_pin_memory=False,
                seed=1,
                remove_unused_columns=False,
            )
            trainer = transformers.Trainer(
                load_base()[0],
                arguments,
                data_collator=collate,
                train_dataset=Rows(plan.insert(TEXTS)),
                callbacks=callbacks,
            )
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        return torch.cat([one.detach().ravel() for one in trainer.model.parameters()])

    file = tmp_path / "canaries-training.json"
    with_it = trained([canary_callback(plan, tokenizer, file)])
    seen = json.loads(file.read_text())
    assert [one[1] for one in training_checks(seen, plan)][:2] == ["pass", "pass"]
    assert torch.equal(with_it, trained([]))


def tokens(values):
    own = np.asarray(values, np.float32)
    return TokenScores.known(own)


def test_scores_are_ranks_by_kind_of_the_gain_over_the_base(plan):
    rng = np.random.default_rng(0)
    gain = rng.normal(size=len(plan)) + [100 * (one.kind == "new-token") for one in plan.canaries]
    base = [tokens([-5.0, -6.0]) for _ in plan.canaries]
    model = [
        tokens([-5.0, -6.0 + g] if one.last else [-5 + g, -6 + g])
        for one, g in zip(plan.canaries, gain, strict=True)
    ]
    scores = canary_scores(plan, model, base)
    for kind in {one.kind for one in plan.canaries}:
        here = np.array([one.kind == kind for one in plan.canaries])
        assert (np.argsort(scores[here]) == np.argsort(gain[here])).all()
        assert 0 < scores[here].min() < 0.05 < 0.95 < scores[here].max() < 1


def test_exposure_by_hand_and_without_memory():
    kinds = np.array(["a"] * 8)
    inserted = np.array([1, 1, 0, 0, 0, 0, 0, 0], bool)
    bits, most = exposures(np.array([9.0, 2.5, 1, 2, 3, 4, 5, 6]), inserted, kinds)
    assert bits.tolist() == pytest.approx([np.log2(7), np.log2(7 / 5)]) and most == np.log2(7)
    rng = np.random.default_rng(0)
    flags = rng.random(4000) < 0.5
    bits, _ = exposures(rng.normal(size=4000), flags, np.array(["a"] * 4000))
    assert bits.mean() == pytest.approx(1 / np.log(2), abs=0.1)


def test_a_memory_of_all_canaries_shows_the_most_that_so_many_can(plan):
    found = canary_results(plan, signs_of(plan.inserted.astype(float)))
    for one in found:
        guesses = round(0.2 * one.canaries)
        assert one.bounds["binomial"].low == pytest.approx(
            one_run_epsilon(one.canaries, guesses, guesses)
        )
        assert one.bounds["binomial"].low == pytest.approx(one.largest)
        assert one.exposure.value == pytest.approx(one.most_exposure, rel=0.2)


@pytest.mark.slow
def test_a_fine_tune_remembers_what_stands_often(tokenizer):
    from lethe.membership.language.canaries import score_plan
    from lethe.membership.language.models import LanguageModel

    planned = plan_text_canaries(TEXTS, tokenizer, 120, ("random-token",), (1, 16), seed=1)
    model, _ = load_base()
    base = load_base()[0].train(False)
    tuned, _ = fine_tune(model, tokenizer, planned.insert(TEXTS), FineTune(4, 4e-3, 32))
    mine, theirs = (
        score_plan(planned, LanguageModel("m", one, tokenizer, "", 96)) for one in (tuned, base)
    )
    once, often = canary_results(planned, signs_of(canary_scores(planned, mine, theirs)))
    assert often.exposure.value > once.exposure.value + 1
    assert often.bounds["binomial"].low == pytest.approx(often.largest)


def test_a_proof_is_held_against_canaries_only_where_they_bound_the_same_epsilon():
    from types import SimpleNamespace

    from lethe.evidence.guarantee import Guarantee
    from lethe.membership.language.document import LanguageSubject
    from lethe.membership.language.settings import LanguageSettings

    coins = np.random.default_rng(0).random(100) < 0.5
    listed = [
        TextCanary(f"c{at}", f"t{at}", "random-token", 1, bool(c)) for at, c in enumerate(coins)
    ]
    plan = TextCanaries(tuple(listed), 0)
    none = np.zeros(100, bool)
    signs = CanarySigns(coins.astype(float), none, none)

    def checked(epsilon, delta, relation="add/remove"):
        label = Guarantee("approx-dp", {"epsilon": epsilon, "delta": delta}, relation, "record")
        release = SimpleNamespace(name="private", guarantee=label, canaries=signs)
        study = SimpleNamespace(plan=plan, seen=None, releases=[release])
        subject = LanguageSubject(study, LanguageSettings())
        return [row.status for row in subject._against_proof(release)]

    assert checked(1.0, 1e-5) == ["fail"]  # so many right guesses show 1.8
    assert checked(4.0, 1e-5) == ["pass"]
    assert checked(1.0, 1e-3) == [] and checked(1.0, 1e-5, "replace-one") == []
