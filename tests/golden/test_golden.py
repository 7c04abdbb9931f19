"""Every kind of audit gives the document that stands beside this file, number by number.

`python tests/golden/golden_runs.py tests/golden KIND` writes it anew where a change is meant; the
difference is then read line by line, and the changelog says "results change".
"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from golden_runs import EVERYWHERE, differences, document_of

from lethe.evidence.findings import Findings, schema

pytestmark = pytest.mark.usefixtures("no_page")

HERE = Path(__file__).parent
ROUNDING = 1e-5  # processors add up in another order; documents keep 8 digits
ONE_SCORE = 5e-4  # of two scores that a rounding apart change places, a point of a curve may move


@pytest.fixture(scope="module", params=EVERYWHERE)
def audit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The kind, and its document of now."""
    return request.param, document_of(request.param, tmp_path_factory.mktemp(request.param))


def test_the_document_is_the_one_that_was_read(audit: tuple[str, Any]) -> None:
    kind, found = audit
    stored = json.loads((HERE / f"{kind}.json").read_text())
    changed = differences(stored, found, ROUNDING)
    moved = set(differences(stored, found, ONE_SCORE))
    assert [one for one in changed if ".roc." not in one or one in moved][:20] == []


def test_the_document_fits_its_schema_and_is_read_back(audit: tuple[str, Any]) -> None:
    _, found = audit
    jsonschema.Draft202012Validator(schema()).validate(found)
    assert Findings.from_json(found).to_json() == found


def test_what_is_lost_is_the_baseline_less_the_candidate(audit: tuple[str, Any]) -> None:
    """A swapped sign in what joins the numbers would recommend the worst release."""
    _, found = audit
    base = found["baseline"] and found["baseline"]["candidate"]
    by_name = {candidate["name"]: candidate for candidate in found["candidates"]}
    for name, candidate in by_name.items():
        for key, sign, change in (("utility", 1, "utility_loss"), ("risk", -1, "risk_change")):
            before, now = by_name[base][key].get("value"), candidate[key].get("value")
            moved = candidate[change]
            if name == base or moved is None or None in (before, now, moved["value"]):
                continue
            if key == "risk" and by_name[base]["risk"] != candidate["risk"]:
                continue  # the strongest attack of each may be another
            assert moved["value"] == pytest.approx(sign * (before - now), abs=2e-6), (name, key)


def test_the_comparison_sees_a_change() -> None:
    old = {"a": [1, 0.5, None], "b": {"c": "x"}}
    assert differences(old, {"a": [1, 0.5, None], "b": {"c": "x"}}) == []
    assert len(differences(old, {"a": [1, 0.6, 0.0], "b": {"d": "x"}}, 1e-3)) == 4
