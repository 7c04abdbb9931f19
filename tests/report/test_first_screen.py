"""The first screen of every kind of release: what, how bad, what was tried, what remains."""

import functools
import json
import re
from typing import Any

import pytest
from documents import GALLERY, KINDS, MANIFEST, document, findings

from lethe.evidence.estimate import Estimate
from lethe.evidence.findings import Findings
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.rules import UNDECIDED
from lethe.report.common import room_of
from lethe.report.first_screen import first_screen
from lethe.report.frontier_chart import frontier_chart, points
from lethe.report.markdown import markdown
from lethe.report.notebook import show
from lethe.report.of_model import Model
from lethe.report.page import Release, read, together
from lethe.report.proofs import label
from lethe.report.severity import LEVELS
from lethe.report.terminal import print_findings

pytestmark = pytest.mark.usefixtures("no_drawing")


@functools.cache
def released(kind: str) -> Release:
    """The document as a page shows it, read once."""
    return read(findings(kind))


def first(kind: str, changed: dict[str, Any] | None = None) -> Any:
    room = room_of((findings(kind) if changed is None else Findings.from_json(changed)).to_json())
    return first_screen(room, MANIFEST, frontier_chart(room))


@pytest.mark.parametrize(
    ("kind", "level", "headline"),
    [
        (
            "model",
            "moderate",
            "recognises 22 % of the training records; a random guess finds 10 %.",
        ),
        ("scores", "high", "An attacker recognises"),
        ("vectors", "high", "An attacker identifies 72 % of people; a random guess identifies"),
        ("table", "high", "knows age and town links 82 % of the rows to the right person;"),
        ("records", "high", "identifies 100 % of people; a random guess finds 3.3 %."),
        ("synthetic", "high", "35 of the 60 original rows are among the synthetic rows, identical"),
        ("mechanism", "", "The claim of epsilon 1 is wrong: epsilon is at least 1.66."),
        ("ledger", "", "2 answers cost epsilon 0.75 of a budget of epsilon 3"),
    ],
)
def test_the_worst_number_speaks_first(kind: str, level: str, headline: str) -> None:
    found = first(kind)
    assert found.level == level
    assert headline in found.headline
    third = "Paid from" if kind == "ledger" else "Tried"
    assert [card.title for card in found.cards] == ["Released", "Worst risk", third, "Remaining"]
    assert all(card.large for card in found.cards)
    assert found.source == ["2026-11-22", "Lethe 0.1.0", "run 551b593f"]
    assert (found.chart is None) is (kind in ("scores", "synthetic"))  # no option was tried
    assert found.options is not None or kind == "mechanism"


@pytest.mark.parametrize(("low", "shown"), [(1.2367, "1.23"), (0.2349, "0.234"), (0.3, "0.3")])
def test_a_lower_limit_is_never_rounded_up(low: float, shown: str) -> None:
    plain = document("mechanism")
    plain["queries"]["mechanism"]["limit"]["low"] = low
    assert first("mechanism", plain).cards[1].large.endswith(f"at least {shown}")


def at_chance(kind: str) -> dict[str, Any]:
    """Findings in which no candidate has anything above chance."""
    plain = document(kind)
    for candidate in plain["candidates"]:
        candidate.pop("shown", None)
    usual = room_of(plain).chance
    for candidate in plain["candidates"]:
        for share in (candidate["risk"], candidate.get("top_1", {})):
            share.update(value=usual, low=0.0, high=usual + 0.01)
        for name, rate in candidate["measures"].items():
            chance = float(name.partition("@")[2] or usual)
            if rate and "value" in rate:
                rate.update(value=chance, low=0.0, high=chance + 0.01)
        (candidate.get("vulnerability") or {}).pop("top_auc", None)
        auc = candidate["measures"].get("auc") or {}
        auc |= {"value": 0.5, "low": 0.45, "high": 0.55} if auc else {}
    return plain


