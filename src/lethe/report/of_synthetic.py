"""What the report says of synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lethe.evidence.document import PlainCandidate
from lethe.report.catalogue import say
from lethe.report.first_screen import Worst
from lethe.report.numbers import amount, facts, grouped, share, share_words
from lethe.report.of_rows import Rows
from lethe.report.sections import Facts, Part, Row, Section, Table

Json = Mapping[str, Any]

_RARE = 0.05  # p-value, corrected, below which a number of people is said


class Synthetic(Rows):
    """Synthetic rows against the rows they were made from."""

    kind = "kind.synthetic"
    risk_head = "risk.excess"
    headline = "synthetic.headline"
    glossary = ("singling", "control")

    def criterion(self, attack: str) -> str:
        if attack.startswith("linkability"):
            return "linking"
        return "inference" if attack.startswith("inference") else "singling"

    def worst(self, candidate: PlainCandidate | None) -> Worst:
        attack = (candidate and candidate.risk_from.attack) or ""
        by = say("synthetic.by", attack=attack) if attack else ""
        found = self._worst(candidate, by, say("synthetic.excess"))
        people = [one for one in self.section.get("people", ()) if one["p"] < _RARE]
        if not people or not found.level or candidate is None:
            return found
        # People whose very row is out come first; else those whom the strongest attack counts.
        named = next((one for one in people if one["attack"] == attack), None)
        copied = next((one for one in people if not one["share"]), None)
        shown = copied if copied and (named is None or _more_than_half(copied, named)) else named
        said = shown or min(people, key=lambda one: float(one["p"]))
        risk = candidate.plain["risk"]["value"]
        most = 2 * (said["people"] - said["expected"]) >= risk * said["of"]
        words = say(
            "synthetic.people" if said["share"] else "synthetic.people.copied",
            people=grouped(said["people"]),
            of=grouped(said["of"]),
            share=share_words(said["share"]),
            expected=f"{said['expected']:.3g}",
            p=_chance(said["p"]),
        )
        if shown is not None or most:
            return replace(found, headline=words)
        return replace(found, detail=f"{words} {found.detail}")

    def released(self) -> tuple[str, list[str]]:
        rows = self.section["rows"]
        large = say("synthetic.released", n=grouped(rows["synthetic"]))
        counts = {key: grouped(rows[key]) for key in ("original", "control") if key in rows}
        return large, [say("synthetic.made", **counts)] if len(counts) == 2 else []

    def attacks(self) -> Sequence[Part]:
        keys = ("main", "control", "baseline", "excess")
        heads = [say(f"synthetic.head.{key}") for key in ("attack", *keys, "works")]
        table = Table(
            say("synthetic.table"),
            heads,
            self._rates(self.section["attacks"], keys),
            say("synthetic.note"),
        )
        return [*self._drawn("rates"), table]

    @staticmethod
    def _rates(attacks: Sequence[Json], keys: Sequence[str]) -> list[Row]:
        return [
            (
                one["name"]
                if one.get("powered", True)
                else say("synthetic.underpowered", name=one["name"]),
                [*(share(one[key]) for key in keys), say("yes" if one["works"] else "no")],
            )
            for one in attacks
        ]

    def exposed(self) -> Section:
        section = self.section
        lines = [*facts(section["rows"])]
        for one in section.get("people", ()):
            key = "synthetic.near" if one["share"] else "synthetic.copied"
            counts = {key: grouped(one[key]) for key in ("people", "of")}
            expected, p = f"{one['expected']:.3g}", _chance(one["p"])
            lines.append(
                (
                    say(key, share=share_words(one["share"])),
                    say("synthetic.counted", **counts, expected=expected, p=p),
                )
            )
        if (near := section.get("distances")) is not None:
            for key in ("original", "control", "change"):
                lines.append((say(f"synthetic.near.{key}"), str(amount(near[key]))))
        parts: list[Part] = [Facts(lines), *self._people()]
        return Section(
            "exposed", say("exposed.title"), say("synthetic.exposed"), parts, say("nav.who")
        )


def _chance(p: float) -> str:
    """A p-value with one digit."""
    return f"= {p:.1g}" if p > 1e-99 else "< 1e-99"


def _more_than_half(copied: Json, near: Json) -> bool:
    """Whether most of the people who have a near synthetic row have an identical one."""
    return bool(2 * (copied["people"] - copied["expected"]) > near["people"] - near["expected"])
