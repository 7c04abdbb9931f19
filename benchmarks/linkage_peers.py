"""Linkage and anonymity beside other libraries, in one run.

    [LETHE_PYCANON=...] [LETHE_ANONYMETER=...] [LETHE_SKMOB=...] [LETHE_DATA=...]
        python benchmarks/linkage_peers.py [PART ...] [--rounds 5] [--out FILE]

Each peer lives in an environment of its own, whose Python the variable names; what is not there is
left out and said to be. pandas is taken from this environment, where it is installed.

    python -m venv ENV && ENV/bin/pip install pycanon==1.3.6 pyarrow
    python -m venv ENV && ENV/bin/pip install anonymeter==1.1.0 pyarrow
    python -m venv ENV && ENV/bin/pip install scikit-mobility==1.3.1 "numpy<2" "shapely<2"

scoreboard: 8 dated facts, 2 of them wrong, exact deviation over all 100,000 people; the same 20
queries by us, by pandas (filter an item's facts, add) and by a loop
over dictionaries. checks: k, l, t, entropy l and (alpha, k) of 100,000 rows, from text columns and
from numbers, against one groupby; and against pycanon's calls. worst: people who are alone with k
of their items. subsets: all 3 of 15 columns of diabetes130. synthetic: nearest rows by Gower's
distance, and Anonymeter's three defects measured beside ours.

Seconds are those of the processor, on one thread (OMP_NUM_THREADS=1), so that other work on the
machine counts little. Ratios are medians over rounds of one process; with a peer in another
process, of medians. Figures: results/linkage_peers.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, median_ratio, save
from lethe.linkage.synthetic.singling_out import singling_out
from linkage import power_law, subsets

from lethe.data.columns import encode
from lethe.evidence.plain import plain
from lethe.linkage.records.attackers import Adversary, draw_targets, simulate
from lethe.linkage.records.facts import Index, Known, index_facts
from lethe.linkage.records.scoreboard import RH, link
from lethe.linkage.records.unicity import worst_case
from lethe.linkage.synthetic.nearest import inference, mix, nearest_rows, right
from lethe.linkage.table.inference import anonymity, diversity

PEERS = Path(__file__).parent / "peers"
CLASSES = {"coarse": (5, 5, 4, 3, 2), "fine": (20, 20, 10, 10, 5)}
"""Values of five quasi-identifiers: 600 and nearly 80,000 classes of 100,000 rows."""
ABSENT = "not installed"


def ask_peer(variable: str, script: str, *asked: str, limit: int = 400) -> Any:
    """What a script says in the environment that a variable names; None without it, and how long
    it was waited for where that was too long.
    """
    python = os.environ.get(variable)
    if not python:
        return None
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [python, "-W", "ignore", str(PEERS / script), *asked],
            capture_output=True,
            text=True,
            timeout=limit,
            check=True,
            env=clean,
        )
    except subprocess.TimeoutExpired:
        return {"gave_up_after_seconds": limit}
    return json.loads(done.stdout.splitlines()[-1])


def seconds(work: Callable[[], object]) -> float:
    """Time of the processor for one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def by_pandas(frame: Any, known: Known, target: int, people: int) -> tuple[int, float]:
    """Best record and deviation, with one filter of all facts a known fact."""
    pandas = import_module("pandas")
    total = pandas.Series(dtype=float)
    for at in range(known.start[target], known.start[target + 1]):
        hit = frame[frame["item"] == known.item[at]]
        near = np.exp(-np.abs(hit["value"] - known.value[at]) / RH.value_scale)
        near += np.exp(-np.abs(hit["day"] - known.time[at]) / RH.time_scale)
        score = pandas.Series(near.to_numpy() / math.log1p(len(hit)), index=hit["person"])
        total = total.add(score, fill_value=0.0)
    mean = total.sum() / people
    return int(total.idxmax()), math.sqrt((total**2).sum() / people - mean**2)