@pytest.mark.parametrize("kind", ["model", "scores", "table"])
@pytest.mark.parametrize("place", ["most exposed", "group"])
def test_badge_and_headline_are_those_of_the_worst_place(kind: str, place: str) -> None:
    """A low average beside a group or records at high risk, as the release and as an option."""
    plain = document(kind)
    plain["rules"] = []
    for candidate in plain["candidates"]:
        candidate["shown"] = []
        candidate["risk"] |= {"value": 0.03, "low": 0.02, "high": 0.04}
        candidate["measures"]["tpr@0.01"] = candidate["risk"]
        if candidate.get("vulnerability"):
            top = {"value": 0.97, "low": 0.95, "high": 0.99} if place != "group" else {}
            candidate["vulnerability"]["top_auc"] = estimate(**top)
        for entry in candidate.get("slices") or ():
            entry["slices"][0]["tpr_within"] = estimate(**WORSE if place == "group" else {})
        for group in candidate.get("groups") or ():
            group["marketer"] = estimate(**WORSE if place == "group" else {})
    room = room_of(plain)
    screen, places = first_screen(room, {}, None), room.places(room.judged)
    levels = [LEVELS.index(part.level) for part in places if part.level]
    assert LEVELS.index(screen.level) == max([LEVELS.index("low"), *levels])
    worst = next((part for part in places if part.level == "high"), None)
    if worst is not None:
        assert screen.cards[1].level == "high" and len(screen.headline) > len(worst.long)
        assert screen.headline.startswith(worst.long) and worst.long not in screen.detail
        assert worst.short.lower() == screen.cards[1].large.lower()


WORSE = {"value": 0.6, "low": 0.5, "high": 0.7}


def estimate(value: float = 0.01, low: float = 0.0, high: float = 0.02) -> dict[str, Any]:
    high = max(value, high)
    return {"value": value, "low": low, "high": high, "confidence": 0.95, "method": "", "n": 99}


@pytest.mark.parametrize("options", [False, True])
def test_the_rate_of_a_limit_is_always_said(options: bool) -> None:
    """In the headline where no option was chosen at another rate, else beside it."""
    plain = document("scores")
    (alone,) = plain["candidates"]
    alone["risk"], alone["shown"] = alone["measures"]["tpr@0.1"], []
    plain["rules"] = [plain["rules"][1] | {"rule": "tpr@0.01 <= 0.05"}]
    plain["rules"].append(plain["rules"][0] | {"rule": "tpr@0.001 <= 0.05"})
    if options:
        alone["utility"] = estimate(0.9)
        plain["candidates"].append(alone | {"name": "other", "utility_loss": estimate(0.0)})
        plain["frontier"]["cheapest_large_reduction"] = "other"
    screen = first_screen(room_of(plain), {}, None)
    said = " ".join([screen.headline, *screen.detail])
    assert ("recognises 34 % of the training records" in said) == options
    rate = "At the 1 % rate of a limit: 11 %" if options else "recognises 11 % of the training"
    assert rate in said
    assert "At the 0.1 % rate of a limit nothing was measured: fpr=0.001 needs" in said


def test_an_open_limit_on_rows_says_how_many_would_settle_it() -> None:
    """Half the interval must fit between value and limit: (0.08 / 0.01) squared is 64."""
    plain = document("synthetic")
    (rule, *_) = plain["rules"]
    wide = estimate(0.06, -0.02, 0.31) | {"n": 60}
    plain["rules"] = [
        rule | {"rule": "singling-out <= 0.05", "outcome": UNDECIDED, "evidence": wide}
    ]
    said = "About 3,800 people or rows in place of 60 would decide it if the value stayed."
    assert said in first("synthetic", plain).verdict
    plain["rules"][0]["outcome"] = "pass"
    assert "in place of" not in first("synthetic", plain).verdict


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("kind", ["model", "scores", "vectors", "records", "synthetic", "language"])
def test_a_number_at_chance_speaks_only_where_a_leak_was_seen(kind: str, blind: bool) -> None:
    """Without, the headline and both cards say that the number says nothing."""
    plain = at_chance(kind)
    room = room_of(plain)
    high = {"value": 0.5, "low": 0.45, "high": 0.55, "confidence": 0.95, "method": "", "n": 9}
    seen = {"kind": "one", "leak": {room.planted: 0.6}, "measured": {room.planted: high}}
    if room.planted == "auc":
        high["low"] = 0.51
    for one in plain["candidates"]:
        one["plants"] = [] if blind else [seen]
    screen = first_screen(room_of(plain), {}, None)
    shown = [screen.cards[1].large, screen.cards[3].large]
    assert ("says nothing" in screen.headline) == blind
    assert all(("not measurable" in words) == blind for words in shown), shown
    assert screen.level == ("" if blind else "not-above-chance")


