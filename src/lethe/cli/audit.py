"""`lethe audit`: measure a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

audit = App(name="audit", help="Measure what a release tells about the people behind it.")


@audit.command
def model(
    target: str,
    /,
    *,
    label: str | None = None,
    recipe: str | None = None,
    models: int | None = None,
    seed: int | None = None,
    out: Path | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    release: str | None = None,
    mitigations: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    noise: float | None = None,
    noise_convention: str | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    margin: float | None = None,
    confidence: float | None = None,
    holdout: float | None = None,
    variance: str | None = None,
    id_column: str | None = None,
    drop: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    rows: int | None = None,
    missing: str | None = None,
    workers: int | None = None,
    keep_records: Annotated[bool | None, Parameter(negative=())] = None,
    config: Path | None = None,
    context: Path | None = None,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Attack a model's training, find the records at risk, mitigate, attack again, report.

    Nothing needs to be trained beforehand: the recipe is trained many times on halves of the
    records. The same command again resumes an interrupted run.

    Parameters
    ----------
    target
        Built-in data (digits, breast-cancer) or a file (csv, parquet, npz).
    label
        Column of the file that the model predicts.
    recipe
        Your own model: file.py:name or module:name, a function that returns a recipe or a
        scikit-learn estimator. [a small neural network]
    models
        Shadow models a candidate, at least 4; below 8 the intervals are very wide. [64]
    seed
        Of everything random. [0]
    out
        Run folder. [lethe-runs/TARGET-HASH]
    gate
        Rule that sets the exit code, such as "tpr@0.001<=0.05"; may be repeated. Metrics: tpr@FPR,
        tau@FPR, auc, top-t, utility-loss, and width(...) of each.
    release
        Candidate that the rules judge. [baseline]
    mitigations
        Names of the mitigations to compare: uniform-noise, weighted, weighted-noise, removal,
        equal-mean-weight, early-stopping. [all that the recipe can carry]
    noise
        Standard deviation of the gradient noise. [0.01]
    noise_convention
        What noise means: "mean", on the averaged gradient, or "record", one draw a record. [mean]
    alpha
        Targeted weights are exp(-alpha t + beta), cut to [0, 1]. [2]
    beta
        See alpha. [2]
    margin
        Accuracy loss that counts as none. [0.01]
    confidence
        Of all intervals. [0.95]
    holdout
        Share of the records kept from all training, to measure accuracy. [0.2]
    variance
        Variance rule of LiRA: auto, pooled, pooled-total or per-record. [auto]
    id_column
        Column that names the records.
    drop
        Columns to leave out.
    rows
        Use a random subset of this many records.
    missing
        Missing numbers: "refuse" or "impute". [refuse]
    workers
        Processes, one thread each. [all cores]
    keep_records
        Keep the table of exposed records in the run folder; it is personal data.
    config
        TOML file with these options as keys; the command line wins.
    context
        TOML file with what only people know (author, purpose, ...), for the report.
    quiet
        No progress, only the result.
    """
    given = {
        key: value
        for key, value in locals().items()
        if key not in ("target", "config", "context", "quiet")
    }
    from lethe.cli.options import audit_settings, finish, merged
    from lethe.cli.show import Progress
    from lethe.loaders import load
    from lethe.membership.audit import audit_model, baseline_spec
    from lethe.training.folder import RunFolder
    from lethe.training.models import default_recipe, load_recipe

    options = merged(config, given)
    settings = audit_settings(options)
    data = load(
        target,
        options["label"],
        id_column=options["id_column"],
        drop=options["drop"] or (),
        rows=options["rows"],
        seed=settings.seed,
        missing=options["missing"] or "refuse",
    )
    chosen = (
        load_recipe(options["recipe"], data)
        if options["recipe"]
        else default_recipe(len(data), int(data.features[0].size), len(data.classes))
    )
    settings.candidates(chosen)
    name = baseline_spec(data, chosen, settings).hash()
    folder = Path(options["out"] or Path("lethe-runs") / f"{data.name}-{name[:8]}")
    command = {"command": "audit model", "target": target, **options}
    with RunFolder(folder, name, _command_line()) as run, Progress(quiet) as progress:
        _warn_models(options["models"], settings.models, progress)
        findings = audit_model(data, chosen, settings, run, progress, options["workers"])
        return finish(findings, run, command, context, settings)


@audit.command
def scores(
    file: Path,
    /,
    *,
    signal: str | None = None,
    seed: int | None = None,
    out: Path | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    confidence: float | None = None,
    variance: str | None = None,
    keep_records: Annotated[bool | None, Parameter(negative=())] = None,
    config: Path | None = None,
    context: Path | None = None,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Audit scores that you computed, in any language; nothing is trained.

    Parameters
    ----------
    file
        npz or safetensors with signals (models, records) and members (models, records), or
        parquet or csv with the columns model, record, signal, member.
    signal
        What the numbers are: "logit" (log of p/(1-p) of the true label), "prob" or "loss". [logit]
    seed
        Of the bootstrap. [0]
    out
        Run folder. [lethe-runs/FILE-HASH]
    gate
        Rule that sets the exit code, such as "tpr@0.001<=0.05"; may be repeated.
    confidence
        Of all intervals. [0.95]
    variance
        Variance rule of LiRA: auto, pooled, pooled-total or per-record. [auto]
    keep_records
        Keep the table of exposed records in the run folder; it is personal data.
    config
        TOML file with these options as keys; the command line wins.
    context
        TOML file with what only people know, for the report.
    quiet
        No progress, only the result.
    """
    given = {
        key: value
        for key, value in locals().items()
        if key not in ("file", "config", "context", "quiet")
    }
    from lethe.cli.options import audit_settings, finish, merged
    from lethe.cli.show import Progress
    from lethe.membership.audit import audit_scores
    from lethe.training.fingerprint import digest, hash_array
    from lethe.training.folder import RunFolder
    from lethe.training.shadows import Shadows

    options = merged(config, given)
    settings = audit_settings(options)
    shadows = Shadows.from_file(file, options["signal"] or "logit")
    name = digest(hash_array(shadows.signals), hash_array(shadows.members), str(settings.seed))
    folder = Path(options["out"] or Path("lethe-runs") / f"{file.stem}-{name[:8]}")
    command = {"command": "audit scores", "file": str(file), **options}
    with RunFolder(folder, name, _command_line()) as run, Progress(quiet) as progress:
        _warn_models(None, shadows.models, progress)
        findings = audit_scores(file.stem, shadows, settings, run)
        return finish(findings, run, command, context, settings)


def _command_line() -> str:
    import shlex
    import sys

    return shlex.join(["lethe", *sys.argv[1:]])


def _warn_models(asked: int | None, models: int, progress: Any) -> None:
    if asked is not None and asked != models:
        progress.say(f"models={asked} is odd; {models} are trained, in complementary pairs.")
    if models < 8:
        progress.say(
            f"warning: models={models} gives very wide intervals and no selection of exposed "
            "records; use at least 16."
        )
