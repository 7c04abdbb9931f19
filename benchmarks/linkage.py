"""Released rows on real data: who is found, which columns identify, and how long it takes.

    python benchmarks/linkage.py [--data FOLDER] [--targets 300] [--size medium] [--rounds 5]
        [--speed-only] [--records-only]
        [--out FILE]

Real linkage: the two releases of MovieLens latest-small share three people under other names.
Simulated adversaries on MovieLens, MovieTweetings and Globo (clicks as items, no values), beside
the published values of the Netflix Prize. Anonymity of four tables with their quasi-identifiers,
and the three columns that identify most. Speed, round by round in one process: the index and a
query of 8 dated facts on synthetic power-law facts, and all
checks of a table against one pandas groupby of the same columns, where pandas is installed. Data
folders are those of LETHE_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, median_ratio, save

from lethe.data.columns import encode, read_columns
from lethe.data.records import load_ratings
from lethe.linkage.audit import audit_records, audit_table
from lethe.linkage.records.attackers import Adversary, draw_targets, simulate
from lethe.linkage.records.facts import index_facts
from lethe.linkage.records.scoreboard import link
from lethe.linkage.settings import RecordSettings, TableSettings
from lethe.linkage.table.inference import anonymity, disclosure, diversity
from lethe.linkage.table.population import uniqueness

TABLES: dict[str, tuple[str, list[str], str]] = {
    "diabetes130": (
        "diabetes130/diabetic_data.parquet",
        ["race", "gender", "age", "time_in_hospital", "medical_specialty", "payer_code"],
        "readmitted",
    ),
    "adult": (
        "adult/adult.parquet",
        ["age", "sex", "race", "education", "marital-status", "native-country"],
        "income",
    ),
    "acs_nist_national2019": (
        "acs_nist_national2019/national2019.parquet",
        ["PUMA", "AGEP", "SEX", "RAC1P", "MSP", "EDU"],
        "PINCP_DECILE",
    ),
    "compas": (
        "compas/compas-scores-two-years.parquet",
        ["age", "sex", "race", "juv_fel_count", "priors_count", "c_charge_degree"],
        "two_year_recid",
    ),
}
SIZES = {"medium": (100_000, 5_000, 100), "netflix": (480_189, 17_770, 209)}
"""People, items and facts a person; the second is that of the Netflix Prize."""
FIFTEEN = (
    "race gender age weight admission_type_id discharge_disposition_id admission_source_id "
    "time_in_hospital payer_code medical_specialty num_lab_procedures num_procedures "
    "num_medications number_diagnoses number_inpatient"
).split()


def people_in_common(data: Path, targets: int) -> dict[str, Any]:
    """The 2016 release of MovieLens looked up in the one of 2018."""
    columns = ("userId", "movieId", "rating", "timestamp")
    now, then = (
        load_ratings(data / f"movielens_latest_small/ratings_{year}.parquet", *columns)
        for year in (2018, 2016)
    )
    pairs = (np.array(["624", "522", "533"]), np.array(["448", "222", "265"]))
    found = audit_records(now, aux=then, truth=pairs, settings=RecordSettings(targets=targets))
    assert found.table is not None
    return {
        "auxiliary": found.table["auxiliary"],
        "simulated": _simulated(found.table),
        "candidates": _candidates(found.candidates),
    }


def simulated_elsewhere(data: Path, targets: int) -> dict[str, Any]:
    """The same adversaries on other services."""
    tweets = load_ratings(
        data / "movietweetings_100k/ratings.parquet",
        "user_id",
        "movie_id",
        "rating",
        "rating_timestamp",
    )
    clicks = load_ratings(
        data / "globo_news/clicks_users_even.parquet",
        "user_id",
        "click_article_id",
        time="click_timestamp",
    )
    found = {}
    for name, ratings in (("movietweetings_100k", tweets), ("globo_news", clicks)):
        told = audit_records(ratings, settings=RecordSettings(targets=targets))
        assert told.table is not None
        found[name] = {
            "people": told.table["people"],
            "notes": told.data["notes"],
            "simulated": _simulated(told.table),
            "candidates": _candidates(told.candidates),
        }
    return found


def _simulated(table: dict[str, Any]) -> list[dict[str, Any]]:
    keys = ("attacker", "targets", "top_1", "match", "false_match", "calibrated")
    return [{"name": one["name"], **{k: one[k] for k in keys}} for one in table["adversaries"]]


def _candidates(candidates: Any) -> list[dict[str, Any]]:
    return [
        {"name": one["name"], "risk": one["risk"], "utility": one["utility"]["value"]}
        for one in candidates
    ]


def tables(data: Path) -> dict[str, Any]:
    """Anonymity of each table, the worst three columns, and k = 10 by recoding."""
    found = {}
    for name, (file, quasi, secret) in TABLES.items():
        told = audit_table(
            read_columns(data / file), quasi, secret, settings=TableSettings(ks=(2, 5, 10))
        )
        assert told.table is not None
        made = {one["name"]: one for one in told.candidates}
        found[name] = {
            "rows": told.table["rows"],
            "quasi": quasi,
            "k": told.table["anonymity"]["k"],
            "unique": told.table["anonymity"]["unique"]["value"],
            "marketer": told.table["anonymity"]["marketer"]["value"],
            "certain": told.table["disclosure"]["certain"]["0"]["value"],
            "worst_three": told.table["uniqueness"]["subsets"]["3"][0],
            **{
                kind: {
                    "utility": made[kind]["utility"]["value"],
                    "marketer": made[kind]["measures"]["marketer"]["value"],
                    "certain": made[kind]["certain"]["value"],
                }
                for kind in ("k-2", "k-5", "k-10")
            },
        }
    return found


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def subsets(data: Path) -> dict[str, Any]:
    """All subsets of three of fifteen columns of diabetes130."""
    columns = read_columns(data / "diabetes130/diabetic_data.parquet")
    codes = [encode(columns[name]).codes for name in FIFTEEN]
    taken = seconds(lambda: uniqueness(codes, 3))
    found = uniqueness(codes, 3)
    best = found.by_size[3][0]
    return {
        "seconds": taken,
        "worst": [FIFTEEN[at] for at in best.columns],
        "unique": best.unique.value,
        "singled_out_by_some_three": found.singled_out[3].value,
    }


def checks_of_a_table(data: Path, rounds: int) -> dict[str, Any]:
    """k, l, t, entropy l and (alpha, k) together, against one groupby of pandas if there."""
    columns = read_columns(data / "diabetes130/diabetic_data.parquet")
    names = TABLES["diabetes130"][1][:5]
    codes = [encode(columns[name]).codes for name in names]
    secret = encode(columns["readmitted"]).codes

    def ours() -> None:
        found = anonymity(codes).of_class
        diversity(found, secret)
        disclosure(found, secret)

    ours()
    mine = [seconds(ours) for _ in range(rounds)]
    told = {"rows": len(secret), "seconds": statistics.median(mine)}
    if find_spec("pandas") is None:
        return {**told, "over_one_groupby": None}
    frame = import_module("pandas").DataFrame(dict(zip(names, codes, strict=True)))
    frame.groupby(names).size()
    timed = [(seconds(ours), seconds(lambda: frame.groupby(names).size())) for _ in range(rounds)]
    return {**told, "over_one_groupby": median_ratio(*zip(*timed, strict=True))}


def power_law(size: str) -> tuple[Any, Any, Any, Any]:
    """Person, item, value and day of each fact; a few items have most of them."""
    people, items, each = SIZES[size]
    facts = people * each
    rng = np.random.default_rng(0)
    weight = 1 / np.arange(10, items + 10)
    item = rng.choice(items, facts, p=weight / weight.sum()).astype(np.int32)
    person = np.repeat(np.arange(people, dtype=np.int32), each)
    joint = np.unique(person.astype(np.int64) * items + item)
    value = rng.integers(1, 6, len(joint)).astype(np.int8)
    day = rng.integers(0, 2000, len(joint)).astype(np.int32)
    return (joint // items).astype(np.int32), (joint % items).astype(np.int32), value, day


def scoreboard_speed(size: str, rounds: int, queries: int = 100) -> dict[str, Any]:
    """Index and query on power-law facts: as many a person, repeated ones left out."""
    people, items, _ = SIZES[size]
    person, item, value, day = power_law(size)
    build = [seconds(lambda: index_facts(person, item, value, day)) for _ in range(rounds)]
    index = index_facts(person, item, value, day)
    adversary = Adversary(8, 6)
    who = draw_targets(index, adversary, queries)
    known = simulate(index, who, adversary)

    timed = [seconds(lambda: link(index, known)) / queries for _ in range(rounds)]
    postings = float(index.support[known.item].sum() / queries)
    return {
        "people": people,
        "items": items,
        "facts": len(item),
        "index_seconds": statistics.median(build),
        "bytes_a_fact": index.nbytes / len(item),
        "query_milliseconds": 1000 * statistics.median(timed),
        "postings_a_query": postings,
        "top_1": float(np.mean(link(index, known).matched(0.0) == who)),
    }


def main() -> None:
    """Run everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LETHE_DATA", "data")))
    parser.add_argument("--targets", type=int, default=300)
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "linkage.json")
    parser.add_argument("--speed-only", action="store_true", help="the scoreboard alone")
    parser.add_argument("--records-only", action="store_true", help="replace these parts of --out")
    asked = parser.parse_args()
    if asked.records_only:
        found = json.loads(asked.out.read_text())
        found["people_in_common"] = people_in_common(asked.data, asked.targets)
        found["simulated"] = simulated_elsewhere(asked.data, asked.targets)
        save({**found, "load": load()}, asked.out)
        return
    if asked.speed_only:
        save({"load": load(), "scoreboard": scoreboard_speed(asked.size, asked.rounds)}, asked.out)
        return
    found = {
        "load": load(),
        "people_in_common": people_in_common(asked.data, asked.targets),
        "simulated": simulated_elsewhere(asked.data, asked.targets),
        "tables": tables(asked.data),
        "subsets": subsets(asked.data),
        "checks": checks_of_a_table(asked.data, asked.rounds),
        "scoreboard": scoreboard_speed(asked.size, asked.rounds),
    }
    save(found, asked.out)


if __name__ == "__main__":
    main()
