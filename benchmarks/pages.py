"""Tables and charts of docs/benchmarks.md, from benchmarks/results/*.json.

    python benchmarks/pages.py             # writes them into the pages and docs/figures
    python benchmarks/pages.py NAME        # prints more; the names are in `main`

A page holds `<!-- table NAME -->` before and `<!-- end -->` after a table. The test suite fails
where a page or a chart is not what the results give.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from charts import Axis, Panel, Series, chart

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETS = ("credit", "adult", "mnist", "diabetes130", "cifar10")
BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#777777"


@cache
def results(name: str) -> Any:
    """What a benchmark saved."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Markdown."""
    first, *rest = [f"| {' | '.join(map(str, line))} |" for line in [heads, *rows]]
    return [first, "|" + "---|" * len(heads), *rest]


def span(low: str, high: str) -> str:
    """Both ends, with a dash where no end is negative."""
    return f"{low} to {high}" if "-" in low + high else f"{low}\N{EN DASH}{high}"


def limits(estimate: Any, scale: float = 100, digits: int = 1) -> str:
    """value (low–high); an estimate is a record or a list of these three."""
    keys = ("value", "low", "high")
    found = [estimate[key] for key in keys] if isinstance(estimate, dict) else estimate
    if found is None or found[0] is None:
        return "-"
    value, low, high = (f"{scale * x:.{digits}f}" for x in found)
    return f"{value} ({span(low, high)})"


# Membership -------------------------------------------------------------------------------------


def one_gpu() -> list[str]:
    """CIFAR-10 on one GPU: records and canaries apart."""
    plain = results("gpu_cifar10")["plain"]
    heads = ["attack", "AUC", "TPR at 1 %", "TPR at 0.1 %", "canaries: AUC", "TPR at 1 %"]
    rows = [
        [attack, *(limits(rate) for rate in (row["auc"], row["tpr"]["0.01"], row["tpr"]["0.001"]))]
        + [limits(plain["canaries"][attack][key]) for key in ("auc",)]
        + [limits(plain["canaries"][attack]["tpr"]["0.01"])]
        for attack, row in plain["records"].items()
    ]
    return table(heads, rows)


def study() -> list[str]:
    """Before and after each mitigation, three sets: TPR, accuracy lost, largest t."""
    sets = results("study")["sets"]
    rows = []
    for candidate in sets["digits"]["candidates"]:
        cells = []
        for found in sets.values():
            row = found["candidates"][candidate]
            lost = "" if row["accuracy_lost"] is None else f"{limits(row['accuracy_lost'])}; "
            cells.append(f"{limits(row['tpr_0.01'], digits=2)}; {lost}{row['max_t']['value']:.1f}")
        rows.append([candidate, *cells])
    return table(["candidate", *sets], rows)


def budgets(name: str) -> list[tuple[int, dict[str, Any]]]:
    """Number of shadow models and what was measured with them, ascending."""
    found = results("strength")["rounds"][name]
    return sorted((int(key), value) for key, value in found.items() if key.isdigit())


def strength_gain() -> list[str]:
    """Learned ratio less the better of LiRA and RMIA."""
    models = (4, 8, 16, 32, 64, 128)
    rows = []
    for name in SETS:
        measured = dict(budgets(name))
        cells = [
            limits(measured[k]["attacks"]["learned-ratio"]["gain_tpr_0.01"], digits=2)
            if k in measured
            else "-"
            for k in models
        ]
        rows.append([name, *cells])
    return table(["set", *map(str, models)], rows)


def strength_tpr() -> list[str]:
    """TPR at 1 % and 0.1 % of every attack."""
    rounds = results("strength")["rounds"]
    rows = []
    for attack in rounds["credit"]["4"]["attacks"]:
        if attack in ("gap", "attack-r"):
            continue  # at rates below what they can reach
        cells = []
        for name in SETS:
            for models in ("8", "64"):
                found = rounds[name][models]["attacks"].get(attack)
                found = found or rounds[name]["4"]["attacks"][attack]  # asks no reference model
                one, tenth = (100 * found["tpr"][rate]["value"] for rate in ("0.01", "0.001"))
                cells.append(f"{one:.1f}/{tenth:.1f}")
        rows.append([attack, *cells])
    return table(["attack", *(f"{name} {k}" for name in SETS for k in (8, 64))], rows)


def strength_chart() -> str:
    """TPR at 1 % by number of shadow models."""
    shown = {
        "learned-ratio": (BLUE, ""),
        "lira-online": (ORANGE, ""),
        "lira-offline": (ORANGE, "4 3"),
        "lira-hierarchical": (RED, ""),
        "rmia-online": (GREEN, ""),
        "rmia-offline": (GREEN, "4 3"),
        "bavaria-n": ("#56b4e9", ""),
        "base-online": ("#e6ab02", "2 2"),
        "loss-threshold": (GREY, "2 2"),
    }
    tops = {"credit": (0, 2, 4, 6), "adult": (0, 2, 4, 6), "mnist": (0, 4, 8, 12)}
    panels = []
    for name in SETS:
        measured = budgets(name)
        series = []
        for attack, (colour, dashes) in shown.items():
            found = [(k, row["attacks"].get(attack)) for k, row in measured]
            found = [(k, row or measured[0][1]["attacks"][attack]) for k, row in found]
            rates = [(k, row["tpr"]["0.01"]) for k, row in found]
            series.append(
                Series(
                    attack,
                    colour,
                    [(k, 100 * rate["value"]) for k, rate in rates],
                    [(100 * rate["low"], 100 * rate["high"]) for _, rate in rates]
                    if attack == "learned-ratio"
                    else (),
                    dashes=dashes,
                )
            )
        models = Axis("shadow models", (4, 8, 16, 32, 64, 128), log=True)
        rate_axis = Axis("TPR at 1 % FPR, %", tops.get(name, (0, 4, 8, 12, 16)))
        panels.append(Panel(name, models, rate_axis, series))
    return chart(panels, 3)


