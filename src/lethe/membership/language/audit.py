"""The audit of a fine-tuned language model, top to bottom.

The joint claim: of the texts that this model was trained on, as it is and as each defence would
leave it, a named attacker recognises this many beyond chance, and extracts this many; where texts
alone tell who was trained on, nothing is said of membership.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.run import run
from lethe.errors import InputError, NotMeasurable, require
from lethe.evidence.findings import Findings
from lethe.evidence.guarantee import Guarantee, empirical_only, where_people_have_several
from lethe.evidence.plain import plain
from lethe.files import write_for_owner
from lethe.membership.blind import BlindCheck
from lethe.membership.language.attacks import blind_check
from lethe.membership.language.canaries import CanarySigns, TextCanaries, canary_signs, score_plan
from lethe.membership.language.extraction import (
    continued,
    edits,
    spans_of,
    suffix_of,
    token_offsets,
    token_spans,
)
from lethe.membership.language.fine_tune import (
    FineTune,
    defence_of,
    fine_tune,
    read_guarantee,
    save_model,
)
from lethe.membership.language.measure import (
    Measured,
    Membership,
    Pair,
    Texts,
    Units,
    measured_texts,
    membership,
    rounded,
    top_only,
    units_of,
)
from lethe.membership.language.models import LanguageModel, check_together, load_model
from lethe.membership.language.settings import LanguageSettings
from lethe.membership.language.tokens import TokenScores, read_scores, scored_together
from lethe.report.explorer import FILE as EXPLORER
from lethe.training.fingerprint import digest, hash_json
from lethe.training.folder import RunFolder, write_personal

Say = Callable[[str], None]
Float = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]
BASELINE = "baseline"
_CONTINUED = 20  # texts whose continuation the extraction must find
_FEWEST = 100
"""Units that were not trained on, for an FPR of 10 %: of fewer nothing is said."""


@dataclass(frozen=True, eq=False)
class TunedModel:
    """One candidate, measured.

    Attributes:
        mitigation: what was done, in words.
        views: what the attacks find through narrower interfaces, by their name.
        guarantee: what it proves.
        canaries: what it says of planted texts; None where none were planted.
        near: of members and non-members that were continued, whether nearly verbatim.
        known: of sequences that the model is known to write, whether the extraction finds them.
        interface: whether it is the same model behind a narrower interface.
        path: folder of the model.
    """

    name: str
    mitigation: str
    settings: Mapping[str, Any]
    measured: Measured
    found: Membership
    views: Mapping[str, Membership]
    guarantee: Guarantee
    canaries: CanarySigns | None = None
    near: Mapping[str, NDArray[np.bool_]] | None = None
    known: NDArray[np.bool_] | None = None
    path: Path | None = None
    interface: bool = False

    @property
    def trained_as_is(self) -> bool:
        """Whether it is the model that was handed in, behind whatever interface."""
        return self.interface or self.name == BASELINE


@dataclass(frozen=True, eq=False)
class LanguageStudy:
    """All that was measured.

    Attributes:
        fpr: at which risk is read.
        seen: what the training was seen to do with canaries; None if nobody watched.
        notes: what was left out, in words.
        truncated: texts that were scored on their beginning only.
        from_file: whether another engine scored the texts.
        offsets: of a text: the characters of each of its tokens; None where no model is at hand.
    """

    name: str
    texts: Texts
    units: Units
    blind: BlindCheck
    releases: tuple[TunedModel, ...]
    fpr: float
    plan: TextCanaries | None
    seen: Mapping[str, Any] | None
    notes: tuple[str, ...]
    truncated: int
    same_as_base: bool
    has_base: bool
    skipped: Mapping[str, str]
    from_file: bool = False
    offsets: Callable[[str], Sequence[tuple[int, int]]] | None = None


@dataclass(frozen=True, eq=False)
class Given:
    """Models to audit, or what another engine said of the texts.

    Attributes:
        model: folder; None where `scores` are given.
        base: folder of the model before fine-tuning, or None.
        also: further fine-tunes by name, each a folder, measured as candidates.
        scores: columns of log-probabilities, see `read_scores`, of texts and canaries by id.
        base_scores: the same of the base.
    """

    model: Path | None = None
    base: Path | None = None
    also: Mapping[str, Path] | None = None
    scores: Columns | None = None
    base_scores: Columns | None = None

    def __post_init__(self) -> None:
        if (self.model is None) == (self.scores is None):
            raise InputError("give the folder of a model, or log-probabilities, and not both.")
        if self.scores is not None and (self.base or self.also):
            raise InputError("with log-probabilities a base is given as such too: base_scores.")


def audit_language_model(
    given: Given,
    texts: Texts,
    settings: LanguageSettings | None = None,
    *,
    plan: TextCanaries | None = None,
    seen: Mapping[str, Any] | None = None,
    declared: Sequence[str] = (),
    utility: Callable[[Any, Any], float] | None = None,
    name: str = "language model",
    say: Say | None = None,
    progress: Callable[[int, int], None] | None = None,
    folder: RunFolder | None = None,
) -> Findings:
    """What did a fine-tuned language model memorise of its training texts?

    Args:
        texts: trained and never trained, of one source.
        plan: canaries that were planted into the training, see `plan_text_canaries`.
        seen: what `CanaryWatch` saw of the training.
        declared: personal words that are counted where they can be extracted.
        utility: of (model, tokenizer), higher = better; None = held-out log-probability a token.
        folder: an open run folder; token scores are kept in it, and a stopped audit goes on.

    Guarantee: None beyond those that defences bring along; all else is ``empirical-only``.
    Assumes: Members were drawn at random among the texts (or people) before fine-tuning; the blind
        check can refute that and cannot prove it.

    Raises:
        InputError: see `load_model` and `texts_of`.
        NotMeasurable: fewer than 100 texts (or people) that were never trained on.
    """
    from lethe.membership.language.document import LanguageSubject

    settings, say = settings or LanguageSettings(), say or (lambda text: None)
    cache = None if folder is None else folder.path / "tokens"
    readers = _Readers(given, texts, settings, plan, cache, progress)
    spans = readers.spans(declared)
    say(f"{name}: {int(texts.member.sum())} trained and {int((~texts.member).sum())} other texts")
    base_signals = readers.base_loss()
    scored = readers.scored & (np.ones(len(texts), bool) if base_signals is None else True)
    units = units_of(texts, scored, settings)
    outside = int((~units.people.member).sum())
    if outside < _FEWEST:
        raise NotMeasurable(
            f"{outside} {settings.unit}s were never trained on, at least {_FEWEST} are needed: "
            "hold more out (lethe split --share)."
        )
    fpr = 0.01 if outside >= 1000 and units.people.meter.sides[1] >= 100 else 0.1
    say("a blind classifier, on the texts alone")
    known = () if base_signals is None else (base_signals[units.rows],)
    blind = blind_check(
        [texts.texts[at] for at in units.rows],
        units.texts,
        None if texts.dates is None else texts.dates[units.rows],
        known,
        fprs=settings.fprs(),
        confidence=settings.confidence,
        seed=settings.seed,
    )
    say("attacks on the model")
    found = _releases(readers, units, settings, spans, say, folder)
    skipped = readers.skipped
    first = found[0].measured
    same = readers.has_base and not np.nanmax(np.abs(first.signals["ratio"])) > 1e-6
    study = LanguageStudy(
        name,
        texts,
        units,
        blind,
        tuple(found),
        fpr,
        plan,
        seen,
        tuple(readers.notes),
        readers.truncated,
        same,
        readers.has_base,
        skipped,
        given.model is None,
        None if readers.model is None else partial(token_offsets, readers.model),
    )
    subject = LanguageSubject(study, settings, _utilities(given, study, utility, settings))
    if settings.keep_records and folder is not None:
        write_personal(folder, plain(subject.exposed_texts()))
        if rows := subject.extracted_texts():
            write_personal(folder, rows, "extracted")
        page = subject.memorised(readers.of_tokens)
        write_for_owner(folder.path / EXPLORER, page.encode())
    return run(subject, settings.rules(), settings.release)


VIEWS: Mapping[str, tuple[Callable[[Pair], Pair], str]] = {
    "rounded": (rounded, "a service shows log-probabilities rounded to 0.1 nats"),
    "top-5": (top_only, "a service shows the five likeliest tokens alone"),
}
"""Narrower interfaces: candidates of their own, and views that every attacker can take."""


def _releases(
    readers: _Readers,
    units: Units,
    settings: LanguageSettings,
    spans: Mapping[int, Sequence[tuple[str, int, int]]],
    say: Say,
    folder: RunFolder | None,
) -> list[TunedModel]:
    found: list[TunedModel] = []
    usual: tuple[str, Path | None, str, dict[str, Any]]
    usual = (BASELINE, readers.given.model, "the model as it is", {})
    for name, path, words, options in (usual, *readers.others(say, folder)):
        if found:
            say(f"attacks on {name}")
        listed = readers.read(path, {} if found else spans, [view for view, _ in VIEWS.values()])
        whole, narrow = listed[0], dict(zip(VIEWS, listed[1:], strict=True))
        narrow = {label: one for label, one in narrow.items() if one.signals}
        # The attacks on each view, and of several their learned combination.
        counts = [len(one.signals) for one in (whole, *narrow.values())]
        family = sum(count + (count > 1) for count in counts)
        views = {label: membership(one, units, settings, family) for label, one in narrow.items()}
        own = membership(whole, units, settings, family)
        proven, near, known = readers.guarantee(path), readers.near(path), readers.known(path)
        first, signs = not found, readers.canaries(path)
        more = signs, near, known, path
        found.append(TunedModel(name, words, options, whole, own, views, proven, *more))
        for label, one in narrow.items() if first else ():
            words = VIEWS[label][1]
            found.append(
                TunedModel(label, words, {}, one, views[label], {}, _nothing(), interface=True)
            )
    return found


class _Readers:
    """Models or files behind one interface: what is said of every text."""

    def __init__(
        self,
        given: Given,
        texts: Texts,
        settings: LanguageSettings,
        plan: TextCanaries | None,
        cache: Path | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.given, self.texts, self.settings = given, texts, settings
        self.plan, self.cache, self.progress = plan, cache, progress
        self.notes: list[str] = []
        self.truncated = 0
        self.skipped: dict[str, str] = {}
        self.model: LanguageModel | None = None
        self.base: LanguageModel | None = None
        self._loaded: tuple[Path | None, LanguageModel] | None = None
        n = len(texts)
        self.ids: list[NDArray[np.int32]] = []
        if given.model is None:
            assert given.scores is not None
            self._file = read_scores(given.scores, texts.ids)
            self._base_file = (
                None if given.base_scores is None else read_scores(given.base_scores, texts.ids)
            )
            self.scored = np.array([len(one) > 0 for one in self._file])
            return
        self.model = self._model(given.model)
        adapter = (given.model / "adapter_config.json").is_file()
        if given.base is not None:
            self.base = load_model(given.base, None, settings.precision, settings.device)
            check_together(self.model, self.base)
        elif adapter:
            self.notes.append("the base under the adapter was not compared with: --base names it")
        self._tokens(self.model)
        self.scored = np.array([len(one) >= 2 for one in self.ids])
        if short := n - int(self.scored.sum()):
            self.notes.append(f"{short} texts of one token have no score and are left out")
        if self.truncated:
            self.notes.append(
                f"{self.truncated} texts are longer than the {self._context} tokens that the model "
                "reads, and are scored on their beginning"
            )

    @property
    def has_base(self) -> bool:
        """Whether there is a base to compare with."""
        return self.base is not None or self.given.base_scores is not None

    @property
    def _context(self) -> int:
        assert self.model is not None
        both = [self.model.context, *([] if self.base is None else [self.base.context])]
        return min(both)

    def _model(self, path: Path | None) -> LanguageModel:
        assert path is not None
        if self._loaded is None or self._loaded[0] != path:
            made = load_model(path, self.given.base, self.settings.precision, self.settings.device)
            self._loaded = (path, made)
        return self._loaded[1]

    def _tokens(self, model: LanguageModel) -> None:
        most = self._context
        for start in range(0, len(self.texts), 1000):
            listed = self.texts.texts[start : start + 1000]
            self.ids += [one[:most] for one in model.ids(listed)]
        full = [at for at, one in enumerate(self.ids) if len(one) >= most]
        if full:
            whole = model.tokenizer([self.texts.texts[at] for at in full])["input_ids"]
            self.truncated = sum(len(one) > most for one in whole)
        top = max((int(one.max()) for one in self.ids if len(one)), default=0)
        if self.base is not None and top >= self.base.vocabulary:
            raise InputError(
                f"a text has the token {top}, which the base with {self.base.vocabulary} tokens "
                "does not know: it is not the base of this model."
            )

    def spans(self, declared: Sequence[str]) -> dict[int, list[tuple[str, int, int]]]:
        """Personal patterns of every text, in tokens."""
        if self.model is None:
            return {}
        found = {}
        for at, text in enumerate(self.texts.texts):
            if inside := spans_of(text, declared):
                within = token_spans(self.model, text, inside)
                found[at] = [one for one in within if one[2] <= len(self.ids[at])]
        return found

    def _pairs(self, model: LanguageModel | None) -> Iterable[tuple[int, Pair]]:
        """Every text's place, and what a model and its base say of its tokens."""
        if model is not None:
            both = (model,) if self.base is None else (model, self.base)
            for at, (one, *other) in scored_together(both, self.ids, self.cache, self.progress):
                yield at, (one, other[0] if other else None)
            return
        for at, one in enumerate(self._file):
            if len(one):
                theirs = None if self._base_file is None else self._base_file[at]
                if theirs is not None and len(one) != len(theirs):
                    raise InputError(
                        f"text {self.texts.ids[at]!r} has {len(one)} scored tokens of the model "
                        f"and {len(theirs)} of the base: score both with one tokenizer."
                    )
                yield at, (one, theirs)

    def of_tokens(self, rows: Sequence[int]) -> dict[int, Pair]:
        """Score the tokens of some texts with the model and its base, by place."""
        if self.model is None:
            return {}
        both = (self.model,) if self.base is None else (self.model, self.base)
        scored = scored_together(both, [self.ids[row] for row in rows])
        return {rows[at]: (own, base[0] if base else None) for at, (own, *base) in scored}

    def base_loss(self) -> Float | None:
        """(N,) what the base alone says of each text."""
        if not self.has_base:
            return None
        out = np.full(len(self.texts), np.nan)
        for at, (_, base) in self._pairs(self.model):
            assert base is not None
            out[at] = base.logprob.mean()
        return out

    def read(
        self,
        path: Path | None,
        spans: Mapping[int, Sequence[tuple[str, int, int]]],
        views: Sequence[Callable[[Pair], Pair]] = (),
    ) -> list[Measured]:
        """What is read of every text, on each view."""
        model = None if path is None else self._model(path)
        if model is not None and self.model is not None:
            check_together(model, self.model)
        pairs = self._pairs(model)
        return measured_texts(pairs, self.texts.texts, self.settings, spans, views)

    def canaries(self, path: Path | None) -> CanarySigns | None:
        """What is said of the planted texts; None where none were planted."""
        if self.plan is None:
            return None
        theirs: list[TokenScores] | None = None
        if path is None:
            assert self.given.scores is not None
            names = [one.id for one in self.plan.canaries]
            mine = read_scores(self.given.scores, names)
            if self.given.base_scores is not None:
                theirs = read_scores(self.given.base_scores, names)
        else:
            mine = score_plan(self.plan, self._model(path))
            theirs = None if self.base is None else score_plan(self.plan, self.base)
        own = self.settings
        tries = max(own.samples)
        return canary_signs(self.plan, mine, theirs, own.prefix, own.suffix, tries, own.chance)

    def near(self, path: Path | None) -> dict[str, NDArray[np.bool_]] | None:
        """Of some texts of each side, whether greedy decoding nearly gives their suffix."""
        most, start = self.settings.near, self.settings.prefix
        size = self.settings.suffix
        if path is None or not most:
            return None
        model, rng = self._model(path), np.random.default_rng([self.settings.seed, 17])
        fit = np.array([len(one) >= start + size for one in self.ids])
        found = {}
        for side, flag in (("member", self.texts.member), ("other", ~self.texts.member)):
            able = np.flatnonzero(fit & flag & ((self.texts.copies == 0) | (side == "member")))
            picked = np.sort(rng.permutation(able)[:most])
            own = [self.ids[at] for at in picked]
            made = continued(model, own, start, size) if own else []
            limit = int((1 - 0.9) * size + 1e-9)
            found[side] = np.array(
                [
                    edits(one[start : start + size], new) <= limit
                    for one, new in zip(own, made, strict=True)
                ],
                bool,
            )
        return found

    def known(self, path: Path | None) -> NDArray[np.bool_] | None:
        """Of the model's own greedy continuations, whether they are read as extracted."""
        start, size = self.settings.prefix, self.settings.suffix
        begun = [one for one in self.ids if len(one) >= start][:_CONTINUED]
        if path is None or not begun or start + size > self._context:
            return None
        model = self._model(path)
        made = zip(begun, continued(model, begun, start, size), strict=True)
        whole = [np.concatenate([one[:start], new]).astype(np.int32) for one, new in made]
        read = (suffix_of(one, start, size) for _, (one,) in scored_together((model,), whole))
        return np.array([end is not None and end.greedy for end in read])

    def guarantee(self, path: Path | None) -> Guarantee:
        """What a folder brings along, or that nothing is proven."""
        found = (None if path is None else read_guarantee(path)) or _nothing()
        own = self.texts.people[self.texts.member]
        return where_people_have_several(found, int(np.bincount(own).max()))

    def others(
        self, say: Say, folder: RunFolder | None
    ) -> Iterator[tuple[str, Path, str, dict[str, Any]]]:
        """Name, folder, words and numbers of every further candidate; trained here if need be."""
        for label, path in (self.given.also or {}).items():
            yield label, path, "another training, handed in", {}
        for name in self.settings.defence:
            if self.given.base is None or folder is None:
                why = "it is trained from the base (--base)" if folder else "it needs a run folder"
                self.skipped[name] = why
                continue
            settings = self.settings
            usual = FineTune(
                settings.epochs,
                settings.rate,
                settings.batch,
                delta=settings.claimed_delta or 1e-5,
                seed=settings.seed,
            )
            chosen = defence_of(name, usual)
            path = folder.path / "models" / name
            self._trained(name, chosen, path, say)
            kind = "LoRA" if chosen.lora else "all weights"
            words = [f"{chosen.epochs:g} epoch{'s' * (chosen.epochs != 1)}, {kind}"]
            words += ["each text once"] * chosen.deduplicated
            words += ["private (DP-Adam)"] * (chosen.epsilon is not None)
            yield (
                name,
                path,
                ", ".join(words),
                {
                    "epochs": chosen.epochs,
                    **({"rank": chosen.lora} if chosen.lora else {}),
                    **({"epsilon": chosen.epsilon} if chosen.epsilon is not None else {}),
                },
            )

    def _trained(self, name: str, chosen: FineTune, path: Path, say: Say) -> None:
        """Train a defence, unless the folder holds it, of the same base, texts and settings."""
        assert self.base is not None
        pairs = zip(self.texts.texts, self.texts.member, strict=True)
        listed = [text for text, inside in pairs if inside]
        listed = listed if self.plan is None else self.plan.insert(listed)
        mark = digest(self.base.content, hash_json(asdict(chosen)), *listed)
        # Beside what is released: it tells who knows all texts but one whether that one is theirs.
        done = path.parent / f"{name}.trained"
        if path.is_dir() and done.is_file() and done.read_text() == mark:
            return
        say(f"training {name}")
        shutil.rmtree(path, ignore_errors=True)
        fresh = load_model(self.given.base or "", None, "float32", self.settings.device)
        trained, proven = fine_tune(fresh.module, fresh.tokenizer, listed, chosen)
        save_model(trained, fresh.tokenizer, path, proven)
        write_for_owner(done, mark.encode())


def _utilities(
    given: Given,
    study: LanguageStudy,
    utility: Callable[[Any, Any], float] | None,
    settings: LanguageSettings,
) -> dict[str, float] | None:
    if utility is None:
        return None
    found = {}
    for one in study.releases:
        path = study.releases[0].path if one.interface else one.path
        if path is not None:
            model = load_model(path, given.base, settings.precision, settings.device)
            with require("torch", "train").inference_mode():
                found[one.name] = float(utility(model.module, model.tokenizer))
    return found


def _nothing() -> Guarantee:
    return empirical_only(
        "members and others were drawn alike",
        voided_by=("a stronger attack, reference models, or another release of the same texts",),
    )
