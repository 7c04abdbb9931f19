"""What lies in a fitted model itself: read off it, without an attack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lethe.evidence.estimate import Measured
from lethe.evidence.of_model import Holding
from lethe.membership.checks import Check
from lethe.membership.document import Measurement
from lethe.training.fitted import parts_of

ROWS = "rows"
"""Kind of what a model holds of people as they are; the others are traces of few people."""

_KEPT = {
    "_fit_X": "neighbours",
    "support_vectors_": "support vectors",
    "X_train_": "training rows of a Gaussian process",
    "X_fit_": "training rows of a kernel",
}
_FEW = 3


@dataclass(frozen=True)
class OneModel:
    """What is known of a fitted model beside its scores.

    Attributes:
        holdings: what lies in it; see `holdings`.
        estimate: what shadow models would find; see `one_model.predictor.estimated`.
    """

    holdings: Sequence[Holding]
    estimate: Measured

    def added_to(self, measured: Measurement) -> Measurement:
        """The measurement with both; training rows in the model are a failed check: no pass."""
        rows = [one.words for one in self.holdings if one.kind == ROWS]
        failed = [Check("model-contents", "fail", "; ".join(rows))] if rows else []
        return replace(
            measured,
            holdings=self.holdings,
            estimated=self.estimate,
            checks=[*failed, *measured.checks],
        )


def holdings(model: Any, texts: Iterable[str] = ()) -> list[Holding]:
    """Training rows, leaves of few people and words of one person that a model holds.

    Args:
        model: an estimator or pipeline of scikit-learn; in anything else nothing is found.
        texts: of its training records, where a step reads texts.
    """
    listed, texts, leaves = [], list(texts), Counter[str]()
    for part in parts_of(model):
        listed += [*_rows(part), *_words(part, texts)]
        if type(part).__name__ == "Tree" and type(part).__module__.startswith("sklearn."):
            records = part.n_node_samples[part.children_left == -1]
            leaves.update(all=len(records), few=int((records < _FEW).sum()))
    if leaves["few"]:
        said = (
            f"{leaves['few']:,} of {leaves['all']:,} leaves of its trees hold fewer than {_FEW} "
            "training records"
        )
        listed.append(Holding("leaves", leaves["few"], said))
    return listed


def _rows(part: Any) -> Iterator[Holding]:
    for name, what in _KEPT.items():
        kept = getattr(part, "__dict__", {}).get(name)
        shape = getattr(kept, "shape", None)
        if shape and shape[0]:
            said = f"it holds {shape[0]:,} of its training records as they are ({what})"
            yield Holding(ROWS, int(shape[0]), said)


def _words(part: Any, texts: list[str]) -> Iterator[Holding]:
    """Entries of a vocabulary that stand in one training text alone."""
    vocabulary = getattr(part, "__dict__", {}).get("vocabulary_")
    if vocabulary is None or not texts or not hasattr(part, "build_analyzer"):
        return
    split = part.build_analyzer()
    found = Counter(word for text in texts for word in set(split(text)))
    alone = sum(found[word] == 1 for word in vocabulary)
    if alone:
        said = (
            f"{alone:,} of {len(vocabulary):,} entries of its vocabulary come from one record each"
        )
        yield Holding("vocabulary", alone, said)


def texts_of(inputs: Any, members: Any) -> list[str]:
    """All text cells of the training records, a column after the other."""
    columns = (
        [inputs[name] for name in inputs.columns]
        if hasattr(inputs, "columns")
        else [np.asarray(inputs)]
    )
    kept = [np.asarray(column)[members] for column in columns]
    return [
        cell for column in kept if column.dtype.kind in "OU" for cell in column.ravel()
        if isinstance(cell, str)
    ]  # fmt: skip