def peers_chart() -> str:
    """Strength and speed beside other tools, for the README."""
    sets = {"credit": BLUE, "adult": GREEN, "mnist": ORANGE, "diabetes130": RED}
    gains = []
    for name, colour in sets.items():
        found = [
            (k, row["attacks"]["learned-ratio"]["gain_tpr_0.01"])
            for k, row in budgets(name)
            if "gain_tpr_0.01" in row["attacks"]["learned-ratio"]
        ]
        gains.append(
            Series(
                name,
                colour,
                [(k, 100 * gain["value"]) for k, gain in found],
                [(100 * gain["low"], 100 * gain["high"]) for _, gain in found],
            )
        )
    models = Axis("shadow models", (4, 8, 16, 32, 64, 128), log=True)
    strength = Panel(
        "Members named beyond the better of LiRA, RMIA",
        models,
        Axis("points, at 1 % false alarms", (-1, 0, 1, 2, 3, 4)),
        gains,
    )
    rows = results("linkage_peers")
    faster = {
        "DP-SGD step: Opacus, ghost mode": 1 / results("dp_step")["mlp"]["private_over_ghost"],
        "exact ranks of vectors: faiss": results("ranks")["10000 x 10000"]["times_lethe"][
            "faiss, 20 nearest"
        ],
        "many small private networks: Opacus": results("dp_stacked")["times_opacus"],
        "nearest rows: Anonymeter": rows["synthetic"]["nearest"]["anonymeter"]["over_ours"],
        "k, l, t of a table: pycanon": rows["checks"]["coarse"]["pycanon"]["over_ours_from_text"],
        "linkage query: pandas": rows["scoreboard"]["over_lethe"]["pandas"],
    }
    places = range(len(faster), 0, -1)
    speed = Panel(
        "Speed beside a named tool",
        Axis("times as fast, in one run", (1, 10, 100, 1000, 10000), log=True),
        Axis("", (0.5, len(faster) + 0.5)),
        [
            Series(
                "Lethe beside the tool that is named",
                BLUE,
                list(zip(faster.values(), places, strict=True)),
                line=False,
                names=[
                    f"{name} ({times:.{1 if times < 10 else 0}f})" for name, times in faster.items()
                ],
            )
        ],
    )
    return chart([strength, speed], 2)


def epsilon_validity() -> list[str]:
    """Bounds above the truth, and how much of the truth they reach."""
    worlds = list(results("epsilon_validity")["worlds"].values())
    rows = []
    for name in worlds[0]:
        if re.search("Bonferroni of|all guessed", name):
            continue  # three ways to guess more; all are in the file
        cells = []
        for world in worlds:
            row = world.get(name)
            share = row and row.get("median share of epsilon")
            cells.append(
                "-"
                if row is None
                else str(row["violations"])
                if share is None
                else f"{row['violations']}, {100 * share:.0f} %"
            )
        rows.append([name, *cells])
    return table(["bound", "null: wrong", "mu 0.5: wrong, share", "mu 1", "mu 2", "RR"], rows)


# Defences ---------------------------------------------------------------------------------------


def label(guarantee: dict[str, Any]) -> str:
    """What a candidate proves."""
    forms = {
        "approx-dp": "epsilon {epsilon:.3g}",
        "individual-dp": "epsilon of a record, to {epsilon:.3g}",
        "asymptotic": "asymptotic",
        "empirical-only": "-",
    }
    return forms[guarantee["kind"]].format(**guarantee["parameters"])


def frontier() -> list[str]:
    """Accuracy and TPR of candidates on every set; `all_of_frontier` has all of them."""
    others = {"uniform-noise", "l2", "model-averaging", "dp-sgd-eps50", "dp-sgd-eps500"}
    rounds = results("frontier")["rounds"]
    found = [{row["name"]: row for row in each["rows"]} for each in rounds]
    rows = []
    for name, row in found[0].items():
        cells = []
        if name in others:
            continue
        for each in found:
            if name not in each:
                cells.append("-")
                continue
            accuracy, rate = each[name]["accuracy"]["value"], each[name]["tpr"]["0.01"]
            cells.append(f"{100 * accuracy:.1f}; {limits(rate)}")
        rows.append([name, label(row["guarantee"]), *cells])
    return table(["candidate", "proven", *(each["set"] for each in rounds)], rows)


