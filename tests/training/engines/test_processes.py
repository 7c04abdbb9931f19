"""Processes: results as they come, errors as they are, a dead worker said in words."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_jobs import die, double, folder, hold, imported, process, refuse

from lethe.errors import InputError, RunFailed
from lethe.training.engines import processes
from lethe.training.engines.processes import preloading, run_in_processes, stop_processes
from lethe.training.environment import default_workers

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True, scope="module")
def nothing_left() -> Iterator[None]:
    yield
    stop_processes()


def test_even_one_worker_is_another_process() -> None:
    # Its BLAS must be the one that other workers have, or the bits would differ.
    found = list(run_in_processes([1, 2, 3], process, 1))
    assert len(found) == 3 and os.getpid() not in found


def test_every_job_is_done_once() -> None:
    assert list(run_in_processes([], double, 2)) == []
    assert sorted(run_in_processes(range(7), double, 2)) == [0, 2, 4, 6, 8, 10, 12]


def test_a_worker_that_holds_large_tables_is_kept() -> None:
    """With psutil loky took them for a leak, ended the worker in an audit and warned of it."""
    pytest.importorskip("psutil")
    assert len(set(run_in_processes(range(6), hold, 2))) <= 2
    stop_processes()  # what is held goes with it


def test_errors_of_a_job_come_through_as_they_are() -> None:
    with pytest.raises(InputError, match="job 2 cannot be done; leave it out"):
        list(run_in_processes(range(4), refuse, 2))


def test_a_worker_that_dies_is_a_run_that_can_be_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "RESTARTS", 1)  # each takes as long as the first
    said: list[str] = []
    with pytest.raises(RunFailed, match="a worker process died.*fewer --workers") as caught:
        list(run_in_processes(range(4), die, 2, said.append))
    assert "a worker process died; starting again with" in said[0]
    assert "died 2 times in a row" in str(caught.value)
    assert caught.value.exit_code == 4
    assert sorted(run_in_processes(range(3), double, 2)) == [0, 2, 4]


def test_workers_kept_from_before_work_where_this_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(run_in_processes(range(3), folder, 2)) == {os.getcwd()}
    monkeypatch.chdir(tmp_path)
    assert set(run_in_processes(range(3), folder, 2)) == {str(tmp_path)}


def test_default_workers_are_the_cores_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= default_workers() <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert default_workers() == 1


@pytest.fixture
def thread_gets_no_time(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The thread that gives jobs out wakes up late, as on a busy machine; returns its errors."""
    from joblib.externals.loky import process_executor

    wait = process_executor._ExecutorManagerThread.wait_result_broken_or_wakeup

    def late(self: Any) -> Any:
        found = wait(self)
        time.sleep(0.05)
        return found

    errors: list[str] = []
    monkeypatch.setattr(
        process_executor._ExecutorManagerThread, "wait_result_broken_or_wakeup", late
    )
    monkeypatch.setattr(threading, "excepthook", lambda what: errors.append(repr(what.exc_value)))
    return errors


def closed_early() -> None:
    results = run_in_processes(range(40), double, 2)
    next(results)
    results.close()


def left_at_once() -> None:
    with preloading(["json"], 2):
        pass


@pytest.mark.parametrize("stop", [left_at_once, closed_early, stop_processes])
def test_ending_processes_with_jobs_still_waiting_breaks_no_thread(
    stop: Callable[[], None], thread_gets_no_time: list[str]
) -> None:
    assert sorted(run_in_processes(range(3), double, 2)) == [0, 2, 4]
    time.sleep(0.2)  # until the thread waits for jobs again
    stop()
    for thread in threading.enumerate():
        if "ExecutorManager" in thread.name:
            thread.join(60)
    assert thread_gets_no_time == []
    assert sorted(run_in_processes(range(3), double, 2)) == [0, 2, 4]


def test_workers_kept_from_before_see_modules_beside_a_new_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sorted(run_in_processes(range(3), double, 2)) == [0, 2, 4]
    (tmp_path / "found_late.py").write_text("VALUE = 5\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert list(run_in_processes(["found_late"] * 3, imported, 2)) == [5, 5, 5]
