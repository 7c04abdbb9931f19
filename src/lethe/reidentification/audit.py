"""The audit of representations, top to bottom: attack, add noise, prove, decide.

The joint claim: of these vectors, as they are and under each mechanism, this is how often the
strongest of these attackers names the owner, with simultaneous intervals by people; and at each
noise level no attacker at all, not even one who knows every clean vector, names the owner of one
released vector more often than the limits say. The first is a lower limit of what can be learnt,
the second an upper one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from lethe.evidence.findings import Findings
from lethe.reidentification.candidates import Bench, Measured, ways
from lethe.reidentification.clean import attack_clean, split_of
from lethe.reidentification.document import VectorsSubject, people
from lethe.reidentification.radius_study import study_radii
from lethe.reidentification.released import Released, check_same_people
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.surface import Curve, operating_point
from lethe.reidentification.sweep import Battery, Say, game_of, sample_of, sweep
from lethe.reidentification.task import Task, TaskLevel, task_of
from lethe.reidentification.vectors import effective_sigma
from lethe.training.folder import RunFolder, write_personal


def audit_embeddings(
    representations: NDArray[Any],
    user_ids: NDArray[Any],
    labels: NDArray[Any] | None = None,
    head: Any = None,
    *,
    features: NDArray[Any] | None = None,
    period: NDArray[Any] | None = None,
    name: str = "representations",
    settings: EmbeddingSettings | None = None,
    say: Say | None = None,
) -> Findings:
    """Attack released vectors, find the noise that stops it, and prove what no attacker can do.

    Args:
        representations: (n, d), finite; one row a release.
        user_ids: (n,) whole numbers or text, whose row it is; at least 2 people with 4 rows each.
        labels: (n,) 0 and 1, or classes 0 to C-1; None leaves utility out.
        head: (w, b), (W, b), a torch module or a callable from (m, d) to logits; None leaves
            utility and radii out.
        features: (n, p) inputs of the model: are people as easy to name by what goes in?
        period: (n,) period of each row, for `settings.known` and `settings.later`.
        name: of the model.
        settings: see `EmbeddingSettings`; its rules are fixed before anything is measured.
        say: told what is being done, one line each.

    Returns:
        The findings; `lethe.render` makes the report of them.

    Raises:
        InputError: arrays that do not fit each other, NaN, ids of mixed types, zero vectors under
            cosine, a head of another dimension, labels that it cannot give.
        NotMeasurable: fewer than 2 people with enough rows.
    """
    model = Released(name, representations, user_ids, labels, head, period, features)
    return audit_released([model], settings, say)


def audit_released(
    models: Sequence[Released],
    settings: EmbeddingSettings | None = None,
    say: Say | None = None,
    folder: RunFolder | None = None,
) -> Findings:
    """The same for several models of the same rows, side by side.

    Args:
        models: one or more, of different names; the first is the baseline of the frontier.
        settings: see `audit_embeddings`.
        say: see there.
        folder: an open run folder, needed to keep the table of people.

    Raises:
        InputError: rows of different people, beside what `audit_embeddings` raises.
    """
    settings = settings or EmbeddingSettings()
    check_same_people(models)
    measured = [measure(model, settings, say or _silent) for model in models]
    if settings.keep_records and folder is not None:
        write_personal(folder, people(measured, settings))
    return VectorsSubject(measured, settings).findings()


def measure(model: Released, settings: EmbeddingSettings, say: Say) -> Measured:
    """One model, top to bottom."""
    split = split_of(model, settings)
    say(f"{model.name}: {len(split.probe_rows)} probes of {len(split.users)} people")
    battery = Battery(model, split, sample_of(model, split), settings)
    clean = attack_clean(model, split, battery.panel(noise=False), settings)

    game = game_of(model, split)
    battery = replace(battery, invalid=clean.invalid)
    curve = sweep(battery, say)
    say(f"{model.name}: bounds on every attacker")
    bounds = {level.sigma: game.closed(level.sigma) for level in curve.levels}

    task = task_of(model, settings)
    utility = _utility(task, curve, settings)
    measured = [] if task is None else list(utility.values())
    point = operating_point(
        curve.private_from(settings.lift),
        None if task is None else task.most_noise(measured),
        task is not None,
    )
    radii = None if model.head is None else study_radii(model, settings)

    say(f"{model.name}: comparing mechanisms")
    bench = Bench(battery, game, task, clean, settings)
    found = tuple(ways(bench, curve, point.recommended))
    return Measured(
        model,
        split,
        clean,
        curve,
        game,
        bounds,
        task,
        utility,
        radii,
        point,
        found,
        {**clean.skipped, **battery.skipped, **bench.skipped},
    )


def _utility(
    task: Task | None, curve: Curve, settings: EmbeddingSettings
) -> dict[float, TaskLevel]:
    """Utility of one draw at each level asked for, and of M draws on the surface."""
    if task is None:
        return {}
    levels = {level.sigma for level in curve.levels if level.sigma in curve.asked}
    if task.norm is not None:  # in closed form more levels cost nothing
        levels |= {curve.at(s, m).sigma for s in settings.surface for m in settings.averaged}
        levels |= {
            float(f"{effective_sigma(s, m):.12g}")
            for s in settings.sigmas
            for m in settings.averaged
        }
    return {sigma: task.at(sigma) for sigma in sorted(levels)}


def _silent(text: str) -> None:
    """Nothing."""
