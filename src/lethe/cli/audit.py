"""`lethe audit`: measure a release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from lethe.cli.audit_embeddings import embeddings
from lethe.cli.audit_mechanism import mechanism
from lethe.cli.audit_table import table
from lethe.cli.audit_text import text
from lethe.cli.options import options_of
from lethe.cli.subject_options import AS_USUAL, SubjectOptions

audit = App(name="audit", help="Measure what a release tells about the people behind it.")
audit.command(embeddings)
audit.command(mechanism)
audit.command(table)
audit.command(text)


@audit.command
def model(
    target: str | None = None,
    /,
    *,
    subject: SubjectOptions = AS_USUAL,
    models: int | None = None,
    out: Path | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    until: Annotated[list[str] | None, Parameter(negative=())] = None,
    release: str | None = None,
    noise: float | None = None,
    noise_convention: str | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    margin: float | None = None,
    memory: float | None = None,
    engine: str | None = None,
    engine_option: Annotated[list[str] | None, Parameter(negative=())] = None,
    keep_records: Annotated[bool | None, Parameter(negative=())] = None,
    config: Path | None = None,
    context: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Attack a model's training, find the records at risk, mitigate, attack again, report.

    Nothing needs to be trained beforehand: the recipe is trained many times on halves of the
    records. The same command again resumes an interrupted run.

    Parameters
    ----------
    target
        Built-in data (digits, breast-cancer, diabetes) or a file (csv, parquet, npz). [as --config
        names it]
    models
        Shadow models a candidate, at least 4; below 8 the intervals are very wide. With --until
        the most there may be. `lethe plan` says how many it takes. [64]
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
    as_json
        Print findings.json instead of the table.
    quiet
        No progress, only the result.
    """
    given = options_of(locals(), "target", "subject")
    from lethe.cli.options import audit_settings, finish, merged, running, subject_named
    from lethe.cli.subject import find_subject
    from lethe.data.dataset import copies_note
    from lethe.membership.audit import audit_model
    from lethe.training.engines import check_engine, choose_engine

    target = str(subject_named(target, config, "audit model"))
    options = merged(config, {**asdict(subject), **given})
    settings = audit_settings(options)
    where, details = options["engine"], options["engine_option"] or ()
    check_engine(where, details)
    data, chosen, name, folder = find_subject(target, options, settings)
    command = {"command": "audit model", "target": target, **options}
    with running(folder, name, command, quiet) as (run, progress):
        warn_models(options["models"], settings.models, progress)
        copies = copies_note(data.features, data.labels, data.groups)
        if copies:
            progress.say(f"warning: {copies}")
        there = choose_engine(where, folder, options["workers"], details, progress.say)
        findings = audit_model(
            data, chosen, settings, run, progress, options["workers"], there, options["memory"]
        )
        return finish(findings, run, context, as_json)


@audit.command
def scores(
    file: Path | None = None,
    /,
    *,
    signal: str | None = None,
    seed: int | None = None,
    out: Path | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    confidence: float | None = None,
    attack: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    variance: str | None = None,
    keep_records: Annotated[bool | None, Parameter(negative=())] = None,
    config: Path | None = None,
    context: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Audit scores that you computed, in any language; nothing is trained.

    Parameters
    ----------
    file
        npz or safetensors with signals (models, records) and members (models, records), or
        parquet or csv with the columns model, record, signal, member. Models marked by targets
        (models,), or a column target, are attacked with all others as references. Records that
        no model was trained on stand for people outside.
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
    attack
        Names of the attacks to run, as in `lethe audit model`; or all. [auto]
    variance
        Variance rule of LiRA: auto, pooled, pooled-total, per-record or shrunken. [auto]
    keep_records
        Keep the table of exposed records in the run folder; it is personal data.
    config
        TOML file with these options as keys; the command line wins.
    context
        TOML file with what only people know, for the report.
    as_json
        Print findings.json instead of the table.
    quiet
        No progress, only the result.
    """
    given = options_of(locals(), "file")
    from lethe.cli.options import (
        audit_settings,
        finish,
        merged,
        run_folder,
        running,
        scores_name,
        subject_named,
    )
    from lethe.membership.audit import audit_scores
    from lethe.membership.checks import duplicates
    from lethe.training.handed_in import read_models

    file = Path(subject_named(file, config, "audit scores"))
    options = merged(config, given)
    settings = audit_settings(options)
    shadows, targets = read_models(file, options["signal"] or "logit")
    name = scores_name(shadows, targets, settings.seed)
    folder = run_folder(options["out"], file.stem, name)
    command = {"command": "audit scores", "file": str(file), **options}
    with running(folder, name, command, quiet) as (run, progress):
        warn_models(None, shadows.models, progress)
        if shadows.copies:
            progress.say(f"warning: {duplicates(shadows).detail}")
        findings = audit_scores(file.stem, shadows, settings, run, targets)
        return finish(findings, run, context, as_json)


def warn_models(asked: int | None, models: int, progress: Any) -> None:
    """Say what is odd about the number of models."""
    if asked is not None and asked != models:
        progress.say(f"models={asked} is odd; {models} are trained, in complementary pairs.")
    if models < 8:
        progress.say(
            f"warning: models={models} gives very wide intervals and no selection of exposed "
            "records; use at least 16."
        )
