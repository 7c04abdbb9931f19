"""What pandas names: values beside records are those of the same names, or are refused."""

import numpy as np
import pandas as pd
import pytest

import lethe
from lethe.errors import InputError


def in_order(order, **other):
    names = [f"r{at}" for at in range(200)]
    values = {"y": np.arange(200) % 2, "members": np.arange(200) < 100, "groups": np.arange(200)}
    given = {name: pd.Series(value, index=names) for name, value in values.items()}
    given |= {name: given[name].sort_index() for name in order}
    rows = np.random.default_rng(0).normal(size=(200, 3))
    return pd.DataFrame(rows, index=names), given.pop("y"), {**given, **other}


@pytest.mark.parametrize("order", ["y", "members", "groups"])
def test_names_in_another_order_are_refused_not_paired_by_position(order):
    X, y, given = in_order([order], save=False, quiet=True)
    with pytest.raises(InputError, match=f"{order}.* have the same names .* in another order"):
        lethe.audit(lambda rows: np.full((len(rows), 2), 0.5), X, y, **given)


def test_scores_named_in_another_order_are_refused():
    signals = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 50)))
    members = pd.DataFrame(np.random.default_rng(1).random((8, 50)) < 0.5)
    people = pd.Series(np.arange(50)).iloc[::-1]
    for changed in (members.iloc[::-1], members.iloc[:, ::-1]):
        with pytest.raises(InputError, match="in another order"):
            lethe.audit_scores(signals, changed, save=False, quiet=True)
    with pytest.raises(InputError, match="signals and groups .* in another order"):
        lethe.audit_scores(signals, members, groups=people, save=False, quiet=True)


@pytest.mark.parametrize("order", ["users", "labels", "attributes"])
def test_vectors_and_what_stands_beside_them_are_paired_by_name_or_refused(order):
    rng = np.random.default_rng(0)
    columns = {
        "users": np.arange(60) // 6,
        "labels": np.arange(60) % 2,
        "attributes": rng.random(60),
    }
    beside = {
        name: pd.Series(values, [f"r{at}" for at in range(60)]) for name, values in columns.items()
    }
    vectors = pd.DataFrame(rng.normal(size=(60, 4)), beside["users"].index)
    beside[order] = beside[order].iloc[::-1]
    given = {**beside, "attributes": {"income": beside["attributes"]}}
    with pytest.raises(InputError, match=f"{order}.* have the same names .* in another order"):
        lethe.audit_vectors(vectors, **given, save=False, quiet=True)


def test_what_has_no_names_is_paired_by_position():
    import torch

    signals, members = np.random.default_rng(0).normal(size=(2, 1, 200))
    asked = {"save": False, "quiet": True, "attack": "loss-threshold"}
    for hand in (torch.tensor, pd.Series, lambda values: values.tolist()):
        lethe.audit_scores(hand(signals[0]), hand(members[0] > 0), **asked)
