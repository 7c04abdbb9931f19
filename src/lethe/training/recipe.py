"""How one model is trained: a torch module factory, a scikit-learn estimator, or any callable.

`Treatment` is what a mitigation changes in that, `Method` what takes the place of the whole loop,
and `Work` some models that are to be trained together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.training.fingerprint import hash_array, hash_value
from lethe.training.users_code import build_module

if TYPE_CHECKING:
    from lethe.training.answers import AnswerForm
    from lethe.training.augment import Augment

OPTIMIZERS = ("adam", "adamw", "sgd")
LOSSES = ("cross-entropy", "squared-error")
SCHEDULES = ("constant", "cosine", "one-cycle")
PRECISIONS = ("float32", "bfloat16")
OUTPUTS = ("logits", "probabilities", "prediction")


class Predict(Protocol):
    """A trained model: row numbers in; out, as declared, logits, probabilities or predictions."""

    def __call__(self, rows: NDArray[np.int64], /) -> NDArray[np.floating]: ...


class Train(Protocol):
    """Trains one model on some rows of the user's data.

    `rows` are int64 row numbers, `weights` one float32 loss weight a row, `seed` the only
    source of randomness, in [0, 2^32) as NumPy and scikit-learn take it.
    """

    def __call__(
        self, rows: NDArray[np.int64], weights: NDArray[np.float32], seed: int, /
    ) -> Predict: ...


@dataclass(frozen=True)
class Treatment:
    """What a mitigation changes in a training run; the default changes nothing.

    Attributes:
        weights: (N,) float32 factor in [0, 1] on each record's loss, or None. The loss is
            divided by the batch size, not by the sum of weights.
        noise: standard deviation of the Gaussian noise added once a step to every coordinate
            of the *averaged* gradient (not to the sum, which would be `noise` * batch size).
        epochs: end the recipe's training after this many of its epochs. It is cut, not shortened:
            the learning rate is that of the full training up to there.
        remove: leave records of weight 0 out of the batches altogether.
        method: trains in the place of the recipe's own loop; it is told the rest.
        weight_decay: L2 penalty in the place of the recipe's, as in torch.optim, >= 0.
        label_smoothing: in the place of the recipe's, in [0, 1).
        mixup: alpha > 0 of Beta(alpha, alpha), from which the share of a row in its mixture with
            another row of the same batch is drawn (Zhang et al., ICLR 2018, eq. 1).
        average: share in (0, 1] of the last steps whose parameters are averaged, evenly
            (Izmailov et al., UAI 2018). Running statistics of batch normalisation are averaged
            too; they are not computed anew, which would read the records once more.
        answer: what the trained model answers, see `lethe.training.answers`.
    """

    weights: NDArray[np.float32] | None = None
    noise: float = 0.0
    epochs: int | None = None
    remove: bool = False
    method: Method | None = None
    weight_decay: float | None = None
    label_smoothing: float | None = None
    mixup: float | None = None
    average: float | None = None
    answer: AnswerForm | None = None

    def __post_init__(self) -> None:
        check_between("noise", self.noise, 0, float("inf"), open_high=True)
        for name, high, open_low, open_high in (
            ("weight_decay", float("inf"), False, True),
            ("label_smoothing", 1, False, True),
            ("mixup", float("inf"), True, True),
            ("average", 1, True, False),
        ):
            value = getattr(self, name)
            if value is not None:
                check_between(name, value, 0, high, open_low=open_low, open_high=open_high)
        if self.method is not None and self.of_the_loop:
            raise InputError(
                f"{', '.join(self.of_the_loop)} change the recipe's own training loop, and "
                "method= trains in its place; leave one of them out."
            )
        if self.epochs is not None:
            check_at_least("epochs", self.epochs, 1)
        if self.weights is not None and not (
            np.all(self.weights >= 0) and np.all(self.weights <= 1)
        ):
            raise InputError("weights must lie in [0, 1].")

    @property
    def of_the_loop(self) -> dict[str, float]:
        """The changes by name that only the training loop of a torch recipe can make."""
        names = ("weight_decay", "label_smoothing", "mixup", "average")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def unfit(self, recipe: Recipe, loop: bool, copies: bool) -> str | None:
        """Say why recipes of a kind cannot apply the changes, apart from weights; None if they can.

        Args:
            loop: whether Lethe's own training loop trains the model.
            copies: whether the model can be asked about records that are not in the data.
        """
        if not loop and self.of_the_loop:
            return f"{', '.join(self.of_the_loop)} need a torch recipe"
        if recipe.task == "regression" and self.label_smoothing is not None:
            return "label smoothing needs classes; a regression has none"
        if recipe.task == "regression" and self.answer is not None:
            return "temperature, rounding of probabilities and labels need classes"
        if self.answer is not None and self.answer.needs_copies and not copies:
            return (
                "labels are attacked by asking about changed copies of the records, and Predict "
                "takes row numbers only; use a torch recipe or a scikit-learn estimator"
            )
        if self.method is not None:
            return self.method.refuses(recipe)
        if not loop and self.noise > 0:
            return "gradient noise needs a torch recipe"
        return None if loop or self.epochs is None else "early stopping needs a torch recipe"

    def describe(self) -> Mapping[str, Any]:
        """Plain values that stand for the treatment in a content hash.

        What came later is named only where it is used, so that models of earlier runs keep their
        name.
        """
        described = {
            "weights": None if self.weights is None else hash_array(self.weights),
            "noise": self.noise,
            "epochs": self.epochs,
            "remove": self.remove,
        }
        for name in ("method", "answer"):
            part = getattr(self, name)
            described |= {} if part is None else {name: part.describe()}
        return described | self.of_the_loop


@dataclass(frozen=True)
class TorchRecipe:
    """A torch module trained with mini-batches.

    Attributes:
        make_module: builds a fresh module that maps (n, ...) features to (n, C) logits, or to
            (n, 1) predictions; torch's global generator is seeded before each call.
        epochs: passes over the training rows.
        batch_size: rows a step; the last batches of an epoch are evened out.
        learning_rate: the highest of the schedule.
        optimizer: ``adam``, ``adamw`` or ``sgd``.
        momentum: of SGD.
        weight_decay: as in torch.optim, on all parameters.
        nesterov: of SGD.
        loss: ``cross-entropy``, or ``squared-error`` for a regression, whose targets are
            standardised for training; predictions come back in the target's own units.
        schedule: ``constant``, ``cosine`` or ``one-cycle``; see `schedules.factor`.
        warmup: share of the steps over which the rate rises, in [0, 1).
        label_smoothing: of cross-entropy, in [0, 1).
        clip_norm: largest Euclidean norm of a model's averaged gradient, or None.
        augment: random changes of training images, or None.
        patience: stop a model after so many epochs without a lower loss on rows of its own that
            are held back, and take its best state; None trains all epochs.
        validation: share of a model's rows held back for that, in (0, 1).
        precision: ``float32``, or ``bfloat16`` products and convolutions where the hardware has
            them; it changes results.
    """

    make_module: Callable[[], Any]
    epochs: int = 30
    batch_size: int = 64
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    loss: str = "cross-entropy"
    schedule: str = "constant"
    warmup: float = 0.0
    label_smoothing: float = 0.0
    clip_norm: float | None = None
    augment: Augment | None = None
    patience: int | None = None
    validation: float = 0.1
    precision: str = "float32"

    def __post_init__(self) -> None:
        check_at_least("epochs", self.epochs, 1)
        check_at_least("batch_size", self.batch_size, 1)
        check_between("learning_rate", self.learning_rate, 0, float("inf"), open_low=True)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_between("momentum", self.momentum, 0, 1, open_high=True)
        check_at_least("weight_decay", self.weight_decay, 0)
        check_choice("loss", self.loss, LOSSES)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_between("warmup", self.warmup, 0, 1, open_high=True)
        check_between("label_smoothing", self.label_smoothing, 0, 1, open_high=True)
        check_between("validation", self.validation, 0, 1, open_low=True, open_high=True)
        check_choice("precision", self.precision, PRECISIONS)
        if self.clip_norm is not None:
            check_between("clip_norm", self.clip_norm, 0, float("inf"), open_low=True)
        if self.patience is not None:
            check_at_least("patience", self.patience, 1)
        if self.nesterov and not (self.optimizer == "sgd" and self.momentum > 0):
            raise InputError("nesterov=True needs optimizer='sgd' and momentum > 0.")
        if self.label_smoothing > 0 and self.loss != "cross-entropy":
            raise InputError(
                f"label_smoothing={self.label_smoothing} needs loss='cross-entropy'; "
                "leave it at 0 for a regression."
            )
        if self.warmup > 0 and self.schedule == "one-cycle":
            raise InputError(
                f"warmup={self.warmup} is for the schedules 'constant' and 'cosine'; "
                "'one-cycle' has a rise of its own. Leave it at 0."
            )

    @property
    def task(self) -> str:
        """``classification`` or ``regression``."""
        return "classification" if self.loss == "cross-entropy" else "regression"

    @property
    def held_back(self) -> float:
        """Share of a model's rows that watch its training instead of driving it."""
        return 0.0 if self.patience is None else self.validation

    def describe(self) -> Mapping[str, Any]:
        """Plain values for findings, without code."""
        settings = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in ("make_module", "augment", "validation")
        }
        return {
            "kind": "torch",
            **settings,
            "validation": self.held_back,
            "augment": None if self.augment is None else self.augment.describe(),
        }

    def code_hash(self) -> str:
        """Hash of the factory's code and of the module that it builds from seed 0."""
        return hash_value([self.make_module, build_module(self.make_module, 0)], "make_module")

    def refuses(self, treatment: Treatment) -> str | None:
        """Why a treatment cannot be applied, or None."""
        if treatment.average is not None and self.patience is not None:
            return "the last steps to average are not known where patience ends the training"
        if treatment.epochs is not None and treatment.epochs > self.epochs:
            return f"a training of {self.epochs} epochs cannot be cut after {treatment.epochs}"
        return treatment.unfit(self, loop=True, copies=True)


