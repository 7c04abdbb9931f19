"""Steps on one flat tensor against torch.optim."""

import pytest
import torch

from lethe.training.networks.parameters import Optimizer

KINDS = {
    "sgd": {},
    "sgd with momentum": {"momentum": 0.9},
    "sgd nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "adam": {"weight_decay": 0.1},
    "adamw": {"weight_decay": 0.1},
}


@pytest.mark.parametrize(("name", "settings"), KINDS.items(), ids=KINDS)
def test_steps_are_torchs(name: str, settings: dict) -> None:
    torch.manual_seed(0)
    flat = torch.randn(100)
    wanted = torch.nn.Parameter(flat.clone())
    grad = torch.zeros(100)
    ours = Optimizer(name.split()[0], flat, grad, **settings)
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    theirs = kind[name.split()[0]]([wanted], lr=0.0, **settings)
    for rate in (0.1, 0.01, 0.05, 0.2):
        grad.copy_(torch.randn(100))
        wanted.grad = grad.clone()
        theirs.param_groups[0]["lr"] = rate
        ours.step(rate)
        theirs.step()
        assert torch.allclose(flat, wanted.detach(), rtol=1e-5, atol=1e-6)
