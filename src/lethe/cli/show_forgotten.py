"""The answers of `lethe forgotten`: files, and a table that names nobody."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.evidence.estimate import Refusal

if TYPE_CHECKING:
    from lethe.membership.forgotten import Forgotten, Verdict
    from lethe.membership.requests import Requests
    from lethe.training.shadows import Shadows

FORMAT = "lethe-forgotten/1"


def pseudonym(at: int) -> str:
    """Name of a request in everything that names nobody, by its place in the file.

    >>> pseudonym(0)
    'request-001'
    """
    return f"request-{at + 1:03d}"


def write_answers(
    folder: Path, requests: Requests, found: Forgotten, candidate: str, shadows: Shadows
) -> None:
    """Write forgotten.json, a sheet for each person, and whose sheet is which.

    Args:
        folder: created if absent.
        requests: who asked.
        found: the answers, in the same order.
        candidate: whose training was judged.
        shadows: that they rest on.

    Raises:
        InputError: the folder holds answers to other requests.
        RunFailed: it cannot be written.
    """
    from lethe.errors import InputError
    from lethe.files import write_for_owner, write_whole
    from lethe.membership.sheets import sheet

    if (folder / "requests.csv").is_file():
        with (folder / "requests.csv").open(encoding="utf-8", newline="") as file:
            before = [row[1] for row in csv.reader(file)][1:]
        if before != [request.name for request in requests.listed]:
            raise InputError(
                f"{folder} holds answers to other requests; choose another --out, or remove them."
            )
    document = {
        "format": FORMAT,
        "candidate": candidate,
        "models": shadows.models,
        "attacks": list(found.attacks),
        "margin": found.margin,
        "confidence": found.confidence,
        "power": found.power,
        "requests": len(requests.listed),
        "merged": requests.merged,
        "persons": [
            {"sheet": pseudonym(at), **one.to_json()} for at, one in enumerate(found.persons)
        ],
        "group": found.group.to_json(),
    }
    write_whole(
        folder / "forgotten.json",
        json.dumps(document, indent=1, allow_nan=False).encode() + b"\n",
    )
    listing = io.StringIO()
    writer = csv.writer(listing, lineterminator="\n")
    writer.writerow(["sheet", "name", "verdict"])
    for at, (asked, one) in enumerate(zip(requests.listed, found.persons, strict=True)):
        writer.writerow([pseudonym(at), asked.name, one.verdict])
        page = sheet(asked.name, one, found, candidate, shadows.task)
        write_for_owner(folder / "sheets" / f"{pseudonym(at)}.html", page.encode())
    write_for_owner(folder / "requests.csv", listing.getvalue().encode())


def print_answers(folder: Path, requests: Requests, found: Forgotten, candidate: str) -> None:
    """The answers on a terminal or in a log, by pseudonym.

    Args:
        folder: where the files lie.
        requests: who asked.
        found: the answers.
        candidate: whose training was judged.
    """
    from lethe.membership.sheets import meaning

    if requests.merged:
        print(f"lines that name a person who stood there already, merged: {requests.merged}")
    print(
        f"{len(requests.listed)} requests, {candidate}, attacks: {', '.join(found.attacks)}, "
        f"margin {found.margin:g}, {found.confidence:.0%} for all answers together"
    )
    for at, one in enumerate(found.persons):
        print(f"{pseudonym(at)}  {one.verdict:<20} AUC {_limits(one)}")
    if isinstance(found.group, Refusal):
        print(f"group        not given: {found.group.reason}")
    else:
        print(f"group        {found.group.verdict:<20} mean AUC {_limits(found.group)}")
    decided = [one for one in found.persons if one.verdict != "inconclusive"]
    for text in dict.fromkeys(meaning(one, found.margin) for one in decided):
        print(text)
    # One line for all that are open: the person who takes the most models.
    still_open = [one for one in found.persons if one.verdict == "inconclusive"]
    if still_open:
        hardest = max(still_open, key=lambda one: one.models_needed or 0)
        print(f"{len(still_open)} inconclusive. {meaning(hardest, found.margin)}")
    print(f"sheets: {folder / 'sheets'}; who is who: {folder / 'requests.csv'} (personal data)")


def _limits(one: Verdict) -> str:
    return str(one.auc)