@dataclass(frozen=True)
class CallableRecipe:
    """Any training code behind the `Train` protocol; the data live inside it.

    Attributes:
        train: see `Train`. Python's, NumPy's and torch's global generators are seeded before
            each call.
        outputs: what `Predict` returns: ``logits`` or ``probabilities``, or ``prediction``, the
            target of a regression in its own units.
        version: change it when something changes that no code or value shows, such as a file
            that `train` reads.
        weights_refused: why `train` cannot use `weights`, if it cannot; mitigations by weight
            are then refused with this reason. Empty if it uses them.
    """

    train: Train
    outputs: str = "logits"
    version: str = ""
    weights_refused: str = ""

    def __post_init__(self) -> None:
        check_choice("outputs", self.outputs, OUTPUTS)
        if not callable(self.train):
            raise InputError(
                f"train is a {type(self.train).__name__}, expected a function "
                "Train(rows, weights, seed) -> Predict."
            )

    @property
    def task(self) -> str:
        """``classification`` or ``regression``."""
        return "regression" if self.outputs == "prediction" else "classification"

    def describe(self) -> Mapping[str, Any]:
        """Plain values for findings, without code.

        A `train` with a `describe` of its own, as the adapters have, says what it is.
        """
        plain = {"outputs": self.outputs, "version": self.version}
        if hasattr(self.train, "describe"):
            return {**self.train.describe(), **plain}
        name = getattr(self.train, "__qualname__", type(self.train).__name__)
        return {"kind": "callable", "train": name, **plain}

    def code_hash(self) -> str:
        """Hash of the callable's code and of every value it reaches."""
        return hash_value([self.train, self.version], "train")

    def refuses(self, treatment: Treatment) -> str | None:
        """Why a treatment cannot be applied, or None."""
        reason = treatment.unfit(self, loop=False, copies=False)
        weighted = treatment.weights is not None and not treatment.remove
        return reason or (self.weights_refused if weighted and self.weights_refused else None)


