"""Canaries for a training of your own: planted by coin flips, found again in the model's scores.

Each canary goes into the training data by its own fair coin; after one training the scores of all
of them bound epsilon from below (Steinke, Nasr and Jagielski 2023, "Privacy Auditing with One (1)
Training Run"). Plan and scores are files that carry the plan's digest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lethe.errors import InputError, check_at_least, check_choice
from lethe.evidence.epsilon import EpsilonBound
from lethe.evidence.gdp import check_delta
from lethe.evidence.one_run import (
    FORMS,
    Guesses,
    check_coins,
    judged_claim,
    met,
    one_run_bound,
    score_plant,
)
from lethe.evidence.sight import blindness
from lethe.evidence.thresholds import check_scores
from lethe.files import write_whole
from lethe.training.fingerprint import digest, hash_array
from lethe.training.signals import signal_from_logits, signal_from_probabilities

# The records that canaries are made of.
#
# * ``random-label``: copies of different records of the data, each with a wrong label drawn evenly
#   from the other classes: a model that knows them has learned them by heart.
# * ``out-of-distribution``: records unlike the data with labels drawn evenly from the classes.
#   Tables (records, columns): each value is drawn from its own column, independently of the other
#   columns, so that every value is possible and the whole is not. Images and other shapes: even
#   noise between the least and the greatest value of the data, pixel by pixel.
# * ``given``: the user's own.
#
# What a canary is never changes whether a bound is true, only how much it finds.

KINDS = ("random-label", "out-of-distribution", "given")


def checked_records(features: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Features (n, ...) and labels (n,) as arrays of numbers.

    Raises InputError: other shapes, no records, no numbers, or NaN features.
    """
    table, targets = np.asarray(features), np.asarray(labels)
    if table.ndim < 2 or targets.shape != table.shape[:1] or not len(table):
        raise InputError(
            f"features have shape {table.shape} and labels {targets.shape}; they must be "
            "(records, ...) and (records,)."
        )
    if table.dtype.kind not in "iuf" or targets.dtype.kind not in "iuf":
        raise InputError(f"features are {table.dtype} and labels {targets.dtype}; give numbers.")
    _no_nan("features", table)
    return table, targets


