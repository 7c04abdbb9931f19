"""One contract for all engines: the same bytes, each chunk once, finished ones left alone.

All that need Ray are in this file: two processes of tests would start one each at the same moment.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chunks import contents, environment, jobs_in, kill_once, refuse

from lethe.errors import InputError
from lethe.reidentification.audit import audit_released
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.training.chunks import shard_path, train_chunk
from lethe.training.engines import choose_cluster, choose_engine
from lethe.training.engines.processes import run_in_processes, stop_processes

pytestmark = pytest.mark.processes

ENGINES = {
    "two processes": ("processes", 2, []),
    "ray": ("ray", 2, []),
    "ray with a store": ("ray", 2, ["store=file://STORE"]),
}
SLOW_RAY, SLOW_STORE = (
    pytest.param(name, marks=pytest.mark.slow) for name in ("ray", "ray with a store")
)


@pytest.fixture(scope="module")
def ray_here() -> Iterator[Any]:
    """A Ray of two cores on this machine; starting one takes seconds."""
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_TQDM_PATCH_PRINT"] = "0"
    # It would end workers for what others on the machine take, and start them again for ever.
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., object]:
    name, workers, options = ENGINES[request.param]
    if name == "ray":
        request.getfixturevalue("ray_here")
    given = [option.replace("STORE", str(tmp_path / "store")) for option in options]
    run = tmp_path / "run"
    run.mkdir()
    return choose_engine(name, run, workers, given)


@pytest.mark.parametrize("engine", ["two processes", "ray", SLOW_STORE], indirect=True)
def test_all_engines_give_the_same_bytes(engine, tmp_path, expected) -> None:
    jobs = jobs_in(tmp_path / "run")
    random.Random(3).shuffle(jobs)
    assert sorted(engine(jobs, train_chunk)) == [2, 4, 4]
    assert contents(jobs) == expected
    inodes = {path: path.stat().st_ino for path in jobs[0].folder.iterdir()}
    missing = [job for job in jobs if job.finished() is None]
    assert list(engine(missing, train_chunk)) == []
    assert {path: path.stat().st_ino for path in jobs[0].folder.iterdir()} == inodes


@pytest.mark.parametrize("engine", ["two processes", "ray with a store"], indirect=True)
def test_a_killed_worker_loses_nothing_and_doubles_nothing(engine, tmp_path, expected) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    jobs = jobs_in(tmp_path / "run")
    list(engine(jobs, partial(kill_once, marks=marks)))
    assert (marks / "killed").exists()
    assert contents(jobs) == expected
    assert sum(map(int, (marks / "0").read_text().split())) == jobs[0].models


@pytest.mark.parametrize("engine", ["two processes", "ray"], indirect=True)
def test_an_error_for_the_user_comes_through_as_it_is(engine, tmp_path) -> None:
    with pytest.raises(InputError, match="chunk . cannot be trained; leave it out"):
        list(engine(jobs_in(tmp_path / "run"), refuse))


@pytest.mark.parametrize("engine", ["two processes", SLOW_RAY], indirect=True)
def test_every_worker_has_one_thread(engine, tmp_path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    list(engine(jobs_in(tmp_path / "run")[2:], partial(environment, marks=marks)))
    assert [path.read_text() for path in marks.iterdir()] == ["[1] 1"]


@pytest.mark.parametrize("engine", ["two processes", SLOW_STORE], indirect=True)
def test_work_left_half_done_is_finished_by_any_engine(engine, tmp_path, expected) -> None:
    jobs = jobs_in(tmp_path / "run")
    begun = engine(jobs, train_chunk)
    next(begun)
    begun.close()  # as Ctrl-C does
    there = [job for job in jobs if job.finished() is not None]
    assert there
    shard_path(jobs[0].folder, there[0].chunk).unlink()
    missing = [job for job in jobs if job.finished() is None]
    list(run_in_processes(missing, train_chunk, 2))
    stop_processes()
    whole = {name: raw for name, raw in contents(jobs).items() if not name.endswith(".part")}
    assert whole == expected


def killed_once(job: Any, work: Callable[[Any], Any], mark: Path) -> Any:
    """The worker of the first noise level above 1 is killed once."""
    if job[1] > 1:
        with contextlib.suppress(FileExistsError):
            mark.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return work(job)


@pytest.mark.slow
def test_noise_levels_on_ray_are_those_of_this_machine(ray_here, tmp_path) -> None:
    rng = np.random.default_rng(0)
    people = np.arange(40).repeat(8)
    vectors = rng.normal(size=(40, 6))[people] + 0.5 * rng.normal(size=(320, 6))
    head = (rng.normal(size=6), 0.1)
    model = Released("model", vectors, people, (vectors @ head[0] > 0).astype(int), head)
    settings = EmbeddingSettings(sigmas=(0.5, 2.0), averaged=(1,), draws=2, plays=20)
    on_ray, told = choose_cluster("ray", 2), []

    def cluster(jobs: Any, work: Any) -> Any:
        return on_ray(jobs, partial(killed_once, work=work, mark=tmp_path / "killed"))

    here = audit_released([model], settings)
    there = audit_released([model], settings, told.append, cluster=cluster)
    assert there.to_bytes() == here.to_bytes()
    assert (tmp_path / "killed").exists()
    assert sum("all attackers; " in line for line in told) > 3


JOIN = """\
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from chunks import jobs_in
from lethe.training.engines import choose_engine
from lethe.training.chunks import train_chunk
folder = Path({folder!r})
engine = choose_engine("ray", folder, None, ["address={address}"])
print(sum(engine(jobs_in(folder), train_chunk)))
"""


@pytest.mark.slow
def test_a_cluster_that_is_there_is_joined_by_its_address(ray_here, tmp_path, expected) -> None:
    tests, address = str(Path(__file__).parent), ray_here.get_runtime_context().gcs_address
    code = JOIN.format(tests=tests, folder=str(tmp_path), address=address)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.split()[-1:] == ["10"], done.stderr
    assert contents(jobs_in(tmp_path)) == expected


@pytest.mark.slow  # Ray tries for half a minute
def test_no_cluster_at_the_address_is_said(tmp_path) -> None:
    code = JOIN.format(
        tests=str(Path(__file__).parent), folder=str(tmp_path), address="ray://127.0.0.1:1"
    )
    environment = {**os.environ, "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 1
    assert "RunFailed: Ray cannot be reached at ray://127.0.0.1:1" in done.stderr
