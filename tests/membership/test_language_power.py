"""A pass of a language model is earned: blinded audits never pass, safe ones do."""

import numpy as np
import pytest
from judged_alone import judged_alone

from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.evidence.rules import FAIL, PASS, UNDECIDED
from lethe.membership.language.audit import Given, audit_language_model
from lethe.membership.language.canaries import TextCanaries, TextCanary
from lethe.membership.language.measure import Texts
from lethe.membership.language.settings import LanguageSettings

WORDS = np.array("note call sent home new door late work form day week sick".split())
RULES = ("tpr@0.1<=0.4", "auc<=0.7", "extraction<=0.05", "epsilon-lower<=0.3")
TOKENS = 12

release_alone = pytest.fixture(judged_alone, autouse=True)


def made_up(rng, leak: float, texts: int = 240, canaries: int = 90):
    """Texts, canaries, and what a model and its base say of their tokens; members gain `leak`."""
    member = rng.permutation(texts) < texts // 2
    length = rng.integers(TOKENS, 20, texts)
    lines = [f"{' '.join(rng.choice(WORDS, n))} {at}" for at, n in enumerate(length)]
    ids = [str(at) for at in range(texts)]
    table = Texts(lines, ids, member, np.arange(texts))
    coins = rng.random(canaries) < 0.5
    plan = TextCanaries(
        tuple(
            TextCanary(f"c{at}", f"canary {at}", "random-token", (1, 16)[at % 2], bool(coin))
            for at, coin in enumerate(coins)
        ),
        seed=1,
    )
    once = np.arange(canaries) % 2 == 0
    # Canaries that stand 16 times are found by any training that meets them.
    gains = np.concatenate([member * leak, coins * np.where(once, 4 * leak, 3.0)])
    sizes = np.concatenate([length, np.full(canaries, TOKENS)])
    names = [*ids, *(one.id for one in plan.canaries)]
    base = [rng.gamma(2.0, 1.0, n) + 0.3 for n in sizes]
    model = [
        np.maximum(loss - gain - rng.normal(scale=0.6, size=len(loss)), 0.02)
        for loss, gain in zip(base, gains, strict=True)
    ]
    return table, plan, columns(names, model), columns(names, base)


def columns(names, losses):
    loss = np.concatenate(losses)
    rank = (loss > 1) + np.floor(10 * np.maximum(loss - 2, 0))
    return {
        "text": np.repeat(np.array(names, object), [len(one) for one in losses]),
        "position": np.concatenate([np.arange(1, len(one) + 1) for one in losses]),
        "logprob": -loss,
        "mean": -loss - 1,
        "deviation": np.full(len(loss), 1.5),
        "rank": rank,
        "top_mass": np.full(len(loss), -0.01),
    }


def watched(plan: TextCanaries) -> dict:
    """What a training that met every canary was seen to do."""
    planted = int(plan.inserted.sum())
    nothing = {"partly": 0, "without_loss": 0, "left_out_seen": 0}
    counts = {"planted": planted, "received": planted, "trained": 4, "moved": 4}
    return {"plan": plan.digest, **counts, **nothing}


def audited(table, plan, model, base, seen=None, rules=RULES, **options) -> Findings:
    settings = LanguageSettings(rule=rules, prefix=4, suffix=4, **options)
    given = Given(scores=model, base_scores=base)
    return audit_language_model(given, table, settings, plan=plan, seen=seen)


def test_texts_that_alone_tell_members_stop_the_verdict_until_that_is_waived():
    rng = np.random.default_rng(3)
    table, plan, model, base = made_up(rng, 0.5)
    kinds = np.where(table.member, "patient", "guest")
    lines = [f"{kind} {kind} {text}" for kind, text in zip(kinds, table.texts, strict=True)]
    table = Texts(lines, table.ids, table.member, table.people)
    stopped = audited(table, plan, model, base, watched(plan))
    assert "--accept members-drawn-alike" in stopped.to_json()["language"]["refused"]
    assert stopped.rules[0]["outcome"] == UNDECIDED
    waived = audited(table, plan, model, base, watched(plan), accept=("members-drawn-alike",))
    check = next(one for one in waived.checks if one["name"] == "blind classifier")
    assert check["effect"] == "accepted" and waived.rules[0]["outcome"] == FAIL
    with pytest.raises(InputError, match="accept"):
        LanguageSettings(accept=("copies",))


def test_several_texts_of_a_person_together_tell_more_than_one():
    table, plan, model, base = made_up(np.random.default_rng(3), 0.15, texts=400)
    people = np.where(table.member, 0, 1000)
    for side in (table.member, ~table.member):
        people[side] += np.arange(side.sum()) // 2
    table = Texts(table.texts, table.ids, table.member, people, named_people=True)
    found = {
        unit: audited(table, plan, model, base, watched(plan), unit=unit)
        for unit in ("text", "person")
    }
    assert found["person"].data["units"] == [100, 100]
    auc = {unit: one.candidates[0]["measures"]["auc"]["value"] for unit, one in found.items()}
    assert auc["person"] > auc["text"] + 0.03


