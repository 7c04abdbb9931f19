"""An audit of another kind: which of 1,000 queries lay in a cache, by how long answers take."""

from lethe.assess.run import AuditFacts, Subject, check, outcome_words
from lethe.evidence.document import AttackRow
from lethe.evidence.frontier import Candidate
from lethe.evidence.guarantee import empirical_only
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.risk import AttackResult


class CacheSubject(Subject):
    """Hits of a timing attack on a cache, without and with a random delay."""

    def __init__(self, hits: dict[str, int], tried: int = 1000) -> None:
        self.hits, self.tried = hits, tried

    def candidates(self):  # measured already
        nothing = empirical_only(voided_by=("a finer clock",))
        for name, count in self.hits.items():
            share = clopper_pearson(count, self.tried)
            result = [AttackResult("timing", share)]
            kept = clopper_pearson(self.tried, self.tried)
            yield Candidate(name, name, {}, kept, result, nothing, measures={"auc": share})

    def words(self, verdict):
        return [outcome_words(verdict), f"The attack is right {self.hits['baseline']} times."]

    def facts(self):
        return AuditFacts(
            subject={"release": "model", "name": "cache", "summary": "A cache of answers."},
            threat_model=dict.fromkeys(("goal", "knowledge", "access", "budget", "unit"), "time"),
            data={"records": self.tried, "fingerprint": "0"},
            attacks=[AttackRow("timing", "Timing", "Bernstein 2005", "a clock")],
            attacks_not_run=[],
            utility="answers that come in time",
            risk="share of cached queries that are recognised",
            operating_rule="lowest risk",
            checks=[check("clock", "pass", "it resolves a hit")],
            limits=["Another clock may see more."],
            reproduction={"seed": 0},
            libraries=("numpy",),
        )
