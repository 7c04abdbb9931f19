"""The options that say what is audited, the same in `lethe audit model` and `lethe plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SubjectOptions:
    """Data, recipe and how they are measured; None takes the default.

    Parameters
    ----------
    label
        Column of the file that the model predicts.
    task
        What it predicts: "classification", a class, or "regression", a number. [classification]
    recipe
        Your own model: file.py:name or module:name, a function that returns a recipe, or an
        estimator of scikit-learn, XGBoost, LightGBM or skorch. [a small neural network; on texts a
        linear head]
    mitigations
        Names of the mitigations to compare. Standard: uniform-noise, weighted, weighted-noise,
        removal, equal-mean-weight, early-stopping. Cheap: l2, label-smoothing, mixup,
        model-averaging. What is answered: temperature, rounding, label-only. With --epsilon:
        dp-sgd, weighted-dp, individual-dp. With --local-epsilon: swag-ppm, swag-scalar. Or all,
        or none, to measure the plain model alone. [the standard ones, and dp-sgd and swag-ppm
        where their epsilon is given]
    epsilon
        Train privately too (DP-SGD), with this epsilon; may be repeated.
    delta
        Of the private training: well below 1/records, such as 1e-5. It has no default.
    clip
        Largest norm of one record's gradient in the private training. [1]
    dp_batch_size
        Expected batch of the private training. [twice the recipe's, at least 128]
    dp_epochs
        Passes of the private training. [the recipe's]
    dp_learning_rate
        Highest learning rate of the private training. [0.01 for Adam; the recipe's if only the
        optimizer is given]
    dp_optimizer
        Of the private training: sgd, adam or adamw. [adam; the recipe's if only the rate is given]
    local_epsilon
        Train posterior draws too (SWAG), aimed at this estimated epsilon; it is no guarantee.
    seed
        Of everything random. [0]
    confidence
        Of all intervals. [0.95]
    holdout
        Share of the records kept from all training, to measure accuracy or R². [0.2]
    attack
        Names of the attacks to run: lira-online, lira-offline, lira-hierarchical, bavaria-n,
        bavaria-t, bavaria-offline, rmia-online, rmia-offline, base-online, base-offline, attack-r,
        learned-ratio, loss-threshold, gap, quantile; or all. [auto: the strongest ones, and a
        blind baseline]
    variance
        Variance rule of LiRA: auto, pooled, pooled-total, per-record or shrunken. [auto]
    id_column
        Column that names the records.
    group
        Column that names the person behind each record, such as user_id. Then every model trains
        on all records of a person or on none, and intervals count persons, not records. Without
        it each record counts as a person of its own: where people have several records, that
        understates what leaks about them. identical-records keeps exact copies of a record
        together where no column does.
    slices
        Column by which the risk is also reported, such as sex; may be repeated.
    drop
        Columns to leave out.
    rows
        Use a random subset of this many records.
    missing
        Missing numbers: "refuse" or "impute"; missing texts: "refuse" or "leave-out". [refuse]
    workers
        Processes, one thread each. [all cores]
    """

    label: str | None = None
    task: str | None = None
    recipe: str | None = None
    mitigations: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None
    epsilon: Annotated[list[float] | None, Parameter(consume_multiple=True, negative=())] = None
    delta: float | None = None
    clip: float | None = None
    dp_batch_size: int | None = None
    dp_epochs: int | None = None
    dp_learning_rate: float | None = None
    dp_optimizer: str | None = None
    local_epsilon: float | None = None
    seed: int | None = None
    confidence: float | None = None
    holdout: float | None = None
    attack: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None
    variance: str | None = None
    id_column: str | None = None
    group: str | None = None
    slices: Annotated[list[str] | None, Parameter(name="--slice", negative=())] = None
    drop: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None
    rows: int | None = None
    missing: str | None = None
    workers: int | None = None


AS_USUAL = SubjectOptions()
