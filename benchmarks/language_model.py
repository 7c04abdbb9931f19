"""Fine-tuned language models on injury narratives: attacks, canaries, extraction, private training.

    python benchmarks/language_model.py NARRATIVES.parquet [--seeds 3] [--only PART]

A GPT-2 of about 1.3 million weights is trained from nothing on one part of the narratives, then
fine-tuned on another, with canaries among them. No figure stands here: they are in
results/language_model.json, with machine, seeds and sizes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from common import RESULTS, load, save
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from lethe.data.columns import read_columns
from lethe.membership.language.audit import Given, audit_language_model
from lethe.membership.language.canaries import CanaryWatch, plan_text_canaries
from lethe.membership.language.fine_tune import FineTune, fine_tune, save_model
from lethe.membership.language.measure import texts_of
from lethe.membership.language.models import load_model, quiet
from lethe.membership.language.settings import LanguageSettings
from lethe.membership.language.tokens import scored_together
from lethe.training.folder import RunFolder
from lethe.training.users_code import seeded

SIDE = 1000
EPOCHS = (1, 3, 10)
CANARIES = 300
PRIVATE = (1.0, 4.0, 8.0)
CONTEXT = 160
OUT = RESULTS / "language_model.json"


def narratives(path: str) -> tuple[list[str], np.ndarray]:
    """Distinct narratives and their dates."""
    columns = read_columns(path, ["Final Narrative", "EventDate"])
    first: dict[str, Any] = {}
    for text, date in zip(columns["Final Narrative"], columns["EventDate"], strict=True):
        plain = " ".join(str(text).split())
        if len(plain) > 40:
            first.setdefault(plain, date)
    return list(first), np.array(list(first.values()), "datetime64[D]")


def tokenizer_on(texts: list[str]) -> Any:
    """A byte-level tokenizer of 4,096 tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4096,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<end>", pad_token="<end>"
    )


def base_model(texts: list[str], folder: Path) -> None:
    """A GPT-2 trained from nothing."""
    if (folder / "config.json").is_file():
        return
    tokenizer = tokenizer_on(texts)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=CONTEXT,
        n_embd=128,
        n_layer=4,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    with seeded(0), quiet():
        module = transformers.GPT2LMHeadModel(config)
    module, _ = fine_tune(module, tokenizer, texts, FineTune(3, 2e-3, 32, CONTEXT))
    save_model(module, tokenizer, folder)


