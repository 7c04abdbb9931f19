"""Runs in the environment of anonymeter: its times and its three attacks beside their defects.

python -W ignore anonymeter_risks.py near FOLDER
python -W ignore anonymeter_risks.py singling-out FOLDER CONTROL,CONTROL,... ATTACKS
python -W ignore anonymeter_risks.py inference FOLDER
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, SinglingOutEvaluator
from anonymeter.evaluators.inference_evaluator import evaluate_inference_guesses
from anonymeter.neighbors.mixed_types_kneighbors import MixedTypeKNeighbors

task, folder = sys.argv[1], Path(sys.argv[2])


def table(name):
    return pd.read_parquet(folder / f"{name}.parquet")


def near():
    rows, among = table("rows"), table("among")
    search = MixedTypeKNeighbors(n_neighbors=1, n_jobs=1).fit(among)
    search.kneighbors(rows.head(5))  # compiles
    taken = []
    for _ in range(3):
        start = time.process_time()
        found = search.kneighbors(rows)
        taken.append(time.process_time() - start)
    return {"seconds": taken, "nearest": np.asarray(found)[:, 0].tolist()}


def singling_out():
    original, synthetic, control = table("original"), table("synthetic"), table("control")
    np.random.seed(0)
    found = {}
    for size in map(int, sys.argv[3].split(",")):
        judge = SinglingOutEvaluator(
            ori=original,
            syn=synthetic,
            n_attacks=int(sys.argv[4]),
            n_cols=3,
            control=control.head(size),
        )
        start = time.process_time()
        judge.evaluate(mode="multivariate")
        taken = time.process_time() - start
        risk = judge.risk(confidence_level=0.95)
        found[size] = {"value": risk.value, "low": risk.ci[0], "high": risk.ci[1], "seconds": taken}
    return found


def inference():
    original, synthetic, control = table("original"), table("synthetic"), table("control")
    known = [name for name in original if name != "secret"]
    judge = InferenceEvaluator(
        original, synthetic, known, "secret", n_attacks=1000, control=control
    )
    judge.evaluate(n_jobs=1)
    wrong = evaluate_inference_guesses(
        guesses=pd.Series([-1.0, 50.0]), secrets=pd.Series([100.0, 100.0]), regression=True
    )
    return {
        "baseline": judge.results().baseline_rate.value,
        "guess_of_minus_1_for_100": bool(wrong[0]),
        "guess_of_50_for_100": bool(wrong[1]),
    }


tasks = {"near": near, "singling-out": singling_out, "inference": inference}
print(json.dumps(tasks[task]()))
