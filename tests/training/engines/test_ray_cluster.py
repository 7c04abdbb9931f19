"""Ray, without one: stores that outlive the command, and stores that cannot be opened."""

import pytest
from chunks import contents, jobs_in

from lethe.errors import InputError, RunFailed
from lethe.training.chunks import train_chunk
from lethe.training.engines.ray_cluster import Elsewhere, RayEngine, receive

pytestmark = pytest.mark.processes


def test_the_store_keeps_what_is_trained(tmp_path, expected) -> None:
    store = (tmp_path / "store").as_uri()
    jobs = jobs_in(tmp_path / "run")
    far = Elsewhere(train_chunk, store)
    for job in jobs:
        assert far(job) == (job.models, None)
    # The command died before it took them; the next finds them all.
    assert [far(job) for job in jobs] == [(0, None)] * 3
    for job in jobs:
        receive(job, None, store)
    assert contents(jobs) == expected


def test_a_torn_or_foreign_shard_in_the_store_is_trained_again(tmp_path, expected) -> None:
    store = tmp_path / "store"
    jobs = jobs_in(tmp_path / "run")
    far = Elsewhere(train_chunk, store.as_uri())
    for job in jobs[:2]:
        far(job)
    place = store / jobs[0].folder.name
    whole = (place / "00000.safetensors").read_bytes()
    (place / "00000.safetensors").write_bytes(whole[:-100])
    (place / "00001.safetensors").write_bytes(whole)
    assert [far(job)[0] for job in jobs[:2]] == [4, 4]
    for job in jobs[:2]:
        receive(job, None, store.as_uri())
    assert contents(jobs).items() <= expected.items()


def test_shards_come_as_bytes_without_a_store(tmp_path, expected) -> None:
    job = jobs_in(tmp_path / "run")[2]
    trained, content = Elsewhere(train_chunk)(job)
    assert trained == 2 and content == expected["00002.safetensors"]
    assert not job.folder.exists()


def test_a_store_that_only_the_worker_sees_is_said(tmp_path) -> None:
    job = jobs_in(tmp_path / "run")[0]
    with pytest.raises(RunFailed, match="does not give back chunk 0.*must see the same store"):
        receive(job, None, "memory://nothing-here")


def test_a_store_of_an_unknown_kind_is_refused_before_training(tmp_path) -> None:
    with pytest.raises(InputError, match="store='nowhere://a' cannot be opened"):
        list(RayEngine(1, store="nowhere://a")(jobs_in(tmp_path), train_chunk))
