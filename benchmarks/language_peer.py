"""Beside memaudit on one fine-tune: what each finds, and how long each audit takes.

    python benchmarks/language_peer.py BASE_DIR NARRATIVES.parquet PEER_PYTHON

memaudit runs in an environment of its own (PEER_PYTHON). It plants its canaries into texts that
hold Lethe's already, trains, and audits; Lethe then audits the model that it left. The figures are
in results/language_peer.json.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, load, save
from language_model import narratives

from lethe.membership.language.audit import Given, audit_language_model
from lethe.membership.language.canaries import plan_text_canaries
from lethe.membership.language.measure import texts_of
from lethe.membership.language.models import read_tokenizer
from lethe.membership.language.settings import LanguageSettings
from lethe.training.folder import RunFolder

SIDE, CANARIES = 400, 90


def main(base: Path, file: str, peer: str) -> None:
    torch.set_num_threads(1)
    texts, _ = narratives(file)
    order = np.random.default_rng(7).permutation(len(texts))[7000:]
    chosen = [texts[at] for at in order[-2 * SIDE :]]
    plan = plan_text_canaries(chosen[:SIDE], read_tokenizer(base), CANARIES, seed=3)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(base, folder / "base")
        told = {"train": plan.insert(chosen[:SIDE]), "held_out": chosen[SIDE:]}
        (folder / "texts.json").write_text(json.dumps(told))
        side = Path(__file__).parent / "peers" / "memaudit_side.py"
        subprocess.run([peer, str(side), str(folder)], check=True)
        theirs = json.loads((folder / "memaudit.json").read_text())
        table = {"text": np.array(chosen, object), "member": np.arange(2 * SIDE) < SIDE}
        start = time.perf_counter()
        with RunFolder(folder / "run", "peer") as run:
            found = audit_language_model(
                Given(folder / "tuned", folder / "base"),
                texts_of(table, "text"),
                LanguageSettings(),
                plan=plan,
                folder=run,
            ).to_json()
        seconds = time.perf_counter() - start
    first = found["candidates"][0]
    document = {
        "texts": len(told["train"]),
        "held_out": SIDE,
        "canaries": {"lethe": CANARIES, "memaudit": 48},
        "memaudit": theirs,
        "lethe": {
            "audit_seconds": seconds,
            "attacks": first["text_attacks"],
            "risk": first["risk"],
            "measures": first["measures"],
            "canaries": first["canaries"],
            "extraction": first["extraction"]["sides"],
            "blind": found["language"]["blind"],
            "verdict": found["verdict"],
        },
        "load": load(),
    }
    save(document, RESULTS / "language_peer.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
