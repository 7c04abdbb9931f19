"""Canaries for a language model: planted texts, whether they were learned from, what they show.

Kinds. ``in-distribution``: the first half of one text of the data and the second half of another.
``random-token``: tokens drawn evenly from the vocabulary. ``new-token``: the first half of a text
and one token that no text has, on which alone it is scored. Each canary has a repetition count and
its own fair coin, drawn and written down before training. What a canary is never changes whether a
bound is true, only how much it finds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lethe.errors import InputError, NotMeasurable, check_at_least, check_choice, require
from lethe.evidence.epsilon import EpsilonBound
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.one_run import check_coins, one_run_bound, one_run_epsilon
from lethe.files import write_for_owner
from lethe.membership.blind import midranks
from lethe.membership.language.extraction import discoverable, share_of, suffix_of
from lethe.membership.language.models import LanguageModel
from lethe.membership.language.tokens import TokenScores, scored_together
from lethe.training.fingerprint import hash_json

KINDS = ("in-distribution", "random-token", "new-token")
REPETITIONS = (1, 4, 16)
FEWEST = 20
GUESSES = 0.2
"""Share of the canaries that is guessed: fixed here, before any score is seen."""
FORMAT = "lethe-text-canaries/1"
_WORDS = 16  # tokens of a random-token canary

Float = NDArray[np.float64]


@dataclass(frozen=True)
class TextCanary:
    """One planted text.

    Attributes:
        inserted: its coin.
        last: tokens at the end that it is scored on; 0 = all.
    """

    id: str
    text: str
    kind: str
    repetitions: int
    inserted: bool
    last: int = 0


@dataclass(frozen=True, eq=False)
class TextCanaries:
    """The plan of one training: pre-registered canaries, kept from the training and attackers.

    Raises InputError: fewer than 20 canaries, or coins that cannot have been fair.
    """

    canaries: tuple[TextCanary, ...]
    seed: int

    def __post_init__(self) -> None:
        check_at_least("number of canaries", len(self.canaries), FEWEST)
        check_coins(self.inserted)

    def __len__(self) -> int:
        """Number of canaries."""
        return len(self.canaries)

    @property
    def inserted(self) -> NDArray[np.bool_]:
        """(m,) the coins."""
        return np.array([one.inserted for one in self.canaries])

    @property
    def texts(self) -> list[str]:
        """Of all canaries, in their order."""
        return [one.text for one in self.canaries]

    @property
    def digest(self) -> str:
        """Hash of the whole plan."""
        return hash_json(self.to_json()["canaries"] + [self.seed])

    def insert(self, texts: Sequence[str]) -> list[str]:
        """The training texts with the inserted canaries among them, each as often as planned.

        The order is drawn by the seed.
        """
        planted = [
            one.text for one in self.canaries if one.inserted for _ in range(one.repetitions)
        ]
        mixed = [*texts, *planted]
        order = np.random.default_rng([self.seed, 2]).permutation(len(mixed))
        return [mixed[at] for at in order]

    def to_json(self) -> dict[str, Any]:
        """Plain values, coins included."""
        return {
            "format": FORMAT,
            "seed": self.seed,
            "canaries": [vars(one) for one in self.canaries],
        }

    def save(self, path: str | Path) -> None:
        """Write the plan, readable by its owner alone: the training must not see the coins."""
        write_for_owner(Path(path), json.dumps(self.to_json(), indent=1).encode() + b"\n")

    @staticmethod
    def load(path: str | Path) -> TextCanaries:
        """Read a plan back. Raises InputError: it cannot be read, or is none."""
        try:
            document = json.loads(Path(path).read_bytes())
            if document["format"] != FORMAT:
                raise ValueError(f"its format is {document['format']!r}")
            listed = tuple(TextCanary(**one) for one in document["canaries"])
            return TextCanaries(listed, int(document["seed"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} cannot be read as a plan of canaries: {error}.") from error


def plan_text_canaries(
    texts: Sequence[str],
    tokenizer: Any,
    count: int = 300,
    kinds: Sequence[str] = KINDS,
    repetitions: Sequence[int] = REPETITIONS,
    seed: int = 0,
) -> TextCanaries:
    """Draw canaries for a fine-tune, and an independent fair coin for each.

    Args:
        texts: that will be trained on; canaries are made of pieces of them.
        tokenizer: of the model.
        count: of all kinds and repetitions together, at least 20; 300 give 100 for each of three
            repetition counts.
        kinds: of `KINDS`.
        repetitions: how often an inserted canary stands in the training file, each >= 1.

    Raises InputError: too few texts, or too few tokens that no text has for ``new-token``.
    """
    for kind in kinds:
        check_choice("kind", kind, KINDS)
    for times in repetitions:
        check_at_least("repetitions", times, 1)
    whole = [text for text in texts if len(text.split()) >= 4]
    if len(whole) < 2:
        raise InputError("canaries are made of the halves of texts; give at least 2 of 4 words.")
    rng = np.random.default_rng([seed, 0])
    coins = np.random.default_rng([seed, 1]).random(count) < 0.5
    # Every kind meets every repetition count equally often.
    cells = [(kind, times) for times in repetitions for kind in kinds]
    listed = [cells[at % len(cells)] for at in range(count)]
    new = _new_tokens(tokenizer, texts, sum(kind == "new-token" for kind, _ in listed))
    taken = {"", *texts}
    made: list[TextCanary] = []
    for at, (kind, times) in enumerate(listed):
        text, last = _text(kind, whole, tokenizer, new, rng)
        while text in taken:
            text, last = _text(kind, whole, tokenizer, new, rng)
        taken.add(text)
        made.append(TextCanary(f"canary-{at:04d}", text, kind, int(times), bool(coins[at]), last))
    return TextCanaries(tuple(made), seed)


def _text(
    kind: str, texts: Sequence[str], tokenizer: Any, new: list[str], rng: np.random.Generator
) -> tuple[str, int]:
    if kind == "random-token":
        special = set(tokenizer.all_special_ids)
        ordinary = [at for at in range(len(tokenizer)) if at not in special]
        drawn = rng.choice(ordinary, _WORDS)
        return tokenizer.decode(drawn.tolist()).strip(), 0
    first, second = (texts[int(at)].split() for at in rng.choice(len(texts), 2, replace=False))
    start = " ".join(first[: len(first) // 2])
    if kind == "new-token":
        return start + new.pop(), 1
    return f"{start} {' '.join(second[len(second) // 2 :])}", 0


def _new_tokens(tokenizer: Any, texts: Sequence[str], wanted: int) -> list[str]:
    """Tokens that no text has, as text that is read back as that one token."""
    if not wanted:
        return []
    seen: set[int] = set()
    for start in range(0, len(texts), 1000):
        for ids in tokenizer(list(texts[start : start + 1000]))["input_ids"]:
            seen.update(ids)
    special, found = set(tokenizer.all_special_ids), []
    probe = tokenizer("a")["input_ids"]
    for at in range(len(tokenizer) - 1, -1, -1):
        if at in seen or at in special:
            continue
        text = tokenizer.decode([at])
        if text.strip() and tokenizer("a" + text)["input_ids"] == [*probe, at]:
            found.append(text)
        if len(found) == wanted:
            return found
    raise InputError(
        f"{wanted} new-token canaries need as many tokens that no text has, the tokenizer has "
        f"{len(found)}; use kinds in-distribution and random-token, or fewer canaries."
    )


def canary_scores(
    plan: TextCanaries, model: Sequence[TokenScores], base: Sequence[TokenScores] | None
) -> Float:
    """(m,) one score a canary, higher = more likely planted: gain over the base, ranked by kind.

    Ranks are among all canaries of a kind, planted or not, so that kinds can stand in one list.

    Raises InputError: a canary has no scored token.
    """
    raw = np.empty(len(plan))
    for at, one in enumerate(plan.canaries):
        if not len(model[at]):
            raise InputError(f"{one.id} has one token only; plan canaries with the same tokenizer.")
        part = slice(-one.last if one.last else 0, None)
        own = model[at].logprob[part].astype(np.float64)
        raw[at] = (own if base is None else own - base[at].logprob[part]).mean()
    scores = np.empty(len(plan))
    kinds = np.array([one.kind for one in plan.canaries])
    for kind in set(kinds.tolist()):
        scores[kinds == kind] = midranks(raw[kinds == kind])
    return scores


@dataclass(frozen=True, eq=False)
class CanarySigns:
    """What a model says of every canary of a plan.

    Attributes:
        score: (m,) higher = more likely planted, see `canary_scores`.
        extracted: (m,) whether its suffix comes out; False where it is too short.
        long: (m,) whether it is long enough for that.
        alone: (m,) the score without the base; None where it is the same.
    """

    score: Float
    extracted: NDArray[np.bool_]
    long: NDArray[np.bool_]
    alone: Float | None = None


@dataclass(frozen=True)
class RepetitionResult:
    """What the canaries of one repetition count show.

    Attributes:
        extracted: share of the planted ones that come out.
        control: the same of those left out.
        bounds: by form; on the epsilon of `repetitions` copies of one record.
        largest: the largest epsilon that so many canaries could show.
        exposure: mean over planted canaries, in bits; without memory about 1.44.
        most_exposure: the largest that so many left-out canaries can show.
    """

    repetitions: int
    canaries: int
    inserted: int
    bounds: dict[str, EpsilonBound]
    largest: float
    exposure: Estimate | None
    most_exposure: float
    extracted: Measured
    control: Measured
    note: str = ""


def canary_results(
    plan: TextCanaries, signs: CanarySigns, delta: float = 0.0, confidence: float = 0.95
) -> list[RepetitionResult]:
    """Bounds on epsilon and exposure, by repetition count.

    Guarantee: Each bound is at most the true epsilon of `repetitions` copies of one record with
        probability >= `confidence` (see `one_run_bound`); forms and guesses were fixed beforehand.
        Only that of 1 repetition is a bound on the epsilon of one record.
    Assumes: The training saw what `TextCanaries.insert` returns, and nothing of the coins.
    """
    times = np.array([one.repetitions for one in plan.canaries])
    kinds = np.array([one.kind for one in plan.canaries])
    found = []
    for count in sorted(set(times.tolist())):
        here = times == count
        coins, own, size = plan.inserted[here], signs.score[here], int(here.sum())
        bounds: dict[str, EpsilonBound] = {}
        note = ""
        try:
            for form in ("binomial", "tradeoff"):
                bounds[form] = one_run_bound(
                    own, coins, delta, confidence=confidence, form=form, seed=plan.seed
                )
        except (NotMeasurable, InputError) as error:
            bounds, note = {}, str(error)
        guesses = max(1, round(GUESSES * size))
        largest = one_run_epsilon(size, guesses, guesses, delta, confidence)
        bits, most = exposures(own, coins, kinds[here])
        came, control = (
            share_of(signs.extracted[rows], np.flatnonzero(rows), confidence)
            for rows in (here & side & signs.long for side in (plan.inserted, ~plan.inserted))
        )
        found.append(
            RepetitionResult(
                int(count),
                size,
                int(coins.sum()),
                bounds,
                largest,
                _mean_exposure(bits, confidence),
                most,
                came,
                control,
                note,
            )
        )
    return found


def _mean_exposure(bits: Float, confidence: float) -> Estimate | None:
    if len(bits) < 2:
        return None
    half = float(stdtrit(len(bits) - 1, (1 + confidence) / 2) * bits.std(ddof=1))
    half, mean = half / math.sqrt(len(bits)), float(bits.mean())
    method = "Student t over canaries"
    return Estimate(mean, max(0.0, mean - half), mean + half, confidence, method, len(bits))


def exposures(
    scores: Float, inserted: NDArray[np.bool_], kinds: NDArray[Any]
) -> tuple[Float, float]:
    """Exposure in bits of each planted canary, and the largest that can be shown.

    Carlini et al. 2019 ("The Secret Sharer"), the rank taken among the canaries of its kind that
    were left out: log2((n + 1)/rank). Without memory the rank is uniform, the mean about 1.44.

    >>> exposures(np.array([9.0, 1.0, 2.0, 3.0]), np.array([True, False, False, False]),
    ...           np.array(["a"] * 4))
    (array([2.]), 2.0)
    """
    bits, most = [], 0.0
    for kind in np.unique(kinds):
        inside = scores[(kinds == kind) & inserted]
        outside = np.sort(scores[(kinds == kind) & ~inserted])
        if not len(outside):
            continue
        rank = 1 + len(outside) - np.searchsorted(outside, inside, "left")
        bits += list(np.log2((len(outside) + 1) / rank))
        most = max(most, math.log2(len(outside) + 1))
    return np.array(bits), most


@dataclass
class CanaryWatch:
    """Looks at a training from within: did each canary receive loss, did the weights move?

    For a plain loop: make it before the first step, `see` every batch of one epoch, `end` after the
    last step. `CanaryCallback` does so in a Hugging Face `Trainer`.

    Attributes:
        plan: the canaries.
        tokenizer: of the model.
    """

    plan: TextCanaries
    tokenizer: Any
    _pieces: dict[str, tuple[bytes, int]] = field(default_factory=dict, repr=False)
    _copies: dict[str, int] = field(default_factory=dict, repr=False)
    _lossless: dict[str, int] = field(default_factory=dict, repr=False)
    _before: dict[str, tuple[float, float]] = field(default_factory=dict, repr=False)

    def begin(self, model: Any) -> None:
        """Note the weights before the first step."""
        self._before = _weights(model)
        self._pieces = {one.id: _piece(self.tokenizer, one) for one in self.plan.canaries}

    def see(self, input_ids: Any, labels: Any) -> None:
        """Look for canaries in one batch, as the model is given it.

        Args:
            input_ids: (rows, length) tokens, packed or padded as they are.
            labels: the same shape; -100 where no loss is taken. Token t has its loss at t.
        """
        ids, marks = _numbers(input_ids), _numbers(labels)
        for row, kept in zip(np.atleast_2d(ids), np.atleast_2d(marks), strict=True):
            stream = np.ascontiguousarray(row, np.int32).tobytes()
            for name, (piece, last) in self._pieces.items():
                start = _find(stream, piece, 0)
                while start >= 0:
                    stop = start + len(piece) // 4
                    begin = stop - last if last else max(start, 1)
                    taken = kept[begin:stop] != -100
                    key = self._copies if taken.all() else self._lossless
                    key[name] = key.get(name, 0) + 1
                    start = _find(stream, piece, 4 * stop)

    def end(self, model: Any) -> dict[str, Any]:
        """What was seen, as plain values for the audit: `canaries-training.json`."""
        after = _weights(model)
        moved = sum(self._before.get(name) != now for name, now in after.items())
        planted = [one for one in self.plan.canaries if one.inserted]
        return {
            "format": "lethe-canary-training/1",
            "plan": self.plan.digest,
            "planted": len(planted),
            "received": sum(self._copies.get(one.id, 0) >= one.repetitions for one in planted),
            "partly": sum(0 < self._copies.get(one.id, 0) < one.repetitions for one in planted),
            "without_loss": sum(
                bool(self._lossless.get(one.id)) and not self._copies.get(one.id) for one in planted
            ),
            "left_out_seen": sum(
                bool(self._copies.get(one.id)) for one in self.plan.canaries if not one.inserted
            ),
            "trained": len(after),
            "moved": moved,
        }


def training_checks(seen: Mapping[str, Any], plan: TextCanaries) -> list[tuple[str, str, str]]:
    """Name, status and words of each check on what a training was seen to do.

    Raises InputError: it is of another plan.
    """
    if seen.get("plan") != plan.digest:
        raise InputError("what was seen of the training is of another plan of canaries.")
    got, of = seen["received"], seen["planted"]
    status = "pass" if got == of else "fail" if not got else "warn"
    words = f"{got} of {of} planted canaries received loss on every copy"
    if seen["without_loss"]:
        words += f"; {seen['without_loss']} stand there without loss (masked)"
    lost = of - got - seen["without_loss"] - seen["partly"]
    if lost > 0:
        words += f"; {lost} were not found (truncated, filtered, or changed by a template)"
    if seen["partly"]:
        words += f"; {seen['partly']} were found less often than planted"
    moved = f"{seen['moved']} of {seen['trained']} trained parameters moved"
    found = [
        ("canaries received loss", status, words),
        ("weights moved", "pass" if seen["moved"] else "fail", moved),
    ]
    if seen["left_out_seen"]:
        words = f"{seen['left_out_seen']} canaries whose coin fell on OUT were trained on"
        found.append(("left-out canaries stayed out", "fail", words))
    return found


def canary_callback(plan: TextCanaries, tokenizer: Any, out: str | Path) -> Any:
    """A `transformers.TrainerCallback` that watches one training and writes what it saw.

    It reads the training set once through the collator, in order, before the first step, without
    drawing a random number, so that the training stays as it is.

    Args:
        out: file for what was seen, such as canaries-training.json beside the plan.
    """
    transformers = require("transformers", "huggingface")
    watch = CanaryWatch(plan, tokenizer)

    def begin(self: Any, args: Any, state: Any, control: Any, **given: Any) -> None:
        watch.begin(given["model"])
        loader: Any = given.get("train_dataloader")
        data = getattr(loader, "dataset", None)
        if data is None or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
            raise InputError(
                "the training set cannot be read twice (an iterable one), so that canaries cannot "
                "be looked for; use a plain loop with CanaryWatch, or a list of examples."
            )
        for start in range(0, len(data), 32):
            rows = [data[at] for at in range(start, min(start + 32, len(data)))]
            batch = loader.collate_fn(rows)
            watch.see(batch["input_ids"], batch["labels"])

    def end(self: Any, args: Any, state: Any, control: Any, **given: Any) -> None:
        write_for_owner(Path(out), json.dumps(watch.end(given["model"]), indent=1).encode() + b"\n")

    methods = {"on_train_begin": begin, "on_train_end": end}
    return type("CanaryCallback", (transformers.TrainerCallback,), methods)()


def _piece(tokenizer: Any, canary: TextCanary) -> tuple[bytes, int]:
    """Tokens of a canary without those that its surroundings may join, and its scored last."""
    ids = list(tokenizer(canary.text, add_special_tokens=False)["input_ids"])
    own = ids[1:] if canary.last or len(ids) < 4 else ids[1:-1]
    return np.asarray(own, np.int32).tobytes(), canary.last


def _find(stream: bytes, piece: bytes, start: int) -> int:
    """Place of whole tokens in a stream, from a byte on; -1 if there is none."""
    at = stream.find(piece, start)
    while at >= 0 and at % 4:
        at = stream.find(piece, at + 1)
    return at // 4 if at >= 0 else -1


def _numbers(values: Any) -> NDArray[np.int64]:
    moved = values.detach().cpu().numpy() if hasattr(values, "detach") else values
    return np.asarray(moved, np.int64)


def _weights(model: Any) -> dict[str, tuple[float, float]]:
    """Two numbers for each trained parameter, which change when it does."""
    return {
        name: (float(value.detach().double().sum()), float(value.detach().double().square().sum()))
        for name, value in model.named_parameters()
        if value.requires_grad
    }


def score_plan(plan: TextCanaries, model: LanguageModel) -> list[TokenScores]:
    """What a model says of the tokens of every canary, in their order."""
    found = dict(scored_together((model,), model.ids(plan.texts)))
    nothing = [TokenScores.known(np.zeros(0, np.float32))]
    return [found.get(at, nothing)[0] for at in range(len(plan))]


def canary_signs(
    plan: TextCanaries,
    model: Sequence[TokenScores],
    base: Sequence[TokenScores] | None,
    prefix: int,
    suffix: int,
    tries: int,
    chance: float,
) -> CanarySigns:
    """Scores of all canaries, and which of them come out (see `lethe.membership.language`)."""
    ends = [suffix_of(one, prefix, suffix) for one in model]
    came = [
        end is not None and (end.greedy or bool(discoverable(np.array(end.logprob), tries, chance)))
        for end in ends
    ]
    long = np.array([end is not None for end in ends])
    alone = canary_scores(plan, model, None)
    return CanarySigns(canary_scores(plan, model, base), np.array(came), long, alone)
