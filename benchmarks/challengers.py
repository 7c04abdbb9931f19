"""Does an ordinary attacker beat the headline of an audit? Independent challengers in every room.

    python benchmarks/challengers.py --data FOLDER [--room ROOM ...] [--out FILE]

The challengers are plain NumPy and scikit-learn and use no code of the rooms; audits are called as
a user calls them. Both attack the same targets with the same knowledge. A challenger is *above*
when the lower limit of its difference from the headline exceeds 0, one-sided at 5 % over all
comparisons of its room: paired by target where the audit says what it named of each, else with both
variances. No figure stands here: they are in results/challengers.json, with machine and sizes.
FOLDER (or the variable LETHE_DATA) holds the sets, one folder each; without it, only those that
come with scikit-learn are played.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from common import RESULTS, load, save
from numpy.typing import NDArray
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KernelDensity, KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, QuantileTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import lethe
from lethe.evidence.findings import Findings

Float = NDArray[np.float64]
QUIET: dict[str, Any] = {"quiet": True}
LEARNT = 0.002
"""What a text counts for that the bigram model is fine-tuned on."""


@dataclass(frozen=True)
class Play:
    """One audit and its challengers.

    Attributes:
        headline: the number that decides, as the findings hold it: value, low, high.
        attack: whose it is.
        challengers: by name, the success of each target, person or model; their mean compares with
            the headline's value.
        named: the same of the headline, target by target; None where the audit does not say.
    """

    data: str
    n: int
    number: str
    headline: Mapping[str, Any]
    attack: str
    challengers: Mapping[str, Float]
    named: Float | None = None


def judged(play: Play, comparisons: int) -> dict[str, Any]:
    """The best challenger of a play, and whether it is above the headline."""
    head, rows = play.headline, []
    if "value" not in head:
        best = max(play.challengers, key=lambda name: float(play.challengers[name].mean()))
        return {
            "set": play.data, "n": play.n, "number": play.number, "refused": head["refused"],
            "challenger": best, "value": float(play.challengers[best].mean()), "above": [],
        }  # fmt: skip
    value = float(head["value"])
    sigma = stats.norm.ppf(0.5 + head.get("confidence", 0.95) / 2)
    for name, success in play.challengers.items():
        paired = play.named is not None and bool(abs(play.named.mean() - value) < 1e-3)
        gain = success - play.named if paired and play.named is not None else success
        spread = gain.std(ddof=1) / np.sqrt(len(gain))
        if not paired:
            spread = np.hypot(spread, max(0.0, head["high"] - value) / sigma)
        ours = float(success.mean())
        quantile = stats.t.ppf(1 - 0.05 / comparisons, len(gain) - 1)
        low = ours - value - quantile * spread
        # Without any spread a difference is exact; rounding is none. Normal limits are narrow at
        # the ends of the scale: what is not paired must also pass the headline's own upper limit.
        above = low > 1e-9 and (paired or ours > head["high"])
        rows.append((name, ours, float(low), paired, bool(above)))
    name, ours, low, paired, _ = max(rows, key=lambda row: row[1])
    return {
        "set": play.data, "n": play.n, "number": play.number, "attack": play.attack,
        "headline": value, "low": head["low"], "high": head["high"],
        "challenger": name, "value": ours, "difference_low": low, "paired": paired,
        "above": [row[0] for row in rows if row[4]],
        "all": {row[0]: row[1] for row in rows},
    }  # fmt: skip


def first(found: Any, metric: str | None = None, candidate: str = "baseline") -> tuple[Any, str]:
    """Headline of a candidate (or one of its measures), and the attack behind it."""
    plain = next(one for one in found.to_json()["candidates"] if one["name"] == candidate)
    number = plain["risk"] if metric is None else plain["measures"][metric]
    return number, (plain.get("risk_from") or {}).get("attack", "")


# Models: 16 of them on complementary halves; everybody knows the outputs of all others.


def tpr(member: NDArray[np.bool_], score: Float, fpr: float = 0.1) -> float:
    false, true, _ = roc_curve(member, score, drop_intermediate=False)
    return float(np.interp(fpr, false, true))


def threshold_by_record(logits: Float, members: NDArray[np.bool_], k: int) -> Float:
    """Above what the other models say of a record that they have not seen."""
    others = np.delete(np.arange(len(logits)), [k, k ^ 1])
    out = np.where(members[others], np.nan, logits[others])
    return logits[k] - np.nanmean(out, 0)


def two_gaussians(logits: Float, members: NDArray[np.bool_], k: int) -> Float:
    """Likelihood ratio of a record's own two normal distributions with one spread."""
    others = np.delete(np.arange(len(logits)), [k, k ^ 1])
    value, inside = logits[others], members[others]
    means = [np.nanmean(np.where(side, value, np.nan), 0) for side in (inside, ~inside)]
    spread = np.where(inside, value - means[0], value - means[1]).std() + 1e-9
    return ((logits[k] - means[1]) ** 2 - (logits[k] - means[0]) ** 2) / spread**2


