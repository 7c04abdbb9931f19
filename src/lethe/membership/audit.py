"""The membership audit, top to bottom: attack, find the exposed, mitigate, attack again, decide.

The joint claim: of all candidates, attacked by shadow models that carry the same mitigation, these
are the rates of the strongest attack run here, with intervals. A lower limit of what can be learnt
about the training records, never a proof of absence.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lethe.assess.verdict import InputCheck
from lethe.data.dataset import Dataset
from lethe.errors import InputError
from lethe.evidence.estimate import Measured
from lethe.evidence.findings import Findings
from lethe.evidence.risk import family_confidence
from lethe.membership.attacks.attack import Available
from lethe.membership.attacks.registry import read_records
from lethe.membership.candidates import (
    best_stop,
    build_candidates,
    headline,
    measure,
    stops_asked,
    with_views,
)
from lethe.membership.document import Measurement, ModelSubject, evidence
from lethe.membership.exposure import expose
from lethe.membership.inputs import handed_in, own_rows, split_copies
from lethe.membership.onion import onion
from lethe.membership.persons import person_level
from lethe.membership.records import identical_rows, write_records
from lethe.membership.settings import AuditSettings
from lethe.membership.slices import check_groups, columns_of, group_evidence, who_bears
from lethe.membership.widths import FIRST_LOOK, Stop, grow
from lethe.mitigations.mitigation import BASELINE, EarlyStopping, Mitigation, exponential_weights
from lethe.training.chunks import ChunkJob, Spec, chunk_jobs, chunk_width, train_chunk
from lethe.training.design import holdout, strata
from lethe.training.engines import Engine, settled_layout, train_in_processes
from lethe.training.engines.processes import run_in_processes
from lethe.training.environment import default_workers, on_one_thread
from lethe.training.folder import RunFolder, SettledRun, write_personal
from lethe.training.recipe import CallableRecipe, Recipe, TorchRecipe, Treatment
from lethe.training.shadows import Shadows

_FILE = "public-weights.safetensors"


@on_one_thread
def settled_public_weights(
    folder: RunFolder, spec: Spec, settings: AuditSettings
) -> NDArray[np.float32]:
    """(N,) weights of `public_weights`, computed by the first run and read by all later ones.

    Last digits depend on the processor, and the guarantee names the weights used in training.

    Args:
        settings: source of alpha, beta and the seed.

    Raises InputError: too few held-out records, or, beside a run, weights that are not settled yet.
    """
    from lethe.mitigations.dp_sgd.candidate import public_weights

    name, path = spec.hash(), folder.path / _FILE
    known = _settled(path, "weights", {"spec": name}, len(spec.labels))
    if known is not None:
        return known
    if isinstance(folder, SettledRun):
        raise InputError(
            f"{path} is not there: run the audit's own command once more with --engine by-hand."
        )
    assert isinstance(spec.recipe, TorchRecipe)
    weights: NDArray[np.float32] = public_weights(
        np.asarray(spec.features),
        spec.labels,
        spec.pool,
        spec.recipe,
        seed=settings.seed,
        alpha=settings.alpha,
        beta=settings.beta,
    )
    folder.write(path.name, save({"weights": weights}, {"spec": name}))
    return weights


def _settled(path: Path, name: str, wanted: Mapping[str, str], records: int) -> NDArray[Any] | None:
    """(records,) numbers stored by an earlier run of this audit; None if there are none."""
    try:
        with safe_open(path, "numpy") as file:
            if file.metadata() != wanted:
                return None
            table: NDArray[Any] = file.get_tensor(name)
    except (OSError, SafetensorError):
        return None
    return table if table.shape == (records,) else None


Float = NDArray[np.float64]


class Show(Protocol):
    """Where an audit reports its progress."""

    def models(self, done: int, total: int, what: str) -> None:
        """Report that `done` of all `total` trainings are finished; `what` is being trained."""
        ...

    def say(self, text: str) -> None:
        """Report a line of text."""
        ...


class Silent:
    """Reports nothing."""

    def models(self, done: int, total: int, what: str) -> None: ...

    def say(self, text: str) -> None:
        """Nothing."""


def baseline_spec(data: Dataset, recipe: Recipe, settings: AuditSettings) -> Spec:
    """Everything that decides the numbers of the plain shadow models; its hash names the audit.

    Raises InputError: the recipe is for classes and the data for numbers, or the other way round.
    """
    people = None
    if data.groups is not None:
        people = np.unique(data.groups, return_inverse=True)[1].astype(np.int64)
    external = None if data.external is None else data.external.rows
    held = data.preparation.public
    if held is None:
        held = held_out(data.labels, people, external, settings)
    elif external is not None:
        held = held | external
    return Spec(
        data.features,
        data.labels,
        len(data.classes),
        ~held,
        recipe,
        Treatment(),
        settings.seed,
        people,
        settings.predictions,
        external,
        settings.augmented_queries if isinstance(recipe, TorchRecipe) and recipe.augment else 0,
    )


def held_out(
    labels: NDArray[np.int64] | NDArray[np.float64],
    people: NDArray[np.integer] | None,
    external: NDArray[np.bool_] | None,
    settings: AuditSettings,
) -> NDArray[np.bool_]:
    """(N,) True for the records that no model trains on: the external ones and a random share.

    Args:
        labels: (N,) the share is drawn within each class or range; constant if they are private.
    """
    held = np.zeros(len(labels), bool) if external is None else external.copy()
    inside = np.flatnonzero(~held)
    persons = None if people is None else people[inside]
    held[inside] = holdout(strata(labels[inside]), settings.holdout, settings.seed, persons)
    return held


def public_of(
    settings: AuditSettings, *, always: bool = False
) -> Callable[..., NDArray[np.bool_]] | None:
    """Function that draws the held-out records, which are public, for `lethe.data.tables.load`.

    None where no candidate claims a proof, so that all records may decide the preparation.
    """
    if not settings.epsilon and not always:
        return None

    def public(
        records: int, groups: NDArray[Any] | None, external: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        people = None if groups is None else np.unique(groups, return_inverse=True)[1]
        return held_out(np.zeros(records, np.int64), people, external, settings)

    return public


def audit_model(
    data: Dataset,
    recipe: Recipe,
    settings: AuditSettings,
    folder: RunFolder,
    show: Show | None = None,
    workers: int | None = None,
    engine: Engine | None = None,
    memory: float | None = None,
    extra: Sequence[Mitigation] = (),
) -> Findings:
    """Attack a model's training, mitigate, attack each mitigation adaptively, and compare.

    Args:
        data: all records. No attack sees those held out to measure utility: a stratified share, or
            records of another time, site or group, see `Dataset.external`.
        recipe: how one model is trained.
        settings: see `AuditSettings`.
        folder: an open run folder; finished shadow models in it are not trained again.
        show: progress.
        workers: processes of one thread each; all cores by default.
        engine: where models are trained, see `choose_engine`; by default in `workers` processes
            on this machine.
        memory: GiB for the stacks of all workers together; by default half of the machine's
            memory.
        extra: further candidates of your own, beside those that the settings name.

    Returns:
        The findings; the caller writes `findings.json`.

    Raises:
        InputError: a setting, or a model that gives NaN.
        RunFailed: a worker died or the disk is full; the same call resumes.
    """
    show = show or Silent()
    spec = baseline_spec(data, recipe, settings)
    available = Available(
        spec.task,
        population=int(spec.unseen.sum()),
        predicted_labels=spec.task == "classification",
        features=True,
        population_features=True,
        references=True,
        queries=spec.queries > 0,
    )
    settings.attacks(available)  # refuses attacks before anything is trained
    columns = columns_of(data, spec)
    check_groups(settings.rules(), columns)
    public = functools.partial(settled_public_weights, folder, spec, settings)
    built, skipped = build_candidates(settings, recipe, extra, public)
    here = workers or default_workers()
    further = [option for option in built[1:] if not isinstance(option, EarlyStopping)]
    options = 1 + len(further) + settings.onion
    train = Trainer(
        spec, settings, folder, show, here, data.ids, engine=engine, memory=memory, options=options
    )
    show.say(_plan_words(len(built), len(further), settings))

    first, stop = train.baseline()
    if stop.rules:
        show.say(stop.words())
    show.say(headline(first))
    features = np.asarray(data.features)[spec.pool]
    if settings.keep_records:
        from lethe.report.explorer import content_of

        shown = settings.variance, settings.seed, data.name, columns, content_of(data, spec.pool)
        write_records(folder, first, data.classes, features, *shown)

    # The t-scores that define the targeted mitigations are those of the first run.
    models_behind = int(folder.settle("weights_from_models", first.shadows.models))
    path = folder.path / "exposure.safetensors"
    scores = read_exposure(path, spec.hash(), models_behind, first.shadows.records)
    if scores is None:
        scores = expose(first.shadows.first(models_behind)).all_models.t
        mark = {"spec": spec.hash(), "models": str(models_behind)}
        folder.write(path.name, save({"t": scores}, metadata=mark))
    weights = targeted_weights(scores, spec, settings)
    shadows = train(further, weights, stop.reached)
    jobs = _attacks_to_run(train, built, shadows, first, weights, columns)
    results = _measured(jobs, first.shadows, here, show)
    first = results.pop(BASELINE.name)
    measured = with_views([first, *(replace(option, before=first) for option in results.values())])
    if settings.onion:
        measured[0] = _peeled(train, first, models_behind, 1 + len(further))
    stopped = {"stopped": stop.to_json()} if stop.rules else {}
    how = {"weights_from_models": models_behind, **stopped}
    judged = next(option for option in measured if option.name == settings.release)
    show.say("looking into one model for what it keeps of its training")
    from lethe.membership.stored import stored_by  # late: scikit-learn takes half a second

    inputs = [*stored_by(spec), *split_copies(judged, None, features, settings)]
    if isinstance(recipe, CallableRecipe) and not hasattr(recipe.train, "describe"):
        show.say("asking whether the recipe trains on the rows that it is given")
        inputs += own_rows(first.shadows, spec, folder.path)
    return ModelSubject(data.name, measured, skipped, settings, data, spec, how, inputs).findings()


def _plan_words(options: int, trained: int, settings: AuditSettings) -> str:
    """Sentence on the trainings ahead: `options` include the baseline, `trained` do not."""
    words = f"{1 + trained} option" + "s" * bool(trained)
    if options > 1 + trained:
        words = f"{1 + trained} of {options} options (early-stopping costs none)"
    if settings.onion:
        words = f"({words} + {settings.onion} round{'s' * (settings.onion > 1)} of removal)"
    times = "up to " if settings.until else ""
    total = (1 + trained + settings.onion) * settings.models
    return f"{words} x {times}{settings.models} models = {total} trainings"


def _attacks_to_run(
    train: Trainer,
    built: Sequence[Mitigation],
    shadows: Mapping[str, Shadows],
    first: Measurement,
    weights: NDArray[np.float32],
    columns: dict[str, NDArray[Any]],
) -> dict[str, Callable[[], Measurement]]:
    """Jobs that measure each option and its groups."""
    settings = train.settings
    jobs: dict[str, Callable[[], Measurement]] = {BASELINE.name: functools.partial(replace, first)}
    for mitigation in built[1:]:
        if isinstance(mitigation, EarlyStopping):
            plain = train.jobs(BASELINE, weights, first.shadows.models, train.width())
            stops = {epochs: train.cut(plain, epochs) for epochs in mitigation.stops}
            jobs[mitigation.name] = functools.partial(
                best_stop, mitigation, stops.__getitem__, first, settings
            )
            continue
        applied = mitigation.treatment(weights, train.spec.pool).weights
        how = mitigation, first, settings, applied
        jobs[mitigation.name] = functools.partial(measure, shadows[mitigation.name], *how)
    options = max(1, len(jobs) - 1)
    return {
        name: functools.partial(_with_groups, job, columns, settings, options)
        for name, job in jobs.items()
    }


def _with_groups(
    job: Callable[[], Measurement],
    columns: Mapping[str, NDArray[Any]],
    settings: AuditSettings,
    options: int = 1,
) -> Measurement:
    """Run a job and add its strongest attack by groups, and the evidence of rules on groups.

    Limits of groups hold at once for all `options` beside the baseline, so that any may be chosen.
    The baseline is what it is; it is read by person too.
    """
    measured = job()
    shadows, sure, how = measured.shadows, settings.confidence, (settings.variance, settings.seed)
    plain = measured.name == BASELINE.name
    joint = sure if plain else family_confidence(sure, options * measured.among)
    fprs, rules = settings.fprs(), settings.rules()
    persons = None
    if plain and shadows.groups is not None:
        persons = person_level(shadows, measured.best, fprs, sure, *how)
    return replace(
        measured,
        slices=who_bears(shadows, measured.best, measured.risk_fpr, columns, joint, *how),
        persons=persons,
        groups=group_evidence(shadows, measured.results, rules, columns, sure, *how),
    )


def _peeled(train: Trainer, first: Measurement, models_behind: int, earlier: int) -> Measurement:
    """Add the rounds of the onion to the baseline; the run folder gets the exposed records.

    Args:
        models_behind: of the plain models, those that records are chosen on.
        earlier: options that were trained before.
    """
    done, models = itertools.count(earlier), first.shadows.models

    def without(removal: Mitigation, weights: NDArray[np.float32]) -> Shadows:
        return train([removal], weights, models, next(done))[removal.name]

    settings, pool = train.settings, train.spec.pool
    layers, exposed = onion(first, settings, pool, without, models_behind, train.show.say)
    if settings.keep_records:
        write_personal(train.folder, exposed, "onion")
    return replace(first, onion=layers)


MOST_CELLS = 1 << 25
"""Signals of one candidate, beyond which candidates are attacked one after the other: several
tables of them at once may not fit."""


def _measured(
    jobs: Mapping[str, Callable[[], Measurement]], plain: Shadows, workers: int, show: Show
) -> dict[str, Measurement]:
    """Results of the jobs in their order, on all workers if memory allows.

    Several are always done in processes of their own, as in training: the same kernels, the same
    digits, however many workers there are.
    """
    if len(jobs) == 1 or plain.signals.size > MOST_CELLS:
        results = {}
        for name, job in jobs.items():
            show.say("reading who bears the risk" if name == BASELINE.name else f"attacking {name}")
            results[name] = on_one_thread(job)()
        return results
    show.say(f"attacking {len(jobs) - 1} options, and reading who bears the risk")
    listed, done = sorted(jobs.items(), key=lambda item: item[0] != "early-stopping"), {}
    for name, result in run_in_processes(listed, _carried_out, workers, show.say):
        done[name] = result
        show.say(f"attacked {name}")
    return {name: done[name] for name in jobs}


def _carried_out(job: tuple[str, Callable[[], Measurement]]) -> tuple[str, Measurement]:
    name, work = job
    return name, replace(work(), before=None)


def audit_scores(
    name: str,
    shadows: Shadows,
    settings: AuditSettings,
    folder: RunFolder | None = None,
    targets: Shadows | None = None,
    features: NDArray[Any] | None = None,
    kept: Sequence[InputCheck] = (),
    estimate: Measured | None = None,
) -> Findings:
    """Audit signals that were computed elsewhere, without training.

    Args:
        name: of the subject.
        shadows: see `lethe.training.shadows.read_models`.
        settings: those on mitigations are not used.
        folder: an open run folder, needed to keep the table of records.
        targets: models to attack with all of `shadows` as references; by default each in turn. Of
            one target the intervals speak about it alone.
        features: (N, ...) the records, to ask whether members were drawn like the others.
        kept: what lies in the model file, see `stored`.
        estimate: what more shadow models would find, see `one_model.predictor`.
    """
    measured = replace(
        measure(shadows, BASELINE, None, settings, targets=targets), estimated=estimate
    )
    columns = {} if shadows.labels is None else {"label": shadows.labels}
    if targets is None:
        check_groups(settings.rules(), columns)
        measured = _with_groups(functools.partial(replace, measured), columns, settings)
    if settings.keep_records and folder is not None:
        write_records(folder, measured, None, name=name, groups=columns)
    inputs = (*kept, *handed_in(measured, targets, features, settings))
    return ModelSubject(name, [measured], [], settings, inputs=inputs).findings()


@dataclass(frozen=True)
class Trainer:
    """Trains the missing shadow models of some candidates and gathers the results."""

    spec: Spec
    settings: AuditSettings
    folder: RunFolder
    show: Show
    workers: int
    ids: NDArray[Any]
    work: Callable[[ChunkJob], int] = train_chunk
    engine: Engine | None = None
    memory: float | None = None
    options: int = 1

    def width(self) -> int:
        """Models a chunk, narrow enough that the first look at a width keeps two workers busy."""
        most = self.settings.models
        looked = min(most, FIRST_LOOK) if self.settings.until else most
        narrow = chunk_width(looked, self.spec.recipe)
        return int(self.folder.settle("chunk_width", narrow))

    def baseline(self) -> tuple[Measurement, Stop]:
        """The plain shadow models, measured; as many as it takes where `until` is given."""
        everyone, settings = np.ones(len(self.ids), np.float32), self.settings
        width = self.width()

        def take(models: int) -> Measurement:
            plain = self([BASELINE], everyone, models)[BASELINE.name]
            return measure(plain, BASELINE, None, settings)

        there = self.finished(settings.models) if settings.until else 0
        return grow(settings.widths(), settings.models, width, there, take, evidence)

    def finished(self, most: int) -> int:
        """Number of the first `most` plain models that are finished without a gap."""
        there, everyone = 0, np.ones(len(self.ids), np.float32)
        for job in self.jobs(BASELINE, everyone, most, self.width()):
            if job.finished() is None:
                break
            there += job.models
        return there

    def jobs(
        self, mitigation: Mitigation, weights: NDArray[np.float32], models: int, width: int
    ) -> list[ChunkJob]:
        """The chunks of one candidate; those of early stopping are the plain models'."""
        if isinstance(mitigation, EarlyStopping):
            mitigation = BASELINE
        stops = stops_asked(self.settings, self.spec.recipe) if mitigation == BASELINE else ()
        spec = replace(self.spec, treatment=mitigation.treatment(weights, self.spec.pool))
        name = spec.hash()
        folder = self.folder.path / "shadows" / f"{mitigation.name}-{name[:8]}"
        return chunk_jobs(spec, folder, models, width, stops=stops)

    def cut(self, plain: Sequence[ChunkJob], epochs: int) -> Shadows:
        """The plain models stopped at an epoch, without further training."""
        return self._with_features(Shadows.from_shards(plain, self.ids, epochs))

    def __call__(
        self,
        candidates: Sequence[Mitigation],
        weights: NDArray[np.float32],
        models: int,
        earlier: int = 1,
    ) -> dict[str, Shadows]:
        """Train the models of some candidates; `earlier` options of the job are already trained."""
        width = self.width()
        if not candidates:
            return {}
        jobs = {option.name: self.jobs(option, weights, models, width) for option in candidates}
        missing = [job for listed in jobs.values() for job in listed if job.finished() is None]
        total = sum(job.models for listed in jobs.values() for job in listed)
        done = total - sum(job.models for job in missing)
        what = candidates[0].name if len(candidates) == 1 else f"{len(candidates)} mitigations"
        plain = [option.name for option in candidates] == [BASELINE.name]
        # Of the whole job: the baseline comes first, and everything else when it is there.
        before = 0 if plain else earlier * models
        whole = max(self.options * models, before + total)

        def tell(done: int) -> None:
            self.show.models(before + done, whole, what)

        tell(done)
        if missing:
            layout = settled_layout(self.folder, self.spec, self.workers, self.memory)
            missing = [replace(job, layout=layout) for job in missing]
        engine = self.engine or functools.partial(train_in_processes, workers=self.workers)
        # Closed, so that an engine stops its work wherever this process is interrupted.
        with contextlib.closing(engine(missing, self.work)) as finished:
            for trained in finished:
                done += trained
                tell(done)
        if done < total:  # chunks that a killed worker had just finished are counted by nobody
            tell(total)
        return {
            name: self._with_features(Shadows.from_shards(listed, self.ids))
            for name, listed in jobs.items()
        }

    @functools.cached_property
    def _copied(self) -> NDArray[np.intp]:
        """(N,) number of the first record of the pool with the same features."""
        rows = np.asarray(self.spec.features)[self.spec.pool]
        codes, _ = identical_rows(rows.reshape(len(rows), -1))
        _, first = np.unique(codes, return_index=True)
        return np.asarray(first[codes])

    def _with_features(self, shadows: Shadows) -> Shadows:
        """Add the duplicates among the records, and the records if an attack reads them."""
        shadows = replace(shadows, copied=self._copied)
        if not read_records(self.settings.attack):
            return shadows
        inputs = np.asarray(self.spec.features)
        inside, outside = inputs[self.spec.pool], inputs[self.spec.unseen]
        return replace(shadows, features=inside, population_features=outside)


def targeted_weights(t: Float, spec: Spec, settings: AuditSettings) -> NDArray[np.float32]:
    """(N,) loss weights of all records from the t-scores of those that can be members."""
    weights = np.ones(len(spec.labels), np.float32)
    weights[spec.pool] = exponential_weights(t, settings.alpha, settings.beta)
    return weights


def read_exposure(path: Path, spec: str, models: int, records: int) -> Float | None:
    """(records,) t-scores stored by this audit; None if there are none."""
    return _settled(path, "t", {"spec": spec, "models": str(models)}, records)