@dataclass(frozen=True)
class SklearnRecipe:
    """A classifier or regressor with scikit-learn's interface.

    It is cloned and re-seeded for every model. Estimators of XGBoost, LightGBM and skorch and
    pipelines that end in one are such estimators.

    Attributes:
        estimator: a classifier with ``predict_proba`` or ``decision_function``, or a regressor
            with ``predict``; fitted or not, it is left as it is.
        frame: the data frame of all records that it is fitted on, with its names, types and gaps;
            None = the features of the data set, as float32.
        labels: (classes,) label that each class code stands for in `fit`, or (classes, outputs) of
            a model with several outputs; None = the codes.
        sample_weight: (N,) weight above 0 of each record in `fit`, or None.

    Raises InputError: it is neither, or takes no weights; a part of it is fitted and stays so.

    >>> from sklearn.linear_model import Ridge
    >>> SklearnRecipe(Ridge()).task
    'regression'
    """

    estimator: Any
    frame: Any = None
    labels: NDArray[Any] | None = None
    sample_weight: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        from sklearn.base import is_outlier_detector

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
        for part in self._parts():
            if hasattr(part, "__sklearn_clone__") and part.__sklearn_clone__() is part:
                raise InputError(
                    f"estimator {kind} holds a {type(part).__name__}, which stays fitted as it is: "
                    "every shadow model would share it. Hand over the estimator inside it."
                )
        if self.sample_weight is not None and weight_argument(self.estimator) is None:
            raise InputError(
                f"sample_weight: {type(last_step(self.estimator)).__name__}.fit takes none. Leave "
                "it out, or take an estimator that does."
            )
        if self.task == "regression":
            return
        if not self._scores() or _tagged(is_outlier_detector, self.estimator):
            raise InputError(
                f"estimator {kind} must be a classifier with predict_proba or decision_function, "
                "or a regressor: predicted classes alone carry no signal. Choose a form that "
                "gives probabilities, such as voting='soft', or wrap it in "
                "CalibratedClassifierCV."
            )

    def _parts(self) -> list[Any]:
        return [self.estimator, *self.estimator.get_params(deep=True).values()]

    def _scores(self) -> bool:
        """Whether it will give scores; a stack says so once it has its final estimator."""
        from sklearn.base import clone
        from sklearn.linear_model import LogisticRegression

        usual = clone(self.estimator)
        for name, value in self.estimator.get_params().items():
            if value is None and name.rpartition("__")[2] == "final_estimator":
                usual.set_params(**{name: LogisticRegression()})
        return hasattr(usual, "predict_proba") or hasattr(usual, "decision_function")

    @property
    def task(self) -> str:
        """``classification`` or ``regression``."""
        from sklearn.base import is_regressor

        return "regression" if _tagged(is_regressor, self.estimator) else "classification"

    def describe(self) -> Mapping[str, Any]:
        """Plain values for findings, without code."""
        # Words that are the same in every process and wherever a file lies.
        settings = {
            key: re.sub(r" at 0x[0-9a-fA-F]+|\blethe_recipe_[0-9a-f]{12}\.", "", repr(value))
            for key, value in self.estimator.get_params().items()
        }
        return {"kind": "scikit-learn", "estimator": type(self.estimator).__name__, **settings}

    def by_names(self) -> bool:
        """Whether it takes columns of a data frame by name: some part is a ColumnTransformer."""
        return any(hasattr(part, "transformers") and hasattr(part, "fit") for part in self._parts())

    def code_hash(self) -> str:
        """Hash of the estimator's class and settings; whether it is fitted does not count."""
        from sklearn.base import clone

        estimator = hash_value(clone(self.estimator), "estimator")
        for name in ("labels", "sample_weight"):
            if (part := getattr(self, name)) is not None:
                estimator = hash_value([estimator, name, part], name)
        if self.frame is None:
            return estimator
        columns: list[Any] = [] if hasattr(self.frame, "columns") else self.frame.tolist()
        for key in getattr(self.frame, "columns", ()):
            values: Any = self.frame[key].to_numpy()
            if values.dtype.kind not in "biufmM":
                values = [repr(value) for value in self.frame[key].to_list()]
            columns.append((str(key), str(self.frame[key].dtype), values))
        return hash_value([estimator, columns], "frame")

    def refuses(self, treatment: Treatment) -> str | None:
        """Why a treatment cannot be applied, or None."""
        reason = treatment.unfit(self, loop=False, copies=self.frame is None)
        weighted = treatment.weights is not None and not treatment.remove
        if reason or not weighted or weight_argument(self.estimator) is not None:
            return reason
        return f"{type(last_step(self.estimator)).__name__}.fit takes no sample_weight"


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
    """Read the estimator's tags; one without tags is judged by its methods."""
    try:
        return bool(check(estimator))
    except AttributeError:
        return False