def frontier_chart() -> str:
    """Accuracy against TPR at 1 %."""
    ranges = {
        "adult": (79, 80, 81, 82, 83, 84, 85, 86, 87),
        "mnist": (65, 70, 75, 80, 85, 90, 95),
        "diabetes130": (46, 48, 50, 52, 54, 56, 58, 60),
        "cifar10": (25, 30, 35, 40, 45, 50, 55),
    }
    kinds = {
        "proven": (BLUE, True, ("approx-dp", "individual-dp")),
        "asymptotic": (RED, True, ("asymptotic",)),
        "measured only": (ORANGE, False, ("empirical-only",)),
    }
    named = ("baseline", "weighted-noise", "label-smoothing", "dp-sgd-eps8", "individual-dp-eps8")
    panels = []
    for each in results("frontier")["rounds"]:
        series = []
        for name, (colour, solid, members) in kinds.items():
            rows = [row for row in each["rows"] if row["guarantee"]["kind"] in members]
            if not rows:
                continue
            series.append(
                Series(
                    name,
                    colour,
                    [(100 * r["tpr"]["0.01"]["value"], 100 * r["accuracy"]["value"]) for r in rows],
                    [(100 * r["accuracy"]["low"], 100 * r["accuracy"]["high"]) for r in rows],
                    line=False,
                    solid=solid,
                    names=[r["name"] if r["name"] in named else "" for r in rows],
                )
            )
        risk = Axis("TPR at 1 % FPR, % (log)", (1, 2, 5, 10, 20, 40), log=True)
        panels.append(Panel(each["set"], risk, Axis("accuracy, %", ranges[each["set"]]), series))
    return chart(panels, 2)


def autocoder() -> list[str]:
    """Candidates on injury narratives, frozen encoder; then the whole encoder."""
    rows = []
    for row in results("autocoder")["rows"]:
        if row["name"] == "swag-linear-4.35":
            continue  # between the other two draws
        scores = [limits(row["f1"][kind], 1, 2) for kind in ("weighted", "macro")]
        rates = [limits(row["tpr"]["0.01"]), limits(row["tau"]["0.001"], 1, 2)]
        rows.append([row["name"], label(row["guarantee"]), *scores, *rates])
    for blind in results("autocoder")["rows"][0]["f1"]["blind"]:
        scores = [limits(blind[kind], 1, 2) for kind in ("weighted", "macro")]
        rows.append([f"{blind['name']} (blind)", "-", *scores, "-", "-"])
    full = results("autocoder_full")
    for name in ("plain", "private", "posterior"):
        scores = []
        for kind in ("weighted", "macro"):
            found = full[name]["f1"]["all"][kind]
            scores.append(f"{found['value']:.2f} ± {found['se']:.3f}")
        rows.append([f"whole encoder, {name}", "", *scores, "-", "-"])
    heads = ["candidate", "proven", "weighted F1", "macro F1", "TPR at 1 % FPR, %"]
    return table([*heads, "ln(TPR/FPR) at 0.1 %"], rows)


# Representations --------------------------------------------------------------------------------


def attackers() -> list[str]:
    """Lift of cosine and of the strongest attacker, by noise."""
    levels = [row for row in results("globo_attackers")["levels"] if row["sigma"] <= 5]
    kinds = {
        "cosine": [row["attacks"]["cosine on release"] for row in levels],
        "**strongest**": [row["worst"] for row in levels],
    }
    rows = [[name, *(_lift(found) for found in each)] for name, each in kinds.items()]
    rows.append(["AUC of one draw", *(f"{row['auc'][0]:.3f}" for row in levels)])
    return table(["lift at sigma", *(f"{row['sigma']:g}" for row in levels)], rows)


def vector_options() -> list[str]:
    """What each option costs, and what is left to attackers of vectors of news readers."""
    rows = []
    for one in results("vectors_further_globo")["options"]:
        if one["option"] in ("quantised-4", "random-projection-16", "noise-2"):
            continue  # near their neighbours
        worst, gain = one["worst"], one["attributes"][0]
        cosine = one["lifts"].get("cosine on release") or one["lifts"].get("l2 on release")
        rows.append(
            [
                one["option"],
                limits(one["utility"], 1, 3),
                _lift(cosine),
                _lift(one["lift"]),
                limits(worst["eer"][1]),
                limits(gain["gain"]),
            ]
        )
    heads = ["option", "AUC", "lift, cosine", "lift, strongest", "EER, %"]
    return table([*heads, "device, gain in points"], rows)


def verification_peers() -> list[str]:
    """The same scores by three implementations."""
    found = results("verification_peers")
    ours, legal = found["lethe"], found["voice-anonymization-legal-eval"]
    rows = []
    for name, words in (("gauss", "N(3, 2), N(0, 1)"), ("people", "500 people")):
        theirs = found["zebra"][name]
        for key, what, other in (
            ("rocch_eer", "ROCCH-EER", legal[name]["rocch_eer"]),
            ("min_cllr", "minimum Cllr", None),
            ("expected", "expected disclosure", None),
            ("worst", "worst ratio (log10)", None),
        ):
            cells = [ours[name][key], other, theirs[key]]
            rows.append([f"{words}: {what}", *("–" if x is None else f"{x:.6f}" for x in cells)])
    for size, share in ours["linkability"].items():
        peer = legal["linkability"][size]
        rows.append([f"500 people: Top-1 among {size}", f"{share:.6f}", f"{peer:.6f}", "–"])
    return table(["", "Lethe", "legal-eval 2.1.0", "ZEBRA toolkit"], rows)


def _lift(found: Sequence[float]) -> str:
    value, low, high = (f"{x:.0f}" if x >= 10 else f"{x:.1f}" for x in found)
    return f"{value} ({span(low, high)})"


