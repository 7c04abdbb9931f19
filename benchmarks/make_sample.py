"""The sample of MovieTweetings that ships with the package; see its README for source and terms.

    LETHE_DATA=data python benchmarks/make_sample.py

800 people of those with 10 to 100 ratings, drawn at random (seed 0) and numbered anew in random
order; times are cut to whole days.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lethe

OUT = Path(lethe.__file__).parent / "loaders" / "samples" / "movietweetings.parquet"
PEOPLE = 800


def main() -> None:
    given = pq.read_table(Path(os.environ["LETHE_DATA"]) / "movietweetings_100k/ratings.parquet")
    user = given["user_id"].to_numpy()
    rng = np.random.default_rng(0)
    names, counts = np.unique(user, return_counts=True)
    chosen = rng.permutation(names[(counts >= 10) & (counts <= 100)])[:PEOPLE]
    number = {name: at for at, name in enumerate(chosen)}
    kept = np.isin(user, chosen)
    person = np.array([number[name] for name in user[kept]], dtype=np.int16)
    film = given["movie_id"].to_numpy(zero_copy_only=False)[kept].astype(np.int32)
    day = (given["rating_timestamp"].to_numpy()[kept] // 86_400).astype("datetime64[D]")
    rating = given["rating"].to_numpy()[kept].astype(np.int8)
    order = np.lexsort((film, day, person))
    columns = {"person": person, "film": film, "rating": rating, "day": day}
    table = pa.table({name: column[order] for name, column in columns.items()})
    pq.write_table(table, OUT, compression="zstd", compression_level=19)
    print(f"{OUT}: {table.num_rows} ratings of {PEOPLE} people, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
