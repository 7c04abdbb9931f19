"""A Ctrl-C that was swallowed somewhere counts at the next chunk."""

import contextlib
import os
import signal

import pytest

from lethe.runs.run import Progress, check, watched


def test_a_swallowed_interrupt_is_raised_again() -> None:
    before = signal.getsignal(signal.SIGINT)
    with watched():
        Progress(quiet=True).models(0, 2, "baseline")
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            check()
        with pytest.raises(KeyboardInterrupt):
            Progress(quiet=True).models(1, 2, "baseline")
    assert signal.getsignal(signal.SIGINT) is before
    with watched():
        check()
