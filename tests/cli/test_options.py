"""Options are the settings: one name, one default, one sentence for both."""

import inspect
from dataclasses import asdict, dataclass, fields

import pytest

import lethe
from lethe.cli.audits import AUDITS, _loaded, command_of
from lethe.cli.options import options_for
from lethe.errors import InputError
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.membership.language.settings import LanguageSettings
from lethe.membership.settings import AuditSettings
from lethe.queries.mechanism_audit.settings import MechanismSettings
from lethe.reidentification.settings import EmbeddingSettings
from lethe.runs.settings import Run, descriptions, keywords_of, settings_of


@pytest.mark.parametrize("kind", AUDITS)
def test_every_option_is_told_once_and_is_none_where_it_is_not_given(kind: str) -> None:
    audit = AUDITS[kind]
    _, given = inspect.signature(command_of(kind)).parameters.values()
    options = asdict(given.default)
    assert set(options.values()) == {None}
    known = {
        audit.names.get(name, name)
        for source in audit.sources
        for name in descriptions(_loaded(source))
    }
    assert set(options) - {"out", "config", "context", "as_json", "quiet"} <= known
    assert {*audit.commas, *audit.pairs} <= set(options)


SETTINGS = (
    *(AuditSettings, EmbeddingSettings, LanguageSettings, MechanismSettings),
    *(RecordSettings, SyntheticSettings, TableSettings),
)


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_setting_is_described_and_has_a_default(settings: type) -> None:
    assert {entry.name for entry in fields(settings)} <= set(descriptions(settings))
    assert settings_of(settings, {}) == settings()


@pytest.mark.parametrize("name", [name for name in lethe.__all__ if name.startswith("audit")])
def test_help_lists_the_settings_and_keywords_of_every_audit(name: str) -> None:
    function = getattr(lethe, name)
    listed = inspect.signature(function).parameters
    assert set(listed) == set(descriptions(function)) and {*descriptions(Run)} <= set(listed)
    with pytest.raises(InputError, match="is no setting of this audit. Did you mean 'seed'?"):
        keywords_of(AuditSettings, {"sed": 1, "quiet": True})


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
    assert descriptions(Three)["ks"] == "sizes, which may be several."
    heads = {"sizes": "Data", "name": "Data"}
    made = options_for(Three, names={"ks": "sizes"}, leave=("share",), others=heads)
    assert asdict(made()) == {"sizes": None, "name": None}
    assert settings_of(Three, {"ks": 3}).ks == (3,)
    for wrong in ({"ks": ["a"]}, {"share": "much"}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            settings_of(Three, wrong)
