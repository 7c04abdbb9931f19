"""Visits: several facts of a person about an item, and who else was not looked for before."""

import numpy as np
import pytest
from linkage_facts import only_mitigations

from lethe import audit_records
from lethe.data.records import from_columns
from lethe.errors import NotMeasurable
from lethe.linkage.audit import audit_records as audited
from lethe.linkage.records.attackers import Adversary, boards_of, look, simulate
from lethe.linkage.records.facts import index_facts
from lethe.linkage.settings import RecordSettings

pytestmark = pytest.mark.usefixtures("no_page")


@pytest.fixture
def mitigations(request, monkeypatch):
    """Only those named are tried, for tests of these or of the records as they are."""
    only_mitigations(monkeypatch, *getattr(request, "param", ()))


def only(*names):
    """The mitigations that a test is about, or none."""
    return pytest.mark.parametrize("mitigations", [names], ids=[""], indirect=True)


def columns(rows, *names):
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def attacks(found, name="baseline"):
    """By attack, share of people named rightly by the best guess."""
    candidate = next(one for one in found.candidates if one["name"] == name)
    return {one["attack"]: one["estimate"]["value"] for one in candidate["risk_from"]["results"]}


@pytest.mark.usefixtures("mitigations")
def test_later_visits_are_facts_too():
    """All see all places in the first three days; after that, where and when is their own."""
    rng, rows = np.random.default_rng(0), []
    for person in range(60):
        places = rng.permutation(12)[:9]
        rows += [(person, place, int(rng.integers(0, 3))) for place in places]
        rows += [(person, rng.choice(places), int(day)) for day in rng.integers(3, 700, 60)]
    visits = columns(rows, "person", "item", "time")
    risk = {
        keep: attacks(
            audit_records(
                visits, "person", "item", None, "time", unit="days", keep=keep, targets=40,
                save=False, quiet=True,
            )
        )["likelihood, 6 of 8 facts, within 3 days"]
        for keep in ("all", "first")
    }  # fmt: skip
    assert risk["all"] > 0.95 and risk["first"] < 0.5


def test_a_visit_fits_by_the_sum_and_the_best_of_its_repeats():
    """By hand: two people with the same two places, one three times as often at the second."""
    facts = index_facts([0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 1, 1])
    assert facts.repeats and facts.distinct.support.tolist() == [2, 2]
    assert facts.mass.tolist() == pytest.approx([0.99, 0.99])
    adversary = Adversary(2, value_error=None, time_error=None)
    known = simulate(facts, [0, 1], adversary)
    boards = boards_of((1.5, 30.0), adversary.sampling(facts))
    seen = look(facts, dict.fromkeys(boards, known), boards)
    # Person 1 is told by two visits to the second place, which person 0 has one of.
    assert seen["likelihood"].best[0] == 0
    one = index_facts([0, 1, 1], [0, 0, 1])
    assert not one.repeats and one.distinct is one


@only("some-facts", "pseudonyms-4")
@pytest.mark.usefixtures("mitigations")
def test_habits_of_another_time_name_people():
    """An earlier table of the same people, no visit in common: how often they go where does it."""
    rng = np.random.default_rng(1)
    habit = rng.dirichlet(np.full(30, 0.5), 60)
    draw = lambda tag: {  # noqa: E731
        "person": np.repeat([f"{tag}{person}" for person in range(60)], 120),
        "item": np.concatenate([rng.choice(30, 120, p=chance) for chance in habit]),
    }
    earlier, later = draw("a"), draw("r")
    names = [np.array([f"{tag}{person}" for person in range(60)]) for tag in "ar"]
    found = audited(
        from_columns(later),
        aux=from_columns(earlier, name="earlier"),
        truth=(names[0], names[1]),
        settings=RecordSettings(targets=60),
    )
    for release in ("baseline", "some-facts", "pseudonyms-4"):
        assert attacks(found, release)["likelihood, 60 known pairs with earlier"] > 0.9


