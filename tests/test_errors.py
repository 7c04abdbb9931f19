"""The one voice of every message: name, value, rule, way out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe import errors
from lethe.errors import (
    InputError,
    LetheError,
    MissingExtra,
    NotMeasurable,
    RunFailed,
    check_at_least,
    check_between,
    check_choice,
    check_known_keys,
    did_you_mean,
    require,
)


@pytest.mark.parametrize(
    ("kind", "code", "also"),
    [
        (InputError, 2, ValueError),
        (MissingExtra, 2, ImportError),
        (NotMeasurable, 3, ValueError),
        (RunFailed, 4, RuntimeError),
    ],
)
def test_each_error_has_its_exit_code_and_is_a_builtin_error_too(kind, code, also):
    error = kind("text")
    assert error.exit_code == code
    assert isinstance(error, LetheError) and isinstance(error, also)


def test_all_lethe_errors_are_in_the_tree_of_the_docstring():
    classes = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and kind.__module__ == errors.__name__
    ]
    assert len(classes) >= 5
    assert all(issubclass(kind, LetheError) for kind in classes)
    assert all(kind.__name__ in errors.__doc__ for kind in classes)


def test_did_you_mean_is_silent_when_nothing_is_close():
    assert did_you_mean("sed", ["models", "seed"]) == " Did you mean 'seed'?"
    assert did_you_mean("zzz", ["models", "seed"]) == ""
    assert did_you_mean("sed", []) == ""


def test_check_choice_returns_or_lists_the_choices_and_hints():
    assert check_choice("signal", "logit", ("logit", "prob")) == "logit"
    with pytest.raises(InputError) as caught:
        check_choice("signal", "logits", iter(["logit", "prob"]))
    assert str(caught.value) == (
        "signal='logits' must be one of 'logit', 'prob'. Did you mean 'logit'?"
    )


def test_check_known_keys_names_the_place_and_the_known_ones():
    check_known_keys("[data]", [], ["seed"])
    check_known_keys("[data]", ["seed"], ["seed", "models"])
    with pytest.raises(InputError) as caught:
        check_known_keys("[data]", ["seed", "sede"], ["seed", "models"])
    assert str(caught.value) == (
        "[data] has the unknown key 'sede'. Did you mean 'seed'? Known keys: models, seed."
    )


@pytest.mark.parametrize(
    ("value", "open_low", "open_high", "inside"),
    [
        (0, False, False, True),
        (0, True, False, False),
        (1, False, False, True),
        (1, False, True, False),
        (0.5, True, True, True),
        (-1e-9, False, False, False),
        (1.1, False, False, False),
        (math.nan, False, False, False),
        (math.inf, False, False, False),
    ],
)
def test_check_between_at_and_beyond_the_limits(value, open_low, open_high, inside):
    def check():
        return check_between("fpr", value, 0, 1, open_low=open_low, open_high=open_high)

    if inside:
        assert check() == value
    else:
        with pytest.raises(InputError, match="^fpr="):
            check()


def test_check_between_shows_which_ends_are_open():
    with pytest.raises(InputError) as caught:
        check_between("fpr", 2.0, 0, 1, open_low=True)
    assert str(caught.value) == "fpr=2.0 must be in (0, 1]."
    with pytest.raises(InputError) as caught:
        check_between("fpr", 2.0, 0, 1, open_high=True)
    assert str(caught.value) == "fpr=2.0 must be in [0, 1)."


@given(st.floats(), st.floats(allow_nan=False))
def test_check_at_least_agrees_with_the_comparison(value, low):
    if value >= low:
        assert check_at_least("models", value, low) == value
    else:
        with pytest.raises(InputError, match="^models=.* must be at least"):
            check_at_least("models", value, low)


def test_require_gives_the_module_or_the_pip_line():
    assert require("math", "train") is math
    with pytest.raises(MissingExtra) as caught:
        require("no_such_module_of_lethe", "train")
    assert str(caught.value) == (
        "no_such_module_of_lethe is not installed and is needed here; "
        "install it with: pip install 'lethe-privacy[train]'"
    )
    assert isinstance(caught.value.__cause__, ImportError)
