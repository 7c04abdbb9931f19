"""The folder of a release: killed in the middle, asked for something else, damaged, in use."""

import dataclasses
import fcntl
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from release_in_lives import SETTINGS, released
from released_draws import read_release
from torch import Tensor, nn

from lethe.errors import InputError, RunFailed
from lethe.evidence.guarantee import GIVEN_SEED, SECRET_SEED, SEED_KNOWN
from lethe.mitigations.swag_release.records import ReleaseSettings
from lethe.mitigations.swag_release.release import ReleasedDraw, release_draw

QUICK = ReleaseSettings(
    3.0,
    "replace-one",
    floor=0.02,
    fit_epochs=1,
    refit_epochs=1,
    swag_epochs=2,
    draws=2,
    final_draws=2,
    rank=2,
    scales=(),
)


def quick(
    folder: Path,
    settings: ReleaseSettings = QUICK,
    seed: int = 0,
    shift: float = 0.0,
    width: int = 3,
    **more: Any,
) -> ReleasedDraw:
    stream = torch.Generator().manual_seed(5)
    inputs = torch.randn(16, 3, generator=stream) + shift
    truth = torch.arange(16) % 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        module = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))
    return release_draw(module, inputs, truth, settings, folder, seed=seed, **more)


def test_the_label_says_whether_the_seed_of_the_draw_was_given(tmp_path: Path) -> None:
    """Also where a later call leaves the seed out, and in the file that leaves."""
    secret = quick(tmp_path / "a")
    assert SECRET_SEED in secret.guarantee.assumptions
    given = quick(tmp_path / "b", draw_seed=5)
    again = quick(tmp_path / "b")
    for made in (given, again):
        header = read_release(made.files[0])[1]["guarantee"]
        assert GIVEN_SEED in header["assumptions"] and SEED_KNOWN in header["voided_by"]
        assert SECRET_SEED not in made.guarantee.assumptions
    assert GIVEN_SEED not in quick(tmp_path / "a").guarantee.assumptions
    held = tmp_path / "a" / "private" / "state.json"
    assert "draw_seed" in held.read_text() and stat.S_IMODE(held.stat().st_mode) == 0o600