def attackers_chart() -> str:
    """Lift against noise, every attacker."""
    levels = [row for row in results("globo_attackers")["levels"] if 0 < row["sigma"] <= 5]
    shown = {
        "cosine": (GREY, ""),
        "whitened": (ORANGE, ""),
        "lda": (ORANGE, "4 3"),
        "plda": (GREEN, ""),
        "clean gallery": (RED, ""),
        "all vectors": ("#56b4e9", ""),
        "plda, clean gallery, all vectors": ("#e6ab02", ""),
    }
    series = [
        Series(
            name,
            colour,
            [(row["sigma"], row["attacks"][f"{name} on release"][0]) for row in levels],
            dashes=dashes,
        )
        for name, (colour, dashes) in shown.items()
    ]
    worst = [(row["sigma"], row["worst"]) for row in levels]
    series.append(
        Series(
            "strongest, limits for all at once",
            BLUE,
            [(sigma, found[0]) for sigma, found in worst],
            [(found[1], found[2]) for _, found in worst],
        )
    )
    noise = Axis("sigma", (0.1, 0.25, 0.5, 1, 2, 5), log=True)
    return chart(
        [Panel("", noise, Axis("lift", (0.5, 1, 2, 5, 10, 20, 50, 100), log=True), series)], 1
    )


def geometry_chart() -> str:
    """Made-up people of the published geometry beside the published figures."""
    panels = []
    for name, title in (("mlp", "MLP"), ("lstm", "BiLSTM")):
        model = results("published_geometry")["models"][name]
        levels = [row for row in model["levels"] if row["sigma"] > 0]
        published = model["published"]["lift"][1:]
        sigmas = [row["sigma"] for row in levels]
        series = [
            Series(
                "made up, 95 %",
                BLUE,
                [(row["sigma"], row["lift"][0]) for row in levels],
                [(row["lift"][1], row["lift"][2]) for row in levels],
            ),
            Series("published", ORANGE, list(zip(sigmas, published, strict=True)), dashes="4 3"),
        ]
        noise = Axis("sigma", (0.01, 0.05, 0.1, 0.25, 0.5, 1, 3), log=True)
        lift = Axis("lift", (1, 10, 100, 1000, 10000), log=True)
        panels.append(Panel(title, noise, lift, series))
    return chart(panels, 2)


def sweep_coverage() -> list[str]:
    """Do intervals of a sweep hold the truth?"""
    rows = [
        [
            name.replace("nobody differs", "no difference"),
            f"{row['lift']:.2f}",
            f"{row['held']:.3f}",
            f"{row['below']:.3f}",
        ]
        for name, row in results("sweep_coverage")["worlds"].items()
    ]
    return table(["population", "true lift", "coverage", "ends below"], rows)


# Rows -------------------------------------------------------------------------------------------

PUBLISHED_NETFLIX = {  # Narayanan and Shmatikov 2008, best guess, per cent
    "2 facts, within 14 days": 43.2,
    "3 of 4 facts, within 14 days": 77.3,
    "6 of 8 facts, within 14 days": 98.6,
}


def _simulated() -> list[dict[tuple[str, str], dict[str, Any]]]:
    """By adversary and attacker: MovieLens, MovieTweetings, Globo."""
    found = results("linkage")
    kinds = [found["people_in_common"], *found["simulated"].values()]
    return [{(row["name"], row["attacker"]): row for row in each["simulated"]} for each in kinds]


def linkage() -> list[str]:
    """Best guess of both attackers, and what is named from the calibrated threshold on."""
    sets = _simulated()
    rows = []
    for known in [
        *PUBLISHED_NETFLIX,
        "2 facts, no dates",
        "3 of 4 facts, no dates",
        "6 of 8 facts, no dates",
    ]:
        cells = []
        for each in sets:
            sums, best = each[known, "scoreboard-rh"], each[known, "likelihood"]
            parts = (sums["top_1"], sums["match"], best["top_1"], best["calibrated"]["match"])
            cells.append(" / ".join(f"{100 * part['value']:.0f}" for part in parts))
        rows.append([known, *cells, PUBLISHED_NETFLIX.get(known, "-")])
    heads = ["known", "MovieLens (610)", "MovieTweetings (16,554)", "Globo clicks (15,241)"]
    return table([*heads, "Netflix, published"], rows)


def quasi() -> list[str]:
    """Tables: unique rows, secrets that are certain, before and after k = 10."""
    rows = []
    for name, found in results("linkage")["tables"].items():
        worst, ten = found["worst_three"], found["k-10"]
        rows.append(
            [
                name,
                f"{found['rows']:,}",
                f"{100 * found['unique']:.1f} %",
                f"{100 * found['certain']:.1f} %",
                f"{', '.join(worst['columns'])} ({100 * worst['unique']['value']:.1f} %)",
                ", ".join(
                    f"{100 * ten[key]:.{digits}f} %"
                    for key, digits in (("utility", 0), ("marketer", 1), ("certain", 1))
                ),
            ]
        )
    heads = ["table", "rows", "unique rows", "secret certain", "three worst columns (unique rows)"]
    return table([*heads, "k = 10: utility, marketer risk, secret certain"], rows)


def synthetic_rows() -> list[str]:
    """Private synthetic rows: distance of pairs; F1; seconds, means over the runs."""
    methods = {"ours": "Lethe", "mst": "OpenDP MST", "aim2": "OpenDP AIM"}
    found = [run for run in results("synthetic_rows")["runs"] if run["columns"] == 8]
    rows = []
    for data, epsilon in sorted({(run["data"], run["epsilon"]) for run in found}):
        cells = []
        for method in methods:
            runs = [
                r
                for r in found
                if (r["data"], r["epsilon"], r["method"]) == (data, epsilon, method)
            ]
            if not runs:
                cells.append("-")
                continue
            distance, f1, took = (
                sum(run[key] for run in runs) / len(runs) for key in ("tvd2", "f1", "seconds")
            )
            cells.append(f"{distance:.3f}; {f1:.2f}; {took:.0f} ({len(runs)})")
        rows.append([data, f"{epsilon:g}", *cells])
    return table(["data", "epsilon", *methods.values()], rows)


