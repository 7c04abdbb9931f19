"""One Chromium for the tests of a file."""

import os

import pytest

from lethe.report.pdf import find_browser

sync_api = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as play:
        arguments = ["--disable-gpu", "--renderer-process-limit=1"]  # nothing looks at pictures
        arguments += ["--no-sandbox", "--no-zygote"] if os.geteuid() == 0 else []
        started = play.chromium.launch(executable_path=find_browser(), args=arguments, timeout=0)
        yield started
        started.close()
