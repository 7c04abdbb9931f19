"""Answers by hand, against copies asked one by one, and inside a chunk of shadow models."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

from lethe.errors import InputError
from lethe.training.answers import (
    AnswerForm,
    LabelOnly,
    Rounding,
    Temperature,
    log_distributions,
    noisy_copies,
    tempered,
    vote_logits,
)
from lethe.training.chunks import Spec, chunk_jobs, train_chunk
from lethe.training.outputs import outputs_of, prepared
from lethe.training.recipe import (
    CallableRecipe,
    Layout,
    SklearnRecipe,
    TorchRecipe,
    Treatment,
    Work,
)
from lethe.training.signals import signal_from_logits, signal_from_probabilities

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(30, 6)).astype(np.float32)
LABELS = (FEATURES[:, 0] + RNG.normal(size=30) > 0).astype(np.int64) + (FEATURES[:, 1] > 1)
POOL = np.arange(30) < 24
MEMBERS = np.zeros((2, 30), bool)
MEMBERS[0, :24:2] = MEMBERS[1, 1:24:2] = True
ANSWERS: list[AnswerForm] = [Temperature(3.0), Rounding(1), LabelOnly(copies=5, scale=1.0)]


def net() -> nn.Module:
    return nn.Linear(6, 3)


TORCH = TorchRecipe(net, epochs=3, batch_size=6, learning_rate=0.1, optimizer="sgd")
SKLEARN = SklearnRecipe(LogisticRegression())


def spec(recipe: Any = TORCH, **treatment: Any) -> Spec:
    return Spec(FEATURES, LABELS, 3, POOL, recipe, Treatment(**treatment), 0)


def observed(recipe: Any, **treatment: Any) -> list[tuple[np.ndarray, str]]:
    return list(outputs_of(spec(recipe, **treatment).work(MEMBERS, [1, 2])))


# --- by hand ------------------------------------------------------------------------------


def test_temperature_by_hand() -> None:
    """Square roots of 0.64, 0.32 and 0.04 over their sum."""
    p = np.array([[0.64, 0.32, 0.04]])
    roots = np.array([0.8, 0.32**0.5, 0.2])
    assert tempered(np.log(p), 2.0)[0] == pytest.approx(roots / roots.sum())
    assert tempered(np.log(p), 0.5)[0] == pytest.approx(p[0] ** 2 / (p**2).sum())


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0, 100.0])
def test_who_knows_the_temperature_has_the_signal_back(temperature: float) -> None:
    logits = RNG.normal(size=(1, 50, 4)) * 5
    labels = RNG.integers(0, 4, 50)
    answer = Temperature(temperature)
    found, kind = answer.observation(logits, "logits")
    assert kind == "logits" and (found.argmax(1) == logits[0].argmax(1)).all()
    wanted = signal_from_logits(logits[0], labels)
    assert signal_from_logits(found, labels) == pytest.approx(wanted, abs=1e-5)
    p = np.exp(log_distributions(logits[0], "logits"))
    p[:5] = [1.0, 0.0, 0.0, 0.0]  # as trees answer
    found, kind = answer.observation(p[None], "probabilities")
    assert kind == "probabilities" and found.sum(1) == pytest.approx(1)
    if temperature >= 1:
        wanted = signal_from_probabilities(p, labels)
        assert signal_from_probabilities(found, labels) == pytest.approx(wanted, abs=1e-5)


def test_a_temperature_near_0_loses_what_no_number_holds() -> None:
    """e^-800 is 0 in double precision: 8 nats below the best at T = 0.01 is as good as 80."""
    found, _ = Temperature(0.01).observation(np.array([[[0.0, -8.0], [0.0, -80.0]]]), "logits")
    assert found[0] == pytest.approx(found[1]) and -7.5 < found[0, 1] < -7


def test_rounding_by_hand() -> None:
    p = np.array([[0.86, 0.12, 0.02], [0.44, 0.36, 0.20], [0.36, 0.42, 0.22]])
    found, kind = Rounding(1).observation(p[None], "probabilities")
    assert kind == "logits"
    # 0.02 is answered as 0 and counts as half of 0.1; 0.36 and 0.42 are answered alike.
    wanted = [[0.9, 0.1, 0.05], [0.4, 0.4, 0.2], [0.4, 0.4, 0.2]]
    assert np.exp(found) == pytest.approx(np.array(wanted))
    assert found.argmax(1).tolist() == [0, 0, 0]
    same, _ = Rounding(1).observation(np.log(p)[None] + 7.0, "logits")
    assert same == pytest.approx(found)
    signal = signal_from_logits(found, np.array([0, 2, 1]))
    assert signal == pytest.approx(np.log([0.9 / 0.15, 0.2 / 0.8, 0.4 / 0.6]))
    nothing, _ = Rounding(0).observation(np.full((1, 1, 3), 1 / 3), "probabilities")
    assert np.exp(nothing) == pytest.approx(0.5) and nothing.argmax() == 0


def test_votes_by_hand() -> None:
    labels = np.array([[0, 1, 1], [0, 0, 2], [0, 0, 2], [1, 0, 2]])
    # Record 0: 3 and 1 votes. Record 1 is outvoted 3 to 1 and put half a vote above the three.
    wanted = [[3.5, 1.5, 0.5], [3.5, 4.0, 0.5], [0.5, 4.0, 3.5]]
    assert np.exp(vote_logits(labels, 3)) == pytest.approx(np.array(wanted))
    tie = vote_logits(np.array([[1], [0]]), 2)
    assert np.exp(tie) == pytest.approx(np.array([[1.5, 2.0]]))


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: type(one).__name__)
def test_nan_stays_to_be_refused_with_its_record(answer: AnswerForm) -> None:
    asked = 1 + len(answer.queries(FEATURES))
    outputs = RNG.normal(size=(asked, 30, 3))
    outputs[-1, 7, 1] = np.nan
    found, kind = answer.observation(outputs, "logits")
    assert np.isnan(found[7]).any() and np.isfinite(np.delete(found, 7, 0)).all()
    with pytest.raises(InputError, match="the first is record 7"):
        signal_from_logits(found, LABELS)
    with pytest.raises(InputError, match="probabilities of record 3"):
        p = np.full((asked, 30, 3), 1 / 3)
        p[0, 3] = 0.5
        answer.observation(p, "probabilities")


# --- in training --------------------------------------------------------------------------


def test_a_torch_model_is_asked_about_every_copy() -> None:
    """The modules that were trained, kept by their factory, are asked again one copy at a time."""
    built: list[nn.Module] = []

    def kept() -> nn.Module:
        built.append(net())
        return built[-1]

    answer = LabelOnly(copies=4, scale=1.0, seed=3)
    recipe = replace(TORCH, make_module=kept)
    weights = RNG.random(30).astype(np.float32)
    treatment = Treatment(answer=answer, weights=weights)
    found = list(
        outputs_of(
            replace(spec(recipe), treatment=treatment).work(MEMBERS, [1, 2], Layout("alone", 1))
        )
    )
    questions = [FEATURES, *noisy_copies(FEATURES, 4, 1.0, 3)]
    plain = outputs_of(
        replace(spec(), treatment=replace(treatment, answer=None)).work(MEMBERS, [1, 2])
    )
    for (ours, kind), module, (full, _) in zip(found, built, plain, strict=True):
        with torch.no_grad():
            labels = [module(torch.from_numpy(one)).numpy().argmax(1) for one in questions]
        assert kind == "logits"
        assert ours == pytest.approx(vote_logits(np.stack(labels), 3))
        assert (ours.argmax(1) == full.argmax(1)).all()
    assert len(np.unique(found[0][0])) > 4


def test_an_estimator_is_asked_about_every_copy() -> None:
    answer = LabelOnly(copies=4, scale=1.0)
    questions = [FEATURES, *noisy_copies(FEATURES, 4, 1.0, 0)]
    for (ours, kind), row, seed in zip(
        observed(SKLEARN, answer=answer), MEMBERS, (1, 2), strict=True
    ):
        fitted = prepared(SKLEARN.estimator, seed).fit(FEATURES[row], LABELS[row])
        labels = np.stack([fitted.predict(one) for one in questions])
        assert kind == "logits" and ours == pytest.approx(vote_logits(labels, 3))


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_users_code_answers_in_a_limited_way_too(outputs: str) -> None:
    table = RNG.dirichlet(np.ones(3), 30)
    given = np.log(table) if outputs == "logits" else table
    recipe = CallableRecipe(lambda rows, weights, seed: lambda asked: given[asked], outputs)
    for answer in ANSWERS[:2]:
        wanted, kind = answer.observation(given[None], outputs)
        for found, told in observed(recipe, answer=answer):
            assert told == kind and np.array_equal(found, wanted)


@dataclass(frozen=True)
class Told:
    """A method of training that answers with the sum of a record's features."""

    works: list[Work]

    def describe(self) -> dict[str, Any]:
        return {"kind": "told"}

    def refuses(self, recipe: Any) -> str | None:
        return None

    def train(self, work: Work) -> Iterator[np.ndarray]:
        self.works.append(work)
        for _ in work.seeds:
            yield np.stack([work.features.sum(1)] * 2 + [0 * work.features[:, 0]], axis=1)


