"""`lethe audit language-model`: what did a fine-tuned language model memorise?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lethe.cli.options import (
    AS_USUAL,
    RunOptions,
    Subject,
    audited,
    content,
    given_in,
    grouped,
    merged,
    options_for,
    read_toml,
    settings_of,
)
from lethe.errors import InputError
from lethe.membership.language.settings import LanguageSettings

_NAMES = {"claimed_epsilon": "epsilon", "claimed_delta": "delta"}
_PLACES = {
    "epsilon": "Claim",
    "delta": "Claim",
    "unit": "Attacks",
    "precision": "Running",
    "epochs": "Mitigations",
    "base": "Model",
}
if TYPE_CHECKING:
    LanguageOptions = LanguageSettings
else:
    LanguageOptions = options_for(LanguageSettings, names=_NAMES, others=_PLACES)
WATCHED = "canaries-training.json"


@grouped
@dataclass(frozen=True, kw_only=True)
class LanguageInput:
    """What was trained on, what was not, and what there is to compare with.

    Parameters
    ----------
    texts
        csv, parquet or DuckDB file of texts, trained on and never trained on, from one source.
    text
        Column of the texts. [text]
    member
        Column that says of each text whether it was trained on. [member, as lethe split writes]
    person
        Column of the people behind the texts.
    date
        Column of dates, which the blind check reads too.
    id_column
        Column that names the texts.
    base
        Folder of the model before fine-tuning.
    also
        NAME=FOLDER of another fine-tune, measured beside this one; may be repeated.
    canaries
        Plan of canaries that were planted before training (canaries.json); what the training was
        seen to do is read from canaries-training.json beside it.
    scores
        Instead of a model: file with text, position and logprob, one row a token.
    base_scores
        The same of the base model.
    declared
        File of personal words, one a line, that are counted where they can be extracted.
    utility_model
        file.py:name of a function of (model, tokenizer), higher = better.
    """

    texts: Path | None = None
    text: str | None = None
    member: str | None = None
    person: str | None = None
    date: str | None = None
    id_column: str | None = None
    base: Path | None = None
    also: Annotated[list[str] | None, Parameter(negative=())] = None
    canaries: Path | None = None
    scores: Path | None = None
    base_scores: Path | None = None
    declared: Path | None = None
    utility_model: str | None = None


INPUT, USUAL = LanguageInput(), LanguageOptions()


def language_model(
    model: Path | None = None,
    /,
    *,
    columns: LanguageInput = INPUT,
    settings: LanguageOptions = USUAL,
    run: RunOptions = AS_USUAL,
) -> int:
    """Audit a fine-tuned language model: membership, extraction, and epsilon from canaries.

    A classifier that never asks the model is run first: where it tells members from others,
    membership is not judged.

    Parameters
    ----------
    model
        Folder of the model or of an adapter on --base, with its tokenizer.
    """
    options = merged(run.config, {**given_in(columns, settings), "out": run.out})
    place = model
    if place is None and run.config is not None:
        named = read_toml(run.config).get("target")
        place = None if named is None else Path(named)
    if place is None and options["scores"] is None:
        raise InputError(
            "lethe audit language-model needs the folder of a model, or --scores FILE with "
            "log-probabilities of its tokens."
        )
    subject = subject_of(place, options)
    plain = {key: str(one) if isinstance(one, Path) else one for key, one in options.items()}
    command = {"command": "audit language-model", **plain}
    if place is not None:
        command["target"] = str(place)
    return audited(subject, command, run)


def subject_of(model: Path | None, options: Mapping[str, Any]) -> Subject:
    """The audit that the options name; models are loaded when it runs.

    Raises InputError: an option is missing or does not fit.
    """
    from lethe.data.columns import read_columns
    from lethe.membership.language.audit import Given, audit_language_model
    from lethe.membership.language.canaries import TextCanaries
    from lethe.membership.language.measure import texts_of
    from lethe.training.models import load_callable

    if options["texts"] is None:
        raise InputError("lethe audit language-model needs --texts FILE, trained on and held out.")
    settings = settings_of(LanguageSettings, options, _NAMES)
    texts = texts_of(
        read_columns(options["texts"]),
        options["text"] or "text",
        *(options[name] for name in ("member", "person", "date", "id_column")),
    )
    scores, base_scores = (
        None if options[name] is None else read_columns(options[name])
        for name in ("scores", "base_scores")
    )
    base = None if options["base"] is None else Path(options["base"])
    given = Given(model, base, also_of(options["also"] or ()), scores, base_scores)
    plan, seen = None, None
    if options["canaries"] is not None:
        plan = TextCanaries.load(options["canaries"])
        seen = watched(Path(options["canaries"]))
    declared: tuple[str, ...] = ()
    if options["declared"] is not None:
        declared = tuple(_lines(Path(options["declared"])))
    utility = None if options["utility_model"] is None else load_callable(options["utility_model"])
    title = model.name if model is not None else Path(options["scores"]).stem
    marks = (texts.member, texts.people, str(model or options["scores"]))
    planned = "" if plan is None else plan.digest
    return Subject(
        title,
        content(*texts.texts, *marks, planned, seed=settings.seed),
        lambda folder, progress: audit_language_model(
            given,
            texts,
            settings,
            plan=plan,
            seen=seen,
            declared=declared,
            utility=utility,
            name=title,
            say=progress.say,
            progress=partial(progress.part, "tokens scored"),
            folder=folder,
        ),
    )


def also_of(listed: Any) -> dict[str, Path]:
    """Other fine-tunes by name, from ``NAME=FOLDER``.

    >>> also_of(["private=models/dp"])
    {'private': PosixPath('models/dp')}
    """
    found: dict[str, Path] = {}
    for text in listed:
        name, sign, path = str(text).partition("=")
        if not sign or not name or name == "baseline" or name in found:
            raise InputError(f"also={text!r} must be NAME=FOLDER, each name once.")
        found[name] = Path(path)
    return found


def watched(plan: Path) -> Any:
    """What a training was seen to do, from beside its plan; None where nobody watched."""
    file = plan.with_name(WATCHED)
    if not file.is_file():
        return None
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}.") from error


def _lines(path: Path) -> list[str]:
    try:
        listed = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    return [line.strip() for line in listed if line.strip()]
