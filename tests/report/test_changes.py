"""What would change a verdict, worked by hand on small findings."""

import copy
import re

import pytest
from sample import document, estimate, findings

from lethe.evidence.findings import Findings
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.plain import plain as plain_value
from lethe.evidence.rules import METRICS, parse_rule, sample_for_rule
from lethe.report import render
from lethe.report.changes import changes, met_by
from lethe.report.markdown import markdown


def ruled(rule, candidate="weighted-noise", evidence=None, plain=None):
    """The sentences on one rule."""
    made = copy.deepcopy(document() if plain is None else plain)
    row = {"rule": rule, "candidate": candidate, "outcome": "", "evidence": evidence}
    made["rules"] = [row]
    ((text, sentences),) = changes(Findings.from_json(made))
    assert text == rule
    return " ".join(sentences)


def one(value, low, high):
    return {**estimate(0.0, 0.0), "value": value, "low": low, "high": high}


def test_a_pass_says_how_much_room_is_left():
    said = ruled("tpr@0.01 <= 0.05", evidence=one(0.015, 0.01, 0.02))
    assert "the upper limit is 2.00 %, 3.00 points below the limit of 5.00 %" in said
    assert "a value 2.5 times as high" in said
    assert "limit below 2.00 % would not pass" in said


def test_a_fail_names_who_would_pass_with_the_price():
    """Upper limits at 1 %: weighted-noise about 0.0171, weighted 0.019, removal 0.021."""
    plain = document()
    highs = {
        c["name"]: c["attacks"]["lira-online"]["tpr"]["0.01"]["high"] for c in plain["candidates"]
    }
    for candidate in plain["candidates"]:  # one attack: its rate is the strongest
        candidate["attacks"] = {"lira-online": candidate["attacks"]["lira-online"]}
    limit = (highs["weighted"] + highs["removal"]) / 2
    assert highs["weighted-noise"] < highs["weighted"] < limit < highs["removal"]
    said = ruled(f"tpr@0.01 <= {limit}", "baseline", one(0.038, 0.033, 0.043), plain)
    assert "the lower limit is 3.30 %" in said
    assert "“weighted”, loses 0.33 points of accuracy (−0.03 to 0.69);" in said
    assert "“weighted-noise”, loses 0.41 points of accuracy (0.05 to 0.77)." in said
    assert said.index("“weighted”") < said.index("“weighted-noise”"), "the cheaper one first"
    assert "removal" not in said and "early-stopping" not in said


def test_an_option_that_numbers_alone_would_pass_says_what_is_missing():
    plain = document()
    plain["rules"] = [{"rule": "tpr@0.01 <= 0.1", "candidate": "baseline", "outcome": "fail"}]
    listed = [row["name"] for row in plain["candidates"][1:]]
    (said,) = met_by(Findings.from_json(plain), "baseline")
    assert said == f"Other options whose whole interval meets every rule: {', '.join(listed)}."
    plain["candidates"][1]["plants"] = []  # the attacks on it could have seen nothing
    first, second = met_by(Findings.from_json(plain), "baseline")
    assert listed[0] not in first and listed[1] in first
    assert second.startswith(f"The numbers of {listed[0]} meet every rule, but are not enough")
    assert "no leak was planted" in second
    plain["rules"][0]["rule"] = "tpr@0.01 <= 1e-9"
    assert met_by(Findings.from_json(plain), "baseline") == [
        "Apart from the release as it is, no option was shown to meet every rule."
    ]


def test_those_on_the_frontier_stand_first_and_few_are_named():
    plain = document()
    for candidate in plain["candidates"]:
        candidate["measures"]["top-t"] = one(0.5, 0.4, 0.6)
    plain["frontier"]["pareto"] = ["early-stopping"]
    said = ruled("top-t <= 1", "baseline", one(5.0, 4.0, 6.0), plain)
    assert "with “early-stopping”" in said, "on the frontier, though the dearest"
    assert "and 3 more" in said


def test_a_gain_is_called_a_gain():
    plain = document(["baseline", "weighted"])
    plain["candidates"][1]["utility_loss"] = one(-0.002, -0.01, 0.006)
    plain["candidates"][1]["measures"]["top-t"] = one(0.5, 0.4, 0.6)
    said = ruled("top-t <= 1", "baseline", one(5.0, 4.0, 6.0), plain)
    assert "no loss measured: −0.2 points of accuracy (−1 to 0.6)" in said


