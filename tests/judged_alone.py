"""Audits of language models, faster where rules judge the release as it is and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest

from lethe.membership.language.candidates import LanguageNumbers


def judged_alone() -> Iterator[None]:
    """Leaks are planted into the release alone: they decide rules on what they are planted into.

    Planting takes half of the time of an audit, and no rule on the release reads those of others.
    """
    real = LanguageNumbers.plants

    def plants(audit: LanguageNumbers, release: Any) -> Any:
        return real(audit, release) if release is audit.study.releases[0] else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanguageNumbers, "plants", plants)
        yield
