"""Choosing an engine: names, options, and what is said when one cannot be had."""

import sys

import pytest
from chunks import jobs_in

from lethe.errors import InputError, MissingExtra, RunFailed
from lethe.training.chunks import shard_path, train_chunk
from lethe.training.engines import ByHand, check_engine, choose_engine


def test_names_and_options_are_read() -> None:
    assert check_engine(None) == ("processes", {})
    assert check_engine("ray://head:10001", ["store=s3://b/f=g"]) == (
        "ray",
        {"address": "ray://head:10001", "store": "s3://b/f=g"},
    )


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("rays", [], "engine='rays' must be one of .*Did you mean 'ray'"),
        ("slurm", [], "engine='slurm' must be one of .*by-hand"),
        ("ray", ["adress=a"], "unknown key 'adress'.*Did you mean 'address'"),
        ("ray", ["store"], "engine option 'store' must be KEY=VALUE"),
        ("processes", ["time=3"], "engine 'processes' has the unknown key 'time'"),
    ],
)
def test_wrong_choices_are_refused(name, options, words) -> None:
    with pytest.raises(InputError, match=words):
        check_engine(name, options)


def test_a_missing_extra_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'lethe-privacy\[ray\]'"):
        check_engine("ray")


def test_workers_must_be_some(tmp_path) -> None:
    with pytest.raises(InputError, match="workers=0 must be at least 1"):
        choose_engine("processes", tmp_path, 0)


def test_by_hand_lists_what_is_missing_and_nothing_when_all_is_there(tmp_path) -> None:
    jobs = jobs_in(tmp_path)
    with pytest.raises(RunFailed, match=r"3 chunks .*\n.*lethe shadow .* --index N .*N = 0-2\n"):
        list(ByHand(tmp_path)(jobs, train_chunk))
    with pytest.raises(RunFailed, match="N = 0,2"):
        list(ByHand(tmp_path)([jobs[0], jobs[2]], train_chunk))
    assert list(ByHand(tmp_path)([], train_chunk)) == []
    assert not shard_path(jobs[0].folder, 0).exists()