def test_a_fail_where_nobody_would_pass_names_the_nearest():
    said = ruled("top-t <= 0.1", "baseline", one(5.0, 4.0, 6.0))
    assert "No candidate of this audit would pass" in said
    assert "nearest is “weighted-noise” with an upper limit of 2.03" in said


def test_a_fail_of_a_release_without_candidates():
    plain = document([])
    assert "No other candidate was measured" in ruled(
        "auc <= 0.5", "x", one(0.7, 0.6, 0.8), {**plain, "baseline": None}
    )


@pytest.mark.parametrize(
    ("evidence", "limit", "narrower", "times"),
    [
        (one(0.04, 0.02, 0.06), 0.05, "2 times narrower for it to pass", "about 4 times"),
        (one(0.06, 0.04, 0.09), 0.05, "2 times narrower for it to fail", "about 4 times"),
        (one(0.04, 0.02, 0.07), 0.05, "3 times narrower for it to pass", "about 9 times"),
        (one(None, None, 0.1), 0.05, "2 times narrower for it to pass", "about 2 times"),
        (one(0.0, 0.0, 0.1), 0.05, "2 times narrower for it to pass", "about 2 times"),
        (one(1.0, 0.1, 1.0), 0.7, "3 times narrower for it to fail", "about 3 times"),
    ],
)
def test_how_much_more_is_needed(evidence, limit, narrower, times):
    """Width ~ 1/sqrt(n), a limit on nothing found ~ 1/n: the numbers of each line by hand."""
    said = ruled(f"tpr@0.01 <= {limit}", evidence=evidence)
    assert narrower in said and times in said and "rule of thumb" in said


@pytest.mark.parametrize(("found", "limit"), [(0, 0.0125), (4, 0.04), (190, 0.93), (200, 0.99)])
def test_both_estimates_of_the_size_agree(found, limit):
    """The sentence and the size on the first screen are about one audit."""
    interval = clopper_pearson(found, 200)
    rule = parse_rule(f"tpr@0.01 <= {limit}", METRICS)
    said = ruled(str(rule), evidence=plain_value(interval))
    size = sample_for_rule(rule, interval)
    times = float(re.search(r"about ([\d.]+) times", said)[1])
    assert size is not None and times == pytest.approx(size / 200, rel=0.05)


@pytest.mark.parametrize(
    ("rule", "evidence", "words"),
    [
        ("auc <= 0.6", one(0.5, 0.4, 0.6), "The least rise would break it"),
        ("auc <= 0.6", one(0.55, 0.5, None), "cannot pass"),
        ("auc <= 0.6", one(0.65, None, 0.7), "no lower limit is stored"),
        ("tpr@0.01 <= 0.05", one(0.05, 0.04, 0.06), "so near that no usual number"),
        ("width(auc) <= 0.1", one(0.6, 0.5, 0.7), "about 4 times"),
        ("width(auc) <= 0.1", one(0.6, 0.58, 0.62), "it passes"),
        ("width(auc) <= 0.1", one(0.6, 0.58, None), "only one end"),
        ("auc <= 0.6", {"refused": "too few"}, "could not be measured: too few"),
        ("tpr@0.0001 <= 0.5", None, "Audit again with --rule 'tpr@0.0001 <= 0.5'."),
        ("<b> < 3", one(0.5, 0.4, 0.6), "not of a form"),
    ],
)
def test_other_rules_are_put_in_words(rule, evidence, words):
    said = ruled(rule, evidence=evidence)
    assert words in said and ("rule of thumb" in said) is (words == "about 4 times")


def test_nothing_is_lost_against_itself():
    assert "nothing against itself" in ruled("utility-loss <= 0.01", "baseline")


def test_candidates_that_lack_the_metric_are_passed_over():
    plain = document(["baseline", "weighted"])
    del plain["candidates"][1]["vulnerability"]
    said = ruled("top-t <= 1", "baseline", one(5.0, 4.0, 6.0), plain)
    assert "No candidate of this audit would pass this rule." in said


def test_it_is_on_the_page_and_in_the_short_form():
    for made in (render(findings()), markdown([(findings(), None)])):
        assert "It passes: the upper limit is 1.71 %" in made
        assert "fpr=0.0001 needs at least 10000 distinct records" in made
