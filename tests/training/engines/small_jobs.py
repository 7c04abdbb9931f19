"""Jobs of worker processes, which start sooner where they need not import pytest."""

import os
import time

from lethe.errors import InputError


def double(job: int) -> int:
    return 2 * job


def die(job: int) -> int:
    if job == 2:
        os._exit(3)
    return job


def refuse(job: int) -> int:
    if job == 2:
        raise InputError("job 2 cannot be done; leave it out.")
    return job


def process(job: int) -> int:
    return os.getpid()


_held: list[bytearray] = []


def hold(job: int) -> int:
    time.sleep(0.6)  # memory is looked at once a second
    if job > 1 and not _held:
        _held.append(bytearray(b"1") * 320_000_000)
    return os.getpid()


def imported(job: str) -> int:
    return int(__import__(job).VALUE)


def folder(job: int) -> str:
    return os.getcwd()
