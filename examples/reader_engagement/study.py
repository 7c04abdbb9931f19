r"""Reader engagement from features to a privacy audit: train, export, and what to run next.

    python prepare.py PATH --out features             # the real, licensed files
    python study.py features --out study              # or: --synthetic 2000 without them
    lethe audit embeddings study/mlp-windows.npz study/lstm-windows.npz --known train \
        --later validation --head study/mlp-head.npz --head study/lstm-head.npz

Three exports a model: `NAME-validation.npz` (gallery and probes from one week, as in the reference
study: every row of a person has the same history as input), `NAME-windows.npz` (with `period`:
gallery from the train week, probes from the validation week) and `NAME-blind.npz` (people that no
model has seen). `NAME-head.npz` holds the head.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from networks import NETWORKS, parameters
from readers.ebnerd import prepare_news
from readers.store import News, open_news
from readers.synthetic import write_synthetic_news
from sklearn.metrics import roc_auc_score
from training import SETTINGS, export, held_out, represent, save_head, train

from lethe.reidentification.certificates import layer_norm_diameter


def study(
    news: News,
    out: Path,
    models: list[str],
    epochs: int | None = None,
    stop_on: str = "held-out",
    seed: int = 0,
) -> dict[str, dict[str, float]]:
    """Train and export; returns AUCs by model and window.

    Args:
        news: prepared features.
        out: folder for the exports.
        models: "mlp", "lstm".
        epochs: other than the study's 50.
        stop_on: "held-out" (a tenth of the train week's people) or "validation" (as the study).
        seed: of everything.
    """
    first, second = news.window("train"), news.window("validation")
    rows, later, blind = first.rows_of(), second.rows_of(), second.rows_of("blind")
    people = np.asarray(first.users["id"])[first.rows["user"][rows]]
    apart = held_out(people, 0.1, seed)
    stop = (first, rows[apart]) if stop_on == "held-out" else (second, later)
    learned = rows[~apart] if stop_on == "held-out" else rows
    found: dict[str, dict[str, float]] = {}
    for name in models:
        settings = SETTINGS[name]
        if epochs is not None:
            settings = replace(settings, epochs=epochs)
        network = train(name, first, learned, stop, settings, seed)
        most = layer_norm_diameter(network.encoder[-1].weight.detach().numpy())
        print(f"{name}: {parameters([network])[0]:,} parameters; no two vectors, of any inputs, ")
        print(f"  differ by more than {most:.2f} (--diameter {most:.2f} proves privacy from it)")
        found[name] = {}
        for where, window, chosen in (
            ("train", first, learned),
            ("validation", second, later),
            ("blind", second, blind),
        ):
            if len(chosen):
                _, logits, labels, _ = represent(network, window, chosen)
                found[name][where] = float(roc_auc_score(labels, logits))
        save_head(network, out / f"{name}-head.npz")
        export(network, {"validation": (second, later)}, out / f"{name}-validation.npz")
        export(
            network,
            {"train": (first, rows), "validation": (second, later)},
            out / f"{name}-windows.npz",
        )
        if len(blind):
            export(network, {"validation": (second, blind)}, out / f"{name}-blind.npz")
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("features", type=Path, nargs="?", help="folder of prepare.py")
    parser.add_argument("--out", type=Path, default=Path("study"))
    parser.add_argument("--models", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--stop-on", choices=("held-out", "validation"), default="held-out")
    parser.add_argument("--synthetic", type=int, metavar="USERS", help="make up that many readers")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if (asked.synthetic is None) == (asked.features is None):
        parser.error("give a folder of features, or --synthetic USERS")
    if asked.synthetic is not None:
        print("SYNTHETIC readers and articles: no figure below is a figure of EB-NeRD.")
        made = write_synthetic_news(asked.out / "ebnerd", asked.synthetic, seed=asked.seed)
        news = prepare_news(made, asked.out / "features", say=print)
    else:
        news = open_news(asked.features)
    found = study(news, asked.out, asked.models, asked.epochs, asked.stop_on, asked.seed)
    for name, scores in found.items():
        print(name, " ".join(f"AUC {where} {value:.4f}" for where, value in scores.items()))
    for ending, periods in (("windows", " --known train --later validation"), ("validation", "")):
        files = " ".join(f"{asked.out}/{name}-{ending}.npz" for name in found)
        heads = " ".join(f"--head {asked.out}/{name}-head.npz" for name in found)
        print(f"lethe audit embeddings {files} {heads}{periods}")


if __name__ == "__main__":
    main()
