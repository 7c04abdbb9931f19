"""A private training on disk: what it takes to go on after a stop, and what is released."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.evidence.guarantee import Guarantee
from lethe.files import write_for_owner, write_whole

_EVERY = 20.0  # seconds between two savings
_NAME = "private-training.safetensors"


class State:
    """Parameters and optimiser of a training, saved now and then and found again.

    Args:
        folder: where; None keeps nothing.
        name: content hash of everything that decides the training.
        trained: the parameters, by name.
        optimizer: of them, in the same order.
    """

    def __init__(
        self,
        folder: Path | None,
        name: str,
        trained: Mapping[str, Tensor],
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._path = None if folder is None else folder / _NAME
        self._name, self._trained, self._optimizer = name, trained, optimizer
        self._saved, self._secret = time.monotonic(), 0

    def resume(self, secret: int) -> tuple[int, int]:
        """The secret of this training, and how many steps are done.

        Args:
            secret: for a training that has not begun.

        Raises:
            InputError: the folder holds another training, or a damaged one.
        """
        self._secret = secret
        if self._path is None:
            return secret, 0
        if not self._path.exists():
            self._write(0)
            return secret, 0
        try:
            with safe_open(self._path, "pt") as file:
                header = file.metadata()
                found = {key: file.get_tensor(key) for key in file.keys()}
            step, self._secret = int(header["step"]), int(header["secret"], 16)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{self._path} is damaged ({error}); delete it to begin again."
            ) from error
        if header.get("training") != self._name:
            raise InputError(
                f"{self._path} is of another training: data, settings, seed or first weights "
                "differ. Use the same ones, or another folder."
            )
        self._put_back(found)
        return self._secret, step

    def _put_back(self, found: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for key, value in self._trained.items():
                value.copy_(found[f"value/{key}"])
        slots: dict[int, dict[str, Tensor]] = {}
        for key, value in found.items():
            kind, _, rest = key.partition("/")
            if kind == "slot":
                at, _, what = rest.partition("/")
                slots.setdefault(int(at), {})[what] = value
        described = self._optimizer.state_dict()
        self._optimizer.load_state_dict({**described, "state": slots})

    def keep(self, step: int) -> None:
        """Save, if the last time is long ago."""
        if self._path is not None and time.monotonic() - self._saved >= _EVERY:
            self._write(step)

    def _write(self, step: int) -> None:
        assert self._path is not None
        held = {f"value/{key}": value.detach() for key, value in self._trained.items()}
        for at, slot in self._optimizer.state_dict()["state"].items():
            held |= {f"slot/{at}/{what}": one for what, one in slot.items() if one is not None}
        header = {"training": self._name, "step": str(step), "secret": f"{self._secret:x}"}
        own = {key: value.contiguous().clone() for key, value in held.items()}
        write_for_owner(self._path, save(own, header))
        self._saved = time.monotonic()

    def done(self) -> None:
        """The secret and the way of the training are gone; only the result is left."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def write_released(path: Path, module: nn.Module, guarantee: Guarantee) -> None:
    """Write a module's state as safetensors with its guarantee in the header.

    Args:
        path: where to; replaced when it exists.
        module: what is released; tied weights are written once for each name.
        guarantee: what is claimed of it.
    """
    state: dict[str, Any] = {
        key: value.detach().cpu().contiguous().clone() for key, value in module.state_dict().items()
    }
    write_whole(path, save(state, {"guarantee": json.dumps(guarantee.to_json())}))
