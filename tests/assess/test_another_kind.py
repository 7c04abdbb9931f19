"""One class makes an audit of another kind: composed, judged, rendered, checked again."""

from __future__ import annotations

from pathlib import Path

import another_kind
import jsonschema
import pytest
from another_kind import CacheSubject

from lethe.assess.judged import judge_anew, read_rules, unsupported
from lethe.assess.run import run
from lethe.errors import InputError
from lethe.evidence.findings import Findings, schema
from lethe.evidence.rules import parse_rule
from lethe.report import render
from lethe.report.markdown import markdown

HITS = {"baseline": 900, "random delay": 510}
RULES = [parse_rule("auc <= 0.6")]


def test_it_is_the_size_of_a_commit() -> None:
    assert len(Path(another_kind.__file__).read_text().splitlines()) <= 45


@pytest.mark.parametrize(("release", "outcome"), [("baseline", "fail"), ("random delay", "pass")])
def test_it_is_judged_rendered_and_judged_again(release: str, outcome: str) -> None:
    found = run(CacheSubject(HITS), RULES, release)
    jsonschema.Draft202012Validator(schema()).validate(found.to_json())
    assert found.verdict["outcome"] == outcome
    assert found.frontier["pareto"] == ["random delay"]
    page = render(found)
    assert f"{HITS['baseline']} times" in page and "random delay" in page
    assert "random delay" in markdown([(found, None)])
    again = Findings.from_json(found.to_json())
    (ruling,) = judge_anew(again, "run", read_rules({"area": "auc <= 0.6"}))
    assert (ruling.candidate, ruling.outcome) == (release, outcome)
    assert unsupported(again) is None


def test_a_candidate_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="Did you mean 'random delay'"):
        run(CacheSubject(HITS), RULES, "random dely")
