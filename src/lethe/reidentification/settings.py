"""What an audit of representations is told to do; the same names as the command's options."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.rules import EMBEDDING_METRICS, Rule, parse_rule
from lethe.reidentification.scored import METRICS
from lethe.reidentification.surface import SIGMAS
from lethe.reidentification.transforms import USUAL, parse_name
from lethe.reidentification.vectors import check_sigma
from lethe.training.environment import default_workers


@dataclass(frozen=True)
class EmbeddingSettings:
    """Settings of an audit of representations; all rules are fixed here, before the run.

    Attributes:
        sigmas: noise levels, >= 0; 0 is always measured.
        surface: levels of the surface over sigma and M.
        averaged: numbers M of draws of one vector that an attacker (or a consumer) may average.
        metric: distance of the sweep's table: cosine or l2; all attackers run in any case.
        clean_gallery: whether the adversary may hold vectors from before the noise.
        joined: the most released vectors of a person that the adversary may know to be of one;
            0 = all.
        max_people: people in the attack, at most, drawn at random by the seed; 0 = all. The gallery
            holds these alone, and a smaller one is easier to name a person in.
        max_probes: vectors to be named, at most; 0 = all, as long as vectors times people are at
            most 1 billion. People are drawn at random by the seed with all of theirs; the gallery
            stays as it is.
        seed: of splits, noise, plays and of what is drawn at random.
        confidence: of all intervals.
        min_rows: users with fewer rows are left out.
        known: period of the vectors that the attacker knows, with later; without it rows are split
            within one.
        later: period of the vectors to be named: the cross-window protocol.
        draws: noise draws a level, at most; with many people two are enough, see `Battery.draws`.
        refine: levels that may be added around the thresholds.
        repeats: noise draws of a utility that has no closed form.
        plays: plays of the best attacker a level; 0 leaves that certificate out.
        common: gallery sizes at which Top-1 is also given, to compare sets of different size.
        lift: privacy asks for a lift over chance whose upper limit is below it.
        floor: utility asks for an AUC (or accuracy) whose lower limit is above it.
        norm: clip vectors to this length before noise, as further candidates; fixed without
            looking at the data.
        diameter: the most that two vectors can differ, known without the data (a last
            LayerNorm: `layer_norm_diameter`); None proves no differential privacy.
        delta: of the epsilon that is printed.
        radius_sigmas: noise levels of the certified radii by draws.
        radius_draws: draws a radius.
        radius_points: rows with certified radii, at most.
        alpha: chance that a certificate by draws is wrong, a point.
        margin: utility loss that counts as none.
        rule: rule that sets the exit code, such as "lift<=2" or "bound<=0.01"; may be repeated.
            Metrics: lift and top-1 of the strongest attacker, bound (on every attacker's Top-1, one
            vector), utility-loss, and width(...) of each; with verification eer and min-cllr (as
            "eer>=0.4"), d-sys and disclosure; with an attribute attribute-gain.
        release: candidate that the rules judge, such as noise-1.
        verification: also score pairs of vectors, of every attacker on every candidate: equal error
            rate, Cllr, D_sys, ZEBRA, and how singling out grows with people and vectors.
        score_norm: also attackers that normalise scores by those of other people (AS-norm).
        mitigations: further candidates, fitted on the vectors: pca-8, random-projection-8,
            quantised-4, k-same-5, leace (erases the attribute), shaped-noise-1; "all" takes the
            usual ones.
        known_share: shares of people whose vectors in both releases the attacker knows, where a
            second release is given.
        keep_records: keep the table of exposed people in the run folder; it is personal data.
        backend: see `ranks`.
        workers: threads that attack; 0 = all cores.
    """

    sigmas: tuple[float, ...] = SIGMAS
    surface: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    averaged: tuple[int, ...] = (1, 4, 16, 100)
    metric: str = "cosine"
    clean_gallery: bool = True
    joined: int = 0
    max_people: int = 0
    max_probes: int = 0
    seed: int = 0
    confidence: float = 0.95
    min_rows: int = 4
    known: str | None = None
    later: str | None = None
    draws: int = 20
    refine: int = 8
    repeats: int = 20
    plays: int = 2000
    common: tuple[int, ...] = (100, 1000, 10_000)
    lift: float = 2.0
    floor: float = 0.6
    norm: float | None = None
    diameter: float | None = None
    delta: float = 1e-5
    radius_sigmas: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0)
    radius_draws: int = 1000
    radius_points: int = 3000
    alpha: float = 0.001
    margin: float = 0.01
    rule: tuple[str, ...] = ()
    release: str = "baseline"
    verification: bool = False
    score_norm: bool = False
    mitigations: tuple[str, ...] = ()
    known_share: tuple[float, ...] = (0.01, 0.1, 0.5)
    keep_records: bool = False
    backend: str = "auto"
    workers: int = 0

    def __post_init__(self) -> None:
        for name in ("sigmas", "surface", "radius_sigmas"):
            levels = getattr(self, name)
            for level in levels:
                check_sigma(level, positive=name == "radius_sigmas")
            object.__setattr__(self, name, tuple(sorted({float(level) for level in levels})))
        object.__setattr__(self, "sigmas", tuple(sorted({0.0, *self.sigmas})))
        check_choice("metric", self.metric, ("cosine", "l2"))
        for low, names in (
            (0, "seed joined max_people max_probes refine plays margin workers"),
            (1, "draws radius_draws radius_points"),
            (2, "min_rows repeats"),
        ):
            for name in names.split():
                check_at_least(name, getattr(self, name), low)
        for draws in self.averaged:
            check_at_least("averaged", draws, 1)
        for name in ("confidence", "alpha", "delta", "floor"):
            check_between(name, getattr(self, name), 0, 1, open_low=True, open_high=True)
        check_between("lift", self.lift, 1, math.inf, open_low=True, open_high=True)
        for name in ("norm", "diameter"):
            if (value := getattr(self, name)) is not None:
                check_between(name, value, 0, math.inf, open_low=True, open_high=True)
        if self.max_people == 1:
            raise InputError("max_people=1 must be 0 (all) or at least 2, to tell people apart.")
        if (self.known is None) != (self.later is None):
            raise InputError(
                f"known={self.known!r} and later={self.later!r}: name both periods, or neither."
            )
        if "all" in self.mitigations:
            if len(self.mitigations) > 1:
                raise InputError("mitigations: 'all' stands alone; leave it out, or the others.")
            object.__setattr__(self, "mitigations", USUAL)
        for name in self.mitigations:
            parse_name(name)
        for share in self.known_share:
            check_between("known_share", share, 0, 1, open_low=True, open_high=True)
        if {rule.metric for rule in self.rules()} & set(METRICS):
            object.__setattr__(self, "verification", True)

    @property
    def threads(self) -> int:
        """`workers`, or one a core."""
        return self.workers or default_workers()

    def rules(self) -> list[Rule]:
        """The rules, read."""
        return [parse_rule(text, EMBEDDING_METRICS) for text in self.rule]
