"""Utility and what was lost of it: intervals, pairs, and models of the user's."""

from pathlib import Path

import numpy as np
import pytest
from linkage_facts import by_name

from lethe.data.records import from_columns
from lethe.errors import InputError, NotMeasurable
from lethe.evidence.findings import Findings
from lethe.linkage.audit import audit_records, audit_synthetic, audit_table
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.linkage.utility import (
    counted_utility,
    is_class,
    mean_share,
    mean_utility,
    predict_rows,
    single_utility,
    split,
    utility_loss,
)


def people(rows: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    """The income follows from age, for 9 in 10."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 80, rows)
    rich = (age > 50) ^ (rng.random(rows) < 0.1)
    income = np.where(rich, "high", "low").astype(object)
    return {"age": age, "sex": rng.integers(0, 2, rows), "income": income}


def test_a_loss_is_paired_where_rows_are() -> None:
    before = mean_utility(np.ones(50), 0.95)
    now = mean_utility(np.r_[np.zeros(25), np.ones(25)], 0.95)
    gone = utility_loss(baseline=before, released=now, confidence=0.95)
    assert gone.value == pytest.approx(0.5) and gone.method == "paired, exact"
    assert gone.low is not None and gone.high is not None
    assert 0.25 < gone.low < 0.5 < gone.high < 0.75
    # Numbers: Student's interval of the differences, by hand.
    one, other = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 3.0])
    loss = utility_loss(
        baseline=mean_utility(one, 0.95), released=mean_utility(other, 0.95), confidence=0.95
    )
    half = 4.302653 * 0.5 / 3**0.5
    assert loss.low == pytest.approx(0.5 - half, abs=1e-6)
    assert loss.high == pytest.approx(0.5 + half, abs=1e-6)


def test_one_number_has_no_interval_and_counts_have_no_width() -> None:
    alone = utility_loss(
        baseline=single_utility(0.9, 10, 0.95),
        released=single_utility(0.5, 10, 0.95),
        confidence=0.95,
    )
    assert alone.value == pytest.approx(0.4) and alone.low is None and alone.high is None
    whole, part = (counted_utility(value, 10, 0.95, "rows") for value in (1.0, 0.75))
    counted = utility_loss(baseline=whole, released=part, confidence=0.95)
    assert counted.low == counted.high == 0.25
    with pytest.raises(NotMeasurable, match="at least 2"):
        mean_utility(np.ones(1), 0.95)


def test_the_interval_of_a_mean_share_covers() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        found = mean_share(rng.beta(1, 3, 40) * (rng.random(40) < 0.5), 0.95)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0.125 <= found.high
    assert covered >= 0.95 * 300 - 5 * (300 * 0.95 * 0.05) ** 0.5


def test_a_model_learns_from_the_release_and_is_tested_on_what_it_never_saw() -> None:
    columns = people(600)
    train, test = (
        {k: v[part] for k, v in columns.items()} for part in (slice(400), slice(400, 600))
    )
    right = predict_rows(train, test, test, "income", classes=True)
    # 0.9 is what can be known; five standard deviations of 200 rows.
    assert abs(right.mean() - 0.9) < 5 * (0.09 / 200) ** 0.5
    blind = {**train, "age": np.zeros(400)}
    guessed = predict_rows(blind, test, {**test, "age": np.zeros(200)}, "income", classes=True)
    assert guessed.mean() < 0.65
    # Of a number: the mean of the parts is R2 as it is defined.
    double = {**{k: v for k, v in train.items() if k != "sex"}, "x": train["age"] * 2.0 + 1}
    held = {**{k: v for k, v in test.items() if k != "sex"}, "x": test["age"] * 2.0 + 1}
    assert 0.95 < predict_rows(double, held, held, "x", classes=False).mean() <= 1
    constant = {**double, "x": np.full(400, 3.0)}
    scored = predict_rows(constant, held, held, "x", classes=False)
    truth = held["x"]
    assert scored.mean() == pytest.approx(1 - np.mean((truth - 3) ** 2) / truth.var())


def test_what_is_a_class_and_what_is_a_number() -> None:
    assert is_class(np.array(["a", "b"], dtype=object)) and is_class(np.arange(20))
    assert is_class(np.array([True])) and not is_class(np.arange(21))
    assert not is_class(np.array([1.0, 2.0]))


def test_bad_predictions() -> None:
    columns = people(40)
    only = {"income": columns["income"]}
    with pytest.raises(InputError, match="the only column"):
        predict_rows(only, only, only, "income", classes=True)
    dated = {**columns, "day": np.arange(40).astype("datetime64[D]")}
    with pytest.raises(InputError, match="holds dates"):
        predict_rows(dated, dated, dated, "day", classes=False)
    flat = {**columns, "x": np.ones(40)}
    with pytest.raises(NotMeasurable, match="all equal"):
        predict_rows(flat, flat, flat, "x", classes=False)
    none = {name: column[:0] for name, column in columns.items()}
    with pytest.raises(NotMeasurable, match="no row is released"):
        predict_rows(none, columns, columns, "income", classes=True)


def test_a_table_is_judged_by_a_prediction() -> None:
    settings = TableSettings(ks=(2,), predict="income", most=1)
    found = audit_table(people(), ["age", "sex"], settings=settings)
    base, dropped = by_name(found)["baseline"], by_name(found)["without-age"]
    assert base["utility"]["n"] == 120 and base["utility"]["value"] > 0.75
    assert dropped["utility_loss"]["low"] > 0.1
    assert dropped["utility_loss"]["value"] == pytest.approx(
        base["utility"]["value"] - dropped["utility"]["value"]
    )
    assert "predicts income" in found.frontier["utility"]
    assert found.reproduction["predict"] == "income" and found.reproduction["held_out"] == 0.3


def test_the_users_function_gets_released_and_held_out_rows() -> None:
    columns, seen = people(), []

    def model(released, held_out, written):
        seen.append((released, held_out, written))
        released["age"][:] = 0  # a copy: later candidates are not spoilt
        return held_out["age"].astype(float)

    settings = TableSettings(ks=(2,), utility_model=model, most=1)
    found = audit_table(columns, ["age", "sex"], settings=settings)
    out = split(400, settings)
    assert out.sum() == 120 and len(seen) == len(found.candidates)
    for released, held_out, written in seen:
        assert held_out["age"].tolist() == columns["age"][out].tolist()
        assert len(released["age"]) <= 280 and len(written["age"]) == 120
    # One step coarser, ages are written as means of their groups, on both sides.
    coarse = seen[1]
    assert len(np.unique(coarse[2]["age"])) < len(np.unique(coarse[1]["age"]))
    utility = by_name(found)["baseline"]["utility"]
    assert utility["value"] == pytest.approx(columns["age"][out].mean())
    assert utility["low"] < utility["value"] < utility["high"]
    assert "model" in found.reproduction["utility_model"]


def test_a_function_in_a_file_and_its_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "use.py"
    file.write_text(
        "import numpy as np\n"
        "def number(released, held_out): return len(released['age']) / 400\n"
        "def broken(released, held_out): return released['height']\n"
        "def text(released, held_out): return 'good'\n"
        "def short(released, held_out): return np.ones(3)\n"
        "def odd(released, held_out): return float('nan')\n"
    )

    def audit(name: str) -> Findings:
        settings = TableSettings(ks=(2,), utility_model=f"{file}:{name}", most=1)
        return audit_table(people(), ["age", "sex"], settings=settings)

    base = by_name(audit("number"))["baseline"]["utility"]
    assert base["value"] == pytest.approx(0.7) and base["low"] is None and base["high"] is None
    for name, told in (
        ("broken", "fails: KeyError.*line 3"),
        ("text", "expected one number"),
        ("short", "expected one number, or one for each of the 120"),
        ("odd", "not finite"),
        ("nobody", "has no 'nobody'"),
    ):
        with pytest.raises(InputError, match=told):
            audit(name)


def test_facts_are_judged_by_the_users_function_on_facts_left_out() -> None:
    rng = np.random.default_rng(0)
    item = np.concatenate([rng.choice(40, 12, replace=False) for _ in range(30)])
    ratings = from_columns(
        {
            "person": np.repeat(np.arange(30), 12),
            "item": item,
            "value": rng.integers(1, 6, 360).astype(float),
            "time": rng.integers(0, 200, 360),
        },
        unit="days",
    )

    def known_person(released, held_out):
        return np.isin(held_out["person"], released["person"]).astype(float)

    settings = RecordSettings(targets=10, utility_model=known_person)
    found = by_name(audit_records(ratings, settings=settings))
    assert found["baseline"]["utility"]["value"] == 1.0
    assert found["baseline"]["utility"]["n"] == 108
    # Half of the people are released; facts of the others find nobody.
    assert 0.2 < found["some-people"]["utility"]["value"] < 0.8
    assert found["noisy-values"]["utility"]["value"] == 1.0
    with pytest.raises(InputError, match="predict is for tables"):
        RecordSettings(predict="value")


def test_synthetic_rows_are_judged_on_the_control() -> None:
    original, control = people(300), people(300, seed=1)
    settings = SyntheticSettings(attacks=20, predict="income")
    found = by_name(
        audit_synthetic(original, people(300, seed=2), control, ["age", "sex"], settings=settings)
    )
    assert found["baseline"]["utility"]["n"] == 300
    assert found["baseline"]["utility"]["value"] > 0.75


def test_only_one_utility_and_a_share_of_rows() -> None:
    with pytest.raises(InputError, match="queries and predict each say"):
        TableSettings(queries=("SELECT 1",), predict="income")
    with pytest.raises(InputError, match="held_out=1"):
        TableSettings(held_out=1)
    with pytest.raises(InputError, match="utility_model=3 must be text"):
        TableSettings(utility_model=3)
    with pytest.raises(NotMeasurable, match="2 of each are needed"):
        split(4, TableSettings())