# Answers ----------------------------------------------------------------------------------------


def query_errors() -> list[str]:
    """Errors of the other libraries in units of ours, over four columns and two epsilons."""
    errors = results("query_errors")["errors"]
    rows = []
    for question in ("count", "sum", "mean", "variance", "histogram"):
        cells = []
        for library in ("opendp", "diffprivlib"):
            found = [each["rms_error"][question] for each in errors]
            ratios = [row[library] / row["lethe"] for row in found]
            ends = span(f"{min(ratios):.2g}", f"{max(ratios):.2g}")
            cells.append(f"{median(ratios):.2g} ({ends})")
        rows.append([question, *cells])
    return table(["question", "OpenDP 0.16 / Lethe", "diffprivlib 0.6.6 / Lethe"], rows)


def composition_chart() -> str:
    """Epsilon of all against the number of answers."""
    found = results("query_errors")["composition"]
    colours = (GREY, ORANGE, GREEN, RED, BLUE, "#56b4e9", "#e6ab02")
    series = [
        Series(name, colour, [(row["answers"], row[name]) for row in found])
        for name, colour in zip((n for n in found[0] if n != "answers"), colours, strict=False)
    ]
    answers = Axis("answers of epsilon 0.1 each", (1, 10, 100, 1000), log=True)
    total = Axis("epsilon of all at delta 1e-6", (0.1, 1, 10, 100), log=True)
    return chart([Panel("", answers, total, series)], 1)


def mechanisms() -> list[str]:
    """Audits of mechanisms that are known to be right, of half their noise, and of wrong ones."""
    measured = results("mechanism_audit")
    rows = []
    for name, row in measured["right"].items():
        half = measured["half the noise"][name]
        cells = [f"{each['flagged']} of {each['share']['n']}" for each in (row, half)]
        runs = f"{row['runs']:,}" + ("" if row["runs"] == half["runs"] else f"; {half['runs']:,}")
        rows.append([name, runs, *cells])
    wrong = measured["wrong"]
    flagged, audits = (
        sum(each)
        for each in zip(*((r["flagged"], r["share"]["n"]) for r in wrong.values()), strict=True)
    )
    rows.append([f"{len(wrong)} known to be wrong", "", "-", f"{flagged} of {audits}"])
    heads = ["mechanism", "runs on each input", "right, flagged", "half the noise, flagged"]
    return table(heads, rows)


def query_speed() -> list[str]:
    """Milliseconds of a question, and the ratio to the plain query."""
    small, large = results("query_versions_2k"), results("query_versions_10m")
    rows = []
    for name, row in results("query_speed")["questions"].items():
        if name not in large["questions"]:
            continue
        took = [1000 * each["questions"][name]["seconds"]["now"] for each in (small, large)]
        rows.append([name, *(f"{ms:.0f} ms" for ms in took), f"{row['ratio']:.2f}"])
    return table(["question", "2,000 rows", "10 million rows", "times the plain query"], rows)


def timing() -> list[str]:
    """What the time of an answer tells."""
    rows = [
        [
            f"{row['rows']:,}",
            f"`{row['question'].split('(')[0]}`",
            row["differs"],
            f"{row['median_ms']:.1f} ms",
            limits([row["difference_ms"], row["low"], row["high"]], 1, 2),
            f"{row['auc']:.2f}",
        ]
        for row in results("answer_timing")["found"]
        if row["rows"] == 200_000
    ]
    return table(["rows", "question", "differs in", "median", "difference, ms", "AUC"], rows)


# Statistics and speed ---------------------------------------------------------------------------


def exposure() -> list[str]:
    """Limits of the most exposed records, chosen for being extreme."""
    found = results("selection_coverage")["exposure"]
    kinds = list(dict.fromkeys(name.rsplit(", K=", 1)[0] for name in found))
    rows = []
    for kind in kinds:
        cells = [found[f"{kind}, K={k}"] for k in (16, 32, 64)]
        rows.append(
            [
                kind,
                *(
                    f"{100 * r['top_t_coverage']:.1f}; {100 * r['top_20_coverage']:.1f}"
                    for r in cells
                ),
            ]
        )
    return table(["top-t; top 20", "K = 16", "K = 32", "K = 64"], rows)


def references() -> list[str]:
    """Coverage of AUC where models have effects of their own: references fixed, then redrawn."""
    found = results("selection_coverage")["auc"]
    kinds = list(dict.fromkeys(name.rsplit(", K=", 1)[0] for name in found))
    rows = []
    for kind in kinds:
        cells = [found[f"{kind}, K={k}"] for k in (8, 16, 32, 64)]
        rows.append([kind, *map(_covered, cells)])
    return table(["signals", "K = 8", "K = 16", "K = 32", "K = 64"], rows)


def _covered(row: dict[str, Any]) -> str:
    """Coverage with the references fixed, and redrawn."""
    fixed, audits = 100 * row["auc_coverage_as_they_are"], row["repetitions"]
    now = 100 * row["auc_coverage_redrawn"]
    shown = f"{now:.1f}" if now >= 93 else f"**{now:.1f}**"
    return f"{fixed:.1f} → {shown} ({audits})"


def ten_models() -> list[str]:
    """Lines and seconds of an audit of each."""
    rows = [
        [name, str(row["lines"]), f"{row['seconds']:.0f}", limits(row["risk"], digits=1)]
        for name, row in results("ten_models")["rows"].items()
    ]
    return table(["model", "lines of Python", "seconds", "recognised, %"], rows)