@pytest.mark.parametrize("kind", ["model", "scores", "vectors", "table", "records"])
def test_a_measured_leak_without_a_limit_is_not_called_untested(kind: str) -> None:
    plain = document(kind)
    plain["rules"], plain["verdict"]["outcome"] = [], "not-tested"
    found = first(kind, plain)
    assert found.outcome.code == "no-limit"
    assert found.rules == "No rule was set."


@pytest.mark.parametrize("kind", KINDS)
def test_the_baseline_is_never_recommended(kind: str) -> None:
    plain = document(kind)
    if plain["candidates"]:
        plain["frontier"]["operating_point"] = plain["baseline"]["candidate"]
    found = first(kind, plain)
    marks = [] if found.options is None else found.options.marks
    assert not any(mark.best for mark in marks)


def test_without_an_option_within_the_limit_the_cheapest_large_reduction_is_named() -> None:
    tried = first("table").cards[2]
    assert tried.large == "No option is recommended" and "none is shown" in tried.lines[0]
    said = tried.lines[1]
    assert "coarser-2 (" in said and "82 % to 27 %" in said and "100 % to 73 %" in said


@pytest.mark.parametrize("kind", ["model", "vectors", "table", "records"])
@pytest.mark.parametrize("share", [0.9, 0.4])
def test_an_option_that_halves_the_risk_at_an_unknown_price_is_not_said_to_help_nobody(
    kind: str, share: float
) -> None:
    plain = document(kind)
    plain["frontier"] |= {"operating_point": None, "cheapest_large_reduction": None}
    base = plain["candidates"][0]
    base["shown"], plain["rules"] = [], []  # nothing at another rate
    for option in plain["candidates"][1:]:
        for number, scale in (("value", share), ("low", share), ("high", share)):
            option["risk"][number] = scale * base["risk"][number]
        if base.get("top_1"):
            option["top_1"] = option["risk"] | {"value": share * base["top_1"]["value"]}
    tried = first(kind, plain).cards[2]
    halved = "What the options cost in utility was not measured"
    assert (tried.large == halved) == (share < 0.5), tried.large
    assert ("none halves the risk" in tried.lines[0]) == (share > 0.5), tried.lines


def test_the_recommended_option_stands_with_its_price_and_what_remains() -> None:
    plain = document("records")
    chosen = plain["frontier"]["operating_point"] = plain["candidates"][1]["name"]
    found = first("records", plain)
    assert found.cards[2].large.startswith(f"{chosen}: ")
    assert found.cards[2].lines[0].startswith(("costs ", "costs nothing"))
    remaining = found.cards[3]
    assert remaining.large.startswith(
        "The release as it is: "
    )  # which is what a signature stands for
    assert remaining.large.endswith("nothing proven")
    assert any(line.startswith(f"with {chosen}: ") for line in remaining.lines)
    assert "(if empty: the release as it is)" in found.signed


def test_a_proof_is_named_where_the_option_carries_one() -> None:
    plain = document("records")
    chosen = plain["frontier"]["operating_point"] = plain["candidates"][1]["name"]
    claim = {"kind": "approx-dp", "parameters": {"epsilon": 4.0, "delta": 1e-5}, "proven": True}
    for one in plain["guarantees"]:
        if one["candidate"] == chosen:
            one["guarantee"] |= {**claim, "relation": "add/remove", "unit": "user"}
    found = first("records", plain)
    assert any("epsilon 4, delta 1e-05, add/remove a user" in x for x in found.cards[3].lines)
    labels = {name: cells[0] for name, cells in found.options.rows}
    assert labels[chosen] == "proven: epsilon 4, recommended"


def test_an_attack_that_could_not_be_measured_has_no_severity() -> None:
    plain = document("model")
    plain["candidates"][0]["risk"] = {"refused": "no attack passed its self-check"}
    found = first("model", plain)
    assert found.level == "" and "could not be measured" in found.headline


