"""Texts made up here, a tokenizer trained on them, and a GPT-2 of 50,000 weights."""

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from lethe.membership.language.fine_tune import FineTune, fine_tune, save_model
from lethe.membership.language.models import quiet
from lethe.membership.language.tokens import scored_together
from lethe.training.users_code import seeded

WHO = "worker driver nurse cook guard clerk painter welder farmer pilot".split()
DID = "fell slipped tripped burned cut broke crushed hurt bruised twisted".split()
WHERE = "ladder floor oven saw truck roof stairs press yard dock".split()
PART = "arm leg hand foot back head knee wrist thumb hip".split()
SYLLABLES = "ka lo mi ru te so na vi pe du ba go".split()


def narratives(count: int, seed: int = 0) -> list[str]:
    """Sentences on accidents, each with a made-up name and number that nobody could guess."""
    rng = np.random.default_rng(seed)

    def pick(words: list[str]) -> str:
        return words[int(rng.integers(len(words)))]

    return [
        f"the {pick(WHO)} {''.join(rng.choice(SYLLABLES, 3))} {pick(DID)} the {pick(PART)} at the "
        f"{pick(WHERE)} on day {rng.integers(10, 99)} and the {pick(PART)} was treated in room "
        f"{rng.integers(100, 999)} by {''.join(rng.choice(SYLLABLES, 3))} then the {pick(WHO)} "
        f"went home with a {pick(PART)} brace"
        for _ in range(count)
    ]


def tokenizer_on(texts: list[str], size: int = 320):
    """A byte-level tokenizer with an end of text, trained here."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size + 60,
        special_tokens=["<end>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>"
    )


def gpt2(tokenizer, width: int = 32, layers: int = 2, context: int = 96, seed: int = 0):
    """A GPT-2 with weights at random."""
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=context,
        n_embd=width,
        n_layer=layers,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    with seeded(seed), quiet():
        return transformers.GPT2LMHeadModel(config)


@functools.cache
def base_folder() -> Path:
    """A base model, trained from nothing on other texts of the same kind."""
    folder = Path(tempfile.mkdtemp(prefix="lethe-tiny-")) / "base"
    public = narratives(400, seed=99)
    tokenizer = tokenizer_on(public)
    model, _ = fine_tune(gpt2(tokenizer), tokenizer, public, FineTune(3, 5e-3, 32, seed=1))
    save_model(model, tokenizer, folder)
    return folder


@functools.cache
def tuned_folder(epochs: int = 12, members: int = 250, copies: int = 1) -> tuple[Path, list[str]]:
    """The base fine-tuned on the first half of 2 * `members` texts; the texts, members first."""
    folder = base_folder().parent / f"tuned-{epochs}-{members}-{copies}"
    texts = narratives(2 * members, seed=5)
    model, tokenizer = load_base()
    trained, _ = fine_tune(model, tokenizer, texts[:members] * copies, FineTune(epochs, 4e-3, 32))
    save_model(trained, tokenizer, folder)
    return folder, texts


def load_base():
    """A fresh copy of the base and its tokenizer."""
    torch.set_num_threads(1)
    with quiet():
        return (
            transformers.GPT2LMHeadModel.from_pretrained(str(base_folder())),
            transformers.AutoTokenizer.from_pretrained(str(base_folder())),
        )


def scored_chunks(model: Any, ids: Any, folder: Path | None = None) -> Iterator[tuple[int, Any]]:
    """Place and scores of each text by one model."""
    return ((at, alone) for at, (alone,) in scored_together((model,), ids, folder))
