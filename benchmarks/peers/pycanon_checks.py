"""Runs in the environment of pycanon: its checks of one table, their values and times.

python pycanon_checks.py FILE.parquet COLUMN,COLUMN,... SECRET CHECK,CHECK,... ROUNDS
"""

import json
import sys
import time

import pandas as pd
from pycanon import anonymity

file, quasi, secret, checks, rounds = sys.argv[1:]
frame = pd.read_parquet(file)
columns = quasi.split(",")
calls = {
    "k": lambda: anonymity.k_anonymity(frame, columns),
    "distinct_l": lambda: anonymity.l_diversity(frame, columns, [secret]),
    "entropy_l": lambda: anonymity.entropy_l_diversity(frame, columns, [secret]),
    "t": lambda: anonymity.t_closeness(frame, columns, [secret]),
    "alpha": lambda: anonymity.alpha_k_anonymity(frame, columns, [secret])[0],
}
found = {}
for name in checks.split(","):
    taken = []
    for _ in range(int(rounds)):
        start = time.process_time()
        value = calls[name]()
        taken.append(time.process_time() - start)
    found[name] = {"value": float(value), "seconds": taken}
print(json.dumps(found))