@pytest.mark.parametrize("people", [3, 12, 50])
@pytest.mark.parametrize("attack", ["another attack", "closest, original rows"])
def test_people_counted_near_synthetic_rows_stand_in_the_headline(attack: str, people: int) -> None:
    """Whichever attack speaks, and however few they are beside what it reads."""
    near = {"attack": attack, "share": 0.005, "people": people, "of": 60, "expected": 0.3}
    plain = document("synthetic")
    plain["table"]["people"] = [{**near, "p": 1e-9}]
    assert f"{people} of the 60 original rows" in first("synthetic", plain).headline


def test_of_several_releases_the_worst_speaks() -> None:
    releases = [released(kind) for kind in ("model", "ledger", "table", "synthetic")]
    head = together(releases)
    assert head.level == "high" and head.headline == releases[2].first.headline
    assert head.outcome.code == "fail"
    severities = [LEVELS.index(one.first.level) for one in releases if one.first.level]
    assert LEVELS.index(head.level) == max(severities)


def test_a_pass_of_some_releases_is_no_pass_of_all() -> None:
    plain = document("table")
    plain["rules"], plain["verdict"]["outcome"] = [], "not-tested"
    passed = document("model")
    passed["verdict"]["outcome"] = "pass"
    releases = [read(Findings.from_json(passed)), read(Findings.from_json(plain))]
    head = together(releases)
    assert releases[0].first.outcome.code == "pass"
    assert head.outcome.code == "no-limit"
    assert "1 of 2 releases have no rule." in head.rules


def test_the_recommended_option_has_one_interval_wherever_it_stands() -> None:
    plain = document("model")
    chosen = plain["candidates"][1]
    plain["frontier"]["operating_point"] = chosen["name"]
    plain["frontier"]["recommended"] = {
        "candidate": chosen["name"],
        "risk": chosen["risk"] | {"value": 0.1234, "low": 0.0456, "high": 0.2345},
    }
    found = first("model", plain)
    assert found.options is not None
    row = dict(found.options.rows)[chosen["name"]]
    assert "4.56 to 23.4 %" in str(row[1]) and any("4.6 to 23 %" in x for x in found.cards[3].lines)
    assert found.options.marks[1].limit == "0.2345"
    (point,) = (one for one in points(Model(plain)) if one.name == chosen["name"])
    assert point.risk == (0.0456, 0.1234, 0.2345)


@pytest.mark.parametrize(
    ("kind", "name", "unit", "shown"),
    [
        ("identification-bound", "success", "record", "proven: at most 30 %"),
        ("pure-dp", "epsilon", "vector", "proven of one vector: epsilon 0.3"),
        ("identification-bound", "success", "vector", "proven ≤ 30 % of one vector"),
    ],
)
def test_an_option_shows_the_proof_of_what_was_measured_and_not_the_smallest(
    kind: str, name: str, unit: str, shown: str
) -> None:
    """A limit for people who are equally likely stood over rates of people who are not."""
    assert label([Guarantee(kind, {name: x}, "replace-one", unit) for x in (0.3, 0.2)]) == shown


@pytest.mark.parametrize("kind", ["model", "vectors", "table", "records"])
def test_an_option_that_was_judged_is_not_taken_for_the_release(kind: str) -> None:
    """`--release k-20` read "Low risk, 3.3 %" with no word of k-20, beside facts of the release."""
    plain = document(kind)
    option = plain["candidates"][-1]
    plain["verdict"]["candidate"] = option["name"]
    found = first(kind, plain)
    for said in (" ".join(found.detail), " ".join(found.cards[1].lines)):
        assert f"This is {option['name']}, not the release as it is (" in said
    if kind == "table":
        assert f"{100 * option['unique']['value']:.2g} % of the rows are unique" in found.verdict
    plain["verdict"]["candidate"] = plain["baseline"]["candidate"]
    assert "not the release as it is" not in first(kind, plain).verdict


