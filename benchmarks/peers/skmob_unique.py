"""Runs in the environment of scikit-mobility: risk of a few people who are known by k places.

python -W ignore skmob_unique.py FILE.npz K TARGET,TARGET,...
"""

import json
import sys
import time

import numpy as np
import pandas as pd
from skmob import TrajDataFrame
from skmob.privacy.attacks import UniqueLocationAttack

file, k, targets = sys.argv[1:]
held = np.load(file)
frame = pd.DataFrame(
    {
        "uid": held["person"],
        "lat": held["place"] // 40,
        "lng": held["place"] % 40,
        "datetime": pd.Timestamp("2020-01-01"),
    }
)
visits = TrajDataFrame(
    frame.astype({"lat": float, "lng": float}),
    latitude="lat",
    longitude="lng",
    datetime="datetime",
    user_id="uid",
)
attack = UniqueLocationAttack(knowledge_length=int(k))
start = time.process_time()
found = attack.assess_risk(visits, targets=[int(at) for at in targets.split(",")])
taken = time.process_time() - start
risks = dict(zip(found["uid"].tolist(), found["risk"].tolist(), strict=True))
print(json.dumps({"seconds": taken, "risk": risks}))
