"""Weights of single records that come from held-out records, settled once for a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lethe.errors import InputError
from lethe.membership.settings import AuditSettings
from lethe.membership.threads import on_one_thread
from lethe.training.folder import RunFolder, SettledRun
from lethe.training.recipe import TorchRecipe
from lethe.training.shadows import Spec

_FILE = "public-weights.safetensors"


@on_one_thread
def settled_public_weights(
    folder: RunFolder, spec: Spec, settings: AuditSettings
) -> NDArray[np.float32]:
    """(N,) weights of `public_weights`, computed by the first run and read by all later ones.

    Settled, because other processors give other last digits and the guarantee names the weights
    that were trained with.

    Args:
        folder: of the run.
        spec: of the baseline.
        settings: give alpha, beta and the seed.

    Raises:
        InputError: too few held-out records, or, beside a run, weights that are not settled yet.
    """
    from lethe.mitigations.dp_sgd.public_weights import public_weights

    name, path = spec.hash(), folder.path / _FILE
    known = _read(path, name, len(spec.labels))
    if known is not None:
        return known
    if isinstance(folder, SettledRun):
        raise InputError(
            f"{path} is not there: run the audit's own command once more with --engine by-hand."
        )
    assert isinstance(spec.recipe, TorchRecipe)
    made = public_weights(
        np.asarray(spec.features),
        spec.labels,
        spec.pool,
        spec.recipe,
        seed=settings.seed,
        alpha=settings.alpha,
        beta=settings.beta,
    )
    folder.write(path.name, save({"weights": made}, {"spec": name}))
    return made


def _read(path: Path, spec: str, records: int) -> NDArray[np.float32] | None:
    """The weights, if they are there and this spec's."""
    try:
        with safe_open(path, "numpy") as file:
            fits = (file.metadata() or {}).get("spec") == spec
            found: NDArray[np.float32] = file.get_tensor("weights")
    except (OSError, SafetensorError):
        return None
    return found if fits and found.shape == (records,) and found.dtype == np.float32 else None
