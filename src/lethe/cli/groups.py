"""Under which heading each option of an audit stands in its help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar, get_type_hints

from cyclopts import Group, Parameter

_NAMES = {
    "Data": (
        "label task id_column group slices drop rows missing text min_class_size embeddings "
        "vectors user period from_date table joined max_people max_probes features head layer "
        "attribute texts encoder candidates other "
        "quasi sensitive population people schema inside person item value time unit keep "
        "aux aux_columns truth original control linked signal bounds size beyond neighbours "
        "texts member date canaries scores base_scores declared"
    ),
    "Model": "recipe model fine_tune epochs models holdout holdout_by base also",
    "Claim": "rho mu",
    "Attacks": (
        "attack variance augmented_queries onion metric averaged clean_gallery known later "
        "min_rows plays targets phi facts time_error value_error false_matches pairs attacks "
        "distance most runs relation verification score_norm known_share prefix suffix samples "
        "chance near"
    ),
    "Mitigations": (
        "mitigations noise noise_convention alpha beta sigma lift draws floor norm diameter "
        "radius_draws radius_points ks suppress bins margin query predict utility_model held_out "
        "defence rate batch"
    ),
    "Private training": (
        "epsilon delta clip dp_batch_size dp_epochs dp_learning_rate dp_optimizer local_epsilon"
    ),
    "Stopping and rules": "gate until release confidence precision pilot",
    "Running": (
        "workers seed memory engine engine_option device keep_records out config context as_json "
        "quiet"
    ),
}
HEADINGS = {
    heading: Group(heading, sort_key=place) for place, heading in enumerate(_NAMES, start=1)
}
_HEADING = {name: heading for heading, names in _NAMES.items() for name in names.split()}
Kind = TypeVar("Kind", bound=type)


def heading_of(name: str, others: Mapping[str, str] | None = None) -> Group:
    """The heading of an option, which must have one.

    Args:
        name: of the option, as Python writes it.
        others: headings of options that mean something else in one command.
    """
    return HEADINGS[(others or {}).get(name) or _HEADING[name]]


def grouped(kind: Kind, others: Mapping[str, str] | None = None) -> Kind:
    """Make a dataclass the options of a command, each under its heading."""
    hints = get_type_hints(kind, include_extras=True)
    hints |= {
        name: Annotated[hint, Parameter(group=heading_of(name, others))]
        for name, hint in hints.items()
    }
    kind.__annotations__ = hints
    for name, entry in kind.__dataclass_fields__.items():  # type: ignore[attr-defined]  # it is one
        entry.type = hints[name]
    made: Kind = Parameter(name="*")(kind)
    return made