def tuned(
    base: Path, texts: list[str], how: FineTune, folders: dict[float, Path], plan: Any
) -> dict[str, Any]:
    """One fine-tune, saved after each of some epochs, and what was seen of its canaries."""
    fresh = load_model(base)
    watch = CanaryWatch(plan, fresh.tokenizer)
    watch.begin(fresh.module)
    mixed = plan.insert(texts)
    start = time.perf_counter()
    # The first pass over the texts alone is looked at.
    waiting = [-(-len(mixed) // how.batch)]

    def see(ids: Any, labels: Any) -> None:
        if waiting[0] > 0:
            watch.see(ids, labels)
        waiting[0] -= 1

    def keep(done: int, steps: int) -> None:
        for epochs, folder in folders.items():
            if how.epsilon is None and done == round(steps * epochs / how.epochs):
                save_model(fresh.module, fresh.tokenizer, folder)

    model, proven = fine_tune(fresh.module, fresh.tokenizer, mixed, how, see=see, progress=keep)
    seconds = time.perf_counter() - start
    save_model(model, fresh.tokenizer, folders[how.epochs], proven)
    return {"seconds": seconds, "seen": watch.end(model) if how.epsilon is None else None}


def audited(
    folder: Path, base: Path, table: dict[str, Any], plan: Any, seen: Any, date: str | None = None
) -> dict[str, Any]:
    """One audit, as what its findings say."""
    data = texts_of(table, "text", date=date)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place, RunFolder(Path(place) / "run", "bench") as run:
        found = audit_language_model(
            Given(folder, base), data, LanguageSettings(), plan=plan, seen=seen, folder=run
        )
    document = found.to_json()
    first = document["candidates"][0]
    return {
        "seconds": time.perf_counter() - start,
        "attacks": first["text_attacks"],
        "risk": first["risk"],
        "risk_from": first["risk_from"]["attack"],
        "measures": first["measures"],
        "utility": first["utility"],
        "extraction": first["extraction"],
        "canaries": first.get("canaries"),
        "blind": document["language"]["blind"],
        "refused": document["language"]["refused"],
        "guarantee": first["guarantee"],
        "checks": document["checks"],
        "verdict": document["verdict"],
        "narrow": {one["name"]: one["risk"] for one in document["candidates"][1:]},
        "load": load(),
    }


def split(texts: list[str], seed: int) -> tuple[list[str], dict[str, Any]]:
    """`SIDE` members and as many others, at random."""
    order = np.random.default_rng([seed, 3]).permutation(len(texts))[: 2 * SIDE]
    chosen = [texts[at] for at in order]
    table = {"text": np.array(chosen, object), "member": np.arange(2 * SIDE) < SIDE}
    return chosen[:SIDE], table


def speed(folder: Path, texts: list[str]) -> dict[str, Any]:
    """Tokens a second: by length in batches, against plain loops of transformers."""
    model = load_model(folder)
    ids = model.ids(texts)
    tokens = sum(map(len, ids))

    def ours() -> None:
        for _ in scored_together((model,), ids):
            pass

    def one_by_one() -> None:
        with torch.inference_mode():
            for one in ids:
                given = torch.from_numpy(one.astype(np.int64))[None]
                model.module(given, labels=given)

    def in_order() -> None:
        with torch.inference_mode():
            for start in range(0, len(ids), 32):
                part = ids[start : start + 32]
                wide = max(map(len, part))
                padded, mask = (np.zeros((len(part), wide), np.int64) for _ in range(2))
                for row, one in enumerate(part):
                    padded[row, : len(one)], mask[row, : len(one)] = one, 1
                given = {
                    "input_ids": torch.from_numpy(padded),
                    "attention_mask": torch.from_numpy(mask),
                }
                logits = model.module(**given).logits
                logits.log_softmax(-1).gather(2, given["input_ids"][..., None])

    found: dict[str, Any] = {
        "tokens": tokens,
        "texts": len(texts),
        "threads": torch.get_num_threads(),
    }
    for name, loop in (("lethe", ours), ("one by one", one_by_one), ("32 in order", in_order)):
        times = []
        for _ in range(2):
            start = time.perf_counter()
            loop()
            times.append(time.perf_counter() - start)
        found[name] = {"tokens_per_second": tokens / min(times), "seconds": times}
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("narratives")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--place", type=Path, default=Path(tempfile.gettempdir()) / "lethe-language"
    )
    parser.add_argument("--only", nargs="*", default=("epochs", "private", "shift", "speed"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    texts, dates = narratives(asked.narratives)
    order = np.random.default_rng(7).permutation(len(texts))
    public, private = ([texts[at] for at in part] for part in (order[:7000], order[7000:]))
    base = asked.place / "base"
    base_model(public, base)
    document = json.loads(OUT.read_text()) if OUT.is_file() else {}
    document |= {
        "texts": len(texts),
        "members": SIDE,
        "others": SIDE,
        "weights": sum(one.numel() for one in load_model(base).module.parameters()),
        "rate": 1e-3,
        "batch": 32,
        "canaries": CANARIES,
    }

    def kept(name: str, row: dict[str, Any]) -> None:
        document.setdefault("rows", {})[name] = row
        save(document, OUT)

    rows = document.get("rows", {})
    tokenizer = load_model(base).tokenizer

    def epochs(seed: int) -> None:
        members, table = split(private, seed)
        plan = plan_text_canaries(members, tokenizer, CANARIES, seed=seed)
        names = {n: f"{n} epochs, seed {seed}" for n in EPOCHS}
        if all(name in rows for name in names.values()):
            return
        folders = {n: asked.place / f"epochs-{n}-{seed}" for n in EPOCHS}
        done = tuned(
            base, members, FineTune(max(EPOCHS), 1e-3, 32, CONTEXT, seed=seed), folders, plan
        )
        for n, name in names.items():
            kept(name, {"trained": done, **audited(folders[n], base, table, plan, done["seen"])})

    def private_training(seed: int) -> None:
        members, table = split(private, seed)
        plan = plan_text_canaries(members, tokenizer, CANARIES, seed=seed)
        for epsilon in PRIVATE:
            name = f"epsilon {epsilon:g}, seed {seed}"
            if name in rows:
                continue
            how = FineTune(3, 1e-3, 256, CONTEXT, lora=8, epsilon=epsilon, delta=1e-5, seed=seed)
            folder = asked.place / f"private-{epsilon:g}-{seed}"
            done = tuned(base, members, how, {how.epochs: folder}, plan)
            kept(name, {"trained": done, **audited(folder, base, table, plan, None)})

    def shift() -> None:
        name = "members of 2015, others of 2016"
        if name in rows:
            return
        year = dates.astype("datetime64[Y]").astype(int) + 1970
        pool = order[7000:].tolist()
        early, late = ([at for at in pool if year[at] == when][:SIDE] for when in (2015, 2016))
        chosen = [texts[at] for at in early + late]
        table = {"text": np.array(chosen, object), "member": np.arange(len(chosen)) < len(early)}
        plan = plan_text_canaries(chosen[: len(early)], tokenizer, 60, repetitions=(1,), seed=9)
        folder = asked.place / "shift"
        how = FineTune(3, 1e-3, 32, CONTEXT)
        done = tuned(base, chosen[: len(early)], how, {3: folder}, plan)
        kept(name, {"trained": done, **audited(folder, base, table, plan, done["seen"])})

    if "epochs" in asked.only:
        epochs(0)
    if "shift" in asked.only:
        shift()
    if "again" in asked.only:  # the audits of models that are kept already
        for name in list(rows):
            n, _, seed = name.partition(" epochs, seed ")
            folder = asked.place / f"epochs-{n}-{seed}"
            if seed and folder.is_dir():
                members, table = split(private, int(seed))
                plan = plan_text_canaries(members, tokenizer, CANARIES, seed=int(seed))
                done = rows[name]["trained"]
                kept(name, {"trained": done, **audited(folder, base, table, plan, done["seen"])})
    if "speed" in asked.only:
        document["speed"] = speed(base, private[:1500])
        save(document, OUT)
    if "private" in asked.only:
        private_training(0)
    if "epochs" in asked.only:
        for seed in range(1, asked.seeds):
            epochs(seed)


if __name__ == "__main__":
    main()
