"""What is proof and what is only measured, kept apart."""

import pytest

from lethe.errors import InputError
from lethe.evidence.guarantee import (
    NOT_PROVEN,
    PROVEN,
    Guarantee,
    empirical_only,
    where_people_have_several,
)


@pytest.mark.parametrize("kind", PROVEN + NOT_PROVEN)
def test_only_proofs_are_proven(kind):
    guarantee = Guarantee(kind, {}, "add/remove", "record")
    assert guarantee.proven == (kind not in ("asymptotic", "empirical-only"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "approx_dp"}, "kind='approx_dp' must be one of .* Did you mean 'approx-dp'"),
        ({"relation": "swap"}, "relation='swap' must be one of 'add/remove', 'replace-one'"),
        ({"unit": "users"}, "unit='users' must be one of .* Did you mean 'user'"),
    ],
)
def test_unknown_words_are_refused(change, message):
    words = {"kind": "gdp", "parameters": {}, "relation": "none", "unit": "none", **change}
    with pytest.raises(InputError, match=message):
        Guarantee(**words)


def test_parameters_cannot_be_changed_afterwards():
    parameters = {"epsilon": 1.0}
    guarantee = Guarantee("pure-dp", parameters, "add/remove", "record")
    parameters["epsilon"] = 0.1
    assert guarantee.parameters["epsilon"] == 1.0
    with pytest.raises(TypeError):
        guarantee.parameters["epsilon"] = 0.1


def test_a_label_of_records_says_that_it_is_not_of_persons():
    record = Guarantee("approx-dp", {"epsilon": 1.0}, "add/remove", "record", ("a",))
    told = where_people_have_several(record, 4).assumptions
    assert "not a person" in told[0] and "up to 4 records" in told[0] and told[1:] == ("a",)
    user = Guarantee("approx-dp", {"epsilon": 1.0}, "add/remove", "user", ("a",))
    for guarantee, most in ((record, 1), (user, 4), (empirical_only("LiRA"), 4)):
        assert where_people_have_several(guarantee, most) is guarantee


def test_empirical_only_claims_nothing():
    guarantee = empirical_only("LiRA, 64 models", voided_by=("a stronger attack",))
    assert not guarantee.proven
    assert guarantee.assumptions == ("LiRA, 64 models",)
    assert guarantee.to_json()["relation"] == "none"
