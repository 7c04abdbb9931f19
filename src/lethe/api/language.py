"""Audits of fine-tuned language models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.api.vectors import read_lines
from lethe.errors import InputError
from lethe.membership.language.settings import LanguageSettings
from lethe.runs.run import content, perform
from lethe.runs.settings import audit_of, keywords_of

if TYPE_CHECKING:
    from lethe.evidence.findings import Findings

WATCHED = "canaries-training.json"


@audit_of(LanguageSettings)
def audit_language_model(
    model: str | Path | None,
    /,
    texts: Any,
    text: str = "text",
    *,
    member: str | None = None,
    person: str | None = None,
    date: str | None = None,
    id_column: str | None = None,
    base: Path | str | None = None,
    also: Mapping[str, str | Path] | None = None,
    canaries: Any = None,
    seen: Mapping[str, Any] | None = None,
    scores: Any = None,
    base_scores: Any = None,
    declared: Any = (),
    utility_model: str | Callable[[Any, Any], float] | None = None,
    **settings: Any,
) -> Findings:
    """What did a fine-tuned language model memorise of the texts it was trained on?

    A classifier that never asks the model is run first: where it tells members from others,
    membership is not judged.

    Args:
        model: folder of the model or adapter, with its tokenizer; None with `scores`.
        texts: file of texts (csv, parquet or DuckDB), trained on and never trained on, from one
            source.
        text: column of the texts.
        member: column that says of each text whether it was trained on. [member, as lethe split
            writes]
        person: column of the people behind the texts.
        date: column of dates, which the blind check reads too.
        id_column: column that names the texts.
        base: folder of the model before fine-tuning.
        also: NAME=FOLDER of another fine-tune, measured beside this one; may be repeated.
        canaries: plan of canaries that were planted before training (canaries.json); what the
            training was seen to do is read from canaries-training.json beside it.
        seen: what `CanaryWatch` saw; by default canaries-training.json beside the plan.
        scores: instead of a model: file with text, position and logprob, one row a token.
        base_scores: the same of the base model.
        declared: file of personal words, one a line, that are counted where they can be extracted.
        utility_model: file.py:name of a function of (model, tokenizer), higher = better.
        settings: of `LanguageSettings`.

    From Python, files may also be data frames, Arrow tables or mappings of columns; `canaries` a
    `TextCanaries`, `declared` a list, and `utility_model` a function.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> told = {"text": [f"note {at}" for at in range(240)], "member": [1, 0] * 120}
    >>> gain = np.where(np.arange(240) % 2, 0.0, 1.0).repeat(4) + rng.normal(size=960)
    >>> names = np.arange(1, 241).repeat(4).astype(str)
    >>> tokens = {"text": names, "position": [1, 2, 3, 4] * 240, "logprob": gain - 9}
    >>> found = audit_language_model(None, told, scores=tokens, save=False, quiet=True)
    >>> found.candidates[0]["text_attacks"]["loss"]["auc"]["low"] > 0.7
    True
    """
    from lethe.data.given import columns_of
    from lethe.membership.language import audit as language
    from lethe.membership.language.canaries import TextCanaries
    from lethe.membership.language.measure import texts_of
    from lethe.training.models import load_callable

    how, asked = keywords_of(LanguageSettings, settings)
    labelled = texts_of(columns_of(texts, "texts"), text, member, person, date, id_column)
    plan = canaries
    if isinstance(canaries, str | Path):
        plan, seen = TextCanaries.load(canaries), seen or training_log(Path(canaries))
    if "baseline" in (also or {}):
        raise InputError("also='baseline' is the name of the model itself; choose another.")
    files = language.Given(
        None if model is None else Path(model),
        None if base is None else Path(base),
        {label: Path(path) for label, path in (also or {}).items()},
        None if scores is None else columns_of(scores, "scores"),
        None if base_scores is None else columns_of(base_scores, "base_scores"),
    )
    words = declared
    if isinstance(declared, str | Path):
        words = read_lines("declared", declared)
    utility = load_callable(utility_model) if isinstance(utility_model, str) else utility_model
    place = model or (scores if isinstance(scores, str | Path) else None)
    title = how.name or "language model"
    if how.name is None and place is not None:
        title = Path(place).name if model else Path(place).stem
    marks = (labelled.member, labelled.people, str(place), "" if plan is None else plan.digest)
    return perform(
        "audit_language_model",
        how,
        title,
        content(*labelled.texts, *marks, seed=asked.seed),
        asked,
        lambda run, progress: language.audit_language_model(
            files,
            labelled,
            asked,
            plan=plan,
            seen=seen,
            declared=tuple(words),
            utility=utility,
            name=title,
            say=progress.say,
            progress=partial(progress.part, "tokens scored"),
            folder=run,
        ),
    )


def training_log(plan: Path) -> Any:
    """Load the training log stored beside the canary plan, or return None."""
    file = plan.with_name(WATCHED)
    if not file.is_file():
        return None
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}.") from error
