"""How the models of a torch recipe are trained: which way, how many at once, where, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from lethe.errors import check_between
from lethe.training.recipe import TorchRecipe

if TYPE_CHECKING:
    from lethe.training.folder import RunFolder
    from lethe.training.shadows import Spec

DEFAULT_WIDTH = 16
PER_GPU = 2
"""Processes that share a GPU: while one is dealing batches, the other keeps it busy."""


@dataclass(frozen=True)
class Layout:
    """One way to train many models of one recipe.

    Attributes:
        kind: ``chain`` (layers with a written-out backward pass), ``vmap`` (any module, all
            models in one pass of autograd) or ``alone`` (one model after another by autograd).
        width: models trained at once, at most.
        device: where, ``cpu`` or ``cuda``.
        images_last: whether `alone` lays images out channels-last; `chain` always does.
        why: in a few words.
    """

    kind: str
    width: int = DEFAULT_WIDTH
    device: str = "cpu"
    images_last: bool = False
    why: str = ""

    def workers(self, most: int) -> int:
        """How many of at most so many processes train side by side; few share a GPU."""
        return min(most, PER_GPU) if self.device == "cuda" else most

    def to_json(self) -> dict[str, Any]:
        """Plain values for the manifest."""
        return asdict(self)

    @classmethod
    def from_json(cls, settled: Mapping[str, Any]) -> Layout:
        """The layout that a manifest holds, among other figures of its calibration."""
        return cls(**{field.name: settled[field.name] for field in fields(cls)})


def default_layout(recipe: TorchRecipe) -> Layout:
    """The layout that the structure of the module alone suggests.

    Written-out layers where the module is a plain chain of them: many small models at once, but
    convolutions one model at a time. One by one otherwise.
    """
    from torch import nn

    from lethe.training.modules import build_module
    from lethe.training.networks.chain import why_no_chain

    module = build_module(recipe.make_module, 0)
    reason = why_no_chain(module)
    if reason is None and recipe.precision == "bfloat16":
        reason = "written-out layers compute in float32"
    if reason is not None:
        return Layout("alone", 1, why=reason)
    if any(isinstance(part, nn.Conv2d) for part in module.modules()):
        return Layout("chain", 1, why="a convolution of one model keeps a core busy")
    return Layout("chain", why="small matrix products gain by being stacked")


def settled_layout(
    folder: RunFolder, spec: Spec, workers: int, memory: float | None = None
) -> Layout | None:
    """How a run trains its models: tried out once, in a worker process, and kept in the manifest.

    Args:
        folder: an open run folder.
        spec: recipe and data.
        workers: processes that will train side by side.
        memory: GiB that all of them may take together; half of the machine's by default.

    Returns:
        None for a recipe that is no torch module.

    Raises:
        InputError: `memory` is not above 0.
    """
    if memory is not None:
        check_between("memory", memory, 0, float("inf"), open_low=True)
    recipe = spec.recipe
    if not isinstance(recipe, TorchRecipe):
        return None
    if "layout" not in folder.manifest:
        from lethe.training.calibrate import Trial, calibrate, half_of_memory
        from lethe.training.engines import run_in_processes

        limit = half_of_memory() if memory is None else int(memory * 2**30)
        trial = Trial(recipe, spec.features, spec.labels, spec.pool, spec.seed, workers, limit)
        (found,) = run_in_processes([trial], calibrate, workers)
        folder.settle("layout", found)
    return Layout.from_json(folder.manifest["layout"])
