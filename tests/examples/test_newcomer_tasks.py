"""What a newcomer tries in the first hour, a table of tasks: each works, or says the way out.

python tests/examples/test_newcomer_tasks.py     # measures docs/newcomer-tasks.csv, ten minutes
"""

from __future__ import annotations

import csv
import textwrap
import time
from pathlib import Path

import pytest

import lethe

pytestmark = pytest.mark.usefixtures("no_page")

SETUP = """
import numpy as np, pandas as pd, polars as pl, scipy.sparse as sp, torch, lethe
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import *
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import *
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
words = np.where(y == 1, "yes", "no")
three = rng.integers(0, 3, 200)
number = X[:, 1] * 3.5 + rng.normal(size=200)
m = rng.random(200) < 0.5
person = np.arange(200) // 2
town = rng.choice(["north", "south", "east"], 200)
frame = pd.DataFrame({"town": town, "age": rng.integers(18, 90, 200), "x": X[:, 0]})
texts = pd.Series([f"fell off the {t} roof {'badly' if c else ''}" for t, c in zip(town, y)])
said = "the old man hurt his left knee and went home".split()
notes = texts + [" ".join(rng.choice(said, 5)) for _ in m]
names = make_column_transformer((OneHotEncoder(), ["town"]), (StandardScaler(), ["age", "x"]))
steps = np.repeat(X[:, None].astype("float32"), 5, 1)
both = np.stack([y, X[:, 1] > 0], 1)

class Recurrent(torch.nn.Module):
    def __init__(self, kind=torch.nn.LSTM, tokens=False):
        super().__init__()
        self.table = torch.nn.Embedding(30, 4) if tokens else torch.nn.Identity()
        self.core, self.head = kind(4, 8, batch_first=True), torch.nn.Linear(8, 2)
    def forward(self, inputs):
        return self.head(self.core(self.table(inputs))[0][:, -1])

class KerasLike:  # keras is not among the test's packages: its base class stands in by module name
    def __call__(self, *args): raise AssertionError("a Keras model is asked by predict")
    fit = __call__
    def predict(self, rows, verbose="auto"):
        assert verbose == 0
        return 1 / (1 + np.exp(-np.asarray(rows).reshape(len(rows), -1)[:, :1]))

KerasLike.__module__ = "keras.src.models.model"
class Dense(KerasLike): pass
fit = lambda model, X=X, y=y: model.fit(X[m], y[m])
quiet = dict(save=False, quiet=True)
look = lambda model, X=X, y=y, **more: lethe.audit(model, X, y, members=m, **quiet, **more)
few = dict(models=4, mitigations="none", attack="loss-threshold", workers=1, **quiet)
train = lambda model, X=X, y=y, **more: lethe.audit(model, X, y, **few, **more)
"""
FITTED = {
    "tree": "DecisionTreeClassifier(max_depth=3)",
    "forest": "RandomForestClassifier(10, max_depth=3)",
    "extra trees": "ExtraTreesClassifier(10)",
    "nearest neighbours": "KNeighborsClassifier()",
    "weighted neighbours": "KNeighborsClassifier(weights='distance')",
    "support vectors": "SVC()",
    "linear support vectors": "LinearSVC()",
    "gradient boosting": "GradientBoostingClassifier(n_estimators=10)",
    "histogram boosting": "HistGradientBoostingClassifier(max_iter=10)",
    "adaptive boosting": "AdaBoostClassifier(n_estimators=5)",
    "logistic regression": "LogisticRegression()",
    "ridge classifier": "RidgeClassifier()",
    "stochastic gradient": "SGDClassifier()",
    "naive bayes": "GaussianNB()",
    "gaussian process": "GaussianProcessClassifier()",
    "network": "MLPClassifier((8,), max_iter=20, n_iter_no_change=2, tol=9)",
    "calibrated": "CalibratedClassifierCV(LinearSVC())",
    "pipeline": "make_pipeline(StandardScaler(), SVC())",
    "search": "GridSearchCV(LogisticRegression(), {'C': [0.1, 1]}, cv=3)",
    "voting": "VotingClassifier([('a', GaussianNB()), ('b', LogisticRegression())], voting='soft')",
}
WORKS = {
    **{f"fitted {name}": f"look(fit({code}))" for name, code in FITTED.items()},
    "fitted xgboost": "import xgboost; look(fit(xgboost.XGBClassifier(n_estimators=5)))",
    "fitted lightgbm": """
        import lightgbm
        rows = pd.DataFrame(X)
        look(fit(lightgbm.LGBMClassifier(n_estimators=5, verbose=-1), rows), rows)
        """,
    "lightgbm booster": """
        import lightgbm
        rows = lightgbm.Dataset(X[m], y[m])
        booster = lightgbm.train({"verbose": -1, "objective": "binary"}, rows)
        look(booster)
        """,
    "xgboost booster by a function": """
        import xgboost
        booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X[m], y[m]), 3)
        look(lambda rows: booster.predict(xgboost.DMatrix(rows)))
        """,
    "text classes": "look(fit(GaussianNB(), y=words), y=words)",
    "three classes": "look(fit(GaussianNB(), y=three), y=three)",
    "columns by name": "look(fit(make_pipeline(names, LogisticRegression()), frame), frame)",
    "polars": """
        rows = pl.DataFrame(frame)
        look(make_pipeline(names, LogisticRegression()).fit(rows.filter(pl.Series(m)), y[m]), rows)
        """,
    "texts": """
        model = make_pipeline(TfidfVectorizer(), LogisticRegression())
        look(model.fit(texts[m], y[m]), texts)
        """,
    "trained on texts": "train(make_pipeline(TfidfVectorizer(), MultinomialNB()), notes)",
    "trained on a list of texts": """
        train(make_pipeline(TfidfVectorizer(), MultinomialNB()), notes.tolist())
        """,
    "sparse rows": "look(fit(LogisticRegression(), sp.csr_matrix(X)), sp.csr_matrix(X))",
    "lists": "look(fit(GaussianNB()), X.tolist(), y.tolist())",
    "torch": "look(torch.nn.Linear(4, 2), X.astype('float32'))",
    "torch of one output": "look(torch.nn.Linear(4, 1), X.astype('float32'))",
    "torch tensors": "look(torch.nn.Linear(4, 2), torch.tensor(X).float(), torch.tensor(y))",
    "torch probabilities": """
        net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Softmax(-1))
        look(net, X.astype("float32"))
        """,
    "torch of double precision": "look(torch.nn.Linear(4, 2).double())",
    "torch on tokens": "look(Recurrent(tokens=True), rng.integers(0, 30, (200, 6)))",
    "torch on windows of a person": "look(Recurrent(), steps, groups=person)",
    "keras": "look(Dense(), steps)",
    "keras on lists": "look(Dense(), X.tolist())",
    "lightning": """
        import lightning
        class Lit(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 2)
            def forward(self, x): return self.layer(x)
        look(Lit())
        """,
    "a table of Arrow": """
        import pyarrow
        rows = pyarrow.Table.from_pandas(frame)
        look(fit(make_pipeline(names, LogisticRegression()), frame), rows)
        """,
    "labels of bytes": "look(fit(GaussianNB(), y=words), y=words.astype('S3'))",
    "rows that share an index": """
        rows = frame.set_index(np.zeros(200, int))
        look(make_pipeline(names, LogisticRegression()).fit(rows[m], y[m]), rows)
        """,
    "stack": "look(fit(StackingClassifier([('a', GaussianNB())], cv=2)))",
    "several labels": "look(fit(RandomForestClassifier(3), y=both), y=both)",
    "several labels by a network": "look(fit(MLPClassifier((4,), tol=9), y=both), y=both)",
    "function of probabilities": """
        model = fit(GaussianNB())
        look(lambda rows: model.predict_proba(rows))
        """,
    "method": "look(fit(GaussianNB()).predict_proba)",
    "labels only": "look(fit(GaussianNB()).predict)",
    "text labels only": "look(fit(GaussianNB(), y=words).predict, y=words)",
    "rounded probabilities": """
        model = fit(GaussianNB(), y=three)
        look(lambda rows: model.predict_proba(rows).round(1), y=three)
        """,
    "one probability": """
        model = fit(GaussianNB())
        look(lambda rows: model.predict_proba(rows)[:, 1])
        """,
    "regression tree": "look(fit(DecisionTreeRegressor(), y=number), y=number)",
    "regression neighbours": "look(fit(KNeighborsRegressor(), y=number), y=number)",
    "regression vectors": "look(fit(SVR(), y=number), y=number)",
    "ridge": "look(fit(Ridge(), y=number), y=number)",
    "numbers by a function": "look(fit(Ridge(), y=number).predict, y=number)",
    "members as a series": "lethe.audit(fit(GaussianNB()), X, y, members=pd.Series(m), **quiet)",
    "members as 0 and 1": "lethe.audit(fit(GaussianNB()), X, y, members=m.astype(int), **quiet)",
    "members nullable": """
        lethe.audit(fit(GaussianNB()), X, y, members=pd.Series(m, dtype='boolean'), **quiet)
        """,
    "nullable classes": "look(fit(GaussianNB()), y=pd.Series(y, dtype='Int64'))",
    "categorical classes": "look(fit(GaussianNB(), y=words), y=pd.Series(words, dtype='category'))",
    "bool classes": "look(fit(GaussianNB(), y=y == 1), y=y == 1)",
    "persons": "look(fit(GaussianNB()), groups=person)",
    "nullable gaps": """
        rows = pd.DataFrame(X, columns=list("abcd")).astype("Float64").mask(X > 1)
        look(fit(HistGradientBoostingClassifier(max_iter=3), rows), rows)
        """,
    "a table of Excel": """
        import tempfile
        people = pd.DataFrame(X, columns=list("abcd")).assign(target=y)
        with tempfile.TemporaryDirectory() as folder:
            people.to_excel(f"{folder}/people.xlsx", index=False)
            data = lethe.load(f"{folder}/people.xlsx", "target")
        look(GaussianNB().fit(data.features[m], data.labels[m]), data, None)
        """,
    "trained tree": "train(DecisionTreeClassifier())",
    "trained forest": "train(RandomForestClassifier(3))",
    "trained neighbours": "train(KNeighborsClassifier())",
    "trained vectors": "train(SVC())",
    "trained boosting": "train(HistGradientBoostingClassifier(max_iter=3))",
    "trained pipeline": "train(make_pipeline(names, LogisticRegression()), frame)",
    "trained network": "train(lambda: torch.nn.Linear(4, 2))",
    "trained search": "train(GridSearchCV(LogisticRegression(), {'C': [0.1, 1]}, cv=2))",
    "trained search by persons": """
        search = GridSearchCV(LogisticRegression(), {'C': [0.1, 1]}, cv=GroupKFold(2))
        train(search, groups=person)
        """,
    "trained stack": """
        train(StackingClassifier([('a', GaussianNB()), ('b', LogisticRegression())], cv=2))
        """,
    "trained stack by persons": """
        train(StackingClassifier([('a', GaussianNB())], cv=GroupKFold(2)), groups=person)
        """,
    "trained on several labels": "train(RandomForestClassifier(3), y=both)",
    "trained on several texts": """
        train(RandomForestClassifier(3), y=pd.DataFrame({"a": words, "b": town}))
        """,
    "trained with weights": "train(LogisticRegression(), sample_weight=np.abs(X[:, 0]))",
    "trained with classes weighed by name": """
        train(LogisticRegression(class_weight={"yes": 5}), y=words)
        """,
    "trained LSTM": "train(Recurrent, steps)",
    "trained GRU on windows of a person": """
        train(lambda: Recurrent(torch.nn.GRU), steps, groups=person)
        """,
    "trained on tokens": "train(lambda: Recurrent(tokens=True), rng.integers(0, 30, (200, 6)))",
    "trained network of one output": "train(lambda: torch.nn.Linear(4, 1))",
    "trained by a function that builds": "train(lambda: LogisticRegression())",
    "trained regression": "train(Ridge(), y=number)",
    "trained by persons": "train(LogisticRegression(), groups=person)",
    "trained on nullable columns": """
        names = [f"x{place}" for place in range(4)]
        train(LogisticRegression(), pd.DataFrame(X, columns=names).astype('Float64'))
        """,
}
REFUSED = {
    "a file name": ("look('model.pkl')", "lethe audit fitted"),
    "a class": ("look(GaussianNB)", "hand over an instance, GaussianNB()"),
    "not fitted": ("look(GaussianNB())", "not fitted"),
    "no labels": ("look(fit(GaussianNB()), y=None)", "y is missing"),
    "too few labels": ("look(fit(GaussianNB()), y=y[:9])", "y has 9 values"),
    "too few members": ("lethe.audit(fit(GaussianNB()), X, y, members=m[:9], **quiet)", "members"),
    "members of text": ("lethe.audit(fit(GaussianNB()), X, y, members=words, **quiet)", "members"),
    "all are members": (
        "lethe.audit(fit(GaussianNB()), X, y, members=m | True, **quiet)",
        "member",
    ),
    "one-hot labels": ("look(fit(GaussianNB()), y=np.eye(2)[y])", "argmax"),
    "several outputs": ("train(lambda: torch.nn.Linear(4, 2), y=both)", "Take one column"),
    "several numbers": ("train(Ridge(), y=np.stack([number, number], 1))", "Take one column"),
    "several outputs of one": ("look(fit(GaussianNB()), y=both[:, [0, 1, 1]])", "y has 3"),
    "a Keras model to train": ("train(Dense())", "hand over def train("),
    "a Keras class to train": ("train(Dense)", "trained by its own fit"),
    "a function that builds Keras": ("train(lambda: Dense())", "trained by its own fit"),
    "a Lightning class to train": (
        "import lightning; train(type('Lit', (lightning.LightningModule,), {}))",
        "lethe.lightning_recipe(build, X, y",
    ),
    "one that ends in a Sigmoid": (
        "train(lambda: torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid()))",
        "leave out its last Sigmoid",
    ),
    "a part that stays fitted": (
        """
        from sklearn.frozen import FrozenEstimator
        train(CalibratedClassifierCV(FrozenEstimator(fit(GaussianNB()))))
        """,
        "every shadow model would share it",
    ),
    "texts for a network": ("train(lambda: torch.nn.Linear(4, 2), texts)", "with a vectoriser"),
    "a split of nobody": (
        "train(GridSearchCV(Ridge(), {}, cv=GroupKFold(2)), y=number)",
        "groups=",
    ),
    "weights below 0": ("train(GaussianNB(), sample_weight=X[:, 0])", "above 0"),
    "too few weights": ("train(GaussianNB(), sample_weight=y[:9])", "has 9 values"),
    "weights without use": ("train(KNeighborsClassifier(), sample_weight=y + 1)", "takes none"),
    "weights of a network": (
        "train(lambda: torch.nn.Linear(4, 2), sample_weight=y + 1)",
        "multiplies each record's loss",
    ),
    "another class": ("look(fit(GaussianNB()), y=words)", "knows the class"),
    "wrong columns": ("look(lambda rows: np.ones((200, 5)))", "(200, 2) probabilities"),
    "text for numbers": ("look(lambda rows: words, y=number)", "must be numbers"),
    "text for probabilities": ("look(lambda rows: np.full((200, 2), 'a'))", "must be numbers"),
    "percent": ("look(lambda rows: np.full((200, 2), 50.5))", "do not sum to 1"),
    "missing probabilities": ("look(lambda rows: np.full((200, 2), np.nan))", "hold NaN"),
    "a failing function": ("look(lambda rows: rows['age'])", "fails"),
    "an unknown keyword": ("look(fit(GaussianNB()), modles=4)", "Did you mean 'models'"),
    "one class": ("train(GaussianNB(), y=y * 0)", "class"),
    "gaps in an array": ("train(GaussianNB(), np.where(X > 1, np.nan, X))", "pd.DataFrame(X)"),
    "persons beside a file": (
        "train(GaussianNB(), lethe.load('breast-cancer'), None, groups=person)",
        "was read by lethe.load",
    ),
    "no records": ("train(GaussianNB(), X[:0], y[:0])", "without records"),
    "a file for X": ("train(GaussianNB(), 'people.csv')", "lethe.load"),
    "columns of one name": (
        "train(GaussianNB(), pd.DataFrame(X, columns=list('aabc')))",
        "several columns named 'a'",
    ),
    "lazy layers": (
        "import warnings; warnings.simplefilter('ignore'); train(lambda: torch.nn.LazyLinear(2))",
        "give their sizes",
    ),
    "a network of another width": ("train(lambda: torch.nn.Linear(5, 2))", "the module fails"),
    "labels that lack": (
        "train(RandomForestClassifier(3), y=np.where(X[:, :2] > 1, np.nan, both))",
        "missing labels",
    ),
    "one column": ("look(fit(GaussianNB()), X[:, 0])", "X[['column']]"),
    "a bad rule": ("look(fit(GaussianNB()), rule='auc')", "auc"),
}


