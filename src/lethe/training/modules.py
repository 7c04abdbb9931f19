"""Fresh torch modules from the user's factory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lethe.errors import InputError, require
from lethe.training.users_code import users_code


def build_module(make_module: Callable[[], Any], seed: int) -> Any:
    """A fresh module whose initial weights are a function of `seed` alone.

    Raises:
        InputError: the factory fails, or returned no module, or one without trainable parameters.
    """
    torch = require("torch", "train")
    with torch.random.fork_rng(devices=[]), users_code("make_module"):
        torch.manual_seed(seed)
        module = make_module()
    if not isinstance(module, torch.nn.Module):
        raise InputError(
            f"make_module returned {type(module).__name__}, expected a torch.nn.Module."
        )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError("make_module returned a module without trainable parameters.")
    return module


def parameter_count(make_module: Callable[[], Any]) -> int:
    """Numbers that training can change, in a module that the factory builds."""
    module = build_module(make_module, 0)
    return sum(part.numel() for part in module.parameters() if part.requires_grad)
