"""The side of memaudit, in its own environment: plant, fine-tune, audit, and leave the model.

    PEER/bin/python benchmarks/peers/memaudit_side.py FOLDER

FOLDER holds base/ (a model), texts.json ({"train": [...], "held_out": [...]}); written are tuned/
and memaudit.json. Started by benchmarks/language_peer.py.
"""

import json
import sys
import time
from pathlib import Path

import memaudit
import torch
import transformers
from memaudit.audit import run_audit
from memaudit.canaries import generate_canaries
from memaudit.injection import inject

EPOCHS, RATE, BATCH = 5, 1e-3, 32


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    told = json.loads((folder / "texts.json").read_text())
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder / "base"))
    model, base = (
        transformers.AutoModelForCausalLM.from_pretrained(str(folder / "base")) for _ in range(2)
    )
    canaries = generate_canaries(
        tokenizer, n=48, n_controls=100, family="random", repetitions=(1, 4, 16), seed=0
    )
    host = [{"text": text} for text in told["train"]]
    rows, manifest = inject(
        host, canaries, fmt="text", seed=0, include_prob=0.5, tokenizer=tokenizer
    )
    listed = [row["text"] for row in rows]
    ids = [tokenizer(text, truncation=True, max_length=160)["input_ids"] for text in listed]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    start = time.perf_counter()
    model.train()
    for _ in range(EPOCHS):
        order = torch.randperm(len(ids)).tolist()
        for at in range(0, len(ids), BATCH):
            part = [ids[one] for one in order[at : at + BATCH]]
            wide = max(map(len, part))
            given = torch.tensor([one + [0] * (wide - len(one)) for one in part])
            labels = torch.tensor([one + [-100] * (wide - len(one)) for one in part])
            loss = model(input_ids=given, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    trained = time.perf_counter() - start
    model.save_pretrained(str(folder / "tuned"))
    tokenizer.save_pretrained(str(folder / "tuned"))
    start = time.perf_counter()
    report = run_audit(
        model=model,
        tokenizer=tokenizer,
        manifest=manifest,
        dataset=host,
        ref=base,
        held_out=[{"text": text} for text in told["held_out"]],
        output_path=str(folder / "report.json"),
    )
    seconds = time.perf_counter() - start
    found = {
        "version": getattr(memaudit, "__version__", ""),
        "trained_seconds": trained,
        "audit_seconds": seconds,
        **{key: report.get(key) for key in ("membership", "regurgitation", "negative_controls")},
        "keys": sorted(report),
    }
    (folder / "memaudit.json").write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