WISHES = ("several outputs", "sample weights", "one-hot labels")
"""Refusals of what a newcomer may rightly want; all others are mistakes."""
TABLE = Path(__file__).parents[2] / "docs" / "newcomer-tasks.csv"
HEAD = ["task", "snippet", "seconds", "first try", "result"]


def run(snippet):
    code, space = textwrap.dedent(snippet).strip().splitlines(), {}
    exec(SETUP, space)
    before, _, last = code[-1].rpartition("; ")
    exec("\n".join([*code[:-1], before]), space)
    return eval(last, space)


LIKE_OTHERS = (  # they answer as another task's model does
    "fitted extra trees",
    "fitted adaptive boosting",
    "fitted stochastic gradient",
    "fitted ridge classifier",
    "lightning",  # its import takes as long as ten audits; see below
)


def listed():
    """Those that train models in other processes take seconds each: all but two are slow."""
    for task in WORKS:
        slow = task.startswith("trained ") and task not in ("trained tree", "trained neighbours")
        slow = slow or task in LIKE_OTHERS
        yield pytest.param(task, marks=[pytest.mark.slow] * slow)


@pytest.mark.parametrize("task", list(listed()))
def test_a_newcomer_gets_an_audit_of_the_own_model(task):
    findings = run(WORKS[task])
    assert findings.data["records"] == 200
    assert findings.candidates[0]["attacks"]["loss-threshold"]["auc"]["n"] > 0
    if task.startswith("trained "):
        kind = findings.subject["recipe"].get("estimator", "torch")
        assert kind in ("torch", "Pipeline") or kind.removesuffix("()") in WORKS[task]
    else:
        assert findings.subject["recipe"] is None  # nothing else was trained


