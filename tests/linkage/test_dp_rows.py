"""Synthetic rows with differential privacy: what they keep, and how they stand on the frontier."""

import contextlib
import csv
import io
import json

import jsonschema
import numpy as np
import pytest
from joblib.externals import loky

from lethe.data.schema import Column, Schema
from lethe.errors import InputError
from lethe.evidence.findings import Findings, schema
from lethe.linkage.audit import audit_table
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.candidates import _inferred, agreement
from lethe.linkage.table.domains import columns_of
from lethe.linkage.table.dp_rows import DpRows, dp_rows, measure
from lethe.linkage.table.inference import Tolerance, secret_of
from lethe.report import render
from lethe.training.folder import RunFolder


@pytest.fixture(autouse=True, scope="module")
def one_process_for_all_fits():
    """It imports JAX, which takes longer than a fit."""
    with loky.ProcessPoolExecutor(max_workers=1) as kept, pytest.MonkeyPatch.context() as patch:
        patch.setattr(loky, "ProcessPoolExecutor", lambda **_: contextlib.nullcontext(kept))
        yield


def people(rows: int = 1500) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, rows)
    sick = np.where(rng.random(rows) < np.where(age > 50, 0.8, 0.2), "yes", "no").astype(object)
    return {"age": age, "sex": rng.integers(0, 2, rows), "sick": sick}


SEX = Column("sex", "whole", values=(0, 1), read_off=("values",))
SCHEMA = Schema(
    (
        Column("age", "whole", bounds=(20, 79), missing=False),
        SEX,
        Column("sick", "text", values=("yes", "no"), missing=False),
    )
)


def test_what_agreeing_rows_tell_by_hand() -> None:
    # Class 0: synthetic say 1, 1; class 1: 0 and 1, a tie; class 2: none, the usual value is 1.
    drawn, told = np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1])
    own, secret = np.array([0, 0, 1, 2, 2]), np.array([1, 0, 0, 1, 0])
    found = _inferred(own, secret, drawn, told)
    assert found.certain.tolist() == [True, False, False, False, False]
    assert found.right.tolist() == [1, 0, 0.5, 1, 0]
    assert found.blind.tolist() == [True, False, False, True, False]
    # Numbers: class 0 says 98 and 104, so 101; class 1 says 10, wrong for 11; class 2 nothing.
    values = np.array([100.0, 50.0, 11.0, 98.0, 104.0, 98.0, 104.0, 10.0])
    both = secret_of(values, Tolerance())
    near = _inferred(own, both.codes[:5], np.array([0, 0, 1]), both.codes[5:], both)
    assert near.certain.tolist() == [True, False, False, False, False]
    assert near.right.tolist() == [1, 0, 0, 1, 1] and near.blind.tolist() == near.right.tolist()


def test_a_class_is_shown_where_a_synthetic_row_agrees_in_every_column() -> None:
    mine = [np.array([0, 0, 1, 2]), np.array([5, 5, 6, 7])]
    # (0, 5) is shown; (1, 7) is in no row of the table, though each of its values is.
    own, drawn, size, shown = agreement(mine, [np.array([0, 1, 9]), np.array([5, 7, 9])])
    assert size[shown].tolist() == [2] and int(shown.sum()) / 4 == 0.25
    assert own[0] == own[1] == drawn[0] and not set(own.tolist()) & set(drawn[1:].tolist())


@pytest.fixture(scope="module")
def made() -> DpRows:
    return dp_rows(people(), SCHEMA, 20.0, 1e-6, bins=6)


def test_rows_keep_the_counts_of_chosen_pairs(made: DpRows) -> None:
    original, rows = people(), made.plain()
    assert abs(made.rows - 1500) < 60
    assert [column.dtype.kind for column in rows.values()] == ["i", "f", "O"]
    assert ("age", "sick") in made.pairs
    for low, high in ((20, 50), (50, 80)):
        share = [
            np.mean(one["sick"][(one["age"] >= low) & (one["age"] < high)] == "yes")
            for one in (original, rows)
        ]
        assert abs(share[0] - share[1]) < 0.06
    assert rows["age"].min() >= 20 and rows["age"].max() <= 79


def test_rows_become_a_file(made: DpRows) -> None:
    lines = list(csv.reader(io.StringIO(made.to_csv().decode())))
    assert lines[0] == ["age", "sex", "sick"] and len(lines) == made.rows + 1
    assert lines[1][0] == str(made.columns["age"].values[0])
    # Sexes may be missing: blank then, and never a fraction.
    assert {line[1] for line in lines[1:]} <= {"0", "1", ""}