@pytest.mark.parametrize("worse", [0, 1])
def test_of_several_models_of_vectors_the_worst_speaks(worse: int) -> None:
    """4.4 % of the first model was the headline over 100 % of the second."""
    plain = document("vectors")
    model, listed = plain["representations"]["models"][0], plain["candidates"]
    plain["representations"]["models"] = [model | {"name": name} for name in "ab"]
    plain["candidates"] = []
    for at, name in enumerate("ab"):
        for one in listed:
            low = dict.fromkeys(("value", "low", "high"), 0.9 if at == worse else 0.01)
            numbers = {key: one[key] | low for key in ("risk", "top_1") if one.get(key)}
            plain["candidates"].append(one | numbers | {"name": f"{name}: {one['name']}"})
    plain["baseline"]["candidate"] = "a: baseline"
    plain["frontier"]["operating_point"] = f"{'ab'[1 - worse]}: baseline"
    found = first("vectors", plain)
    assert "90 % of people" in found.headline and f"{'ab'[worse]}: baseline" in found.verdict
    assert found.cards[3].large.startswith("The release as it is: 90 %")
    assert f"{2 * (len(listed) - 1)} other options" in found.cards[2].lines[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_set_after_the_result_is_no_plain_pass(kind: str) -> None:
    plain = document(kind)
    if not plain["rules"]:
        return
    for rule in plain["rules"]:
        rule |= {"outcome": "pass", "fixed": False}
    plain["verdict"]["outcome"] = "pass"
    n = len(plain["rules"])
    assert (
        f"{n} of {n} rules were set after the result was known: no test."
        in first(kind, plain).verdict
    )


def test_secrets_that_the_classes_give_away_speak_where_linkage_is_low() -> None:
    plain = document("table")
    shown = plain["candidates"][0]
    for owner, name, value in (
        (shown["measures"], "marketer", 0.02),
        (shown, "risk", 1.0),
        (shown, "certain", 1.0),
    ):
        owner[name] = owner[name] | dict.fromkeys(("value", "low", "high"), value)
    shown["risk_from"]["attack"] = "homogeneity, within 5 %"
    found = first("table", plain)
    assert (
        found.level == "high"
        and "learns sick within 5 % for certain of 100 % of the rows" in found.headline
    )
    assert "2.0 % linked" in found.headline and "100 %" in found.cards[1].large
    shown["risk_from"]["attack"] = "best-guess"
    shown["risk"] = shown["risk"] | dict.fromkeys(("value", "low", "high"), 0.3)
    found = first("table", plain)
    assert found.level == "high" and "guesses sick right for 93 % of the rows" in found.headline
    assert "without age and town for 53 %" in found.headline


@pytest.mark.parametrize("worse", [0, 1])
def test_of_releases_of_one_severity_the_larger_share_speaks(worse: int) -> None:
    plains = [document("table"), document("table")]
    for at, plain in enumerate(plains):
        share = dict.fromkeys(("value", "low", "high"), 0.9 if at == worse else 0.5)
        plain["candidates"][0]["risk"] |= share
    releases = [read(Findings.from_json(plain)) for plain in plains]
    assert "links 90 %" in together(releases).headline


def test_a_claim_that_is_wrong_speaks_over_a_model_at_chance() -> None:
    plain = document("model")
    plain["rules"] = []
    for candidate in plain["candidates"]:
        candidate["shown"] = []
        candidate["risk"] |= {"value": 0.01, "low": 0.005, "high": 0.03}
    releases = [read(Findings.from_json(plain)), released("mechanism")]
    head = together(releases)
    assert "could have seen" in releases[0].first.verdict
    assert "The claim of epsilon 1 is wrong" in head.headline and head.level == ""
    assert releases[1].first.options is None  # what the claim would allow is no limit


def test_limits_that_were_not_tested_are_limits_all_the_same() -> None:
    plain = document("table")
    plain["rules"] = [plain["rules"][0] | {"outcome": "not-tested", "evidence": None}]
    plain["verdict"]["outcome"] = "not-tested"
    releases = [released("model"), read(Findings.from_json(plain))]
    head = together(releases)
    assert head.outcome.code == "not-enough-evidence" and "have no" not in head.rules


@pytest.mark.parametrize("kind", KINDS)
def test_only_shares_are_printed_in_percent(kind: str) -> None:
    """The rule ``queries <= 5`` read 200 %, ``width(auc) <= 0.2`` 52 %."""
    from lethe.evidence.rules import METRICS_OF
    from lethe.report.common import sections_of
    from lethe.report.severity import IN_PERCENT

    plain = document(kind)
    counted = {"value": 2.5, "low": 2.5, "high": 2.5, "confidence": 0.95, "method": "", "n": 9}
    about = str(findings(kind).subject["release"])
    about += f"/{plain['table']['kind']}" if plain.get("table") else ""
    named = [one for one in METRICS_OF.get(about, {}) if one not in {*IN_PERCENT, "utility-loss"}]
    at = {"tau": "@0.1"}
    texts = [form.format(one + at.get(one, "")) for one in named for form in ("{}", "width({})")]
    candidate = plain["verdict"]["candidate"]
    plain["rules"] = [
        {"rule": f"{text} <= 3", "candidate": candidate, "outcome": "pass", "evidence": counted}
        for text in texts
    ]
    sections = {one.id: one for one in sections_of(room_of(plain), {})}
    rows = sections["rules"].parts[0].rows if texts else []
    assert [str(cells[1]) for _, cells in rows] == ["2.5"] * len(texts)


def test_rounds_of_removal_are_printed_where_the_page_speaks_at_another_rate() -> None:
    """The page failed: a round has a risk at the frontier's rate and at no other."""
    plain = document("model")
    base = plain["candidates"][0]
    nothing = base["risk"] | {"value": 0.01, "low": 0.0, "high": 0.3}
    base |= {"risk": nothing, "measures": base["measures"] | {"tpr@0.01": nothing}}
    base["shown"] = [{"fpr": 0.1, "estimate": base["measures"]["tpr@0.1"]}]
    t = base["vulnerability"]["top_t"]
    counts = {"removed": 2, "stayed": 98, "newly_exposed": 1, "attack": "lira-online"}
    base["onion"] = [counts | {"risk": nothing, "top_t": t, "change": t}]
    release = read(Findings.from_json(plain), MANIFEST)
    (section,) = (one for one in release.sections if one.id == "exposed")
    (rounds,) = (part for part in section.parts if "exposed next" in getattr(part, "title", ""))
    assert "10 %" in release.first.verdict and str(rounds.rows[0][1][2]) == "1.00 % (0 to 30.0 %)"


def test_extraction_speaks_where_membership_cannot() -> None:
    from documents import GOLDEN

    plain: Any = json.loads((GOLDEN / "language.json").read_bytes())
    plain["language"]["refused"] = "texts were not drawn alike"
    for one in plain["candidates"]:
        one["risk"] = {"refused": "no attack passed its self-checks"}
        one["measures"]["extraction"] |= {"value": 0.5, "low": 0.4, "high": 0.6}
    found = read(Findings.from_json(plain), MANIFEST).first
    assert found.level == "high" and found.headline.startswith("50 % of training texts are extr")
    assert found.cards[1].large == "50 % extracted" and "50 %" in " ".join(found.cards[3].lines)


def test_a_guess_that_is_always_right_is_written_out() -> None:
    from lethe.report.first_screen import share_sentence

    assert share_sentence(Estimate(1.0, 1.0, 1.0, 0.95, "", 9), 1.0)[2] == "100 %"


@pytest.mark.parametrize("kind", KINDS)
def test_every_medium_says_the_same_headline(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(kind)
    first = read(found, MANIFEST).first
    print_findings(found, "run")
    out = capsys.readouterr().out
    assert first.headline in out and out.endswith("report: run/report.html\n")
    assert all(f"{card.title}:" in out and card.large in out for card in first.cards)
    plain = re.sub(r"\\([\\`*_{}\[\]<>#|~&!])", r"\1", markdown([(found, MANIFEST)]))
    assert first.headline in plain
    shown = show(found, MANIFEST)
    assert first.headline in repr(shown)
    assert 'sandbox="allow-scripts"' in shown._repr_html_()


def test_the_rules_that_do_not_pass_are_named() -> None:
    plain = document("model")
    plain["rules"] = [plain["rules"][0] | {"rule": "auc <= 0.6", "outcome": "fail"}]
    said = first("model", plain).rules
    assert (
        said.startswith("Broken by models trained like the release: “share of pairs")
        and "at most 0.6" in said
    )


JARGON = re.compile(r"\b(tpr|auc|tau|top-t)@?[\d.]* <=|t-score|\bFPR\b|\bTPR\b|\d-DP")


def test_a_first_screen_is_short_and_in_words_that_an_officer_knows() -> None:
    """Of the golden documents, and of the reports that the documentation shows."""
    for plain in (*map(document, KINDS), *(json.loads(path.read_bytes()) for path in GALLERY)):
        name, screen = plain["subject"]["name"], first("", plain)
        cards = [text for card in screen.cards for text in (card.title, card.large, *card.lines)]
        said = " ".join([screen.headline, screen.verdict, *cards])
        words = re.findall(r"\S*\w\S*", said)
        assert len(words) <= 220, (name, len(words))
        assert not JARGON.search(said), (name, JARGON.search(said))


@pytest.mark.parametrize(
    ("place", "rule", "covered"),
    [
        ("most", "top-t <= 9", True),
        ("most", "tpr@0.1[every class] <= 1", False),
        ("group", "tpr@0.1[class=high] <= 1", True),
        ("group", "tpr@0.1[every class] <= 1", True),
        ("group", "tpr@0.1[town=Oak] <= 1", False),
        ("group", "top-t <= 9", False),
    ],
)
def test_a_pass_says_of_whom_and_whom_no_rule_covers(place: str, rule: str, covered: bool) -> None:
    """A red "High" stood above a green "Pass", and neither said of what."""
    plain = document("model")
    passed = plain["rules"][0] | {"rule": "tpr@0.1 <= 0.5", "outcome": "pass"}
    plain["rules"] = [passed, passed | {"rule": rule}]
    plain["verdict"]["outcome"] = "pass"
    for candidate in plain["candidates"]:
        candidate["shown"] = []
        candidate["risk"] |= {"value": 0.13, "low": 0.12, "high": 0.14}
        candidate["vulnerability"]["top_auc"] = (
            estimate(0.97, 0.95, 0.99) if place == "most" else estimate(0.5)
        )
        for entry in candidate.get("slices") or ():
            entry["slices"][0]["tpr_within"] = estimate(**WORSE if place == "group" else {})
    screen = first("model", plain)
    assert screen.level == "high" and screen.outcome.code == "pass"
    assert screen.rules.startswith("Met by models trained like the release: “training records")
    assert ("No rule covers" in screen.rules) == (not covered)


def test_a_group_below_the_headline_is_no_gap_of_the_rules() -> None:
    plain = document("model")
    plain["rules"] = [plain["rules"][0] | {"rule": "tpr@0.1 <= 0.99", "outcome": "pass"}]
    for candidate in plain["candidates"]:
        candidate["vulnerability"]["top_auc"] = estimate(0.56, 0.54, 0.58)
    screen = first("model", plain)
    assert "most exposed 1 %" in screen.cards[1].line and "22 %" in screen.cards[1].large
    assert "No rule covers" not in screen.rules


def test_of_several_releases_the_first_screen_has_four_cards_and_says_whose() -> None:
    releases = [released(kind) for kind in ("model", "table")]
    head = together(releases)
    several, *others = head.cards
    assert several.large == "2 releases" and list(several.lines) == [x.title for x in releases]
    assert [card.large for card in others] == [card.large for card in releases[1].first.cards[1:]]
    assert all(card.title.endswith(releases[1].first.name) for card in others)
    assert f"Rules broken: {releases[1].title}." in head.rules


@pytest.mark.parametrize("recipe", [None, {"kind": "torch"}])
def test_what_was_audited_is_said_and_what_was_not(recipe: dict[str, str] | None) -> None:
    """Of models whose outputs were handed in, nobody knows on how many records they trained."""
    plain = document("model")
    plain["subject"]["recipe"] = recipe
    said = "; ".join(first("model", plain).cards[0].lines)
    assert ("not audited: the release itself" in said) == (recipe is not None)
    assert ("each on half the records" in said) == (recipe is not None) and "16 models" in said
