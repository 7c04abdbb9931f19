"""Fine-tuning of a causal model on texts: plain, with an adapter (LoRA), or privately.

What the defences of an audit are trained by, and what examples, tests and benchmarks use. A
training of your own needs none of this: hand its folder in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, require
from lethe.evidence.guarantee import Guarantee
from lethe.files import write_whole
from lethe.membership.language.models import quiet
from lethe.membership.language.settings import parse_defence
from lethe.training.fingerprint import digest
from lethe.training.users_code import seeded

GUARANTEE = "guarantee.json"
CLIP = 1.0


@dataclass(frozen=True)
class FineTune:
    """How a model is fine-tuned.

    Attributes:
        epochs: passes over the texts.
        rate: highest learning rate, of AdamW falling to 0.
        batch: texts a step (expected, where private).
        length: most tokens of a text that are trained on, cut to what the base reads. A private
            training pads all texts to it: the longest one decides nothing.
        lora: rank of the adapter; 0 = all weights.
        epsilon: target of private training (DP-Adam on the adapter); None = not private.
        delta: of the same.
        deduplicated: whether equal texts are trained on once: equal whatever their case and
            blanks, where private character by character, see `distinct`.
        seed: of order and adapter; the noise of a private training takes a secret of its own.
    """

    epochs: float = 3
    rate: float = 5e-4
    batch: int = 16
    length: int = 128
    lora: int = 0
    epsilon: float | None = None
    delta: float = 1e-5
    deduplicated: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low in (("batch", 1), ("length", 2), ("lora", 0)):
            check_at_least(name, getattr(self, name), low)
        if self.epsilon is not None and not self.lora:
            raise InputError("private fine-tuning trains an adapter: give lora, such as lora=8.")


def defence_of(name: str, usual: FineTune) -> FineTune:
    """The training that a defence such as ``dp-lora-4`` names; all else as usual.

    >>> defence_of("lora-4", FineTune(epochs=2)).lora
    4
    """
    kind, value = parse_defence(name)
    if kind == "deduplicated":
        return replace(usual, deduplicated=True)
    if kind == "epochs":
        return replace(usual, epochs=value)
    if kind == "lora":
        return replace(usual, lora=int(value))
    # Private steps are few and large: batches of a sixteenth of the texts at most.
    return replace(usual, lora=8, epsilon=value, batch=8 * usual.batch)


def distinct(texts: Sequence[str]) -> list[str]:
    """Each different text once, sorted: what a private training keeps of equal texts.

    A text stays or goes whole, as it is spelled. Were two spellings taken for one text, which of
    them is trained on would depend on which is there: one text fewer would put another in its
    place, and cost twice.

    >>> distinct(["b", "A b", "b"]), distinct(["a b", "A b"])
    (['A b', 'b'], ['A b', 'a b'])
    """
    return sorted(set(texts))


def plain_text(text: str) -> str:
    """By what two texts count as equal: lower case, single blanks."""
    return " ".join(text.lower().split())


def fine_tune(
    module: Any,
    tokenizer: Any,
    texts: Sequence[str],
    settings: FineTune,
    *,
    see: Callable[[Any, Any], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Any, Guarantee | None]:
    """Fine-tune a causal model on texts; the module that was given may be changed.

    Args:
        module: as transformers makes it.
        see: shown input_ids and labels of every batch of a plain training, as `CanaryWatch.see`.
        progress: told (steps done, steps).

    Returns:
        The model, an adapter where `lora` is set, and the guarantee that was earned, or None.

    Guarantee:
        With `epsilon`: (epsilon, delta)-DP of the adapter, unit one text, add/remove; see
        `train_privately`.
    Assumes: The base model never saw the texts, and their number is public.
    """
    torch = require("torch", "train")
    own = list(texts)
    if settings.deduplicated and settings.epsilon is not None:
        own = distinct(texts)
    elif settings.deduplicated:  # the first spelling of each
        own = list({plain_text(text): text for text in reversed(texts)}.values())[::-1]
    # Most tokens that the model reads, where its configuration says so.
    reads = getattr(getattr(module, "config", None), "max_position_embeddings", None)
    length = min(settings.length, reads) if reads and isinstance(reads, int) else settings.length
    ids, mask = _padded(tokenizer, own, length, 2 if settings.epsilon is None else length)
    if settings.epsilon is not None:
        # How many texts differ is private, their number is not: rows without a word to predict,
        # whose gradient is 0, stand for the others, and rate and steps follow from all.
        blank = len(texts) - len(own)
        ids, mask = (np.pad(rows, ((0, blank), (0, 0))) for rows in (ids, mask))
        mask[len(own) :, 0] = 1
    small = settings.seed % 2**32
    with seeded(small):
        model = _with_adapter(module, settings) if settings.lora else module
        if settings.epsilon is not None:
            return _private(model, ids, mask, settings, progress)
        _plain(torch, model, ids, mask, settings, see, progress)
    return model.train(False), None


def save_model(
    model: Any, tokenizer: Any, folder: Path, guarantee: Guarantee | None = None
) -> None:
    """Write the model or adapter, tokenizer and guarantee of these weights, for an audit."""
    (folder / GUARANTEE).unlink(missing_ok=True)
    with quiet():
        model.save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))
    if guarantee is not None:
        proven = guarantee.to_json() | {"weights": _weights_of(folder)}
        write_whole(folder / GUARANTEE, json.dumps(proven, indent=1).encode() + b"\n")


def _weights_of(folder: Path) -> str:
    """Hash of the files of weights in a folder.

    Raises InputError: there are none, so no proof can be tied to them.
    """
    files = [path for kind in ("safetensors", "bin") for path in folder.rglob(f"*.{kind}")]
    if not files:
        raise InputError(f"{folder} holds no .safetensors and no .bin that a proof could be of.")
    return digest(*(part for path in sorted(files) for part in (path.name, path.read_bytes())))


def read_guarantee(folder: Path) -> Guarantee | None:
    """What `save_model` wrote of a private training; None without it.

    Raises InputError: the file is damaged, or of other weights than those in the folder.
    """
    path = folder / GUARANTEE
    if not path.is_file():
        return None
    try:
        told = json.loads(path.read_bytes())
        if told["weights"] != _weights_of(folder):
            raise InputError(f"{path} is of other weights than these. Delete it, or save again.")
        lists = (tuple(told["assumptions"]), tuple(told["voided_by"]))
        return Guarantee(told["kind"], told["parameters"], told["relation"], told["unit"], *lists)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read as a guarantee: {error}.") from error


def _padded(
    tokenizer: Any, texts: Sequence[str], length: int, least: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    with quiet():
        listed = tokenizer(list(texts), truncation=True, max_length=length)["input_ids"]
    # As a training would pack them: each text ends with the end of text, where there is one.
    end = tokenizer.eos_token_id
    kept = [one[: length - 1] + [end] if end is not None else one for one in listed]
    width = max([least, *map(len, kept)])
    ids, mask = np.zeros((len(kept), width), np.int64), np.zeros((len(kept), width), np.int64)
    for row, one in enumerate(kept):
        ids[row, : len(one)], mask[row, : len(one)] = one, 1
    return ids, mask


def _with_adapter(module: Any, settings: FineTune) -> Any:
    peft = require("peft", "huggingface")
    transposed = any(type(one).__name__ == "Conv1D" for one in module.modules())
    config = peft.LoraConfig(
        r=settings.lora,
        lora_alpha=2 * settings.lora,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
        fan_in_fan_out=transposed,
    )
    with quiet():
        return peft.get_peft_model(module, config)


def _plain(
    torch: Any,
    model: Any,
    ids: NDArray[np.int64],
    mask: NDArray[np.int64],
    settings: FineTune,
    see: Callable[[Any, Any], None] | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    rng = np.random.default_rng([settings.seed, 21])
    steps = max(1, int(np.ceil(settings.epochs * len(ids) / settings.batch)))
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, settings.rate, weight_decay=0.0)
    place = trained[0].device
    model.train(True)
    waiting: list[int] = []
    for step in range(steps):
        while len(waiting) < min(settings.batch, len(ids)):
            waiting += rng.permutation(len(ids)).tolist()
        rows, waiting = waiting[: settings.batch], waiting[settings.batch :]
        width = int(mask[rows].sum(1).max())
        given, kept = (torch.from_numpy(one[rows, :width]).to(place) for one in (ids, mask))
        labels = given.masked_fill(kept == 0, -100)
        if see is not None:
            see(given, labels)
        losses = text_losses(model, {"input_ids": given, "attention_mask": kept})
        optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * (1 - step / steps)
        optimizer.step()
        if progress is not None:
            progress(step + 1, steps)


def text_losses(model: Any, batch: Any) -> Any:
    """(B,) mean loss a token of each text of a batch with input_ids and attention_mask."""
    ids, mask = batch["input_ids"], batch["attention_mask"]
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    kept = mask[:, 1:].to(logits.dtype)
    own = logits.gather(2, ids[:, 1:, None])[..., 0] - logits.logsumexp(2)
    return -(own * kept).sum(1) / kept.sum(1).clamp_min(1)


def _private(
    model: Any,
    ids: NDArray[np.int64],
    mask: NDArray[np.int64],
    settings: FineTune,
    progress: Callable[[int, int], None] | None,
) -> tuple[Any, Guarantee]:
    torch = require("torch", "train")
    from lethe.mitigations.private_training import PrivateSettings, train_privately

    batch = min(settings.batch, len(ids))
    private = PrivateSettings(
        epsilon=settings.epsilon,
        delta=settings.delta,
        clip=CLIP,
        batch_size=batch,
        epochs=settings.epochs,
        learning_rate=4 * settings.rate,
        part_size=min(64, batch),
    )
    place = next(model.parameters()).device
    given = {"input_ids": ids, "attention_mask": mask}
    data = {name: torch.from_numpy(one).to(place) for name, one in given.items()}
    model.train(False)  # dropout would be no part of the released mechanism
    done = train_privately(model, data, private, loss=text_losses, progress=progress)
    return done.module.train(False), done.statement.guarantee
