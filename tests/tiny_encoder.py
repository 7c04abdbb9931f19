"""A tiny sentence encoder built from a configuration: nothing is downloaded."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
BODY = ["hand", "leg", "back", "eye", "foot"]
CAUSE = ["cut", "burn", "fall", "crush", "shock", "by", "from", "saw", "oven", "ladder", "press"]
WORDS = [*SPECIAL, *BODY, *CAUSE]


def tiny_encoder(
    folder: Path, pooling: str | None = "mean", seed: int = 0, positions: int = 18
) -> Path:
    """A folder with a one-layer BERT of width 16 and a tokenizer of whole words.

    With `pooling` the folder is as sentence-transformers saves it, with None as transformers does.
    """
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=positions,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(folder)
    words = Tokenizer(WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    if pooling is not None:
        kinds = ["Transformer", "Pooling", "Normalize"]
        places = ["", "1_Pooling", "2_Normalize"]
        modules = [
            {"idx": at, "path": place, "type": f"sentence_transformers.models.{kind}"}
            for at, (kind, place) in enumerate(zip(kinds, places, strict=True))
        ]
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({pooling_key(pooling): True}))
    return folder


def pooling_key(pooling: str) -> str:
    """What sentence-transformers calls it."""
    return {"cls": "pooling_mode_cls_token"}.get(pooling, f"pooling_mode_{pooling}_tokens")
