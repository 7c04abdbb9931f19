"""The registry of attackers on released vectors: their names, knowledge and metrics.

An attacker enrols people by their earlier vectors and finds the person nearest to a new vector: by
the mean of each person, or (`enrolled`) by every row or a model of each person. Attackers differ in
the knowledge of the adversary, see `Attacker.knows`: distance, learned metric, noise-free
enrolment, vectors known to be of the same person. To add an attacker, add it to `ATTACKERS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lethe.reidentification.enrolled import (
    COVARIANCE,
    DENSITY,
    ENROLLED,
    GAUSSIAN,
    HISTOGRAM,
    NEAREST,
    SOFTMAX,
)
from lethe.reidentification.sight import ALL, DIRECTIONS, LENGTHS, PLDA, RANKS

PLAIN = ("cosine", "l2")
_PAPERS = {
    "cosine": "gallery and probe protocol of biometric identification (ISO/IEC 19795-1)",
    PLDA: "Ioffe 2006; Garcia-Romero and Espy-Wilson 2011",
    **ENROLLED,
}


@dataclass(frozen=True)
class Attacker:
    """An attacker: a distance and the data that the adversary has.

    Attributes:
        metric: ``cosine``, ``l2`` or ``plda`` (learned from other people's pairs), all between
            means; or of `ENROLLED`.
        vectors: number of new vectors known to be of the same person and joined; or `ALL`.
    """

    name: str  # unique in the registry; used in rules, tables and findings
    title: str  # in words
    metric: str
    clean_gallery: bool = False  # whether people are enrolled with vectors without noise
    vectors: int = 1
    projected: bool = False  # whether it also runs on views of fewer dimensions, such as logits
    normalised: bool = False  # whether scores are normalised by those of other people (AS-norm)
    noise: bool | None = None  # True or False: runs only on releases with or without noise
    reads: str = ""  # of vectors: `RANKS` of values, `DIRECTIONS` or `LENGTHS`; else all

    @property
    def dense(self) -> bool:
        """Whether it scores every probe with all people, in a table."""
        return self.normalised or self.metric in ENROLLED

    @property
    def fixed(self) -> bool:
        """Whether it learns nothing from who owns the probes of other people."""
        return self.metric != PLDA and not self.normalised

    @property
    def paper(self) -> str:
        """Source of its metric."""
        paper = _PAPERS.get(self.metric, _PAPERS["cosine"])
        return f"{paper}; Matejka et al. 2017" if self.normalised else paper

    @property
    def knows(self) -> str:
        """The adversary's knowledge, in one line."""
        held = "without noise" if self.clean_gallery else "as released"
        parts = [f"earlier vectors of the same people, {held}"]
        if self.metric == PLDA:
            parts.append("both vectors of other people, to learn the metric from")
        if self.normalised:
            parts.append("vectors of other people, to normalise scores by")
        joined = {1: "one new vector", ALL: "all new vectors of a person, known to be of one"}
        parts.append(joined.get(self.vectors, f"{self.vectors} new vectors of one person"))
        return "; ".join(parts)

    def within(self, clean_gallery: bool, vectors: int) -> Attacker:
        """This attacker, restricted to the given knowledge."""
        most = self.vectors if vectors == ALL else vectors
        joined = most if self.vectors == ALL else min(self.vectors, most)
        name = self.name
        if joined != self.vectors:
            name = name.replace("all vectors", "" if joined == 1 else f"{joined} vectors")
            name = name.removesuffix(", ") or "clean gallery"
        # A fit to released rows would have to be repeated at every level of noise.
        slow = self.metric in (SOFTMAX, DENSITY) and not clean_gallery
        return replace(
            self,
            name=name,
            vectors=joined,
            clean_gallery=self.clean_gallery and clean_gallery,
            noise=False if slow else self.noise,
        )


def _joined(metric: str, title: str, clean_gallery: bool = False, **more: Any) -> Attacker:
    """An attacker who knows which new vectors are of one person, named by its metric."""
    name = ", ".join(filter(None, (metric.replace("-", " "), more.get("reads"), "all vectors")))
    return Attacker(name, title, metric, clean_gallery, ALL, **more)


_PLAIN = {"noise": False}  # for releases without noise
ATTACKERS = (
    Attacker("cosine", "Nearest enrolled mean, cosine distance", "cosine"),
    Attacker("l2", "Nearest enrolled mean, Euclidean distance", "l2", projected=True),
    Attacker("plda", "Probabilistic linear discriminants of other people", PLDA),
    Attacker("nearest row", "Nearest single enrolled vector", NEAREST, True),
    Attacker("all vectors", "Mean of all vectors against clean means", "l2", True, ALL, True),
    _joined(PLDA, "PLDA of the mean of all vectors"),
    replace(
        _joined(PLDA, "PLDA of the mean of all vectors against clean means", True),
        name="plda, clean gallery, all vectors",
    ),
    _joined(NEAREST, "Nearest pair of an enrolled and a new vector", **_PLAIN),
    _joined(DENSITY, "Kernel density of each person, all new vectors", True, projected=True),
    _joined(GAUSSIAN, "Gaussian with variances of each person, all new vectors", True),
    _joined(SOFTMAX, "Logistic regression on enrolled vectors, all new vectors", True),
    _joined(
        HISTOGRAM,
        "Shares of values and bins of each person, all new vectors",
        projected=True,
        **_PLAIN,
    ),
    _joined(COVARIANCE, "Gaussian with a covariance of each person, all new vectors", **_PLAIN),
    _joined(
        GAUSSIAN,
        "Gaussian on the ranks of values within their period, all new vectors",
        reads=RANKS,
        **_PLAIN,
    ),
    _joined(
        GAUSSIAN, "Gaussian on vectors of unit length, all new vectors", reads=DIRECTIONS, **_PLAIN
    ),
    _joined(
        GAUSSIAN, "Gaussian on the lengths of vectors, all new vectors", reads=LENGTHS, **_PLAIN
    ),
)
"""The attackers of an audit: each runs on all candidates and noise levels that it can."""
NORMALISED = (
    Attacker("cosine, as-norm", "Cosine, scores normalised", "cosine", normalised=True),
    Attacker("plda, as-norm", "PLDA, scores normalised", PLDA, normalised=True),
)
"""Further attackers with score normalisation, on request."""


def allowed(
    clean_gallery: bool = True, vectors: int = ALL, normalised: bool = False
) -> tuple[Attacker, ...]:
    """The attackers that a threat model allows, restricted to the knowledge that it allows.

    Args:
        normalised: whether those of `NORMALISED` are among them.
        clean_gallery: whether the adversary may hold vectors from before the noise.
        vectors: the most vectors of a person that it may know to belong together; `ALL` of them.

    >>> [attacker.name for attacker in allowed(clean_gallery=False, vectors=1)][:4]
    ['cosine', 'l2', 'plda', 'nearest row']
    """
    alike: dict[tuple[str, str, bool, int], Attacker] = {}
    for attacker in (candidate.within(clean_gallery, vectors) for candidate in ATTACKERS):
        key = attacker.metric, attacker.reads, attacker.clean_gallery, attacker.vectors
        twin = alike.setdefault(key, attacker)
        if twin.noise is not attacker.noise:
            alike[key] = replace(twin, noise=None)
    return (*alike.values(), *(NORMALISED if normalised else ()))
