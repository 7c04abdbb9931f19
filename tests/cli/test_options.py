"""Options are the settings: one name, one default, one sentence for both."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

from lethe.cli import audit_embeddings, audit_mechanism, audit_rows, subject
from lethe.cli.options import attribute_lines, given_in, options_for, settings_of
from lethe.errors import InputError
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.membership.settings import AuditSettings
from lethe.queries.mechanism_audit.settings import MechanismSettings
from lethe.reidentification.settings import EmbeddingSettings

KINDS = {
    AuditSettings: subject.ModelOptions,
    TableSettings: audit_rows.TableOptions,
    RecordSettings: audit_rows.RecordOptions,
    SyntheticSettings: audit_rows.SyntheticOptions,
    EmbeddingSettings: audit_embeddings.VectorOptions,
    MechanismSettings: audit_mechanism.TrialOptions,
}
RENAMED = {"queries": "query", "population": "people", "sigmas": "sigma", "vectors": "joined"}


@pytest.mark.parametrize("settings", KINDS)
def test_every_setting_is_told_and_an_option_takes_nothing_else(settings: type) -> None:
    told = attribute_lines(settings)
    assert {entry.name for entry in fields(settings)} <= set(told)
    names = {RENAMED.get(entry.name, entry.name) for entry in fields(settings)}
    assert {entry.name for entry in fields(KINDS[settings])} <= names


@pytest.mark.parametrize("settings", KINDS)
def test_what_is_not_given_keeps_its_default(settings: type) -> None:
    nothing = given_in(KINDS[settings]())
    assert set(nothing.values()) == {None}
    assert settings_of(settings, nothing, RENAMED) == settings()


@dataclass(frozen=True)
class Three:
    """Settings.

    Attributes:
        ks: sizes, which
            may be several.
        name: of it.
        share: of them.
    """

    ks: tuple[int, ...] = (2, 5)
    name: str | None = None
    share: float = 0.5


def test_a_file_may_give_one_where_several_are_meant_and_no_other_type() -> None:
    assert attribute_lines(Three)["ks"] == "sizes, which may be several."
    heads = {"sizes": "Data", "name": "Data"}
    made = options_for(Three, names={"ks": "sizes"}, leave=("share",), others=heads)
    assert given_in(made()) == {"sizes": None, "name": None}
    assert settings_of(Three, {"sizes": 3}, {"ks": "sizes"}).ks == (3,)
    for wrong in ({"ks": ["a"]}, {"share": "much"}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            settings_of(Three, wrong)
