"""From files to features: the rows, the label, the scalers, the people, and equal bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from readers.ebnerd import engaged, prepare_news
from readers.features import aggregates
from readers.history import read_histories
from readers.store import News
from readers.synthetic import write_synthetic_news

USERS = 150


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small synthetic folder."""
    return write_synthetic_news(tmp_path_factory.mktemp("news") / "raw", USERS, 60, seed=3)


@pytest.fixture(scope="module")
def news(raw: Path) -> News:
    """Its features, with a small batch so that several are needed."""
    return prepare_news(raw, raw.parent / "features", blind=10, batch=17)


def table(raw: Path, name: str) -> dict[str, list]:
    return parquet.read_table(raw / name).to_pydict()


@pytest.mark.parametrize(
    ("read", "scroll", "label", "there"),
    [
        (30.5, 50.5, True, True),
        (30.0, 100.0, False, True),
        (31.0, 50.0, False, True),
        (np.nan, 100.0, None, False),
        (99.0, np.nan, None, False),
    ],
)
def test_the_label(read: float, scroll: float, label: bool | None, there: bool):
    found, labelled = engaged(np.array([read]), np.array([scroll]))
    assert labelled[0] == there and (label is None or found[0] == label)


def test_a_batch_is_what_the_files_say(raw: Path, news: News):
    window = news.window("validation")
    rows = window.rows_of("main")[::37]
    batch = window.batch(rows)
    people = {}
    for part in read_histories(raw / "validation" / "history.parquet"):
        for at, user in enumerate(part.user_ids):
            people[user] = (part, at)
    means, deviations = (np.array(one) for one in news.meta["scalers"]["aggregates"])
    mean, deviation = news.meta["scalers"]["read"]
    articles = table(raw, "articles.parquet")
    place = {one: at for at, one in enumerate(articles["article_id"])}
    behaviours = table(raw, "validation/behaviors.parquet")
    by_id = {one: at for at, one in enumerate(behaviours["impression_id"])}
    for at, row in enumerate(window.rows[rows]):
        part, whose = people[batch.user_ids[at]]
        wanted = (aggregates(part)[whose] - means) / deviations
        assert batch.aggregates[at] == pytest.approx(wanted, abs=1e-4)
        items = slice(part.starts[whose], part.starts[whose + 1])
        read = ((np.log1p(part.read[items]) - mean) / deviation)[-50:]
        assert batch.length[at] == len(read)
        assert batch.sequence[at, : len(read), 0] == pytest.approx(read, abs=1e-5)
        assert batch.sequence[at, : len(read), 1] == pytest.approx(part.scroll[items][-50:] / 100)
        assert not batch.sequence[at, len(read) :].any()
        source = by_id[row["impression"]]
        article = place[behaviours["article_ids_clicked"][source][0]]
        sentiment = articles["sentiment_score"][article]
        numbers = [
            float(articles["premium"][article]),
            0.5 if sentiment is None else sentiment,
            *(np.log1p(len(articles[name][article])) for name in ("body", "title", "subtitle")),
        ]
        assert batch.article[at] == pytest.approx(numbers, rel=1e-5)
        names = ("device_type", "is_subscriber", "is_sso_user")
        assert batch.context[at].tolist() == [behaviours[name][source] for name in names]
        code = str(articles["category"][article])
        assert news.meta["categories"][batch.category[at] - 1] == code
        assert news.meta["kinds"][batch.kind[at] - 1] == articles["article_type"][article]
    assert batch.raw().shape == (len(rows), 27 + 5 + 3)
    assert [one.label.tolist() for one in window.batches(rows, len(rows))] == [batch.label.tolist()]


def test_scalers_are_of_the_main_users_train_rows_alone(news: News):
    """Blind people and the later week change nothing in them."""
    window = news.window("train")
    rows = window.rows_of("main")
    batch = window.batch(rows)
    assert batch.aggregates.mean(axis=0) == pytest.approx(np.zeros(27), abs=1e-4)
    spread = batch.aggregates.std(axis=0)
    assert spread == pytest.approx(np.ones(27), abs=1e-4)
    main = window.users[~window.users["blind"]]
    real = np.arange(50) < main["length"][:, None]
    steps = main["sequence"][..., 0][real].astype(float)
    assert news.meta["scalers"]["read"] == pytest.approx([steps.mean(), steps.std()], rel=1e-5)
    others = window.users["sequence"][..., 0][np.arange(50) < window.users["length"][:, None]]
    assert abs(others.mean() - steps.mean()) > 1e-4  # blind people would have moved it


def test_blind_users_are_strangers_of_both_weeks(news: News):
    blind = {name: news.window(name) for name in ("train", "validation")}
    ids = {name: set(one.users["id"][one.users["blind"]].tolist()) for name, one in blind.items()}
    assert ids["train"] == ids["validation"] and len(ids["train"]) == 10
    for window in blind.values():
        main, unseen = (
            set(window.batch(window.rows_of(who)).user_ids.tolist()) for who in ("main", "blind")
        )
        assert unseen and unseen <= ids["train"] and not main & unseen
        assert len(window.rows_of("main")) + len(window.rows_of("blind")) == len(window.rows)
