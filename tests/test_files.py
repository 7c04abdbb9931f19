"""A reader sees the whole file or none, whatever goes wrong in between."""

import errno
import os
import stat
from pathlib import Path

import pytest

from lethe.errors import RunFailed
from lethe.files import keep_private, write_whole


def test_writes_the_bytes_makes_the_folders_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "run" / "shadows" / "00000.safetensors"
    write_whole(path, b"\x00whole\xff")
    assert path.read_bytes() == b"\x00whole\xff"
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_the_old_file_stands_until_the_new_one_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "findings.json"
    write_whole(path, b"old")
    seen = []
    replace = os.replace

    def watch(source, target):
        with open(source, "rb") as part, open(target, "rb") as old:
            seen.append((part.read(), old.read(), os.path.dirname(source)))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    write_whole(path, b"new")
    assert seen == [(b"new", b"old", str(tmp_path))]
    assert path.read_bytes() == b"new"


def test_the_bytes_are_on_disk_before_the_name_is(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("fsync"), fsync(handle))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("replace"), replace(a, b))[1])
    write_whole(tmp_path / "a", b"x")
    assert order == ["fsync", "replace"]


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_full_disk_is_a_run_that_can_be_resumed_and_leaves_the_old_file(
    tmp_path, monkeypatch, step
):
    path = tmp_path / "findings.json"
    write_whole(path, b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(RunFailed) as caught:
        write_whole(path, b"new")
    assert str(caught.value) == (
        f"{path} cannot be written: No space left on device. "
        "Free the space or the folder and run the same command again; finished work is kept."
    )
    assert caught.value.exit_code == 4
    assert [item.name for item in tmp_path.iterdir()] == ["findings.json"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_leaves_no_part(tmp_path, monkeypatch, stop):
    def interrupt(*_):
        raise stop

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(stop):
        write_whole(tmp_path / "a", b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file" / "a", tmp_path / "file" / "deep" / "a"):
        with pytest.raises(RunFailed, match="cannot be written"):
            write_whole(path, b"x")
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_a_target_that_is_a_folder_is_refused_and_leaves_no_part(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(RunFailed, match="cannot be written"):
        write_whole(tmp_path / "a", b"x")
    assert [item.name for item in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_mode_obeys_the_umask(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "records.parquet", b"people")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "records.parquet").stat().st_mode) == mode


def test_a_private_file_is_made_tightened_and_no_device_is_touched(tmp_path, monkeypatch):
    path = tmp_path / "secret"
    keep_private(path)
    assert not path.exists()
    before = os.umask(0)
    try:
        keep_private(path, create=True)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("kept")
    path.chmod(0o664)
    keep_private(path, create=True)
    assert path.stat().st_mode & 0o777 == 0o600 and path.read_text() == "kept"
    path.chmod(0o400)
    keep_private(path)
    assert path.stat().st_mode & 0o777 == 0o400  # narrower is its owner's choice

    def refuses(*given):
        raise AssertionError("a device was changed")

    monkeypatch.setattr(Path, "chmod", refuses)
    keep_private(Path("/dev/null"), create=True)