DEFAULT_WIDTH = 16
PER_GPU = 2
"""Processes that share a GPU: while one is dealing batches, the other keeps it busy."""


@dataclass(frozen=True)
class Layout:
    """One way to train many models of one recipe.

    Attributes:
        kind: ``chain`` (layers with a written-out backward pass, many models at once) or ``alone``
            (one model after another by autograd).
    """

    kind: str
    width: int = DEFAULT_WIDTH  # models trained at once, at most
    device: str = "cpu"  # where, ``cpu`` or ``cuda``
    images_last: bool = False  # whether `alone` lays images out channels-last
    why: str = ""  # in a few words

    def workers(self, most: int) -> int:
        """Limit the processes that train side by side; few share a GPU."""
        return min(most, PER_GPU) if self.device == "cuda" else most

    def to_json(self) -> Mapping[str, Any]:
        """Plain values for the manifest."""
        return asdict(self)

    @classmethod
    def from_json(cls, settled: Mapping[str, Any]) -> Layout:
        """The layout that a manifest holds, among other figures of its calibration."""
        return cls(**{field.name: settled[field.name] for field in fields(cls)})


@dataclass(frozen=True)
class Work:
    """Some models to train, and everything that decides them.

    Attributes:
        layout: how models of a torch recipe are held; None for what its structure suggests.
        queries: changed copies of each record that models of a recipe with augmentation are asked
            about too, the same of every model by `query_seed`; outputs are then (N + queries N, C),
            copy after copy.
    """

    recipe: Recipe  # how a model is built, and how it would be trained without a method
    features: NDArray[np.floating]  # (N, ...) inputs of all records
    labels: NDArray[Any]  # (N,) class codes, or targets of a regression
    members: NDArray[np.bool_]  # (K, N) which records each model trains on
    pool: NDArray[np.bool_]  # (N,) True where a record can be a member
    treatment: Treatment  # the mitigation, with its weights if it has any
    seeds: Sequence[int]  # K model seeds; a model depends on its own alone
    layout: Layout | None = None
    classes: int = 0  # number of classes, for estimators, whose rows may lack one
    queries: int = 0
    query_seed: int = 0
    people: NDArray[np.integer] | None = None  # (N,) code of each record's person, or None


class Method(Protocol):
    """What a mitigation puts in the place of the recipe's loop; it travels to worker processes."""

    def describe(self) -> Mapping[str, Any]: ...

    def refuses(self, recipe: Recipe) -> str | None:
        """Why models of this recipe cannot be trained in this way, or None."""
        ...

    def train(self, work: Work) -> Iterator[NDArray[np.float32]]:
        """(N, C) outputs of each model in order: logits, or predictions in the target's units."""
        ...


Recipe = TorchRecipe | SklearnRecipe | CallableRecipe


def check_treatment(recipe: Recipe, treatment: Treatment) -> None:
    """Refuse a treatment that the recipe cannot be given.

    Raises InputError: with the reason that the recipe gives.
    """
    reason = recipe.refuses(treatment)
    if reason:
        raise InputError(f"this treatment cannot be applied: {reason}.")
