"""What an audit of representations does with odd input: refused by name, or measured and said."""

import numpy as np
import pytest
from reidentification_people import audit_embeddings, population, quick

from lethe.errors import InputError, NotMeasurable
from lethe.reidentification.audit import audit_released
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings

PEOPLE = population()


def changed(**arrays):
    return {**PEOPLE, **arrays}


def with_nan():
    vectors = PEOPLE["representations"].copy()
    vectors[3, 1] = np.nan
    return vectors


def with_zeros():
    vectors = PEOPLE["representations"].copy()
    vectors[3] = 0
    return vectors


def with_zero_reader():
    vectors = PEOPLE["representations"].copy()
    vectors[PEOPLE["user_ids"] == PEOPLE["user_ids"][0]] = 0
    return vectors


MIXED = np.array(
    [7, "7"] * (len(PEOPLE["labels"]) // 2) + [7] * (len(PEOPLE["labels"]) % 2), object
)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (changed(representations=with_nan()), "NaN"),
        (changed(representations=PEOPLE["representations"] * 1e155), "beyond 1e150"),
        (changed(representations=with_zeros()), "zero vectors"),
        (changed(representations=with_zero_reader()), "gallery has 1 zero vectors"),
        (changed(user_ids=MIXED), "mixes types"),
        (changed(user_ids=PEOPLE["user_ids"][:-1]), "user_ids has"),
        (changed(head=(np.ones(5), 0.0)), "5 dimensions"),
        (changed(head=(np.ones((3, 6)), np.zeros(2))), "must be \\(3,\\)"),
        (changed(head=(np.ones(6), np.zeros(3))), "must be \\(\\)"),
        (changed(head=(np.full(6, np.nan), 0.0)), "finite"),
        (changed(labels=PEOPLE["labels"][:-1]), "labels has 306 rows"),
        (changed(labels=PEOPLE["labels"] * 3), "0 and 1"),
        (changed(labels=PEOPLE["labels"] * 0), "both 0 and 1"),
        (changed(head=(np.ones((2, 6)), np.zeros(2)), labels=PEOPLE["labels"] + 1), "0 to 1"),
    ],
)
def test_bad_arrays_are_named(given, words):
    with pytest.raises(InputError, match=words):
        audit_embeddings(**given, settings=quick(plays=0))


def test_too_few_people_or_rows():
    with pytest.raises(NotMeasurable, match="2"):
        audit_embeddings(np.eye(6), np.repeat(["a"], 6))
    with pytest.raises(NotMeasurable, match="rows"):
        audit_embeddings(np.eye(6), np.repeat(["a", "b"], 3))


SMALL = {"plays": 0, "refine": 0, "surface": (), "draws": 2, "sigmas": (1.0,)}


def test_constant_vectors_are_chance_and_said_to_be_tied():
    """Nobody can be told from anybody; 0.1 leaves roundings that must not name."""
    constant = np.full_like(PEOPLE["representations"], 0.1)
    found = audit_embeddings(**changed(representations=constant), settings=quick(**SMALL))
    attacks = found.representations["models"][0]["attacks"]
    names = {one["name"] for one in attacks}
    assert {"cosine", "l2", "all vectors", "nearest row"} <= names
    assert {"nearest row, all vectors", "softmax, all vectors"} <= names
    assert [one["lift"]["1"]["value"] for one in attacks] == pytest.approx([1.0] * len(attacks))
    ties = next(one for one in found.checks if one["name"] == "ties")
    assert ties["status"] == "warn" and ties["detail"].startswith("100.00%")


def test_vectors_of_one_dimension_are_audited():
    """Under cosine only signs are left; nothing that people differ by is in the vectors."""
    line = changed(representations=PEOPLE["representations"][:, :1], head=(np.ones(1), 0.0))
    found = audit_embeddings(**line, settings=quick(**SMALL))
    attacks = {one["name"]: one for one in found.representations["models"][0]["attacks"]}
    joined = attacks["all vectors"]
    assert joined["lift"]["1"]["low"] <= 1 <= joined["lift"]["1"]["high"]
    assert joined["top"]["1"]["n"] == 40 < attacks["cosine"]["top"]["1"]["n"]


def test_models_of_other_people_are_refused():
    other = changed(user_ids=PEOPLE["user_ids"][::-1])
    with pytest.raises(InputError, match="not those of"):
        audit_released([Released("one", **PEOPLE), Released("two", **other)])
    fewer = {name: one if name == "head" else one[:-1] for name, one in PEOPLE.items()}
    with pytest.raises(InputError, match="not those of"):
        audit_released([Released("one", **PEOPLE), Released("two", **fewer)])
    with pytest.raises(InputError, match="different names"):
        audit_released([Released("one", **PEOPLE), Released("one", **PEOPLE)])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sigmas": (-1.0,)}, "sigma"),
        ({"metric": "whitened"}, "metric"),
        ({"rule": ("tpr@0.1<=0.5",)}, "unknown metric"),
        ({"known": "a"}, "both periods"),
        ({"lift": 1.0}, "lift"),
        ({"averaged": (0,)}, "averaged"),
        ({"norm": 0.0}, "norm"),
    ],
)
def test_bad_settings_are_named(given, words):
    with pytest.raises(InputError, match=words):
        EmbeddingSettings(**given)