@pytest.mark.usefixtures("mitigations")
def test_people_of_one_fact_are_looked_for():
    """900 of 1,000 have one fact, about an item that nobody else has."""
    rng = np.random.default_rng(0)
    rows = [(person, person) for person in range(900)]
    rows += [(900 + p, 900 + i) for p in range(100) for i in rng.permutation(14)[:12]]
    found = audit_records(
        columns(rows, "person", "item"), "person", "item", rule=("top-1<=0.3",),
        targets=100, save=False, quiet=True,
    )  # fmt: skip
    assert found.verdict["outcome"] == "fail"
    assert attacks(found)["likelihood, 1 fact, no dates"] > 0.8


@pytest.mark.usefixtures("mitigations")
def test_records_are_also_given_to_everybody_at_once():
    """Where all are looked for, a record that is surely another's is no answer."""
    rng = np.random.default_rng(0)
    weight = np.arange(1.0, 61) ** -0.5
    rows = [
        (person, item)
        for person in range(200)
        for item in rng.choice(60, rng.integers(12, 20), replace=False, p=weight / weight.sum())
    ]
    ratings = from_columns(columns(rows, "person", "item"))
    found = audited(ratings, settings=RecordSettings(targets=200, facts=10))
    alone, both = (
        attacks(found)[f"{name}, 8 of 10 facts, no dates"] for name in ("likelihood", "assigned")
    )
    assert both >= alone and both > 0.99
    few = attacks(audited(ratings, settings=RecordSettings(targets=99, facts=10)))
    assert not [name for name in few if name.startswith("assigned")]


@pytest.mark.parametrize("lacking", [0, 1, 40])
def test_people_who_have_every_item_are_measured(lacking):
    """Meter readings: everybody has every hour. No fact about another item can be wrong then."""
    rng = np.random.default_rng(0)
    rows = [(p, i, rng.poisson(20)) for p in range(60) for i in range(12) if i or p >= lacking]
    found = audit_records(
        columns(rows, "person", "item", "value"), "person", "item", "value", targets=30,
        save=False, quiet=True,
    )  # fmt: skip
    assert found.candidates[0]["risk"]["value"] > 0.9


def test_how_many_facts_are_known_is_set_by_its_name():
    """The data have no name of their own in the call, so `facts` is the setting."""
    rows = [(p, (p * k) % 31) for p in range(1, 31) for k in range(1, 6)]
    data = columns(rows, "person", "item")
    with pytest.raises(NotMeasurable, match="--facts 5"):
        audit_records(data, "person", "item", save=False, quiet=True)
    found = audit_records(data, "person", "item", facts=4, save=False, quiet=True)
    assert "3 of 4 facts" in found.threat_model["knowledge"]


@pytest.mark.usefixtures("mitigations")
def test_nearly_equal_records_are_exposed_whoever_is_named():
    """Twenty households of six, whose records differ in one fact of thirteen."""
    rng, rows = np.random.default_rng(0), []
    for home in range(20):
        shared = rng.choice(300, 12, replace=False)
        for person in range(6 * home, 6 * home + 6):
            rows += [(person, item) for item in shared] + [(person, 300 + person)]
    found = audit_records(
        columns(rows, "person", "item"), "person", "item", targets=40, save=False, quiet=True
    )
    base = found.candidates[0]
    assert base["risk"]["value"] < 0.7 and base["exposed"]["value"] > 0.8


@only("pseudonyms-4")
@pytest.mark.usefixtures("mitigations")
def test_pseudonyms_that_can_be_linked_are_not_said_to_help():
    """Times that fall together say which pseudonyms are one person's."""
    rng = np.random.default_rng(0)
    rows = [
        (person, item, int(rng.integers(0, 900)))
        for person in range(80)
        for item in rng.choice(40, 16, replace=False)
    ]
    found = audit_records(
        columns(rows, "person", "item", "time"), "person", "item", None, "time", unit="days",
        targets=40, facts=4, save=False, quiet=True,
    )  # fmt: skip
    by = {one["name"]: one for one in found.candidates}
    assert by["pseudonyms-4"]["risk"]["value"] < by["baseline"]["risk"]["value"]
    assert by["pseudonyms-4"]["risk"]["high"] >= by["baseline"]["risk"]["high"]
    assert by["pseudonyms-4"]["risk_change"]["high"] >= 0
