"""The recipe of anything with scikit-learn's interface."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError
from lethe.training.fingerprint import hash_value

if TYPE_CHECKING:
    from lethe.training.recipe import Treatment

SCORES = ("predict_proba", "decision_function")


@dataclass(frozen=True)
class SklearnRecipe:
    """A classifier or regressor with scikit-learn's interface.

    It is cloned and re-seeded for every model. Estimators of XGBoost, LightGBM and skorch and
    pipelines that end in one are such estimators.

    Attributes:
        estimator: a classifier with ``predict_proba`` or ``decision_function``, or a regressor
            with ``predict``; fitted or not, it is left as it is.

    Raises:
        InputError: it is neither.
    """

    estimator: Any

    def __post_init__(self) -> None:
        from sklearn.base import is_outlier_detector, is_regressor

        kind = type(self.estimator).__name__
        if isinstance(self.estimator, type):
            raise InputError(
                f"estimator is the class {self.estimator.__name__}; hand over an instance, "
                f"{self.estimator.__name__}()."
            )
        if not all(hasattr(self.estimator, name) for name in ("fit", "get_params", "set_params")):
            raise InputError(
                f"estimator {kind} has no fit, get_params and set_params as scikit-learn's "
                "estimators have; wrap its training in a CallableRecipe."
            )
        if _tagged(is_regressor, self.estimator):
            return
        scored = any(hasattr(self.estimator, name) for name in SCORES)
        if not scored or _tagged(is_outlier_detector, self.estimator):
            raise InputError(
                f"estimator {kind} must be a classifier with predict_proba or decision_function, "
                "or a regressor: predicted classes alone carry no signal. Choose a form that "
                "gives probabilities, such as voting='soft', or wrap it in "
                "CalibratedClassifierCV."
            )

    @property
    def task(self) -> str:
        """``classification`` or ``regression``."""
        from sklearn.base import is_regressor

        return "regression" if _tagged(is_regressor, self.estimator) else "classification"

    def describe(self) -> dict[str, Any]:
        """Plain values for findings, without code."""
        settings = {key: _told(value) for key, value in self.estimator.get_params().items()}
        return {"kind": "scikit-learn", "estimator": type(self.estimator).__name__, **settings}

    def code_hash(self) -> str:
        """Hash of the estimator's class and settings; whether it is fitted does not count."""
        from sklearn.base import clone

        return hash_value(clone(self.estimator), "estimator")

    def refuses(self, treatment: Treatment) -> str | None:
        """Why a treatment cannot be applied, or None."""
        reason = treatment.unfit(self.task, loop=False, copies=True)
        if reason is not None:
            return reason
        if treatment.method is not None:
            return treatment.method.refuses(self)
        if treatment.noise > 0:
            return "gradient noise needs a torch recipe"
        if treatment.epochs is not None:
            return "early stopping by epochs needs a torch recipe"
        if treatment.weights is None or treatment.remove:
            return None
        if weight_argument(self.estimator) is None:
            return f"{type(last_step(self.estimator)).__name__}.fit takes no sample_weight"
        return None


def last_step(estimator: Any) -> Any:
    """The estimator at the end of a pipeline; any other is its own last step."""
    steps = getattr(estimator, "steps", None)
    return last_step(steps[-1][1]) if isinstance(steps, list) and steps else estimator


def weight_argument(estimator: Any) -> str | None:
    """The argument of `fit` that carries a weight for each record, or None.

    A pipeline hands weights to its last step, a search or a transformed target to the
    estimator inside.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import Pipeline
    >>> weight_argument(Pipeline([("ridge", Ridge())]))
    'ridge__sample_weight'
    """
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = weight_argument(last)
        return None if inner is None else f"{name}__{inner}"
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        return weight_argument(estimator.estimator)
    if isinstance(estimator, TransformedTargetRegressor) and estimator.regressor is not None:
        return weight_argument(estimator.regressor)
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def _tagged(check: Callable[[Any], bool], estimator: Any) -> bool:
    """What the estimator's tags say; one without tags is taken by what it can do."""
    try:
        return bool(check(estimator))
    except AttributeError:
        return False


def _told(value: Any) -> str:
    """A setting in words that are the same in every process and wherever its file lies."""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
    return re.sub(r"\blethe_recipe_[0-9a-f]{12}\.", "", text)
