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
    task: str | None = None,
    recipe: str | None = None,
    models: int | None = None,
    seed: int | None = None,
    out: Path | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    until: Annotated[list[str] | None, Parameter(negative=())] = None,
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
    group: str | None = None,
    drop: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    rows: int | None = None,
    missing: str | None = None,
    workers: int | None = None,
    memory: float | None = None,
    engine: str | None = None,
    engine_option: Annotated[list[str] | None, Parameter(negative=())] = None,
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
        Built-in data (digits, breast-cancer, diabetes) or a file (csv, parquet, npz).
    label
        Column of the file that the model predicts.
    task
        What it predicts: "classification", a class, or "regression", a number. [classification]
    recipe
        Your own model: file.py:name or module:name, a function that returns a recipe, or an
        estimator of scikit-learn, XGBoost, LightGBM or skorch. [a small neural network]
    models
        Shadow models a candidate, at least 4; below 8 the intervals are very wide. With --until
        the most there may be. `lethe plan` says how many it takes. [64]
    seed
        Of everything random. [0]
    out
        Run folder. [lethe-runs/TARGET-HASH]
    gate
        Rule that sets the exit code, such as "tpr@0.001<=0.05"; may be repeated. Metrics: tpr@FPR,
        tau@FPR, auc, top-t, utility-loss, and width(...) of each.
    until
        Stop training as soon as an interval is narrow enough: "width(tpr@0.01)<=0.01" (limits at
        most 0.01 apart), "tpr@0.01 within 0.005" or "tpr@0.001 within 20%" (of the value); may be
        repeated, then all must hold. Only widths: a verdict belongs in --gate. Whatever number
        of models that takes, the audit is valid, and goes on if you ask for more.
    release
        Candidate that the rules judge. [baseline]
    mitigations
        Names of the mitigations to compare: uniform-noise, weighted, weighted-noise, removal,
        equal-mean-weight, early-stopping; or none, to measure the plain model alone.
        [all that the recipe can carry]
    noise
        Standard deviation of the gradient noise. [0.01]
    noise_convention
        What noise means: "mean", on the averaged gradient, or "record", one draw a record. [mean]
    alpha
        Targeted weights are exp(-alpha t + beta), cut to [0, 1]. [2]
    beta
        See alpha. [2]
    margin
        Loss of accuracy, or of R², that counts as none. [0.01]
    confidence
        Of all intervals. [0.95]
    holdout
        Share of the records kept from all training, to measure accuracy or R². [0.2]
    variance
        Variance rule of LiRA: auto, pooled, pooled-total or per-record. [auto]
    id_column
        Column that names the records.
    group
        Column that names the person behind each record, such as user_id. Then every model trains
        on all records of a person or on none, and intervals count persons, not records. Without
        it each record counts as a person of its own: where people have several records, that
        understates what leaks about them.
    drop
        Columns to leave out.
    rows
        Use a random subset of this many records.
    missing
        Missing numbers: "refuse" or "impute". [refuse]
    workers
        Processes, one thread each. [all cores]
    memory
        GiB that models trained at the same time may take together. [half of the machine's]
    engine
        Where models are trained: processes, ray, ray://HOST:PORT, slurm, or by-hand, which prints
        the commands for any other scheduler. [processes]
    engine_option
        KEY=VALUE for the engine; may be repeated. ray: address, store; slurm: partition, account,
        time (minutes), cpus, memory (GB).
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
    from lethe.cli.options import audit_settings, begin, finish, merged
    from lethe.cli.show import Progress
    from lethe.cli.subject import load_subject
    from lethe.membership.audit import audit_model, baseline_spec
    from lethe.training.engines import check_engine, choose_engine
    from lethe.training.folder import RunFolder

    options = merged(config, given)
    settings = audit_settings(options)
    where, details = options["engine"], options["engine_option"] or ()
    check_engine(where, details)
    data, chosen = load_subject(target, options, settings.seed)
    settings.candidates(chosen)
    name = baseline_spec(data, chosen, settings).hash()
    folder = Path(options["out"] or Path("lethe-runs") / f"{data.name}-{name[:8]}")
    command = {"command": "audit model", "target": target, **options}
    with RunFolder(folder, name, _command_line()) as run, Progress(quiet) as progress:
        _warn_models(options["models"], settings.models, progress)
        begin(run, command)
        there = choose_engine(where, folder, options["workers"], details, progress.say)
        findings = audit_model(
            data, chosen, settings, run, progress, options["workers"], there, options["memory"]
        )
        return finish(findings, run, context)


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
        What the numbers are: "logit" (log of p/(1-p) of the true label), "prob", "loss" or
        "squared-error", of which minus the root is taken. [logit]
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
    from lethe.cli.options import audit_settings, begin, finish, merged
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
        begin(run, command)
        findings = audit_scores(file.stem, shadows, settings, run)
        return finish(findings, run, context)


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