def by_loop(
    lists: dict[int, list[tuple[int, int, int]]], known: Known, target: int, people: int
) -> tuple[int, float]:
    """The same, one fact after the other."""
    total: dict[int, float] = {}
    for at in range(known.start[target], known.start[target + 1]):
        value, day = float(known.value[at]), float(known.time[at])
        held = lists[int(known.item[at])]
        weight = 1 / math.log1p(len(held))
        for person, given, when in held:
            near = math.exp(-abs(given - value) / RH.value_scale)
            near += math.exp(-abs(when - day) / RH.time_scale)
            total[person] = total.get(person, 0.0) + weight * near
    mean = sum(total.values()) / people
    square = sum(score * score for score in total.values()) / people
    return max(total, key=total.__getitem__), math.sqrt(square - mean * mean)


def scoreboard(rounds: int, queries: int = 20) -> dict[str, Any]:
    """The same queries by four ways."""
    person, item, value, day = power_law("medium")
    index = index_facts(person, item, value, day)
    adversary = Adversary(8, 6)
    known = simulate(index, draw_targets(index, adversary, queries), adversary)
    ways: dict[str, Callable[[], list[tuple[int, float]]]] = {"lethe": lambda: _links(index, known)}
    if find_spec("pandas") is not None:
        frame = import_module("pandas").DataFrame(
            {"person": person, "item": item, "value": value, "day": day}
        )
        ways["pandas"] = lambda: [
            by_pandas(frame, known, at, index.people) for at in range(queries)
        ]
    lists = {}
    for one in np.unique(known.item).tolist():
        span = slice(int(index.start[one]), int(index.start[one + 1]))
        given = index.values[index.value[span]].astype(int)
        when = index.time[span].astype(int) + index.origin
        lists[one] = list(
            zip(index.person[span].tolist(), given.tolist(), when.tolist(), strict=True)
        )
    ways["loop"] = lambda: [by_loop(lists, known, at, index.people) for at in range(queries)]
    answers = {name: way() for name, way in ways.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            way()  # the way before it left the processor's memory full of other things
            taken[name].append(seconds(way) / queries)
    base = answers["lethe"]
    return {
        "people": index.people,
        "facts": index.facts,
        "milliseconds": {name: 1000 * statistics.median(one) for name, one in taken.items()},
        "over_lethe": {name: median_ratio(one, taken["lethe"]) for name, one in taken.items()},
        "same_records": all(
            [one[0] for one in found] == [one[0] for one in base] for found in answers.values()
        ),
        "largest_relative_difference_of_deviation": max(
            abs(one[1] / other[1] - 1)
            for found in answers.values()
            for one, other in zip(found, base, strict=True)
        ),
    }


def _links(index: Index, known: Known) -> list[tuple[int, float]]:
    found = link(index, known)
    return list(zip(found.best.tolist(), found.deviation.tolist(), strict=True))


def checks(rounds: int, rows: int = 100_000) -> dict[str, Any]:
    """All checks of a table, against one groupby and against pycanon."""
    return {name: _checks(sizes, name, rounds, rows) for name, sizes in CLASSES.items()}


def _checks(sizes: tuple[int, ...], name: str, rounds: int, rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    columns = {
        f"q{at}": np.array([f"v{one}" for one in range(size)], object)[rng.integers(0, size, rows)]
        for at, size in enumerate(sizes)
    }
    secret = np.array([f"s{one}" for one in range(8)], object)[rng.integers(0, 8, rows)]

    def numbered() -> tuple[list[Any], Any]:
        return [encode(column).codes for column in columns.values()], encode(secret).codes

    def all_checks(quasi: list[Any], codes: Any) -> dict[str, float]:
        found = anonymity(quasi)
        varied = diversity(found.of_class, codes)
        names = ("distinct_l", "entropy_l", "t", "alpha")
        return {"k": found.k, **{one: float(getattr(varied, one)) for one in names}}

    quasi, codes = numbered()
    values = all_checks(quasi, codes)
    from_text = [seconds(lambda: all_checks(*numbered())) for _ in range(rounds)]
    told: dict[str, Any] = {
        "classes": len(anonymity(quasi).of_class.size),
        "values": values,
        "seconds_from_text": statistics.median(from_text),
        "seconds_from_numbers": statistics.median(
            seconds(lambda: all_checks(quasi, codes)) for _ in range(rounds)
        ),
        "over_one_groupby": ABSENT,
        "pycanon": ABSENT,
    }
    if find_spec("pandas") is not None:
        pandas = import_module("pandas")
        told["over_one_groupby"] = {
            kind: _over_groupby(pandas.DataFrame(dict(zip(columns, given, strict=True))), work)
            | {"pandas": pandas.__version__}
            for kind, given, work in (
                ("text", list(columns.values()), lambda: all_checks(*numbered())),
                ("numbers", quasi, lambda: all_checks(quasi, codes)),
            )
        }
    # t-closeness and (alpha, k) of pycanon take minutes where classes are fine.
    asked = ["k", "distinct_l"] + (["entropy_l", "t", "alpha"] if name == "coarse" else [])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.parquet"
        _write(file, {**columns, "s": secret})
        found = ask_peer(
            "LETHE_PYCANON",
            "pycanon_checks.py",
            str(file),
            ",".join(columns),
            "s",
            ",".join(asked),
            "3" if name == "coarse" else "1",
        )
    if found is not None:
        theirs = sum(statistics.median(one["seconds"]) for one in found.values())
        told["pycanon"] = {
            "checks": {
                one: {"value": of["value"], "seconds": statistics.median(of["seconds"])}
                for one, of in found.items()
            },
            "seconds": theirs,
            "over_ours_from_text": theirs / told["seconds_from_text"],
        }
    return told


def _over_groupby(frame: Any, work: Callable[[], object], rounds: int = 9) -> dict[str, Any]:
    names = list(frame.columns)

    def grouped() -> None:
        frame.groupby(names, observed=True, sort=False).size()

    grouped(), work()
    timed = [(seconds(work), seconds(grouped)) for _ in range(rounds)]
    ours, theirs = zip(*timed, strict=True)
    return {"ratio": median_ratio(ours, theirs), "groupby_seconds": statistics.median(theirs)}


def worst(rounds: int, people: int = 200, places: int = 400, each: int = 40) -> dict[str, Any]:
    """People who are alone with one, and with two, of their places."""
    rng = np.random.default_rng(0)
    weight = 1 / np.arange(20, places + 20)
    place = np.concatenate(
        [rng.choice(places, each, replace=False, p=weight / weight.sum()) for _ in range(people)]
    )
    person = np.repeat(np.arange(people), each)
    facts = index_facts(person, place, people=people, items=places)
    told: dict[str, Any] = {"people": people, "places_each": each}
    everybody = np.arange(people)
    for k, targets in ((1, (0, 1)), (2, (0,))):
        ours = worst_case(facts, everybody, k)
        taken = statistics.median(
            seconds(lambda k=k: worst_case(facts, everybody, k)) for _ in range(rounds)
        )
        told[f"k={k}"] = {"unique": ours.unique[k].value, "seconds": taken, "skmob": ABSENT}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "visits.npz"
            np.savez(file, person=person, place=place)
            asked = ",".join(map(str, targets))
            found = ask_peer("LETHE_SKMOB", "skmob_unique.py", str(file), str(k), asked)
        if found is not None and "seconds" not in found:
            told[f"k={k}"]["skmob"] = found
        elif found is not None:
            scaled = found["seconds"] * people / len(targets)
            told[f"k={k}"]["skmob"] = {
                "targets": len(targets),
                "seconds": found["seconds"],
                "seconds_for_everybody_scaled": scaled,
                "over_ours": scaled / taken,
                "same_people_alone": all(
                    (found["risk"][str(at)] == 1.0) == bool(0 < ours.needed[at] <= k)
                    for at in targets
                ),
            }
    return told


def synthetic(rounds: int) -> dict[str, Any]:
    """Nearest rows, and what three defects of a peer do, beside ours."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        return {
            "nearest": _nearest(folder, rounds),
            "control_sizes": _control_sizes(folder),
            "inference": _inference(folder),
        }


def _rows(rng: np.random.Generator, count: int) -> dict[str, Any]:
    """Five columns of numbers and five of categories."""
    numbers = {f"n{at}": rng.normal(size=count).round(4) for at in range(5)}
    names = np.array([f"c{at}" for at in range(6)], object)
    return {**numbers, **{f"c{at}": names[rng.integers(0, 6, count)] for at in range(5)}}


def _nearest(folder: Path, rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    tables = {"rows": _rows(rng, 2000), "among": _rows(rng, 20_000)}
    for name, columns in tables.items():
        _write(folder / f"{name}.parquet", columns)
    for name in (name for name in tables["rows"] if name.startswith("n")):  # as the peer does
        low, high = tables["among"][name].min(), tables["among"][name].max()
        for columns in tables.values():
            columns[name] = (columns[name] - low) / (high - low)
    rows, among = mix(tables["rows"], tables["among"])

    def ours() -> Any:
        return nearest_rows(rows, among, range(10), 1, np.random.default_rng(0))

    found = ours()[:, 0]
    taken = statistics.median(seconds(ours) for _ in range(rounds))
    told: dict[str, Any] = {"seconds": taken, "anonymeter": ABSENT}
    theirs = ask_peer("LETHE_ANONYMETER", "anonymeter_risks.py", "near", str(folder))
    if theirs is not None:
        other = statistics.median(theirs["seconds"])
        told["anonymeter"] = {
            "seconds": other,
            "over_ours": other / taken,
            "same_row": float(np.mean(found == np.array(theirs["nearest"]))),
        }
    return told


def _control_sizes(folder: Path, rows: int = 20_000, attacks: int = 500) -> dict[str, Any]:
    """Synthetic rows that are independent of the original ones: the true excess is 0."""
    rng = np.random.default_rng(1)
    tables = {name: _rows(rng, rows) for name in ("original", "synthetic", "control")}
    for name, columns in tables.items():
        _write(folder / f"{name}.parquet", columns)
    original, made, control = mix(*tables.values())
    sizes = (20_000, 10_000, 5_000, 2_000)
    ours = {}
    for size in sizes:
        part = control.take(np.arange(size))
        for columns in (1, 3):
            taken: list[Any] = []
            took = seconds(
                lambda part=part, columns=columns, taken=taken: taken.append(
                    singling_out(original, made, part, columns=columns, attacks=attacks)
                )
            )
            excess = plain(taken[0].excess)
            ours[f"{size} control rows, {columns} columns"] = {**excess, "seconds": took}
    theirs = ask_peer(
        "LETHE_ANONYMETER",
        "anonymeter_risks.py",
        "singling-out",
        str(folder),
        ",".join(map(str, sizes)),
        str(attacks),
    )
    return {"ours": ours, "anonymeter": theirs or ABSENT}


def _inference(folder: Path) -> dict[str, Any]:
    """A secret of two values that nothing tells: a random guess is right in half of the cases."""
    rng = np.random.default_rng(2)
    tables = {}
    for name in ("original", "synthetic", "control"):
        secret = np.array(["yes", "no"], object)[rng.integers(0, 2, 5000)]
        tables[name] = {**_rows(rng, 5000), "secret": secret}
        _write(folder / f"{name}.parquet", tables[name])
    original, made, control = mix(*tables.values())
    known = [name for name in original.names if name != "secret"]
    found = inference(original, made, control, known=known, secret="secret", attacks=1000)
    guesses = right(np.array([-1.0, 50.0]), np.array([100.0, 100.0]), 0.05)
    theirs = ask_peer("LETHE_ANONYMETER", "anonymeter_risks.py", "inference", str(folder))
    return {
        "ours": {
            "baseline": found.baseline.to_json(),
            "guess_of_minus_1_for_100": bool(guesses[0]),
            "guess_of_50_for_100": bool(guesses[1]),
        },
        "anonymeter": theirs or ABSENT,
    }


def _write(file: Path, columns: dict[str, Any]) -> None:
    arrow = import_module("pyarrow")
    import_module("pyarrow.parquet").write_table(arrow.table(columns), file)


def main() -> None:
    """Run the parts and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts: dict[str, Callable[[int], Any]] = {
        "scoreboard": scoreboard,
        "checks": checks,
        "worst": worst,
        "subsets": lambda _: subsets(Path(os.environ.get("LETHE_DATA", "data"))),
        "synthetic": synthetic,
    }
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "linkage_peers.json")
    asked = parser.parse_args()
    before = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    found = {name: one for name, one in before.items() if name in parts}
    for name in asked.parts or parts:
        found[name] = {"load": load(), **parts[name](asked.rounds)}
        save(found, asked.out)


if __name__ == "__main__":
    main()
