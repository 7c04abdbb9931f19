"""`findings.json`: the one document of an audit; everything else only renders it.

It holds no time, host or path, so that identical runs give identical bytes. JSON has no NaN
or inf: a value that cannot be given is null beside its limit, or `{"refused": why}`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError, check_known_keys
from lethe.evidence.plain import plain, schema_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

SCHEMA = "lethe-findings/3"
OPTIONAL = ("representations", "table", "queries", "language")

Entry = Mapping[str, Any]
"""A part of the document as JSON; `lethe.evidence.document` has the type of each."""
_ENDINGS = {"value": "", "low": "_low", "high": "_high", "n": "_n"}


@dataclass(frozen=True, repr=False)
class Findings:
    """The typed document of one audit; the same top-level keys for all releases.

    At a prompt and in a notebook it shows its first screen; `to_frame`, `plot`, `report` and
    `save` go on from there.

    Attributes:
        subject: what is released: `release` (as the schema lists them), `name`, `summary`, ...
        threat_model: goal, knowledge, access, budget and unit of the attacker.
        data: records, people, classes, split, fingerprint.
        attacks: attacks that were run, each with paper, settings, threat.
        attacks_not_run: each with the reason.
        baseline: `{"candidate": name}`, the release as it is now; null if there is none.
        candidates: `Candidate.to_json()` of each way to make the release.
        frontier: Pareto set, knee, operating point, and the rule that chose it.
        records: most exposed records; ids only when the run was told to keep them.
        checks: self-checks of the audit, each with status pass, warn or fail.
        rules: each rule fixed before the run, see `lethe.evidence.document.RuleRow`.
        verdict: joint outcome and plain words.
        guarantees: one entry a candidate: its name and its `Guarantee`.
        limits: what this audit cannot say.
        context: what only people know; "not provided" where they did not say.
        reproduction: seeds, settings, versions, hashes.
        representations: of released vectors, by model: attacks, sweep, utility, radii, proofs;
            left out where something else was audited.
        table: of released rows: anonymity, linkage or synthetic risks; left out elsewhere.
        queries: of released answers: budgets and what was spent (`ledger`), tests of a mechanism
            (`mechanism`); left out elsewhere.
        language: of a fine-tuned language model: the blind check, canaries, extraction; left out
            elsewhere.

    >>> from lethe import audit_table
    >>> found = audit_table({"age": [30, 30, 41, 52]}, "age", save=False, quiet=True)
    >>> found.subject["release"], found.candidates[0]["unique"]["value"]
    ('table', 0.5)
    """

    subject: Entry
    threat_model: Entry
    data: Entry
    attacks: Sequence[Entry]
    attacks_not_run: Sequence[Entry]
    baseline: Entry | None
    candidates: Sequence[Entry]
    frontier: Entry
    records: Entry
    checks: Sequence[Entry]
    rules: Sequence[Entry]
    verdict: Entry
    guarantees: Sequence[Entry]
    limits: Sequence[str]
    context: Entry
    reproduction: Entry
    schema: str = field(default=SCHEMA)
    representations: Entry | None = None
    table: Entry | None = None
    queries: Entry | None = None
    language: Entry | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, schema first, numbers rounded to 8 significant digits."""
        names = ["schema"] + [f.name for f in fields(self) if f.name != "schema"]
        names = [name for name in names if name not in OPTIONAL or getattr(self, name) is not None]
        return {name: plain(getattr(self, name), name, 8) for name in names}

    def to_bytes(self) -> bytes:
        """The bytes of `findings.json`."""
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        return (text + "\n").encode()

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Findings:
        """Read a document back.

        Raises:
            InputError: another version of the schema, a missing key, or an unknown one.
        """
        if (version := document.get("schema")) != SCHEMA:
            raise InputError(
                f"findings have schema {version!r}, this version of lethe reads {SCHEMA!r}. "
                "Read them with the version that wrote them."
            )
        names = [f.name for f in fields(Findings)]
        check_known_keys("findings", document, names)
        missing = [name for name in names if name not in document and name not in OPTIONAL]
        if missing:
            raise InputError(f"findings lack {', '.join(missing)}.")
        return Findings(**document)

    def __repr__(self) -> str:
        """The first screen in lines of 100 columns."""
        from lethe.report.notebook import summary

        try:
            return summary(self)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            # A prompt and a traceback show documents that are not complete yet, too.
            return f"<Findings: {self.subject!r:.60}, not complete>"

    def _repr_html_(self) -> str:
        from lethe.report.notebook import card

        return card(self)

    def metrics(self) -> dict[str, float]:
        """Flat numbers for MLflow, Weights & Biases and the like; of groups and records none.

        Returns:
            ``CANDIDATE/METRIC`` with ``_low``, ``_high`` and ``_n`` beside it for all that a rule
            may judge, where ``tpr@0.01`` is ``tpr_at_0.01``; and how many rules ended in each
            outcome, ``rules/pass``. What was not measured is left out.

        >>> from lethe import audit_table
        >>> found = audit_table({"age": [30, 30, 41, 52]}, "age", save=False, quiet=True)
        >>> found.metrics()["baseline/unique"]
        0.5
        """
        flat: dict[str, float] = {}
        document = self.to_json()
        for candidate in document["candidates"]:
            for quantity, measured in candidate["measures"].items():
                if "[" in quantity or measured is None:
                    continue
                name = f"{candidate['name']}/{quantity.replace('@', '_at_')}"
                name = re.sub(r"[^A-Za-z0-9_./ :-]", "_", name)
                for key, end in _ENDINGS.items():
                    if measured.get(key) is not None:
                        flat[name + end] = float(measured[key])
        for outcome, count in Counter(str(rule["outcome"]) for rule in document["rules"]).items():
            flat[f"rules/{outcome.replace(' ', '_')}"] = float(count)
        return flat

    def to_frame(self) -> pandas.DataFrame:
        """Every measured number, one a row.

        Returns:
            columns candidate, attack, metric, fpr, value, low, high, n, as in
            `lethe.report.frame.Row`; a number that was refused is a row without a value.

        Raises:
            MissingExtra: pandas is not installed.
        """
        from lethe.report.notebook import to_frame

        return to_frame(self.to_json())

    def plot(self, name: str = "") -> Figure:
        """A chart of the report as a matplotlib figure.

        Args:
            name: such as ``frontier``, ``roc``, ``exposure``, ``groups``, ``classes`` of a model,
                ``sweep`` of vectors, ``facts`` of records; which there are depends on the release.

        Raises:
            InputError: no chart of that name; the message lists those there are.
        """
        from lethe.report.notebook import figure

        return figure(self, name)

    def report(self, path: str | Path) -> Path:
        """Write the report: the whole page, its short form, or the page as printed.

        Args:
            path: ends in ``.html``, ``.md`` or ``.pdf`` (which Chromium prints).

        Returns:
            the same path.

        Raises:
            InputError: another ending, or no browser for a PDF.
            RunFailed: the file cannot be written.
        """
        from lethe.report.notebook import write_report

        return write_report(self, Path(path))

    def save(self, folder: str | Path) -> Path:
        """Write findings.json, report.html and figures/ into a folder, as a command does.

        Args:
            folder: is made if it is not there; not the folder of a run.

        Returns:
            the same folder.

        Raises:
            InputError: it is the folder of a run, which holds the findings of that run.
            RunFailed: a file cannot be written.
        """
        from lethe.report.notebook import save

        return save(self, Path(folder))

    @staticmethod
    def load(path: str | Path) -> Findings:
        """Read findings.json.

        Args:
            path: the file, or the folder of a run.

        Raises:
            InputError: no such file, or it holds no findings of this version.
        """
        path = Path(path)
        if path.is_dir():
            path = path / "findings.json"
            if not path.is_file():
                raise InputError(
                    f"{path.parent} has no findings.json: it is no finished run. "
                    "Run its audit to the end first."
                )
        try:
            document = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
        except FileNotFoundError as error:
            text = f"{path} does not exist. Name a finished run, or its findings.json."
            raise InputError(text) from error
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as findings: {error}.") from error
        if not isinstance(document, dict):
            raise InputError(f"{path} does not hold a findings document.")
        return Findings.from_json(document)