def outcomes(found: Findings) -> dict[str, str]:
    return {str(one["rule"]): one["outcome"] for one in found.rules}


def by_text(values):
    """Columns as a list of the tokens of each text."""
    ends = np.flatnonzero(np.diff(values["position"]) < 0) + 1
    return np.split(-values["logprob"], ends), values["text"][np.r_[0, ends]].tolist()


def shuffled(rng, losses, names, within):
    """The same lists of tokens, each said to be of another text; canaries stay."""
    out, plain = list(losses), [at for at, name in enumerate(names) if name[0] != "c"]
    sizes = np.array([len(losses[at]) if within else 0 for at in plain])
    for size in np.unique(sizes):
        rows = np.array(plain)[sizes == size]
        for row, other in zip(rows, rng.permutation(rows), strict=True):
            out[row] = losses[other]
    return out


def blinded(rng, kind, table, plan, model, base):
    """An audit with its signal destroyed; the training was seen where that is claimed."""
    mine, names = by_text(model)
    theirs, _ = by_text(base)
    seen = watched(plan)
    if kind == "constant":
        mine = [np.ones_like(one) for one in mine]
    elif kind == "all constant":
        mine = theirs = [np.ones_like(one) for one in mine]
    elif kind == "shuffled":
        mine = shuffled(rng, mine, names, within=True)
    elif kind == "both shuffled":
        state = np.random.default_rng(7), np.random.default_rng(7)
        mine, theirs = (
            shuffled(own, one, names, within=False)
            for own, one in zip(state, (mine, theirs), strict=True)
        )
    elif kind == "wrong sign":
        mine, theirs = ([12 - np.minimum(loss, 11.9) for loss in one] for one in (mine, theirs))
    elif kind == "two values":
        middle = np.median([one.mean() for one in mine])
        mine = [np.where(one.mean() > middle, 3.0, 0.3) + 0 * one for one in mine]
    elif kind == "tied at the top":
        low = np.quantile([one.mean() for one in mine], 0.8)
        mine = [one if one.mean() > low else 0.3 + 0 * one for one in mine]
    elif kind == "the base itself":
        mine = theirs
    elif kind.startswith("canaries never met"):
        fresh = [loss + rng.normal(scale=0.3, size=len(loss)) for loss in theirs]
        mine = [
            np.maximum(new, 0.02) if name[0] == "c" else old
            for name, new, old in zip(names, fresh, mine, strict=True)
        ]
        seen = seen if kind.endswith("as seen elsewhere") else None
    elif kind == "members by one row":
        table = Texts(table.texts, table.ids, np.roll(table.member, 1), table.people)
    elif kind == "members backwards":
        table = Texts(table.texts, table.ids, table.member[::-1].copy(), table.people)
    return table, plan, columns(names, mine), columns(names, theirs), seen


BLINDED = (
    "constant",
    "all constant",
    "shuffled",
    "both shuffled",
    "wrong sign",
    "two values",
    "tied at the top",
    "the base itself",
    "canaries never met",
    "canaries never met, as seen elsewhere",
    "members by one row",
    "members backwards",
)


@pytest.fixture(scope="module")
def informative():
    made = made_up(np.random.default_rng(1), 0.4)
    found = audited(*made, seen=watched(made[1]))
    assert set(outcomes(found).values()) == {"fail"}
    return made, found


def test_no_attack_of_the_model_or_of_a_view_lies_above_the_headline(informative):
    """Of `loss`, which the family left out beside a base, 48 % stood under a headline of 42 %."""
    _, found = informative
    for release in found.candidates:
        results = release["risk_from"]["results"]
        attacks = {(one["view"], one["attack"]) for one in results}
        views = {view for view, _ in attacks}
        assert {("release", name) for name in (*release["text_attacks"], "loss")} <= attacks
        assert (views > {"release"}) == (release["name"] == "baseline")
        for one in results:
            assert one["estimate"]["low"] <= release["risk"]["low"]
            assert one["estimate"]["high"] <= release["risk"]["high"]
            found_there = one["estimate"]["low"] > found.language["fpr"]
            assert one["estimate"]["value"] <= release["risk"]["value"] or not found_there


@pytest.mark.parametrize("kind", BLINDED)
def test_a_blinded_audit_passes_no_rule_that_the_informative_one_fails(informative, kind):
    found = audited(*blinded(np.random.default_rng(2), kind, *informative[0]))
    assert "pass" not in outcomes(found).values(), found.rules


@pytest.mark.parametrize("kind", ["constant", "both shuffled", "the base itself"])
def test_nor_without_a_base_to_compare_with(informative, kind):
    """Of a model that met nothing, its canaries of 16 copies tell."""
    table, plan, model, _, seen = blinded(np.random.default_rng(2), kind, *informative[0])
    found = audited(table, plan, model, None, seen)
    assert "pass" not in outcomes(found).values(), found.rules


