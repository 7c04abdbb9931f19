"""Causal language models and their tokenizers from local folders; adapters on their base."""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_choice, require
from lethe.training.fingerprint import digest

EXTRA = "huggingface"
PRECISIONS = ("float32", "bfloat16")
DEVICES = ("auto", "cpu", "cuda")
_WEIGHTS = (".safetensors", ".bin")
_ADAPTER = "adapter_config.json"


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A causal model that is ready to score texts.

    Attributes:
        content: hash of weights, configuration and precision.
        context: most tokens of a text that it reads.
    """

    name: str
    module: Any
    tokenizer: Any
    content: str
    context: int

    @property
    def vocabulary(self) -> int:
        """Number of tokens that it gives a probability."""
        return int(self.module.get_output_embeddings().weight.shape[0])

    @property
    def device(self) -> Any:
        """Where its weights lie."""
        return next(self.module.parameters()).device

    def ids(self, texts: list[str]) -> list[NDArray[np.int32]]:
        """Token numbers of each text, as its tokenizer makes them, cut at the context."""
        if not texts:
            return []
        with quiet():
            made = self.tokenizer(texts, truncation=True, max_length=self.context)["input_ids"]
        return [np.asarray(one, np.int32) for one in made]


def load_model(
    folder: str | Path,
    base: str | Path | None = None,
    precision: str = "float32",
    device: str = "auto",
) -> LanguageModel:
    """Load a causal model, or an adapter (PEFT) on its base.

    Args:
        folder: with config.json, weights and a tokenizer, or with adapter_config.json.
        base: folder of the model under an adapter; by default what the adapter names, if that is a
            local folder. Its tokenizer stands in where the adapter has none.
        precision: ``float32`` or ``bfloat16``.
        device: ``auto``, ``cpu`` or ``cuda``.

    Raises:
        InputError: no such folder, no tokenizer, an adapter without its base, a model that is not
            causal, or weights that cannot be read.
        MissingExtra: transformers (or peft, for an adapter) is not installed.
    """
    check_choice("precision", precision, PRECISIONS)
    check_choice("device", device, DEVICES)
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"{path} is no folder; a model is a folder with config.json and weights.")
    adapter = path / _ADAPTER
    under = path
    if adapter.is_file():
        named = base or json.loads(adapter.read_text()).get("base_model_name_or_path") or ""
        under = Path(named)
        if not named or not (under / "config.json").is_file():
            raise InputError(
                f"{path} is an adapter, and its base {str(named)!r} is no local folder with "
                "config.json: name it with --base BASE_DIR."
            )
    torch, transformers = require("torch", "train"), require("transformers", EXTRA)
    kind = getattr(torch, precision)
    with quiet():
        module = _causal(transformers, under, kind)
        if adapter.is_file():
            peft = require("peft", EXTRA)
            try:
                module = peft.PeftModel.from_pretrained(module, str(path)).merge_and_unload()
            except (OSError, ValueError, RuntimeError, KeyError) as error:
                raise InputError(
                    f"the adapter {path} does not fit its base: {_first(error)} Name the base that "
                    "it was trained on with --base."
                ) from error
        tokenizer = _tokenizer(transformers, [path, under])
    place = (
        "cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu"
    )
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device='cuda', but no GPU is there; leave --device out.")
    module = module.to(place).train(False)
    rows = int(module.get_output_embeddings().weight.shape[0])
    if len(tokenizer) > rows:
        raise InputError(
            f"the tokenizer of {path.name} has {len(tokenizer)} tokens, the model {rows}: they do "
            "not belong together. Save both into one folder."
        )
    config = module.config
    context = getattr(config, "max_position_embeddings", None) or getattr(config, "n_ctx", None)
    folders = dict.fromkeys((under, path))
    content = digest(precision, *(_content(one) for one in folders))
    return LanguageModel(path.name, module, tokenizer, content, int(context or 1 << 20))


def read_tokenizer(folder: str | Path) -> Any:
    """The tokenizer of a model's folder. Raises InputError: there is none."""
    with quiet():
        return _tokenizer(require("transformers", EXTRA), [Path(folder)])


def check_together(model: LanguageModel, base: LanguageModel) -> None:
    """Refuse a base whose tokens are not those of the model.

    Raises InputError: tokenizers differ, so that log-probabilities cannot be compared.
    """
    mine, theirs = model.tokenizer.get_vocab(), base.tokenizer.get_vocab()
    shared = all(mine.get(token) == place for token, place in theirs.items())
    if not shared or len(theirs) > len(mine):
        raise InputError(
            f"the vocabulary of {model.name} ({len(mine)} tokens) is not that of the base "
            f"{base.name} ({len(theirs)} tokens): name the base that it was fine-tuned from."
        )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Leave out what transformers says about every model, and its progress bars."""
    transformers = require("transformers", EXTRA)
    logger = transformers.utils.logging
    before = logger.get_verbosity()
    logger.set_verbosity_error()
    logger.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # Between versions of these libraries; nothing that a user could mend.
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logger.enable_progress_bar()
        logger.set_verbosity(before)


def _causal(transformers: Any, path: Path, kind: Any) -> Any:
    if not (path / "config.json").is_file():
        raise InputError(f"{path} has no config.json; save the model with save_pretrained.")
    try:
        config = transformers.AutoConfig.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}/config.json cannot be read: {_first(error)}") from error
    made = [str(name) for name in getattr(config, "architectures", None) or ()]
    known = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    causal = config.model_type in known and not getattr(config, "is_encoder_decoder", False)
    if not causal or any(not one.endswith(("CausalLM", "LMHeadModel")) for one in made):
        what = ", ".join(made) or config.model_type
        raise InputError(
            f"{path} holds a {what}, which is no causal language model: only models that predict "
            "the next token can be audited here."
        )
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(
            str(path), local_files_only=True, dtype=kind
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{path} cannot be loaded: {_first(error)}") from error


def _tokenizer(transformers: Any, folders: list[Path]) -> Any:
    for path in folders:
        if (path / "tokenizer.json").is_file() or (path / "tokenizer_config.json").is_file():
            try:
                return transformers.AutoTokenizer.from_pretrained(str(path), local_files_only=True)
            except (OSError, ValueError, KeyError) as error:
                raise InputError(f"the tokenizer of {path}: {_first(error)}") from error
    raise InputError(
        f"{folders[0]} has no tokenizer (tokenizer.json); save it beside the model with "
        "tokenizer.save_pretrained."
    )


def _content(folder: Path) -> str:
    parts = []
    for path in sorted(folder.iterdir()):
        if path.suffix in _WEIGHTS or path.name in ("config.json", _ADAPTER, "tokenizer.json"):
            with path.open("rb") as file:
                parts += [path.name, hashlib.file_digest(file, "sha256").hexdigest()]
    return digest(*parts)


def _first(error: Exception) -> str:
    line = (str(error).strip().splitlines() or ["unknown"])[0].rstrip(".")
    return f"{line}."