def schema() -> Entry:
    """The JSON Schema (draft 2020-12) of `findings.json`, from the types of `lethe.evidence`."""
    from lethe.evidence.document import CandidateRow, Document
    from lethe.evidence.of_language import LanguageDetails, LanguageSection
    from lethe.evidence.of_model import ModelDetails

    known: dict[str, Any] = {}
    schema_of(Document, known)
    candidate = known[CandidateRow.__name__]["properties"]
    for kind in (ModelDetails, LanguageDetails):
        schema_of(kind, known)
        candidate |= known.pop(kind.__name__)["properties"]
    document = known.pop(Document.__name__)
    properties = {
        "schema": {"const": SCHEMA},
        **document["properties"],
        "data": {"type": "object", "required": ["records", "fingerprint"]},
        "reproduction": {"type": "object", "required": ["seed", "versions"]},
        "representations": {"type": "object", "required": ["models", "rule"]},
        "table": {"type": "object", "required": ["kind", "words"]},
        "queries": {"type": "object", "required": ["words"]},
        "language": schema_of(LanguageSection, known),
    }
    written = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA,
        "title": "Findings of a Lethe privacy audit",
        "type": "object",
        "additionalProperties": False,
        "required": ["schema", *document["required"]],
        "properties": properties,
        "$defs": known,
    }
    return dict(json.loads(json.dumps(written)))  # tuples are arrays


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