def test_what_only_a_base_shows_passes_without_one_only_where_nobody_holds_it():
    """Texts differ more than a model learns of them: only beside its base does it stand out."""
    table, plan, model, base = made_up(np.random.default_rng(3), 0.16, 600, 200)
    asked = {"seen": watched(plan), "rules": ("auc<=0.72", "extraction<=0.3")}
    assert audited(table, plan, model, base, **asked).rules[0]["outcome"] == FAIL
    alone = audited(table, plan, model, None, **asked)
    assert list(outcomes(alone).values()) == [UNDECIDED, PASS]
    assert alone.rules[0]["reason"].endswith("Name it: --base. Or waive it: --accept no-base")
    secret = audited(table, plan, model, None, **asked, accept=("no-base",))
    assert set(outcomes(secret).values()) == {PASS}
    assert [one["effect"] for one in secret.checks if "no-base" in one["name"]] == ["accepted"]


def test_one_token_of_a_long_text_names_its_members():
    """Means and votes over 200 tokens hardly move where one secret word is learned by heart."""
    rng = np.random.default_rng(4)
    member = rng.permutation(400) < 200
    base = [rng.gamma(2.0, 1.0, 200) + 0.3 for _ in member]
    model = [loss - rng.normal(scale=0.8, size=200) for loss in base]
    for at, place in enumerate(rng.integers(0, 200, len(member))):
        base[at][place] = 6.0
        model[at][place] = 6.0 - 5.0 * member[at] - rng.normal(scale=0.8)
    ids = [str(at) for at in range(len(member))]
    table = Texts([f"{WORDS[at % 12]} {at}" for at in range(400)], ids, member, np.arange(400))
    sides = (columns(ids, [np.maximum(loss, 0.02) for loss in side]) for side in (model, base))
    found = audited(table, None, *sides, rules=("tpr@0.1<=0.4",))
    assert found.rules[0]["outcome"] == FAIL
    assert found.candidates[0]["risk"]["value"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", BLINDED)
def test_blinded_audits_of_other_texts_and_leaks_never_pass(kind, seed):
    rng = np.random.default_rng([11, seed])
    made = made_up(rng, rng.uniform(0.35, 0.6), 300)
    before = outcomes(audited(*made, seen=watched(made[1])))
    after = outcomes(audited(*blinded(rng, kind, *made)))
    assert not [rule for rule in before if before[rule] == "fail" and after[rule] == "pass"]


def safe(seed):
    """Outcomes of an audit that has nothing to find and texts enough."""
    made = made_up(np.random.default_rng([5, seed]), 0.0, 480, 200)
    seen = watched(made[1])
    return outcomes(audited(*made, seen=seen, rules=(*RULES[:2], "extraction<=0.2", RULES[3])))


def test_a_safe_audit_of_adequate_size_passes():
    assert set(safe(0).values()) == {"pass"}


def test_an_extraction_that_the_base_model_hides_passes_no_rule():
    """Texts that the base model writes too are never counted: nothing could have been seen."""
    table, plan, model, base = made_up(np.random.default_rng(5), 0.0)
    for side in (model, base):
        ours = np.char.isdigit(side["text"].astype(str))
        side["rank"] = np.where(ours, 0.0, side["rank"])
    found = audited(table, plan, model, base, watched(plan), ("extraction<=0.2",))
    assert found.rules[0]["outcome"] == UNDECIDED
    assert "it was not seen" in found.rules[0]["reason"]


@pytest.mark.slow
def test_nine_in_ten_safe_audits_pass():
    found = [set(safe(seed).values()) for seed in range(2, 32)]
    assert found.count({"pass"}) >= 27


@pytest.mark.parametrize("gain", [0.0, 6.0])
def test_tokens_are_marked_where_they_were_memorised_and_at_their_rate_where_none_was(gain):
    """One token in 20 of a training text gains much; every distribution moved alike."""
    rng = np.random.default_rng(5)
    table, _, *sides = made_up(rng, 0.0, 400)
    ours = np.char.isdigit(sides[0]["text"].astype(str))  # and not of canaries
    model, base = ({name: column[ours] for name, column in side.items()} for side in sides)
    inside = table.member[model["text"].astype(int)]
    memorised = inside & (rng.random(len(inside)) < 0.05)
    model["logprob"] = np.minimum(model["logprob"] + gain * memorised, -0.01)
    model["divergence"] = rng.gamma(1.0, 0.1, len(inside))
    found = audited(table, None, model, base, rules=())
    marks = found.language["marks"]
    assert 0.005 < marks["other"]["value"] < 0.015
    if gain:
        assert marks["member"]["low"] > marks["other"]["high"]
        assert memorised.sum() / inside.sum() > marks["member"]["value"] > 0.02
    else:
        assert marks["member"]["low"] <= marks["other"]["high"]