def boosted(logits: Float, members: NDArray[np.bool_], k: int) -> Float:
    """Boosted trees on a record's output among those of the other models."""
    level = np.where(members, np.nan, logits)
    tables = []
    for model in range(len(logits)):
        rest = np.delete(np.arange(len(logits)), list({model, model ^ 1, k, k ^ 1}))
        centre, spread = np.nanmean(level[rest], 0), np.nanstd(level[rest], 0)
        seen = np.nanmean(np.where(members, logits, np.nan)[rest], 0)
        tables.append(np.stack([logits[model] - centre, spread, seen - centre, centre], 1))
    train = [model for model in range(len(logits)) if model not in (k, k ^ 1)]
    trees = HistGradientBoostingClassifier(max_iter=40, random_state=0)
    trees.fit(np.concatenate([tables[one] for one in train]), members[train].ravel())
    return np.asarray(trees.predict_proba(tables[k])[:, 1])


def models(folder: Path | None) -> Iterator[Play]:
    digits = load_digits(return_X_y=True)
    sets = {"breast-cancer": load_breast_cancer(return_X_y=True)}
    sets["wine"] = load_wine(return_X_y=True)
    sets["digits"] = (digits[0][:600], digits[1][:600])
    if folder is not None:
        table = pandas.read_parquet(folder / "credit_default/credit-card-clients.parquet")[:800]
        sets["credit"] = (table.iloc[:, :-1].to_numpy(float), table.iloc[:, -1].to_numpy())
    makers = (
        lambda: RandomForestClassifier(30, min_samples_leaf=2, random_state=0),
        lambda: make_pipeline(StandardScaler(), LogisticRegression(C=10, max_iter=300)),
        lambda: DecisionTreeClassifier(max_depth=5, random_state=0),
    )
    for at, (name, (rows, labels)) in enumerate(sets.items()):
        rng, n = np.random.default_rng(at), len(labels)
        half = rng.permuted(np.tile(np.arange(n) < n // 2, (8, 1)), axis=1)
        members = np.stack([half, ~half], 1).reshape(16, n)
        logits = np.empty(members.shape)
        for model, inside in enumerate(members):
            fitted = makers[at % 3]().fit(rows[inside], labels[inside])
            place = np.searchsorted(fitted.classes_, labels)
            share = np.clip(fitted.predict_proba(rows)[np.arange(n), place], 1e-4, 1 - 1e-4)
            logits[model] = np.log(share / (1 - share))
        found = lethe.audit_scores(logits, members, signal="logit", save=False, **QUIET)
        headline, attack = first(found, "tpr@0.1")
        attackers: dict[str, Callable[..., Float]] = {
            "output itself": lambda logits, _, k: logits[k],
            "above its level": threshold_by_record,
            "two Gaussians": two_gaussians,
            "boosted trees": boosted,
        }
        played = {
            label: np.array([tpr(members[k], score(logits, members, k)) for k in range(16)])
            for label, score in attackers.items()
        }
        kind = ("forest", "logistic", "tree")[at % 3]
        yield Play(f"{name}, {kind}", n, "TPR at 10 % FPR", headline, attack, played)


# Vectors: people enrol with the rows of their first period, those of the second are to be named.


def by_person(users: NDArray[Any], named: NDArray[Any]) -> Float:
    """Share of the rows of each person that are named rightly."""
    _, code = np.unique(users, return_inverse=True)
    return np.bincount(code, named) / np.bincount(code)


def centroid(known: Float, owner: NDArray[Any], asked: Float) -> NDArray[Any]:
    people = np.unique(owner)
    means = np.stack([known[owner == one].mean(0) for one in people])
    return np.asarray(KNeighborsClassifier(1).fit(means, people).predict(asked))


def nearest_row(known: Float, owner: NDArray[Any], asked: Float) -> NDArray[Any]:
    return np.asarray(KNeighborsClassifier(1).fit(known, owner).predict(asked))


def softmax(known: Float, owner: NDArray[Any], asked: Float) -> NDArray[Any]:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=100))
    return np.asarray(model.fit(known, owner).predict(asked))


