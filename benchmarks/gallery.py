"""The findings of the gallery, made anew from data that ship along: docs/gallery/NAME.

    python benchmarks/gallery.py [NAME...]      # writes docs/gallery, works in ./gallery-runs
    python benchmarks/gallery.py --picture      # docs/report.png: what the README command gives

The pages are rendered from them when the documentation is built. Each is that of commands which are
printed before they run. Of the machine the manifest names processor, cores and system; the build of
the kernel is left out of it. The same commands again go on where they were stopped. About four
minutes on 2 cores for all of them.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from lethe.data.shipped import FILMS, write_patients, write_vectors
from lethe.files import write_whole
from lethe.report.pdf import find_browser

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
WIDTH, HEIGHT = 1280, 900  # of the picture, in pixels
WRONG = '''"""Noise of half the scale that epsilon 1 needs on values in [0, 100]."""

import numpy as np


def noisy_sum(data, seed):
    total = np.clip(data, 0, 100).sum()
    return round(total + np.random.default_rng(seed).laplace(scale=50), 3)
'''
ASKED = "lethe query patients.parquet {} --epsilon 0.5 --budget budget.db"
MADE_ONCE = ("lethe schema", "lethe budget create")
EXHIBITS: dict[str, tuple[str, ...]] = {
    "digits": ("lethe audit model digits --rule tpr@0.01<=0.1 --out digits",),
    "breast-cancer": (
        "lethe audit model breast-cancer --models 32 --mitigations weighted-noise early-stopping "
        "dp-sgd --epsilon 1 8 --delta 1e-5 --rule tpr@0.01<=0.05 --out breast-cancer",
    ),
    "vectors": ("lethe audit embeddings vectors.npz --head head.npz --out vectors",),
    "films": (
        "lethe audit records films.parquet --person person --item film --value rating --time day "
        "--out films",
    ),
    "patients": (
        "lethe schema patients.parquet",
        "lethe budget create budget.db --data patients.parquet --epsilon 3 --delta 1e-6",
        *(
            ASKED.format(shlex.quote(question))
            for question in (
                "count() by diagnosis among ['malignant', 'benign']",
                "mean(radius) in [5, 30] by diagnosis among ['malignant', 'benign']",
                "quantile(area, 0.5) in [100, 2500] step 10",
                "histogram(texture) in [5, 45] bins 8",
            )
        ),
        "lethe budget report budget.db --out patients",
    ),
    "notes": (
        "lethe audit language-model tuned --texts notes.csv --base base --canaries "
        "plan/canaries.json --defence epochs-1 --defence dp-lora-8 --rate 0.004 --batch 32 "
        "--prefix 8 --suffix 6 --near 100 --rule tpr@0.1<=0.3 --out notes",
    ),
    "wrong-noise": (
        "lethe audit mechanism wrong.py:noisy_sum --epsilon 1 --bounds 0,100 --out wrong-noise",
    ),
}


def prepare(work: Path) -> None:
    """The files that the commands name."""
    work.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(FILMS, work / "films.parquet")
    (work / "wrong.py").write_text(WRONG)
    if not (work / "tuned").exists():
        write_language(work)
    if not (work / "head.npz").exists():
        write_vectors(work / "vectors.npz", work / "head.npz")
    if not (work / "patients.parquet").exists():
        write_patients(work / "patients.parquet")


def write_language(work: Path) -> None:
    """Made-up notes, a small GPT-2 that has read others, and one fine-tuned on half of them."""
    import transformers
    from language_model import tokenizer_on

    from lethe.api.language import WATCHED
    from lethe.membership.language.canaries import CanaryWatch, plan_text_canaries
    from lethe.membership.language.fine_tune import FineTune, fine_tune, save_model
    from lethe.membership.language.models import quiet
    from lethe.training.users_code import seeded

    rng = np.random.default_rng(0)
    words = "worker driver nurse fell slipped burned arm leg hand ladder oven truck".split()

    def note() -> str:
        who, did, part, where = (words[rng.integers(at, at + 3)] for at in (0, 3, 6, 9))
        name = "".join(rng.choice("ka lo mi ru te so na vi".split(), 3))
        tail = f"treated in room {rng.integers(100, 999)}, call 0{rng.integers(10, 99)}-555-0123"
        return f"the {who} {name} {did} at the {where} and hurt the {part}, {tail}"

    public, notes = ([note() for _ in range(n)] for n in (400, 800))
    tokenizer = tokenizer_on(public)
    size = {"vocab_size": len(tokenizer), "n_embd": 32, "n_layer": 2, "n_head": 2}
    with seeded(0), quiet():
        config = transformers.GPT2Config(**size, n_positions=64, bos_token_id=0, eos_token_id=0)
        model = transformers.GPT2LMHeadModel(config)
    fine_tune(model, tokenizer, public, FineTune(6, 5e-3, 32))
    save_model(model, tokenizer, work / "base")
    plan = plan_text_canaries(
        notes[:400], tokenizer, 300, ("in-distribution", "random-token"), (1, 4), seed=1
    )
    plan.save(work / "plan" / "canaries.json")
    watch = CanaryWatch(plan, tokenizer)
    watch.begin(model)
    fine_tune(model, tokenizer, plan.insert(notes[:400]), FineTune(8, 4e-3, 32), see=watch.see)
    (work / "plan" / WATCHED).write_text(json.dumps(watch.end(model)))
    save_model(model, tokenizer, work / "tuned")
    rows = "".join(f'"{text}",{int(at < 400)}\n' for at, text in enumerate(notes))
    (work / "notes.csv").write_text(f"text,member\n{rows}")


def lethe(line: str, work: Path) -> None:
    """Run a command; a rule that fails (1) or that cannot be told (3) is a result too."""
    print(f"$ {line}", flush=True)
    words = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(words, cwd=work, stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{line!r} ended with {done.returncode}.")


def publish(name: str, work: Path) -> None:
    """Copy findings and manifest to the gallery, if they tell nothing of this machine."""
    manifest = json.loads((work / name / "manifest.json").read_text())
    manifest["machine"]["system"] = manifest["machine"]["system"].split("-")[0]
    told = {
        "manifest.json": json.dumps(manifest, indent=1).encode(),
        "findings.json": (work / name / "findings.json").read_bytes(),
    }
    for file, content in told.items():
        for secret in (work.resolve(), Path.home(), os.uname().nodename, os.uname().release):
            if len(str(secret)) > 1 and str(secret).encode() in content:
                raise SystemExit(f"{name}: {file} tells {str(secret)!r} of this machine.")
        (GALLERY / name).mkdir(parents=True, exist_ok=True)
        write_whole(GALLERY / name / file, content)
        print(f"docs/gallery/{name}/{file}: {len(content):,} bytes", flush=True)


def picture(work: Path) -> None:
    """The first screen of the page that the README's command gives, as Chromium shows it."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    lethe("lethe audit model digits --out readme", work)
    with sync_playwright() as play:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = play.chromium.launch(executable_path=find_browser(), args=arguments)
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto((work / "readme" / "report.html").resolve().as_uri())
        shown = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
        browser.close()
    made = io.BytesIO()
    shown.quantize(64, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    write_whole(GALLERY.parent / "report.png", made.getvalue())
    print(f"docs/report.png: {made.tell():,} bytes")


def main() -> None:
    """Run what is named, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(EXHIBITS))
    parser.add_argument("--work", type=Path, default=Path("gallery-runs"))
    parser.add_argument("--picture", action="store_true", help="of what the README command gives")
    asked = parser.parse_args()
    if asked.picture:
        asked.work.mkdir(parents=True, exist_ok=True)
        return picture(asked.work)
    names = asked.names or list(EXHIBITS)
    if unknown := set(names) - set(EXHIBITS):
        raise SystemExit(f"no exhibit is called {', '.join(sorted(unknown))}.")
    prepare(asked.work)
    for name in names:
        for line in EXHIBITS[name]:
            if line.startswith(MADE_ONCE) and (asked.work / "budget.db").exists():
                continue
            lethe(line, asked.work)
        publish(name, asked.work)


if __name__ == "__main__":
    main()
