"""Documents against the schema of findings, which is made and checked once a process."""

import functools
from typing import Any

from jsonschema import Draft202012Validator

from lethe.evidence.findings import schema


@functools.cache
def _validator() -> Draft202012Validator:
    made = schema()
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


def check_document(document: Any) -> None:
    """Fail with what does not fit the schema."""
    _validator().validate(document)