def forest(known: Float, owner: NDArray[Any], asked: Float) -> NDArray[Any]:
    model = RandomForestClassifier(100, max_features="sqrt", random_state=0)
    return np.asarray(model.fit(known, owner).predict(asked))


def density(known: Float, owner: NDArray[Any], asked: Float) -> NDArray[Any]:
    people, scale = np.unique(owner), known.std(0) + 1e-9
    each = [
        KernelDensity(bandwidth=0.5).fit(known[owner == one] / scale).score_samples(asked / scale)
        for one in people
    ]
    return np.asarray(people[np.argmax(each, 0)])


def in_two_periods(
    table: pandas.DataFrame, person: str, when: str, rows: int, people: int
) -> pandas.DataFrame:
    """The first rows of people who have enough, half of them in each period."""
    table = table.sort_values([person, when], kind="stable")
    kept = table.groupby(person).head(rows)
    full = kept[person].value_counts()
    chosen = np.sort(full.index[full == rows].to_numpy())
    chosen = np.random.default_rng(0).permutation(chosen)[:people]
    kept = kept[kept[person].isin(chosen)].copy()
    kept["period"] = np.where(kept.groupby(person).cumcount() < rows // 2, "a", "b")
    return kept


def item_vectors(table: pandas.DataFrame, person: str, item: str, when: str) -> tuple[Any, Any]:
    """Latent factors of what a person took in each of 8 stretches of time; people of each row."""
    table = table.sort_values([person, when], kind="stable")
    size = table.groupby(person)[item].transform("size")
    table = table[size >= 40].copy()
    stretch = table.groupby(person).cumcount() * 8 // table.groupby(person)[item].transform("size")
    key = table[person].astype(str) + "/" + stretch.astype(str)
    names, row = np.unique(key, return_inverse=True)
    _, column = np.unique(table[item], return_inverse=True)
    from scipy.sparse import csr_matrix

    counts = csr_matrix((np.ones(len(row)), (row, column)))
    factors = TruncatedSVD(16, random_state=0).fit_transform(counts)
    owner, part = np.array([name.split("/") for name in names]).T
    return factors, (owner, np.where(part.astype(int) < 4, "a", "b"))


def vectors(folder: Path | None) -> Iterator[Play]:
    digits = load_digits()
    sets: dict[str, tuple[Float, Any, Any]] = {}
    # "Persons" of digits: writers are not known, so thirds of a class by brightness stand in.
    bright = np.argsort(np.argsort(digits.data.sum(1))) * 3 // len(digits.data)
    table = pandas.DataFrame({"who": digits.target * 3 + bright, "at": np.arange(len(bright))})
    kept = in_two_periods(table, "who", "at", 20, 30)
    sets["digits"] = digits.data[kept.index], kept.who.to_numpy(), kept.period.to_numpy()
    if folder is not None:
        hospital = pandas.read_parquet(folder / "diabetes130/diabetic_data.parquet")
        kept = in_two_periods(hospital, "patient_nbr", "encounter_id", 6, 500)
        numbers = kept.select_dtypes("number").drop(columns=["encounter_id", "patient_nbr"])
        words = pandas.get_dummies(kept[["race", "gender", "age", "medical_specialty", "insulin"]])
        both = pandas.concat([numbers, words.loc[:, words.sum() >= 30]], axis=1)
        sets["hospital"] = both.to_numpy(float), kept.patient_nbr.to_numpy(), kept.period
        for name, path, item, when in (
            ("movielens", "movielens_latest_small/ratings_2018", "movieId", "timestamp"),
            ("movietweetings", "movietweetings_100k/ratings", "movie_id", "rating_timestamp"),
        ):
            ratings = pandas.read_parquet(folder / f"{path}.parquet")
            person = "userId" if name == "movielens" else "user_id"
            chosen = np.random.default_rng(1).permutation(ratings[person].unique())
            ratings = ratings[ratings[person].isin(chosen[: 200 if name == "movielens" else 6000])]
            rows, (owner, period) = item_vectors(ratings, person, item, when)
            sets[name] = rows, owner, period
    few: dict[str, Any] = {
        "sigmas": (), "surface": (), "averaged": (), "plays": 0, "draws": 1, "refine": 0,
        "radius_sigmas": (), "common": (), "workers": 1,
    }  # fmt: skip
    for name, (rows, users, period) in sets.items():
        users, period = np.asarray(users).astype(str), np.asarray(period)
        known, asked = period == "a", period == "b"
        with tempfile.TemporaryDirectory() as place:
            found = lethe.audit_vectors(
                rows, users, period=period, known="a", later="b", keep_records=True,
                out=Path(place) / "run", **few, **QUIET,
            )  # fmt: skip
            people = pandas.read_parquet(Path(place) / "run" / "records.parquet")
        headline, attack = first(found, "top-1")
        played, scaler = {}, StandardScaler().fit(rows[known])
        before, new = scaler.transform(rows[known]), scaler.transform(rows[asked])
        # All new rows of a person may be known to be of one: then their mean is looked up.
        whose, code = np.unique(users[asked], return_inverse=True)
        sums = np.zeros((len(whose), rows.shape[1]))
        np.add.at(sums, code, new)
        means = sums / np.bincount(code)[:, None]
        for label, attacker in (
            ("mean", centroid), ("nearest row", nearest_row), ("softmax", softmax),
            ("forest", forest), ("density", density),
        ):  # fmt: skip
            one_row = attacker(before, users[known], new) == users[asked]
            played[label] = by_person(users[asked], one_row)
            joined = attacker(before, users[known], means) == whose
            played[f"{label}, all new rows"] = joined.astype(float)
        named = people.assign(id=people.id.astype(str)).sort_values("id").named.to_numpy(float)
        yield Play(name, len(whose), "Top-1", headline, attack, played, named)


# Records: some facts of a person, a quarter of them wrong, against all records.


def known_facts(
    items: list[NDArray[Any]], m: int, popular: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    """People who can be looked for, and what is known of each.

    Right items outside the most popular ones, and items of anyone that the person has not.
    """
    everything = np.concatenate(items)
    top = np.argsort(-np.bincount(everything), kind="stable")[:popular]
    wrong = m // 4
    people, drawn = [], []
    for person, own in enumerate(items):
        able = own[~np.isin(own, top)]
        if len(able) < m - wrong:
            continue
        people.append(person)
        right = rng.choice(able, m - wrong, replace=False)
        others = rng.choice(everything, 200)
        others = others[~np.isin(others, own)]
        drawn.append(np.concatenate([right, rng.permutation(others)[:wrong]]))
    return np.array(people), drawn


def fits(known: list[NDArray[np.intp]], has: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(targets, records) how many known facts each record holds."""
    return np.stack([has[:, facts].sum(1) for facts in known]).astype(float)


def record_attackers(
    known: list[NDArray[np.intp]], has: NDArray[np.bool_], wrong: int
) -> dict[str, NDArray[np.intp]]:
    """Each attacker's record for each target."""
    length, share = has.sum(1), has.sum(0) / has.sum()
    count, rare = fits(known, has), np.log(1 / np.maximum(share, 1e-9))
    weighted = np.stack([has[:, facts] @ rare[facts] for facts in known])
    m = max(map(len, known))
    enough = count >= m - wrong
    likely = np.stack(
        [
            np.log(0.75 * has[:, facts] / np.maximum(length, 1)[:, None] + 0.25 * share[facts])
            .sum(1)
            for facts in known
        ]
    )  # fmt: skip
    return {
        "most facts": count.argmax(1),
        "rare facts": weighted.argmax(1),
        "cosine": (weighted / np.sqrt(np.maximum(length, 1))).argmax(1),
        "enough facts, then the shortest": np.where(enough, 1e6 - length, count).argmax(1),
        "likelihood": likely.argmax(1),
    }


def audited_records(rows: pandas.DataFrame, m: int, people: int) -> Any:
    """By the command: the function calls its rows `facts`, as it does the number of them."""
    with tempfile.TemporaryDirectory() as place:
        rows.to_csv(f"{place}/rows.csv", index=False)
        asked = ["audit", "records", f"{place}/rows.csv", "--person", "who", "--item", "what"]
        more = ["--facts", str(m), "--targets", str(people), "--out", f"{place}/run", "--quiet"]
        done = subprocess.run([sys.executable, "-m", "lethe", *asked, *more], capture_output=True)
        assert done.returncode in (0, 3), done.stderr.decode()
        return Findings.load(f"{place}/run")


def records(folder: Path | None) -> Iterator[Play]:
    if folder is None:
        return
    sets = (
        ("movielens", "movielens_latest_small/ratings_2018", "userId", "movieId", 300, 4),
        ("movietweetings", "movietweetings_100k/ratings", "user_id", "movie_id", 600, 4),
        ("globo", "globo_news/clicks_users_even", "user_id", "click_article_id", 600, 4),
    )
    for name, path, person, item, people, m in sets:
        table = pandas.read_parquet(folder / f"{path}.parquet")[[person, item]].drop_duplicates()
        size = table[person].value_counts()
        able = np.sort(size.index[size >= 10].to_numpy())
        chosen = np.random.default_rng(2).permutation(able)[:people]
        table = table[table[person].isin(chosen)]
        _, who = np.unique(table[person], return_inverse=True)
        _, what = np.unique(table[item], return_inverse=True)
        found = audited_records(pandas.DataFrame({"who": who, "what": what}), m, people)
        items = [what[who == one] for one in range(who.max() + 1)]
        for candidate in ("baseline", "pseudonyms-4"):
            pseudonym = who.copy()
            if candidate != "baseline":
                pseudonym = who * 4 + np.random.default_rng(4).integers(0, 4, len(who))
            held, row = np.unique(pseudonym, return_inverse=True)
            owner = held if candidate == "baseline" else held // 4
            has = np.zeros((len(held), what.max() + 1), bool)
            has[row, what] = True
            headline, attack = first(found, None, candidate)
            # The knowledge of the attack that decides is in its name.
            outside = re.search(r"outside the (\d+) most popular", attack)
            popular = int(outside.group(1)) if outside else 0
            targets, known = known_facts(items, m, popular, np.random.default_rng(3))
            # In one of several records of a person only some of the right facts can be.
            wrong = m // 4 if candidate == "baseline" else m // 2
            best = record_attackers(known, has, wrong)
            played = {
                label: (owner[record] == targets).astype(float) for label, record in best.items()
            }
            words = f"Top-1 by {m} facts, {candidate}"
            yield Play(name, len(targets), words, headline, attack, played)


# Tables: what is known are the quasi-identifiers; who a row is of, and its sensitive value.


def table_sets(folder: Path | None) -> Iterator[tuple[str, pandas.DataFrame, list[str], str]]:
    """Name, rows, quasi-identifiers and the sensitive column."""
    people = load_diabetes(as_frame=True, scaled=False).frame
    yield "diabetes", people[["age", "sex", "bmi", "target"]], ["age", "sex", "bmi"], "target"
    if folder is None:
        return
    for name, path, quasi, sensitive in (
        ("adult", "adult/adult", ["age", "sex", "race", "education"], "income"),
        ("compas", "compas/compas-scores-two-years", ["age", "sex", "race"], "decile_score"),
        ("acs", "acs_nist_national2019/national2019", ["AGEP", "SEX", "PUMA"], "PINCP_DECILE"),
        ("credit", "credit_default/credit-card-clients", ["AGE", "SEX", "EDUCATION"], "BILL_AMT1"),
    ):
        rows = pandas.read_parquet(folder / f"{path}.parquet")[[*quasi, sensitive]]
        yield name, rows.sample(2000, random_state=0).reset_index(drop=True), quasi, sensitive


def table(folder: Path | None) -> Iterator[Play]:
    for name, rows, quasi, sensitive in table_sets(folder):
        found = lethe.audit_table(rows, quasi, sensitive, save=False, **QUIET)
        size = rows.groupby(quasi)[sensitive].transform("size")
        headline, _ = first(found, "marketer")
        code = OrdinalEncoder().fit_transform(rows[quasi].astype(str))
        places = NearestNeighbors(n_neighbors=1).fit(code).kneighbors(code)[1][:, 0]
        played = {
            "one row of those that fit": 1 / size.to_numpy(float),
            "nearest row": (places == np.arange(len(rows))).astype(float),
        }
        yield Play(name, len(rows), "who a row is of (marketer)", headline, "linkage", played)
        value = rows[sensitive]
        group = rows.groupby(quasi)[sensitive]
        if value.dtype.kind in "if" and value.nunique() > 20:
            middle = group.transform("median")
            right = (value - middle).abs() <= 0.05 * value.abs()
        else:
            right = value == group.transform(lambda one: one.mode().iloc[0])
        headline, _ = first(found, "guessed")
        played = {"commonest or middle value of those that fit": right.to_numpy(float)}
        yield Play(name, len(rows), f"{sensitive} (guessed)", headline, "best guess", played)


# Synthetic rows: original people are told from control people by the synthetic rows alone.


def excess(inside: Float, outside: Float, fpr: float = 0.01) -> Float:
    """Success of each original row beyond control rows: mean = (TPR - FPR) / (1 - FPR)."""
    cut = np.sort(outside)[::-1][int(fpr * len(outside))]
    rate = float((outside > cut).mean())
    return ((inside > cut) - rate) / (1 - rate)


def synthetic_attackers(made: Float, original: Float, control: Float) -> dict[str, Float]:
    """Scores of original rows beyond control rows, from numbers in quantile scale."""
    near = NearestNeighbors(n_neighbors=5).fit(made)
    sides = [near.kneighbors(rows)[0] for rows in (original, control)]
    density = KernelDensity(bandwidth=0.1).fit(made)
    beside = KernelDensity(bandwidth=0.1).fit(np.concatenate([original, control]))
    parts = (original, control)
    ratio = [density.score_samples(rows) - beside.score_samples(rows) for rows in parts]
    logs = (np.log(side + 1e-6) for side in sides)
    features = np.concatenate([np.hstack(pair) for pair in zip(parts, logs, strict=True)])
    member = np.arange(len(features)) < len(original)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    learnt = cross_val_predict(trees, features, member, cv=folds, method="predict_proba")[:, 1]
    equal = [(side[:, 0] < 1e-9).astype(float) for side in sides]
    return {
        "equal rows": excess(equal[0], equal[1]) if equal[0].any() else np.zeros(len(original)),
        "nearest row": excess(-sides[0][:, 0], -sides[1][:, 0]),
        "nearest of five": excess(sides[0][:, 4] - sides[0][:, 0], sides[1][:, 4] - sides[1][:, 0]),
        "density ratio": excess(*ratio),
        "boosted trees": excess(learnt[member], learnt[~member]),
    }


def synthetic(folder: Path | None) -> Iterator[Play]:
    for at, (name, rows, quasi, sensitive) in enumerate(table_sets(folder)):
        third, rng = len(rows) // 3, np.random.default_rng([at, 9])
        order = rng.permutation(len(rows))
        original, control, others = (
            rows.iloc[order[part * third : (part + 1) * third]].reset_index(drop=True)
            for part in range(3)
        )
        numeric = [c for c in rows if rows[c].dtype.kind in "if" and rows[c].nunique() > 20]
        for leak in ("bootstrap", "5 % near copies"):
            # Original rows again, or rows of other people with a few near copies among them.
            made = original.sample(third, replace=True, random_state=at).reset_index(drop=True)
            if leak != "bootstrap":
                made.iloc[third // 20 :] = others.iloc[third // 20 :].to_numpy()
            for column in rows.columns if leak == "bootstrap" else ():
                swapped = rng.random(third) < 0.1
                made.loc[swapped, column] = rng.choice(original[column].to_numpy(), swapped.sum())
            for column in numeric:
                moved = made[column] + rng.normal(0, 0.01 * rows[column].std(), third)
                made[column] = (
                    moved.round().astype(int) if rows[column].dtype.kind == "i" else moved
                )
            found = lethe.audit_synthetic(
                made.astype(rows.dtypes), original, control, quasi, sensitive, save=False, **QUIET
            )
            headline, attack = first(found)
            code = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
            words = [column for column in rows if column not in numeric]
            code.fit(rows[words].astype(str))
            scale = QuantileTransformer(n_quantiles=100).fit(rows[numeric])
            blocks = (
                np.hstack([scale.transform(part[numeric]), code.transform(part[words].astype(str))])
                for part in (made.astype(rows.dtypes), original, control)
            )
            played = synthetic_attackers(*blocks)
            yield Play(f"{name}, {leak}", third, "beyond control", headline, attack, played)


# Language: what a bigram model of texts says of each token, and its base.


def bigram(
    texts: list[list[int]], counts: list[float], size: int, weight: float = 5.0
) -> Callable[[list[int]], Float]:
    """Log-probabilities of tokens after the first, by counts of pairs over those of tokens.

    counts: what each text counts for.
    """
    pairs: dict[tuple[int, int], float] = {}
    single, begun = np.full(size, 0.1), np.zeros(size)
    for text, count in zip(texts, counts, strict=True):
        np.add.at(single, text, count)
        for pair in zip(text, text[1:], strict=False):
            pairs[pair] = pairs.get(pair, 0) + count
            begun[pair[0]] += count
    single /= single.sum()

    def score(text: list[int]) -> Float:
        before, now = np.array(text[:-1]), np.array(text[1:])
        count = np.array([pairs.get(pair, 0) for pair in zip(text, text[1:], strict=False)])
        return np.log((count + weight * single[now]) / (begun[before] + weight))

    return score


def text_sets(folder: Path | None) -> Iterator[tuple[str, list[str]]]:
    if folder is None:
        return
    reports = pandas.read_parquet(folder / "osha_sir/severeinjury_2015-01_to_2016-08.parquet")
    texts = reports["Final Narrative"].drop_duplicates()
    part = reports.loc[texts.index, "Part of Body"].astype(str)
    yield "injuries, hands", texts[part.str.startswith("4")].tolist()[:1800]
    yield "injuries, legs", texts[part.str.startswith("5")].tolist()[:1800]
    films = pandas.read_parquet(folder / "movielens_latest_small/movies_2018.parquet")
    yield "film titles", [f"{t} {g}" for t, g in zip(films.title, films.genres, strict=True)][:1800]


def language(folder: Path | None) -> Iterator[Play]:
    for at, (name, texts) in enumerate(text_sets(folder)):
        words: dict[str, int] = {}
        coded = [[words.setdefault(w, len(words)) for w in text.lower().split()] for text in texts]
        keep = [row for row, text in enumerate(coded) if len(text) > 4]
        order = np.random.default_rng([at, 5]).permutation(keep)
        third = len(order) // 3
        public, inside, outside = (order[i * third : (i + 1) * third] for i in range(3))
        both, size = [coded[row] for row in (*public, *inside)], len(words)
        base = bigram(both[:third], [1.0] * third, size)
        model = bigram(both, [1.0] * third + [LEARNT] * third, size)
        asked = [*inside, *outside]
        member = np.arange(len(asked)) < len(inside)
        sides = [[score(coded[row]) for row in asked] for score in (model, base)]
        files = []
        for side in sides:
            length = [len(one) for one in side]
            files.append({
                "text": np.repeat(np.arange(1, len(asked) + 1), length).astype(str),
                "position": np.concatenate([np.arange(n) for n in length]),
                "logprob": np.concatenate(side),
            })  # fmt: skip
        shown = {"text": [texts[row] for row in asked], "member": member.astype(int)}
        found = lethe.audit_language_model(
            None, shown, scores=files[0], base_scores=files[1], near=0, save=False, **QUIET
        )
        headline, attack = first(found, "tpr@0.1")
        if "value" not in headline:
            continue
        gains = [one - other for one, other in zip(*sides, strict=True)]
        features = np.array([
            [gain.mean(), gain.max(), gain.min(), np.median(gain), (gain > 0).mean(), len(gain),
             mine.mean(), gain.std()]
            for gain, mine in zip(gains, sides[0], strict=True)
        ])  # fmt: skip
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
        learnt = cross_val_predict(trees, features, member, cv=folds, method="predict_proba")[:, 1]
        scores = {
            "mean gain": features[:, 0], "sum of gains": features[:, 0] * features[:, 5],
            "share of gains": features[:, 4], "largest gain": features[:, 1],
            "mean log-probability": features[:, 6], "boosted trees": learnt,
        }  # fmt: skip
        played = {}
        for label, score in scores.items():
            cut = np.sort(score[~member])[::-1][int(0.1 * (~member).sum())]
            played[label] = (score[member] > cut).astype(float)
        yield Play(name, len(asked), "TPR at 10 % FPR", headline, attack, played)


ROOMS: dict[str, Callable[[Path | None], Iterator[Play]]] = {
    one.__name__: one for one in (models, vectors, records, table, synthetic, language)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LETHE_DATA"))
    parser.add_argument("--room", nargs="*", choices=tuple(ROOMS), default=tuple(ROOMS))
    parser.add_argument("--out", type=Path, default=RESULTS / "challengers.json")
    asked = parser.parse_args()
    folder = None if asked.data is None else Path(asked.data)
    rooms = {}
    for room in asked.room:
        start = time.perf_counter()
        plays = list(ROOMS[room](folder))
        comparisons = sum(len(play.challengers) for play in plays)
        rooms[room] = [judged(play, comparisons) for play in plays]
        for row in rooms[room]:
            print(room, {key: row[key] for key in row if key != "all"}, flush=True)
        print(room, f"{time.perf_counter() - start:.0f} s", flush=True)
    save({"load": load(), "rooms": rooms}, asked.out)


if __name__ == "__main__":
    main()