NAMED = """
Lit = type("LightningModule", (torch.nn.Linear,), {"__module__": "lightning.pytorch.core.module"})
Own = type("Own", (Lit,), {})
"""


def test_a_module_by_lightnings_name_is_audited_fitted_and_refused_to_train():
    """As the tasks with Lightning itself, whose import takes seconds."""
    assert run(f"{NAMED}look(Own(4, 2))").subject["recipe"] is None
    with pytest.raises(lethe.LetheError, match=r"lethe\.lightning_recipe\(build, X, y"):
        run(f"{NAMED}train(Own)")


REFUSED_HERE = [
    pytest.param(task, marks=[pytest.mark.slow] * ("Lightning" in task)) for task in REFUSED
]


@pytest.mark.parametrize("task", REFUSED_HERE)
def test_a_wrong_input_is_one_line_with_the_way_out(task):
    snippet, said = REFUSED[task]
    with pytest.raises(lethe.LetheError) as refusal:
        run(snippet)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def measured():
    """One line a task: what is typed, how long it took, whether it worked as it stands."""
    snippets = {**WORKS, **{task: snippet for task, (snippet, _) in REFUSED.items()}}
    for task, snippet in snippets.items():
        began = time.perf_counter()
        try:
            run(snippet)
            first, result = "yes", "audited"
        except lethe.LetheError as refusal:
            first, result = "no" if task in WISHES else "mistake", str(refusal)
        seconds = f"{time.perf_counter() - began:.1f}"
        yield [task, textwrap.dedent(snippet).strip(), seconds, first, result]