def _random_label(
    own: Array, targets: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    classes = _classes(targets)
    if count > len(own):
        raise InputError(
            f"count={count} random-label canaries need as many different records, got {len(own)}; "
            'use fewer, or kind="out-of-distribution".'
        )
    rows = rng.choice(len(own), count, replace=False)
    # A step of 1 to classes - 1 around the circle of classes never comes back to the true one.
    step = rng.integers(1, len(classes), count)
    wrong = classes[(np.searchsorted(classes, targets[rows]) + step) % len(classes)]
    return own[rows], wrong


def _unlike(
    own: Array, targets: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    classes = _classes(targets)
    labels = classes[rng.integers(0, len(classes), count)]
    if own.ndim == 2:
        rows = rng.integers(0, len(own), (count, own.shape[1]))
        return own[rows, np.arange(own.shape[1])], labels
    low, high = own.min(), own.max()
    shape = (count, *own.shape[1:])
    if own.dtype.kind in "iu":
        return rng.integers(low, high, shape, dtype=own.dtype, endpoint=True), labels
    return rng.uniform(low, high, shape).astype(own.dtype), labels


def _given(
    own: Array, targets: Array, count: int, given: tuple[ArrayLike, ArrayLike]
) -> tuple[Array, Array]:
    planted, labels = np.asarray(given[0]), np.asarray(given[1])
    if planted.shape != (count, *own.shape[1:]) or labels.shape != (count,):
        raise InputError(
            f"given canaries have shapes {planted.shape} and {labels.shape}, count={count} of them "
            f"need {(count, *own.shape[1:])} and {(count,)}."
        )
    _no_nan("given features", planted)
    return planted.astype(own.dtype), labels.astype(targets.dtype)


def _classes(targets: Array) -> Array:
    classes = np.unique(targets)
    if len(classes) < 2:
        raise InputError("labels are all the same; canaries need at least two classes.")
    return classes


def _no_nan(name: str, values: Array) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"{name} hold NaN or infinite numbers; every value must be given.")


OUTPUTS = ("logits", "probabilities")
MIN_CANARIES = 20
"""With fewer, all coins may well fall alike, and hardly any guesses are made."""

_COINS, _CONTENT, _SHUFFLE = 0, 1, 2

Array = NDArray[Any]


@dataclass(frozen=True)
class CanaryAudit:
    """What the canaries of one training say about epsilon.

    Attributes:
        bounds: one for each form; each is true with its confidence alone, so the largest of them
            is not. The verdict is from one form, named before the scores were seen.
    """

    bounds: dict[str, EpsilonBound]
    form: str  # of the verdict
    verdict: str | None  # contradicts, consistent or not-enough-evidence; None without a claim
    words: str  # one sentence
    plan: str  # digest of the canaries


@dataclass(frozen=True, eq=False)
class Canaries:
    """Records to plant, and the coins that decide which; made by `plan_canaries`.

    The coins are secret: they may touch the training only through what `insert` returns.

    Raises InputError: lengths differ, or the coins cannot have been fair.
    """

    features: Array  # (m, ...) in the form and dtype of the user's own
    labels: Array  # (m,) in the dtype of the user's own
    inserted: NDArray[np.bool_]  # (m,) bool, one independent fair coin each
    kind: str  # ``random-label``, ``out-of-distribution`` or ``given``
    seed: int  # of content, coins and the order in which `insert` mixes them in

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_at_least("number of canaries", len(self.features), MIN_CANARIES)
        if not len(self.features) == len(self.labels) == len(self.inserted):
            raise InputError(
                f"{len(self.features)} canaries have {len(self.labels)} labels and "
                f"{len(self.inserted)} coins; give one of each for every canary."
            )
        check_coins(self.inserted)

    def __len__(self) -> int:
        """Number of canaries."""
        return len(self.inserted)

    @property
    def digest(self) -> str:
        """Hash of the whole plan; scores saved for one plan are refused by another."""
        arrays = (self.features, self.labels, self.inserted)
        return digest("canaries", self.kind, str(self.seed), *map(hash_array, arrays))

    def insert(self, features: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
        """Training data with the inserted canaries among them, in an order drawn by the seed.

        Args:
            features: (n, ...) the user's own training records.
            labels: (n,) theirs.

        Returns: Features and labels of n records and of the canaries whose coin fell on IN.
        """
        table, targets = checked_records(features, labels)
        if table.shape[1:] != self.features.shape[1:] or table.dtype != self.features.dtype:
            raise InputError(
                f"features are {table.dtype} {table.shape[1:]} a record, the canaries "
                f"{self.features.dtype} {self.features.shape[1:]}; insert them into data like "
                "those that they were planned for."
            )
        if targets.dtype != self.labels.dtype:
            raise InputError(
                f"labels are {targets.dtype}, those of the canaries {self.labels.dtype}; use the "
                "dtype of the plan."
            )
        mixed = np.concatenate([table, self.features[self.inserted]])
        with_labels = np.concatenate([targets, self.labels[self.inserted]])
        order = np.random.default_rng([self.seed, _SHUFFLE]).permutation(len(mixed))
        return mixed[order], with_labels[order]

    def signals(self, outputs: ArrayLike, form: str = "logits") -> NDArray[np.float32]:
        """One score a canary from what a classifier says about all of them, IN and OUT alike.

        Args:
            outputs: (m, classes) for `features`, in their order.
            form: ``logits`` or ``probabilities``.

        Returns: (m,) log-odds of the canary's own label, higher = more likely IN.
        """
        check_choice("form", form, OUTPUTS)
        of = signal_from_logits if form == "logits" else signal_from_probabilities
        return of(np.asarray(outputs), self.labels)

    def seen_in(self, batches: Iterable[tuple[ArrayLike, ArrayLike]]) -> dict[str, Any]:
        """How many canaries stand among the records that a training is given, as plain values.

        Args:
            batches: features and labels of one epoch, as the training step gets them.
        """
        pairs = zip(self.features, self.labels, strict=True)
        wanted = {_record(*pair): place for place, pair in enumerate(pairs)}
        seen = np.zeros(len(self), bool)
        for features, labels in batches:
            rows = np.asarray(features).astype(self.features.dtype)
            marks = np.asarray(labels).astype(self.labels.dtype)
            there = (wanted.get(_record(*pair)) for pair in zip(rows, marks, strict=True))
            seen[[place for place in there if place is not None]] = True
        return {
            "plan": self.digest,
            "planted": int(self.inserted.sum()),
            "received": int(seen[self.inserted].sum()),
            "left_out_seen": int(seen[~self.inserted].sum()),
        }

    def _unmet(self, scores: ArrayLike, seen: Mapping[str, Any] | None) -> str:
        """Why the training may never have met the canaries; empty where it did."""
        if seen is None:
            if met(scores, self.inserted, self.seed):
                return ""
            return (
                "the scores do not show that the training met the canaries, and nobody watched it "
                "(Canaries.seen_in)"
            )
        if seen.get("plan") != self.digest:
            raise InputError("what was seen of the training is of another plan of canaries.")
        if seen["received"] == seen["planted"] and not seen["left_out_seen"]:
            return ""
        return (
            f"{seen['received']} of {seen['planted']} inserted canaries and "
            f"{seen['left_out_seen']} of the others were seen in the training"
        )

    def audit(
        self,
        scores: ArrayLike,
        *,
        claimed: tuple[float, float] | None = None,
        delta: float | None = None,
        guesses: Guesses | None = None,
        confidence: float = 0.95,
        gdp: bool = False,
        form: str = "binomial",
        seen: Mapping[str, Any] | None = None,
    ) -> CanaryAudit:
        """Bounds on epsilon, and whether they contradict a claim.

        Args:
            scores: (m,) one score a canary, higher = more likely IN, from the trained model and
                perhaps others that saw no canary; nothing in them may know the coins.
            claimed: (epsilon, delta), if the training claims one, under add/remove.
            delta: of the bounds; the claimed one by default, else 0.
            guesses: how many, see `Guesses`; fixed before the scores are seen, as is all below.
            confidence: of each bound, one-sided.
            gdp: True if the training is declared to be Gaussian DP: then that form decides.
            form: which form decides otherwise, ``binomial`` or ``tradeoff``.
            seen: of `seen_in`; without it the scores themselves must show that the training met
                the canaries, or a claim that is not contradicted is not called consistent.

        Guarantee: A true claim is contradicted with probability at most 1 - `confidence`.
        Assumes: What `one_run_bound` does; the relation is add/remove of one canary.

        Raises:
            InputError: scores are NaN or not one a canary; claimed epsilon <= 0; a delta outside
                [0, 1).
            NotMeasurable: too few canaries for any bound above 0.
        """
        bound_delta = delta if delta is not None else claimed[1] if claimed is not None else 0.0
        check_delta(bound_delta)
        decides = "gdp" if gdp else check_choice("form", form, FORMS[:2])
        # Without a delta above 0 the Gaussian form has no epsilon.
        forms = FORMS if bound_delta > 0 else FORMS[:2]
        if decides not in forms:
            raise InputError("gdp=True needs delta > 0: no Gaussian mechanism is (epsilon, 0)-DP.")
        bounds = {
            name: one_run_bound(
                scores,
                self.inserted,
                bound_delta,
                guesses=guesses,
                confidence=confidence,
                form=name,
                seed=self.seed,
            )
            for name in forms
        }
        if claimed is None:
            return CanaryAudit(bounds, decides, None, f"{bounds[decides]}.", self.digest)
        how: Any = {"guesses": guesses, "confidence": confidence, "form": decides}
        planted = score_plant(scores, self.inserted, bound_delta, seed=self.seed, **how)
        doubt = self._unmet(scores, seen)
        doubt = doubt or blindness([planted], "epsilon-lower", claimed[0], math.inf)
        verdict, words = judged_claim(bounds[decides], *claimed, doubt, gdp)
        return CanaryAudit(bounds, decides, verdict, words, self.digest)

    def save(self, path: str | Path) -> None:
        """Write the plan as .safetensors, coins included: keep it from attackers."""
        arrays = {
            "features": np.ascontiguousarray(self.features),
            "labels": np.ascontiguousarray(self.labels),
            "inserted": np.ascontiguousarray(self.inserted),
        }
        metadata = {"kind": self.kind, "seed": self.seed, "digest": self.digest}
        write_whole(Path(path), save(arrays, metadata=_header("canaries", metadata)))

    def save_scores(self, path: str | Path, scores: ArrayLike) -> None:
        """Write the scores of these canaries, with the plan's digest, as .safetensors."""
        values = self._scores(scores)
        header = _header("canary scores", {"digest": self.digest})
        write_whole(Path(path), save({"scores": values}, metadata=header))

    def load_scores(self, path: str | Path) -> NDArray[np.float64]:
        """Read scores back.

        Raises InputError: the file is damaged, or its scores are of other canaries.
        """
        arrays, metadata = _read(Path(path), "canary scores", ("scores",))
        if metadata.get("digest") != self.digest:
            raise InputError(
                f"{path} holds scores of other canaries; take the scores that were saved with "
                "this plan, or the plan that they were saved with."
            )
        return self._scores(arrays["scores"])

    def _scores(self, scores: ArrayLike) -> NDArray[np.float64]:
        values = check_scores("scores", scores)
        if len(values) != len(self):
            raise InputError(f"{len(values)} scores for {len(self)} canaries; give one for each.")
        return values


def plan_canaries(
    features: ArrayLike,
    labels: ArrayLike,
    count: int,
    kind: str = "random-label",
    seed: int = 0,
    *,
    given: tuple[ArrayLike, ArrayLike] | None = None,
) -> Canaries:
    """Draw canaries for a training set, and an independent fair coin for each.

    More canaries tell more until they disturb the training: a few per cent of the data is usual.

    Args:
        features: (n, ...) training records, numbers.
        labels: (n,) integer class codes; ``given`` takes numbers of any kind.
        count: m, number of canaries, >= 20; for ``given`` that of the arrays.
        kind: ``random-label``, ``out-of-distribution`` (see `lethe.membership.one_run`) or
            ``given``.
        seed: draws everything; keep it from the training's own seed and code.
        given: (features, labels) of the canaries for ``given``.

    Raises InputError: shapes differ, too few records or classes for the kind, NaN features.

    >>> plan = plan_canaries(np.arange(60.0).reshape(30, 2), np.arange(30) % 2, 20, seed=1)
    >>> plan.features.shape, bool(plan.inserted.any())
    ((20, 2), True)
    """
    check_at_least("count", count, MIN_CANARIES)
    check_at_least("seed", seed, 0)
    rng = np.random.default_rng([seed, _CONTENT])
    records, targets = checked_records(features, labels)
    check_choice("kind", kind, KINDS)
    if (kind == "given") != (given is not None):
        raise InputError('canaries of your own take kind="given" and given=(features, labels).')
    if given is not None:
        planted, their_labels = _given(records, targets, count, given)
    elif targets.dtype.kind not in "iu":
        raise InputError(
            f"labels are {targets.dtype}; kind={kind!r} needs integer class codes. For other "
            'targets make canaries of your own, with kind="given".'
        )
    else:
        make = _random_label if kind == "random-label" else _unlike
        planted, their_labels = make(records, targets, count, rng)
    coins = np.random.default_rng([seed, _COINS]).random(count) < 0.5
    return Canaries(planted, their_labels, coins, kind, seed)


def load_canaries(path: str | Path) -> Canaries:
    """Read a plan back.

    Raises InputError: the file is damaged, no plan, or its content is not what its digest says.
    """
    arrays, metadata = _read(Path(path), "canaries", ("features", "labels", "inserted"))
    try:
        plan = Canaries(**arrays, kind=str(metadata["kind"]), seed=int(metadata["seed"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is no plan of canaries: {error}. Save the plan again.") from error
    if plan.digest != metadata.get("digest"):
        raise InputError(f"{path} was altered: its content is not what its digest says.")
    return plan


def _record(features: Array, label: Any) -> bytes:
    return np.ascontiguousarray(features).tobytes() + np.asarray(label).tobytes()


def _header(what: str, metadata: dict[str, Any]) -> dict[str, str]:
    # One entry: safetensors writes several in any order, and equal plans give equal bytes.
    return {"lethe": json.dumps({"what": what, **metadata}, sort_keys=True)}


def _read(path: Path, what: str, names: tuple[str, ...]) -> tuple[dict[str, Array], dict[str, Any]]:
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = json.loads((file.metadata() or {}).get("lethe", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"{path} is not readable: {error}. Save it again.") from error
    if metadata.get("what") != what or set(arrays) != set(names):
        raise InputError(f"{path} holds no {what}; take the file that Lethe wrote for them.")
    return arrays, metadata
