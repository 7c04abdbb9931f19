"""The file of a release: its label, its secret, and no second draw in its place."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from swag_parts import drawn
from torch import Tensor, nn

from lethe.errors import InputError, RunFailed
from lethe.evidence.guarantee import SECRET_SEED
from lethe.mitigations import swag_release
from lethe.mitigations.swag import ReleaseSettings
from lethe.mitigations.swag_release import Mechanism, release_draw

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


def quick(file: Path, **more: Any) -> Mechanism:
    stream = torch.Generator().manual_seed(5)
    inputs = torch.randn(16, 3, generator=stream)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        module = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
    return release_draw(module, inputs, torch.arange(16) % 2, QUICK, file, **more)


def test_the_released_draw_is_of_the_final_swag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swag_release, "noise_seed", lambda given: 77)
    made = quick(tmp_path / "a")
    tensors, _ = read_release(tmp_path / "a")
    wanted = drawn(made.posterior, 77)
    assert set(tensors) == set(wanted)
    for name, parameter in made.module.named_parameters():
        assert tensors[name].dtype == torch.float32
        assert torch.equal(tensors[name], wanted[name][0])
        assert torch.equal(tensors[name], parameter)


def test_the_label_in_the_file(tmp_path: Path) -> None:
    made = quick(tmp_path / "a")
    _, label = read_release(tmp_path / "a")
    guarantee, release = label["guarantee"], label["release"]
    assert guarantee["kind"] == "asymptotic" and guarantee["proven"] is False
    assert guarantee == json.loads(json.dumps(made.guarantee.to_json()))
    assert SECRET_SEED in guarantee["assumptions"]
    assert guarantee["relation"] == release["relation"] == "replace-one"
    assert guarantee["parameters"]["draws"] == release["draws"] == 2
    assert len(release["growth"]) == 2 and release["growth"][0] <= release["growth"][1]
    assert release["growth"][-1] == pytest.approx(release["estimated_local_epsilon"])
    assert release["delta"] is None
    words = " ".join(guarantee["assumptions"])
    for part in ("covariance", "private records", "with 2 draws", "delta is unknown"):
        assert part in words


def test_a_second_draw_is_another_one_and_takes_no_file_s_place(tmp_path: Path) -> None:
    quick(tmp_path / "a")
    first = (tmp_path / "a").read_bytes()
    with pytest.raises(InputError, match="a second epsilon|A second draw"):
        quick(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == first
    quick(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() != first


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunFailed):
        quick(tmp_path / "file" / "a")


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
    tensors, _ = read_release(tmp_path / "a")
    assert tensors["slope"].shape == ()
    assert tensors["slope"].item() == done.module.get_parameter("slope").item()


def read_release(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors by name, and the label, with the keys ``guarantee`` and ``release``."""
    with safe_open(str(path), framework="pt") as file:
        header = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    return tensors, {name: json.loads(header[name]) for name in ("guarantee", "release")}