def test_the_table_on_the_page_is_that_of_these_tasks():
    head, *rows = csv.reader(TABLE.read_text(encoding="utf-8").splitlines(keepends=True))
    snippets = {**WORKS, **{task: snippet for task, (snippet, _) in REFUSED.items()}}
    listed = {task: textwrap.dedent(snippet).strip() for task, snippet in snippets.items()}
    assert head == HEAD and {row[0]: row[1] for row in rows} == listed
    for task, _, seconds, first, result in rows:
        assert float(seconds) < 60 and "\n" not in result
        assert first == ("yes" if task in WORKS else "no" if task in WISHES else "mistake")
        assert result == "audited" if task in WORKS else REFUSED[task][1] in result
    assert len(rows) >= 60 and len(WORKS) >= 55
    page = TABLE.with_name("start.md").read_text(encoding="utf-8")
    counts = f"{len(WORKS)} work as they are typed, {len(WISHES)} are refused, and "
    assert f"{counts}{len(REFUSED) - len(WISHES)} are mistakes" in " ".join(page.split())


KEPT = {
    "leaves": ("look(fit(RandomForestClassifier(3)))", "leaves of its trees"),
    "words": (
        """
        lone = texts + pd.Series([f" word{place}" for place in range(200)])
        from lethe.membership.stored import stored
        model = make_pipeline(CountVectorizer(), MultinomialNB()).fit(lone[m], y[m])
        list(stored(model, lone, m, person * 0 + np.arange(200)))
        """,
        "words of CountVectorizer",
    ),
    "categories": (
        """
        some = frame.assign(town=[f"town {place}" for place in range(200)])
        names = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["town"]))
        look(make_pipeline(names, LogisticRegression()).fit(some[m], y[m]), some.assign(n=X[:, 0]))
        """,
        "categories of OneHotEncoder",
    ),
    "embedding rows": (
        """
        net = torch.nn.Sequential(torch.nn.Embedding(200, 2), torch.nn.Flatten())
        from lethe.membership.stored import stored
        list(stored(net, np.arange(200)[:, None], m, np.arange(200)))
        """,
        "rows of the embedding '0'",
    ),
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_lies_in_the_file_is_said_first_and_stops_no_pass(kind):
    """Of rows that stop one: tests/membership/test_stored.py."""
    snippet, said = KEPT[kind]
    found = run(snippet)
    if isinstance(found, list):
        assert said in found[0].text
        return
    assert said in found.verdict["words"][0] and said in str(found).replace("\n  ", " ")
    failed = [check["name"] for check in found.checks if check["status"] == "fail"]
    assert "input: stored-rows" not in failed


def test_a_skops_file_is_audited_and_a_pickle_never_opened(tmp_path, monkeypatch, capsys):
    from lethe.cli import run as command

    skops = pytest.importorskip("skops.io")
    space = {}
    exec(SETUP, space)
    model = space["fit"](space["KNeighborsClassifier"]())
    monkeypatch.chdir(tmp_path)
    skops.dump(model, "model.skops")
    table = space["pd"].DataFrame(space["X"], columns=list("abcd"))
    table.assign(member=space["m"], target=space["y"]).to_csv("people.csv", index=False)
    audit = ["audit", "fitted", "people.csv", "--members", "member", "--quiet"]
    assert command([*audit[:2], "model.skops", *audit[2:], "--rule", "auc<=0.9"]) == 3
    assert "rows in KNeighborsClassifier._fit_X" in capsys.readouterr().out
    assert command([*audit[:2], "model.skops", *audit[2:4], "a"]) == 2
    assert "members='a' has 200 different values, it must have two" in capsys.readouterr().err
    (tmp_path / "model.pkl").write_bytes(b"cos\nsystem\n(S'touch harm'\ntR.")
    assert command([*audit[:2], "model.pkl", *audit[2:]]) == 2
    assert "skops.io.dump(model" in capsys.readouterr().err
    assert not (tmp_path / "harm").exists()


if __name__ == "__main__":
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *measured()])
