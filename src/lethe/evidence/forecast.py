"""The interval that another number of models or records would give, from the parts of a pilot's.

The two-way variance of a rate over P pairs of models and N records is a/P + b/N + c/(P N); the
pilot's bootstrap measures each part: the analysis of variance of a crossed design (Cornfield and
Tukey 1956). More models never remove b/N.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import fdtri

from lethe.evidence.twoway import Replicates, Spread, combine, combined, interaction_of

SURE = 0.8
"""Share of audits whose width should lie within the limits that a forecast gives."""


@dataclass(frozen=True)
class Forecast:
    """Parts of the variance of one rate in a pilot."""

    targets: float  # a/P, from models alone
    records: float  # b/N, from records alone
    interaction: float  # c/(P N), of a model with a record
    pairs: int  # P, independent targets of the pilot
    clusters: int  # record clusters of the pilot (groups of records, where there are very many)

    @classmethod
    def of(cls, replicates: Replicates, at: int) -> Forecast:
        """Parts of one statistic of a bootstrap."""
        parts = replicates.parts(at)
        targets, records, _ = parts
        both = min(interaction_of(parts, replicates.clusters), targets, records)
        pairs, clusters, _ = replicates.clusters
        models = targets - both
        fixed, whole = combine(parts, replicates.clusters), replicates.spread(at)
        if whole.variance > fixed.variance:
            # What models do as references shrinks with their number as what they do as targets.
            models = whole.variance - records
        return cls(models, records - both, both, pairs, clusters)

    def spread(self, models: float = 1.0, records: float = 1.0) -> Spread:
        """The two-way variance with `models` times the models and `records` times the records."""
        both = self.interaction / (models * records)
        return combined(
            self.targets / models + both,
            self.records / records + both,
            both,
            (max(2, round(self.pairs * models)), max(2, round(self.clusters * records))),
        )

    def limits(self, models: float = 1.0, records: float = 1.0) -> tuple[Spread, Spread]:
        """The spread that an audit of that size may find, 10th and 90th percentile.

        The ratio of the pilot's and the audit's variance is taken as F with the degrees of freedom
        behind each (Satterthwaite).
        """
        there = self.spread(models, records)
        if there.variance <= 0:
            return there, there
        here = (
            (self.targets + self.interaction) / models,
            (self.records + self.interaction) / records,
        )
        weight = here[0] ** 2 / (self.pairs - 1) + here[1] ** 2 / (self.clusters - 1)
        behind = max(1.0, min(there.variance**2 / weight, 1e6)) if weight > 0 else 1e6
        tails = ((1 - SURE) / 2, (1 + SURE) / 2)
        low, high = (float(fdtri(there.degrees, behind, tail)) for tail in tails)
        return (
            Spread(there.variance * low, there.degrees),
            Spread(there.variance * high, there.degrees),
        )