def run_all() -> list[str]:
    """Whole commands, and peers beside them."""
    rows = []
    for name, row in results("run_all")["rows"].items():
        mine = row["median"]["lethe"]
        cells = [f"{mine['wall']:.1f}", f"{mine['peak']:.1f}"]
        peers = [
            f"{side} {times:.2g} x"
            for side, times in row["times_lethe"].items()
            if side != "before"
        ]
        rows.append([name, row["goal"] or "-", *cells, ", ".join(peers) or "-"])
    heads = ["command", "wanted", "s", "GB", "others take"]
    return table(heads, rows)


def one_model() -> list[str]:
    """Estimates from one model beside the two blind baselines, on sets that were held out."""
    found = results("one_model")
    groups = {"all": found["held out"], **found["by set"], **found["by kind"]}
    rows = [
        [
            name,
            group["pairs"],
            f"{group['refused']} of {group['models']}",
            f"{100 * group['covered']:.0f}",
            f"{group['median_ratio']:.2f}",
            *(f"{ratio:.2f}" for ratio in group["median_ratio_of"].values()),
            f"{100 * group['top_found']:.0f}",
        ]
        for name, group in groups.items()
    ]
    heads = ["held out", "pairs", "refused", "covered, %", "estimate", "loss attack"]
    return table([*heads, "accuracy gap", "top 1 % found, %"], rows)


def one_model_null() -> list[str]:
    """Models that leak nothing: how many get an upper end below 5 %."""
    found = results("one_model_null")["kinds"]
    rows = [
        [name, kind["models"], kind["refused"], kind["below"], f"{100 * kind['highest']:.1f}"]
        for name, kind in found.items()
    ]
    heads = ["models that leak nothing", "n", "refused", "below 5 %", "highest upper end, %"]
    return table(heads, rows)


def one_model_chart() -> str:
    """Every held-out model: estimate and its interval over the true rate."""
    ticks = (0.005, 0.01, 0.03, 0.1, 0.3, 1.0)
    points = [point for point in results("one_model")["points"] if not point[-1]]
    names = sorted({point[0] for point in points})
    colours = dict(zip(names, (BLUE, ORANGE, GREEN, RED, "#56b4e9"), strict=True))
    listed = [
        Series(
            name,
            colour,
            [(point[2], point[3]) for point in points if point[0] == name],
            [(point[4], point[5]) for point in points if point[0] == name],
            line=False,
        )
        for name, colour in colours.items()
    ]
    equal = Series("equal", GREY, [(tick, tick) for tick in ticks], dashes="4 3")
    axes = (Axis(f"{word} TPR at 1 % FPR", ticks, log=True) for word in ("true", "estimated"))
    return chart([Panel("Held-out models", *axes, [*listed, equal])], 1)


def growth() -> list[str]:
    """Seconds and memory as one quantity grows."""
    rows = []
    for name, line in results("growth")["lines"].items():
        cells = [
            f"{one['size']:,}: {one['wall']:.0f} s, {one['peak']:.1f} GB" for one in line["points"]
        ]
        rows.append([name, "; ".join(cells), f"{line['last_slope']:.1f}"])
    return table(["what grows", "seconds and memory of the whole command", "last slope"], rows)


def growth_chart() -> str:
    """Seconds and GB of the whole command against size, both logarithmic."""
    lines = results("growth")["lines"]
    colours = dict(zip(lines, (BLUE, ORANGE, GREEN, RED, GREY), strict=True))

    def series(part: str) -> list[Series]:
        return [
            Series(name, colours[name], [(one["size"], one[part]) for one in line["points"]])
            for name, line in lines.items()
        ]

    size = Axis("how many", (1, 1e2, 1e4, 1e6, 1e8), log=True)
    return chart(
        [
            Panel("Time", size, Axis("seconds", (1, 10, 100), log=True), series("wall")),
            Panel("Memory", size, Axis("GB", (0.1, 1, 10), log=True), series("peak")),
        ],
        2,
    )


def ray_nodes() -> list[str]:
    """Seconds on this machine and on nodes of one core, one of them killed."""
    lines = results("ray_nodes")["lines"]
    sides = list(next(iter(lines.values()))["seconds"])
    rows = [
        [name, *(f"{line['seconds'][side]:.0f} s" for side in sides)]
        for name, line in lines.items()
        if line["same findings"]
    ]
    return table(["audit", *sides], rows)


def relations() -> list[str]:
    """What papers report, and whether it was found here; AUC and 4 models are left to the file."""
    rows = [
        [row["claim"], row["where"], f"{limits(row, 1)} {row['unit']}", row["says"]]
        for row in results("relations")["rows"]
        if "AUC" not in row["claim"] and ", 4 models" not in row["where"]
    ]
    return table(["published", "where", "measured", "here"], rows)


