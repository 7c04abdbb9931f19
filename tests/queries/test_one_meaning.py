"""JSON that decides a charge has one meaning: repeated keys and infinite numbers are refused."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registered_data import registered

from lethe.errors import InputError
from lethe.queries.ledger.chain import Accounts, read_json
from lethe.queries.ledger.contract import Damaged
from lethe.queries.registration import find

KEYS = st.sampled_from(["epsilon", "delta", "rows", "a", "\u00e9", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=4),
    max_leaves=12,
)


def written(value: object) -> tuple[str, bool]:
    """JSON text in which tuples are members of an object, and whether it has one meaning."""
    if isinstance(value, float):
        return json.dumps(value).replace("Infinity", "1e999"), math.isfinite(value)
    if not isinstance(value, list):
        return json.dumps(value), True
    members = [written(item[1] if isinstance(item, tuple) else item) for item in value]
    plain = all(fits for _, fits in members)
    if value and isinstance(value[0], tuple):
        keys = [key for key, _ in value]
        texts = [f"{json.dumps(key)}: {text}" for key, (text, _) in zip(keys, members, strict=True)]
        return f"{{{', '.join(texts)}}}", plain and len(set(keys)) == len(keys)
    return f"[{', '.join(text for text, _ in members)}]", plain


@settings(max_examples=40)
@given(VALUES)
def test_one_text_has_one_value_or_is_refused(value: object) -> None:
    text, fits = written(value)
    if fits:
        assert read_json(text) == json.loads(text)
    else:
        with pytest.raises(ValueError, match="is repeated|is not a finite number"):
            read_json(text)


def test_accounts_and_the_file_of_registered_data_have_one_meaning(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age\n20\n30\n")
    keeper = registered(path).keeper
    keeper.write_text(keeper.read_text().replace('"key":', '"key": "00", "key":'))
    with pytest.raises(InputError, match="is no keeper's file"):
        find(path)
    with pytest.raises(Damaged, match="'spent' is repeated"):
        Accounts.from_text('{"rule": "epsilon", "spent": [9, 0], "spent": [0, 0]}')