def test_killed_again_and_again_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """Each life ends by SIGKILL inside an epoch or between draws; 3 passes are an epoch."""
    whole = released(tmp_path / "whole")
    script = Path(__file__).with_name("release_in_lives.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "lives"), "9"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    # 42 passes of training and 40 of measuring, at most 9 of them in one life.
    assert int(done.stdout) >= 8
    for file in whole.files:
        assert (tmp_path / "lives" / file.name).read_bytes() == file.read_bytes()
    kept = {one.name for one in (tmp_path / "lives" / "private").iterdir()}
    assert kept == {one.name for one in (tmp_path / "whole" / "private").iterdir()}
    assert not [name for name in kept if ".part" in name or ".collection" in name]


def test_released_draws_are_those_of_the_final_swag(tmp_path: Path) -> None:
    done = released(tmp_path / "whole")
    final = done.mechanism.posterior
    for number, file in enumerate(done.files):
        tensors, label = read_release(file)
        wanted = final.draw(77, first=number)
        assert set(tensors) == set(wanted)
        assert all(torch.equal(tensors[name], wanted[name][0]) for name in wanted)
        assert all(value.dtype == torch.float32 for value in tensors.values())
        assert label["release"]["draw"] == number + 1
    assert len(done.files) == SETTINGS.releases == 2
    first = read_release(done.files[0])[0]
    for name, parameter in done.module.named_parameters():
        assert torch.equal(parameter, first[name])


def test_the_label_in_the_file(tmp_path: Path) -> None:
    done = quick(tmp_path / "a")
    _, label = read_release(done.files[0])
    guarantee, release = label["guarantee"], label["release"]
    assert guarantee["kind"] == "asymptotic" and guarantee["proven"] is False
    assert guarantee == json.loads(json.dumps(done.guarantee.to_json()))
    assert guarantee["relation"] == release["relation"] == "replace-one"
    assert guarantee["parameters"]["draws"] == release["draws"] == 2
    assert len(release["growth"]) == 2 and release["growth"][0] <= release["growth"][1]
    assert release["growth"][-1] == pytest.approx(release["estimated_local_epsilon"])
    assert release["releases"] == 1 and release["delta"] is None
    words = " ".join(guarantee["assumptions"])
    for told in ("covariance", "private records", "with 2 draws", "delta is unknown"):
        assert told in words
    secret = json.loads((tmp_path / "a/private/state.json").read_text())["asked"]["draw_seed"]
    assert secret.encode() not in done.files[0].read_bytes()
    assert int(secret) > 2**64  # 128 bits: less has a chance of 2^-64


def test_the_same_call_gives_the_same_draw_and_a_secret_seed(tmp_path: Path) -> None:
    one = quick(tmp_path / "a").files[0].read_bytes()
    assert quick(tmp_path / "a").files[0].read_bytes() == one
    assert quick(tmp_path / "b").files[0].read_bytes() != one


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"settings": dataclasses.replace(QUICK, releases=2)}, r"releases \(1 there, 2 now\)"),
        ({"settings": dataclasses.replace(QUICK, rate=0.02)}, r"rate \(0.01 there, 0.02 now\)"),
        ({"settings": dataclasses.replace(QUICK, relation="add/remove")}, "relation"),
        ({"seed": 1}, r"seed \(0 there, 1 now\)"),
        ({"shift": 1e-3}, "records"),
        ({"width": 4}, "weights .*module"),
        ({"draw_seed": 3}, "differs in draw_seed, draw_seed_given. A second draw"),
        ({"logits": lambda module, batch: module(batch) * 2}, "logits"),
    ],
)
def test_another_release_in_the_same_folder(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    before = quick(tmp_path / "a").files[0].read_bytes()
    with pytest.raises(InputError, match=named):
        quick(tmp_path / "a", **changes)
    assert (tmp_path / "a" / "released-1.safetensors").read_bytes() == before
    assert len(list((tmp_path / "a").glob("released-*"))) == 1


def test_two_releases_cost_twice(tmp_path: Path) -> None:
    """Weights are made for half of the target each; epsilon is 2 x 2 x the largest loss."""
    done = quick(tmp_path / "a", dataclasses.replace(QUICK, releases=2))
    estimate = done.mechanism.estimate
    assert estimate.epsilon == pytest.approx(4 * estimate.delta_sensitivity)
    assert done.mechanism.weights == pytest.approx(
        [min(1.0, 0.75 / risk) for risk in done.mechanism.risk]
    )
    one, two = (read_release(file)[0] for file in done.files)
    assert not torch.equal(one["0.weight"], two["0.weight"])


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    (tmp_path / "other" / "private").mkdir(parents=True)
    (tmp_path / "other" / "private" / "x").write_text("x")
    with pytest.raises((InputError, RunFailed), match="file|written"):
        quick(tmp_path / "file")
    for name in ("full", "other"):
        with pytest.raises(InputError, match="empty folder"):
            quick(tmp_path / name)


def test_a_folder_in_use_and_leftovers(tmp_path: Path) -> None:
    quick(tmp_path / "a")
    private = tmp_path / "a" / "private"
    (private / ".2-fit.safetensors.0a1b.part").write_bytes(b"half")
    with open(private / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process"):
            quick(tmp_path / "a")
    quick(tmp_path / "a")
    assert not list(private.glob("*.part"))
    assert stat.S_IMODE(private.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("file", ["2-fit.safetensors", "3-swag.safetensors", "state.json"])
def test_damaged_files_are_named(tmp_path: Path, file: str) -> None:
    quick(tmp_path / "a")
    path = tmp_path / "a" / "private" / file
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=file.split(".")[0]):
        quick(tmp_path / "a")


def test_progress_tells_every_step(tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    quick(tmp_path / "a", progress=lambda *told: heard.append(told))
    assert list(dict.fromkeys(name for name, _, _ in heard)) == [
        "2-fit",
        "3-swag",
        "4-draws",
        "5-refit-0",
        "6-swag-0",
        "6-draws-0",
    ]
    assert all(0 <= done <= of for _, done, of in heard)
    heard.clear()
    quick(tmp_path / "a", progress=lambda *told: heard.append(told))
    assert heard == []


def test_a_model_of_one_number_and_a_scalar_file(tmp_path: Path) -> None:
    """A parameter without axes survives all files."""

    class Slope(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slope = nn.Parameter(torch.tensor(0.5))

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([self.slope * x[:, 0], 0 * x[:, 0]], 1)

    inputs = torch.linspace(-1, 1, 16)[:, None]
    done = release_draw(Slope(), inputs, (inputs[:, 0] < 0).long(), QUICK, tmp_path / "a")
    tensors, _ = read_release(done.files[0])
    assert tensors["slope"].shape == ()
    assert tensors["slope"].item() == done.module.get_parameter("slope").item()
