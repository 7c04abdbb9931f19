"""Data that ship along: whole, real, the same each time, and fit for what they are for."""

from pathlib import Path

import numpy as np
from pyarrow import parquet
from sklearn.metrics import roc_auc_score

from lethe.data.shipped import FILMS, write_patients, write_vectors


def test_the_patients_are_those_of_scikit_learn(tmp_path: Path) -> None:
    write_patients(tmp_path / "one.parquet")
    write_patients(tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    table = parquet.read_table(tmp_path / "one.parquet")
    assert table.num_rows == 569
    said = table.column("diagnosis").to_pylist()
    assert (said.count("benign"), said.count("malignant")) == (357, 212)  # as published
    assert table.column("radius")[0].as_py() == 17.99


def test_the_vectors_serve_their_task_and_belong_to_people(tmp_path: Path) -> None:
    write_vectors(tmp_path / "vectors.npz", tmp_path / "head.npz")
    vectors, head = np.load(tmp_path / "vectors.npz"), np.load(tmp_path / "head.npz")
    names, counts = np.unique(vectors["user_ids"], return_counts=True)
    assert len(names) == 899 and set(counts) == {6}
    logits = vectors["representations"] @ head["w"] + head["b"]
    assert roc_auc_score(vectors["labels"], logits) > 0.97
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head.npz", "vectors.npz"]


def test_the_films_are_a_sample_with_its_terms_beside_it() -> None:
    table = parquet.read_table(FILMS)
    assert table.num_rows == 18957
    assert len(set(table.column("person").to_pylist())) == 800
    assert "MIT" in (FILMS.parent / "README.md").read_text(encoding="utf-8")