def test_other_ways_to_train_are_asked_about_copies_that_nobody_trains_on() -> None:
    method = Told([])
    answer = LabelOnly(copies=2, scale=0.5)
    weights = RNG.random(30).astype(np.float32)
    groups = np.arange(30) // 2
    job = replace(spec(method=method, answer=answer, weights=weights), groups=groups)
    found = list(outputs_of(job.work(MEMBERS, [1, 2])))
    (work,) = method.works
    assert work.features.shape == (90, 6) and np.array_equal(work.features[:30], FEATURES)
    assert np.array_equal(work.features[30:].reshape(2, 30, 6), noisy_copies(FEATURES, 2, 0.5, 0))
    assert work.pool.sum() == 24 and work.pool[:24].all() and work.members.shape == (2, 90)
    assert np.array_equal(work.members[:, :30], MEMBERS) and not work.members[:, 30:].any()
    assert np.array_equal(work.labels, np.tile(LABELS, 3)) and work.treatment.weights is not None
    assert np.array_equal(work.treatment.weights[:30], weights) and len(found) == 2
    labels = np.where(work.features.sum(1) > 0, 0, 2).reshape(3, 30)
    assert np.array_equal(found[0][0], vote_logits(labels, 3))


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: type(one).__name__)
def test_a_chunk_holds_signals_and_accuracy_of_the_answer(
    answer: AnswerForm, tmp_path: Path
) -> None:
    (job,) = chunk_jobs(spec(answer=answer), tmp_path, 2, 2)
    train_chunk(job)
    shard = job.finished()
    known = list(outputs_of(job.spec.work(shard.members.astype(bool), shard.seeds.tolist())))
    for model, (outputs, kind) in enumerate(known):
        assert kind == "logits"
        assert np.array_equal(shard.signals[model], signal_from_logits(outputs, LABELS))
        assert np.array_equal(shard.correct[model], outputs.argmax(1) == LABELS)
        assert shard.utility[model] == pytest.approx(shard.correct[model][~POOL].mean())


