"""What all tests and doctests share: how many run side by side, one thread each, a small heap."""

import atexit
import contextlib
import faulthandler
import functools
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from lethe.training import environment
from lethe.training.engines import processes

collect_ignore_glob = ["*conftest.py"]  # all have one name: as modules of doctests they collide

settings.register_profile("lethe", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=1000)  # --hypothesis-profile=
settings.load_profile("lethe")

metadata.version = functools.cache(metadata.version)
"""Every spec of models names dozens of versions, each read from files of its library."""

MOST = 4
"""Processes of tests at most: some start processes of their own, and each takes 1 GB."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Whole folders run in a process for every core; files that are named run in this one."""
    folders = any(Path(asked.partition("::")[0]).is_dir() for asked in config.args)
    return min(environment.default_workers(), MOST) if folders else 0


def pytest_configure(config: pytest.Config) -> None:
    """Keep bytecode during a run of whole folders, whatever the environment says.

    It starts a hundred processes, each of which would compile the library again.
    """
    if getattr(config.option, "numprocesses", None):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported here lives to the end: looking through it for garbage again and again took
    a third of the time of a collection, and a tenth of that of the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
        gc.set_threshold(20_000, 10, 10)  # looked for every 700 objects, it was 1/20 of the time
        atexit.register(gc.unfreeze)  # some libraries count what is left as the process ends


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Slow tests have all the time in the world."""
    if item.get_closest_marker("slow"):
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads that wait for a busy core burn many times the work they do.

    The environment is left alone: processes that tests start decide for themselves.
    """
    with environment.one_thread(None):
        yield


def done_here(
    jobs: Sequence[tuple[int, Any]], work: Callable[[Any], Any], _: int
) -> Iterator[tuple[int, Any]]:
    """As `processes._run_once`, in this process."""
    for number, job in jobs:
        yield number, work(job)


@pytest.fixture(autouse=True, scope="module")
def one_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Worker processes import torch first, which takes longer than what most tests give them.

    Modules marked `processes` start them, as users do.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.get_closest_marker("processes"):
            patch.setattr(processes, "_run_once", done_here)
            patch.setattr(processes, "preloading", lambda *_: contextlib.nullcontext())
            patch.setattr("lethe.reidentification.settings.default_workers", lambda: 1)
        yield


@pytest.fixture(scope="module")
def no_page() -> Iterator[None]:
    """Runs write no page, which takes as long as an audit of few records: for tests of all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lethe.report.page.files", lambda *_: ())
        yield


@pytest.fixture(scope="module")
def no_drawing() -> Iterator[None]:
    """Charts of a page are empty: matplotlib takes most of its time, for tests of words."""
    with pytest.MonkeyPatch.context() as patch:
        for drawn in ("static_svg.inline", "frontier_chart._inline"):
            patch.setattr(f"lethe.report.{drawn}", lambda *_: '<svg class="chart static" >')
        yield