def test_synthetic_rows_stand_beside_the_recoded_ones(tmp_path) -> None:
    columns = people(600)
    settings = TableSettings(
        ks=(5,), epsilon=(5.0,), schema=Schema((SCHEMA["age"], SEX, SCHEMA["sick"])), bins=6, most=1
    )
    with RunFolder(tmp_path / "run", "name", "command") as folder:
        found = audit_table(columns, ["age", "sex"], "sick", settings=settings, folder=folder)
    one = {made["name"]: made for made in found.candidates}["dp-synthetic-5"]
    # 6 groups of ages by two sexes, all of them shown: 12 classes for 600 rows.
    # No one of them is without a sex, though their schema has a cell for it.
    assert one["classes"] == 12
    assert one["measures"]["marketer"]["value"] == pytest.approx(12 / 600)
    # Who is sick hangs on the age in these rows, which a guess from synthetic rows shows, too.
    assert one["risk_from"]["attack"] == "best-guess"
    assert one["risk"]["value"] == pytest.approx(one["guessed"]["value"] - one["blind"]["value"])
    assert one["prosecutor"]["value"] == pytest.approx(1 / one["k"])
    assert one["guarantee"]["proven"] and one["guarantee"]["kind"] == "approx-dp"
    assert one["guarantee"]["parameters"]["epsilon"] == 5.0
    # Values of sex were read off the rows: the guarantee says so.
    assumed = " ".join(one["guarantee"]["assumptions"])
    assert "although read off the rows: values of sex" in assumed
    assert found.reproduction["schema"]["age"]["bounds"] == [20, 79]
    assert 0.7 < one["utility"]["value"] <= 1
    assert one["utility_loss"]["value"] == pytest.approx(1 - one["utility"]["value"])
    lines = (tmp_path / "run" / "dp-synthetic-5.csv").read_text().splitlines()
    assert len(lines) == one["released"] + 1
    document = json.loads(found.to_bytes())
    jsonschema.validate(document, schema())
    assert Findings.from_json(document).to_bytes() == found.to_bytes()
    page = render(found)
    assert " options carry a proof" in page and "Options, before and after" in page
    assert any("differentially private" in words for words in found.verdict["words"])


def test_a_model_of_synthetic_rows_never_saw_the_held_out_ones(monkeypatch, made: DpRows) -> None:
    from lethe.linkage.table import candidates as dp_way

    seen = []

    def counted(columns, *args, **kwargs):
        seen.append(len(columns["age"]))
        return made

    monkeypatch.setattr(dp_way, "dp_rows", counted)
    settings = TableSettings(ks=(5,), epsilon=(8.0,), predict="sick", most=1)
    found = audit_table(people(600), ["age", "sex"], settings=settings)
    assert seen == [600, 420]
    assert found.candidates[-1]["utility"]["n"] == 180
    assert found.candidates[-1]["utility"]["value"] > 0.6


def test_a_schema_must_declare_what_is_measured() -> None:
    columns, short = people(20), Schema((SCHEMA["age"],))
    with pytest.raises(InputError, match="the schema has no column 'sex'"):
        audit_table(columns, ["age", "sex"], settings=TableSettings(epsilon=(1.0,), schema=short))
    free = Schema((SCHEMA["age"], Column("sick", "text")))
    with pytest.raises(InputError, match="'sick' has no values in the schema"):
        audit_table(columns, ["age"], settings=TableSettings(epsilon=(1.0,), schema=free))
    typed = columns_of(SCHEMA, columns)
    with pytest.raises(InputError, match="need settings.schema"):
        audit_table(typed, ["age"])


@pytest.mark.slow
def test_two_hundred_games_against_the_proof_of_noisy_counts() -> None:
    """Rows are drawn from noisy counts, so nobody tells a person from them better than from these.

    The likelihood attacker knows all other rows and adds up what the person's own cells say; its
    advantage is at most sqrt(rho / 2) (Pinsker; the divergence of rho-zCDP is at most rho).
    """
    rng, rho, sizes = np.random.default_rng(3), 0.5, (4, 3, 5)
    scores: list[list[float]] = [[], []]
    for _ in range(200):
        others = [rng.integers(0, size, 60) for size in sizes]
        target = [int(rng.integers(size)) for size in sizes]
        for inside in (0, 1):
            rows = [np.append(c, np.repeat(t, inside)) for c, t in zip(others, target, strict=True)]
            measured = measure(rows, sizes, rho)
            assert measured.rho <= rho
            score = 0.0
            for marginal in measured.marginals:
                known = np.all([others[at] == target[at] for at in marginal.columns], axis=0)
                noisy = marginal.counts[tuple(target[at] for at in marginal.columns)]
                score += (noisy - known.sum() - 0.5) / marginal.scale**2
            scores[inside].append(score)
    guessed = [np.mean(np.array(side) > 0) for side in scores]
    error = 3 * (sum(share * (1 - share) for share in guessed) / 200) ** 0.5
    assert 0 < guessed[1] - guessed[0] <= (rho / 2) ** 0.5 + error