# --- bad input and names ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Temperature(0.0), "temperature=0.0 must be in"),
        (lambda: Temperature(float("nan")), "temperature=nan"),
        (lambda: Rounding(-1), "decimals=-1"),
        (lambda: Rounding(1.5), "decimals=1.5 must be a whole number"),
        (lambda: LabelOnly(copies=0), "copies=0 must be at least 1"),
        (lambda: LabelOnly(scale=-1.0), "scale=-1.0"),
        (lambda: LabelOnly(flip=2.0), "flip=2.0"),
    ],
)
def test_answers_refuse_settings_out_of_range(make: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        make()


def regression() -> nn.Module:
    return nn.Linear(6, 1)


def test_recipes_say_which_answers_they_cannot_give() -> None:
    table = CallableRecipe(lambda rows, weights, seed: lambda asked: FEATURES[asked, :3])
    reason = table.refuses(Treatment(answer=LabelOnly()))
    assert reason is not None and "Predict takes row numbers only" in reason
    with pytest.raises(InputError, match="cannot be applied: labels are attacked by asking"):
        observed(table, answer=LabelOnly())
    recipes = [
        TorchRecipe(regression, loss="squared-error"),
        SklearnRecipe(LinearRegression()),
        CallableRecipe(table.train, "prediction"),
    ]
    for answer in ANSWERS:
        for recipe in recipes:
            assert "need classes" in str(recipe.refuses(Treatment(answer=answer)))
        assert TORCH.refuses(Treatment(answer=answer)) is None
        assert SKLEARN.refuses(Treatment(answer=answer)) is None


def test_a_treatment_that_uses_nothing_new_keeps_its_name() -> None:
    assert Treatment().describe() == {
        "weights": None,
        "noise": 0.0,
        "epochs": None,
        "remove": False,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"weight_decay": 0.0},
        {"label_smoothing": 0.0},
        {"mixup": 1.0},
        {"average": 1.0},
        *({"answer": answer} for answer in ANSWERS),
        {"answer": Temperature(2.0)},
        {"answer": Rounding(2)},
        *(
            {"answer": LabelOnly(**change)}
            for change in ({"copies": 5}, {"scale": 1.0}, {"flip": 0.1}, {"seed": 1})
        ),
    ]
    assert len({spec(**change).hash() for change in changes}) == len(changes)