def cost() -> list[str]:
    """Processor time and memory of an audit, measured, and extrapolated to sizes beyond."""
    found = results("cost")
    measured = {(row["models"], row["records"]): row for row in found["models"] + found["records"]}
    each = found["training_seconds"] / 8000 / 3600
    rows = [
        [models, records, models * records * each, row["cpu_seconds"] / 3600]
        + [row["peak_rss_bytes"], 7.5 * models * records, "measured"]
        for (models, records), row in sorted(measured.items())
        if models * records >= 2**21
    ]
    rows += [
        [row["models"], row["records"], row["training_hours"], row["hours"]]
        + [row["bytes"], row["disk"], "extrapolated"]
        for row in found["paper"]
    ]
    heads = ["models", "records", "training, core hours", "analysis, core hours"]
    cells = (
        [f"{m:,}", f"{n:,}", f"{t:,.2g}" if t < 10 else f"{t:,.0f}"]
        + [f"{a:,.2g}" if a < 10 else f"{a:,.0f}", f"{b / 1e9:,.1f}", f"{d / 1e9:,.1f}", kind]
        for m, n, t, a, b, d, kind in rows
    )
    return table([*heads, "memory, GB", "disk, GB", ""], cells)


def dp_step() -> list[str]:
    """One step of private training beside plain SGD and Opacus."""
    names = {
        "tiny": "tiny MLP",
        "mlp": "MLP, 0.67 M",
        "cnn": "CNN, 61 k",
        "small": "transformer, 0.67 M",
        "large": "transformer, 10.2 M",
    }
    rows = []
    for key, name in names.items():
        row = results("dp_step")[key]
        low, high = row["private_over_sgd_range"]
        cells = [f"{row[k]:.2f}" for k in ("private_over_ghost", "memory_over_ghost")]
        rows.append(
            [name, f"{row['private_over_sgd']:.2f} ({span(f'{low:.2f}', f'{high:.2f}')})", *cells]
        )
    heads = ["model", "step / plain SGD (range of rounds)", "/ Opacus ghost"]
    return table([*heads, "memory / ghost"], rows)


_LANGUAGE = ("loss", "zlib", "min-k", "min-k++", "ratio", "error-zone", "combined")


