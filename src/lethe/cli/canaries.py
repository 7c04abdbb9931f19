"""`lethe canaries`: bound epsilon from below with one training of your own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from lethe.cli.options import options_for
from lethe.data.tables import load
from lethe.evidence.plain import plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lethe.membership.one_run import Canaries, CanaryAudit

canaries = App(
    name="canaries",
    help="Bound epsilon from below with one training: plant canaries, train, look for them.",
)

NOT_ASKED = ("seed", "task", "group", "slices", "holdout_by", "identifiers", "schema", "public")
DataOptions = options_for(load, leave=NOT_ASKED, headed=False)
PLAN, TRAIN, ASK, ANSWER = "canaries.safetensors", "train.npz", "ask.npz", "canaries.json"


@canaries.command
def plant(
    target: str,
    /,
    *,
    out: Path,
    count: int = 1000,
    kind: str = "random-label",
    data: DataOptions = None,  # type: ignore[valid-type]  # made at import
    seed: int = 0,
) -> int:
    """Draw canaries, a fair coin for each, and write the data to train on.

    Writes train.npz (features, labels: your records with the canaries whose coin fell on IN),
    ask.npz (features, labels: all canaries, to be scored by the trained model in their order) and
    canaries.safetensors, which knows the coins: the training must not see it.

    Args:
        target: Built-in data (digits, breast-cancer) or a file (csv, parquet, npz).
        out: Folder for the three files.
        count: Canaries, at least 20; a few per cent of the records are usual. [1000]
        kind: random-label: records of the data with a wrong label; out-of-distribution: records
            unlike the data. [random-label]
        seed: Draws everything; keep it from the training. [0]
    """
    from lethe.membership.one_run import plan_canaries

    flags = asdict(data or DataOptions())
    records = load(target, **{k: v for k, v in flags.items() if v is not None}, seed=seed)
    _check_unplanned(out / PLAN)
    plan = plan_canaries(records.features, records.labels, count, kind, seed)
    plan.save(out / PLAN)
    _write_arrays(out / TRAIN, *plan.insert(records.features, records.labels))
    _write_arrays(out / ASK, plan.features, plan.labels)
    print(
        f"{len(plan)} canaries, {int(plan.inserted.sum())} of them among the "
        f"{len(records) + int(plan.inserted.sum())} records of {out / TRAIN}.\n"
        f"1. Train on {out / TRAIN} as you would on your own data.\n"
        f"2. Let the model score {out / ASK}, in its order; save logits, probabilities or scores "
        "(higher = more likely trained on) as an array of that name in an npz file.\n"
        f"3. lethe canaries audit {out / PLAN} --scores FILE --epsilon E --delta D"
    )
    return 0


@canaries.command
def text(
    file: Path,
    /,
    *,
    model: Path,
    out: Path,
    text: str = "text",
    member: str | None = None,
    count: int = 300,
    kinds: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    repetitions: Annotated[list[int] | None, Parameter(consume_multiple=True)] = None,
    seed: int = 0,
) -> int:
    """Draw canaries for the fine-tuning of a language model, and write the texts to train on.

    Writes train.parquet (your texts with the planted canaries among them) and canaries.json, which
    knows the coins: the training must not see it.

    Args:
        file: csv or parquet of texts; those that will be trained on.
        model: Folder of the base model, for its tokenizer.
        out: Folder for both files.
        text: Column of the texts. [text]
        member: Column that says what will be trained on, as `lethe split` writes it. [all, or
            member]
        count: Canaries, at least 20; of three kinds and three repetition counts in equal parts.
            [300]
        kinds: in-distribution, random-token, new-token. [all]
        repetitions: How often a planted canary stands in the training file. [1 4 16]
        seed: Draws everything; keep it from the training. [0]
    """
    import numpy as np

    from lethe.data.columns import check_column, read_columns, table_bytes
    from lethe.files import write_for_owner
    from lethe.membership.language import canaries as planted
    from lethe.membership.language.measure import texts_of
    from lethe.membership.language.models import read_tokenizer

    columns = read_columns(file)
    check_column("text", text, columns, file)
    listed = [str(entry) for entry in columns[text].tolist()]
    if member is not None or "member" in columns:
        known = texts_of(columns, text, member)
        listed = [entry for entry, inside in zip(listed, known.member, strict=True) if inside]
    _check_unplanned(out / ANSWER)
    plan = planted.plan_text_canaries(
        listed,
        read_tokenizer(model),
        count,
        kinds or planted.KINDS,
        repetitions or planted.REPETITIONS,
        seed,
    )
    plan.save(out / ANSWER)
    mixed = np.array(plan.insert(listed), dtype=object)
    write_for_owner(out / "train.parquet", table_bytes({text: mixed}, ".parquet"))
    print(
        f"{len(plan)} canaries, {int(plan.inserted.sum())} of them planted: "
        f"{len(mixed) - len(listed)} of the {len(mixed)} texts of {out / 'train.parquet'}.\n"
        f"1. Fine-tune on {out / 'train.parquet'}; watch it with canary_callback (Trainer) or "
        "CanaryWatch (a loop of your own).\n"
        f"2. lethe audit language-model MODEL_DIR --texts FILE --canaries {out / ANSWER}"
    )
    return 0


@canaries.command
def audit(
    plan: Path,
    /,
    *,
    scores: Path,
    epsilon: float | None = None,
    delta: float | None = None,
    guesses: Annotated[list[float] | None, Parameter(consume_multiple=True)] = None,
    confidence: float = 0.95,
    gdp: bool = False,
    out: Path | None = None,
) -> int:
    """Bound epsilon from the scores of the canaries, and judge a claimed (epsilon, delta).

    Exit codes: 0 consistent with the claim, or nothing claimed; 1 the claim is contradicted; 3 not
    enough evidence: nothing shows that the training met the canaries, or their scores could not
    have shown more. Consistent is no proof: a stronger attack may find more.

    Args:
        plan: canaries.safetensors, as written by `lethe canaries plant`; canaries-training.json
            beside it says what the training was seen to be given.
        scores: What the trained model says of all canaries, in their order: npz or safetensors with
            an array logits or probabilities (canaries, classes) or scores (canaries,), or csv or
            parquet with a column scores; higher = more likely trained on.
        epsilon: Claimed epsilon, > 0, under add/remove.
        delta: Claimed delta, in [0, 1); also that of the bounds. [0]
        guesses: Share of the canaries that is guessed, fixed before you look; several are each
            tried at their part of the level. [0.2]
        confidence: Of each bound, one-sided. [0.95]
        gdp: The training is declared to be Gaussian DP, such as DP-SGD: then that form decides.
        out: File for the bounds. [canaries.json beside the plan]
    """
    import json

    from lethe.api.language import training_log
    from lethe.evidence.one_run import Guesses
    from lethe.evidence.rules import UNDECIDED
    from lethe.files import write_whole
    from lethe.membership.one_run import load_canaries

    planned = load_canaries(plan)
    result = planned.audit(
        _read_scores(planned, scores, out),
        claimed=None if epsilon is None else (epsilon, delta or 0.0),
        delta=delta,
        guesses=Guesses(tuple(guesses)) if guesses else None,
        confidence=confidence,
        gdp=gdp,
        seen=training_log(plan),
    )
    document = _document(planned, result, epsilon)
    write_whole(out or plan.with_name(ANSWER), json.dumps(document, indent=1).encode() + b"\n")
    for form, bound in result.bounds.items():
        print(f"{form:9} {bound}")
    print(result.words)
    print(f"{len(planned)} canaries; written to {out or plan.with_name(ANSWER)}")
    return {"contradicts": 1, UNDECIDED: 3}.get(result.verdict or "", 0)


def _check_unplanned(plan: Path) -> None:
    from lethe.errors import InputError

    if plan.exists():
        raise InputError(
            f"{plan.parent} holds canaries already; a second plan would make the first one's "
            "training worthless. Choose another --out."
        )


def _write_arrays(path: Path, features: NDArray[Any], labels: NDArray[Any]) -> None:
    import io

    import numpy as np

    from lethe.files import write_whole

    buffer = io.BytesIO()
    np.savez(buffer, features=features, labels=labels)
    write_whole(path, buffer.getvalue())


def _read_scores(plan: Canaries, path: Path, out: Path | None) -> NDArray[np.floating]:
    """Scores of the canaries from whichever array the file has."""
    from lethe.data.columns import read_columns
    from lethe.errors import InputError

    if out is not None and out.exists() and out.samefile(path):
        raise InputError(f"--out {out} is the file of the scores; name another.")
    columns = read_columns(path)
    there = [name for name in ("scores", "logits", "probabilities") if name in columns]
    if len(there) != 1:
        raise InputError(
            f"{path} must hold one array named scores, logits or probabilities, it has "
            f"{', '.join(map(repr, columns))}."
        )
    if there == ["scores"] and path.suffix.lower() == ".safetensors":
        return plan.load_scores(path)  # which knows the canaries that they are of
    numbers = columns[there[0]]
    if numbers.dtype.kind not in "iuf":
        raise InputError(f"{path}: {there[0]} are {numbers.dtype}, not numbers. Save numbers.")
    return numbers if there == ["scores"] else plan.signals(numbers, there[0])


def _document(plan: Canaries, result: CanaryAudit, epsilon: float | None) -> Mapping[str, Any]:
    """Everything of an audit as plain values."""
    return {
        "format": "lethe-canaries/1",
        "canaries": len(plan),
        "inserted": int(plan.inserted.sum()),
        "kind": plan.kind,
        "plan": plan.digest,
        "claimed_epsilon": epsilon,
        "form": result.form,
        "verdict": result.verdict,
        "words": result.words,
        "bounds": {
            form: {
                "epsilon": plain(bound.estimate),
                "delta": bound.delta,
                "relation": bound.relation,
                "only_if_gaussian_dp": bound.mu is not None,
                "note": bound.note,
            }
            for form, bound in result.bounds.items()
        },
    }