def language_rows(seeds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Fine-tunes of narratives, of the seeds that are named, and the one by years."""
    for name, row in results("language_model")["rows"].items():
        if "seed" not in name or name[-1] in seeds:
            yield name, row


def language_attacks(seeds: str = "0") -> list[str]:
    """TPR at 1 % FPR of every attack on fine-tunes of narratives, by epochs and seed."""
    rows = []
    for name, row in language_rows(seeds):
        cells = [limits(row["attacks"][attack]["tpr"]["0.01"], digits=1) for attack in _LANGUAGE]
        blind = row["blind"]
        told = f"{blind['auc']['value']:.2f}, p = {blind['p_value']:.2g}"
        told += ": **tells**, nothing stands" if blind["tells"] else ""
        rows.append([_epochs(name), *cells, told])
    return table(["fine-tune", *_LANGUAGE, "blind check, AUC"], rows)


def challengers() -> list[str]:
    """The comparison of each kind of release in which an independent attacker came nearest."""
    rows = []
    for room, plays in results("challengers")["rooms"].items():
        measured = [play for play in plays if "refused" not in play]
        nearest = max(measured, key=lambda play: play["value"] - play["headline"])
        two = [f"{100 * nearest[key]:.1f}" for key in ("headline", "value")]
        above = sum(bool(play["above"]) for play in measured)
        rows.append([room, len(measured), nearest["set"], *two, nearest["challenger"], above])
    heads = ["room", "comparisons", "nearest on", "headline, %", "challenger, %", "which", "above"]
    return table(heads, rows)


def all_of_challengers() -> list[str]:
    """The best independent attacker beside the headline of each audit."""
    rows = []
    for room, plays in results("challengers")["rooms"].items():
        for play in plays:
            best = f"{100 * play['value']:.1f}, {play['challenger']}"
            if "refused" in play:
                cells = ["refused", best, "-"]
            else:
                ends = [f"{100 * play[key]:.1f}" for key in ("headline", "low", "high")]
                counted = play["low"] == play["high"]
                headline = ends[0] if counted else f"{ends[0]} ({span(*ends[1:])})"
                cells = [headline, best, "**yes**" if play["above"] else "no"]
            rows.append([room, play["set"], f"{play['n']:,}", play["number"], *cells])
    heads = ["room", "set", "n", "number", "headline, %", "best challenger, %", "above"]
    return table(heads, rows)


def language_canaries(seeds: str) -> list[str]:
    """Bounds on epsilon, exposure and extraction of the same fine-tunes."""
    rows = []
    for name, row in language_rows(seeds):
        proven = row["guarantee"]["parameters"].get("epsilon")
        parts = []
        for one in row["canaries"]:
            low = one["epsilon"]["binomial"]["low"]
            bits = f"{one['exposure']['value']:.1f}/{one['most_exposure']:.1f}"
            parts.append(f"{low:.2f}/{one['largest']:.2f}; {bits}")
        parts += ["-"] * (3 - len(parts))
        out = row["measures"]["extraction"]["value"]
        utility = f"{row['utility']['value']:.2f}"
        claim = "-" if proven is None else f"{proven:.3g}"
        came = [one.get("extracted", {}).get("value") for one in row["canaries"]]
        copies = " / ".join("-" if one is None else f"{100 * one:.0f}" for one in came)
        rows.append([_epochs(name), claim, *parts, copies, f"{1000 * out:.1f}", utility])
    copies_heads = [f"epsilon, exposure, {n}" for n in ("once", "4 times", "16 times")]
    heads = ["fine-tune", "epsilon proven", *copies_heads, "canaries extracted, %, by copies"]
    return table([*heads, "texts extracted, of 1,000", "utility, nats"], rows)


def _epochs(name: str) -> str:
    return name.replace("1 epochs", "1 epoch")


def language_peer() -> list[str]:
    """What Lethe and memaudit find in one fine-tune."""
    found = results("language_peer")
    theirs, ours = found["memaudit"], found["lethe"]
    member, again = theirs["membership"], theirs["regurgitation"]["overall"]
    ends = span(f"{member['ci_low']:.2f}", f"{member['ci_high']:.2f}")
    sizes = f"{member['n_members']} and {member['n_controls']}"
    canaries = f"{member['tpr_at_1pct_fpr']:.2f} ({ends}), {sizes}"
    ratio = ours["attacks"]["ratio"]["tpr"]["0.1"]
    epsilon = "; ".join(
        f"{one['epsilon']['binomial']['low']:.2f} of {one['largest']:.2f}"
        for one in ours["canaries"]
    )
    rows = [
        ["canaries, TPR at 1 % FPR, planted and left out", canaries, "not given"],
        ["training texts, TPR at 10 % FPR, %", "not given", limits(ratio)],
        ["blind check", "not made", f"p = {ours['blind']['p_value']:.2g}"],
        ["epsilon at least, by 1, 4, 16 copies", "not asked for", epsilon],
        ["comes out verbatim", f"{again['n_regurgitated']} of {again['n']} canaries",
         f"{1000 * ours['measures']['extraction']['value']:.1f} of 1,000 texts"],
        ["seconds", f"{theirs['audit_seconds']:.0f}", f"{ours['audit_seconds']:.0f}"],
    ]  # fmt: skip
    return table(["", "memaudit " + str(theirs["version"]), "Lethe"], rows)


def language_speed() -> list[str]:
    """Tokens a second of scoring."""
    speed = results("language_model")["speed"]
    rows = [
        [name, f"{speed[name]['tokens_per_second']:,.0f}"]
        for name in ("lethe", "one by one", "32 in order")
    ]
    return table(["way", "tokens a second"], rows)


TABLES: dict[str, Callable[[], list[str]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        study, strength_gain, epsilon_validity, frontier, autocoder,
        linkage, quasi, synthetic_rows, query_errors,
        dp_step, run_all,
        vector_options, challengers, language_attacks,
        one_model, one_model_null, one_gpu,
    )
}  # fmt: skip
CHARTS: dict[str, Callable[[], str]] = {
    "peers": peers_chart,
    "strength": strength_chart,
    "frontier": frontier_chart,
    "attackers": attackers_chart,
    "geometry": geometry_chart,
    "composition": composition_chart,
    "growth": growth_chart,
    "one_model": one_model_chart,
}
PLACE = re.compile(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", re.DOTALL)


def filled(text: str) -> str:
    """A page with its tables made anew."""

    def made(found: re.Match[str]) -> str:
        lines = "\n".join(TABLES[found[1]]())
        return f"<!-- table {found[1]} -->\n{lines}\n<!-- end -->"

    return PLACE.sub(made, text)


def all_of_strength() -> list[str]:
    """Every attack on every set at every budget."""
    lines = []
    for name in SETS:
        for models, row in budgets(name):
            ranked = sorted(
                row["attacks"].items(), key=lambda item: -item[1]["tpr"]["0.01"]["value"]
            )
            rows = [
                [attack, *(limits(found, digits=2) for found in (
                    own["auc"], own["tpr"]["0.01"], own["tpr"]["0.001"], own["gain_tpr_0.01"]
                ))]
                for attack, own in ranked
            ]  # fmt: skip
            heads = ["attack", "AUC", "TPR at 1 %", "TPR at 0.1 %", "gain, points"]
            lines += ["", f"{name}, {models} shadow models", "", *table(heads, rows)]
    return lines


def all_of_frontier() -> list[str]:
    """Every column of every candidate."""
    lines = []
    for each in results("frontier")["rounds"]:
        rows = [
            [row["name"], label(row["guarantee"])]
            + [limits(row[key]) for key in ("accuracy", "accuracy_lost")]
            + [limits(row["tpr"]["0.01"], digits=2), limits(row["auc"], 1, 3)]
            for row in each["rows"]
        ]
        heads = ["candidate", "proven", "accuracy, %", "accuracy lost, points", "TPR at 1 % FPR, %"]
        told = f"{each['set']}: Pareto set {', '.join(each['pareto'])}; knee {each['knee']}"
        lines += ["", told, "", *table([*heads, "AUC"], rows)]
    return lines


def all_of_language() -> list[str]:
    """Every seed, and Lethe beside another tool and beside plain loops."""
    made = language_attacks("012"), language_canaries("012"), language_peer(), language_speed()
    return [line for lines in made for line in ["", *lines]]


def main() -> None:
    """Write the pages, or print what was asked for."""
    asked = {
        "strength": lambda: strength_tpr() + all_of_strength(),
        "frontier": all_of_frontier,
        "challengers": all_of_challengers,
        "language": all_of_language,
        "verification": verification_peers,
        "references": references,
        "sweep": sweep_coverage,
        "ten-models": ten_models,
        "nodes": ray_nodes,
        "exposure": exposure,
        "timing": timing,
        "mechanisms": mechanisms,
        "query-speed": query_speed,
        "attackers": attackers,
        "growth": growth,
        "relations": relations,
        "cost": cost,
    }
    for name in sys.argv[1:]:
        print("\n".join(asked[name]()))
    if not sys.argv[1:]:
        for page in sorted(DOCS.glob("*.md")):
            text = page.read_text(encoding="utf-8")
            if filled(text) != text:
                page.write_text(filled(text), encoding="utf-8")
                print(page.name)
        for name, make in CHARTS.items():
            (DOCS / "figures" / f"{name}.svg").write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
