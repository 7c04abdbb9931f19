"""One release of the mechanism: one draw, in one file to hand out with its label."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.evidence.guarantee import Guarantee
from lethe.files import write_whole
from lethe.mitigations.swag_release.mechanism import Mechanism, swag_ppm
from lethe.mitigations.swag_release.records import Inputs, Logits, ReleaseSettings, model_logits
from lethe.mitigations.swag_release.training import Progress
from lethe.training.shards import tensor_bytes

FORMAT = "lethe-released-draw-1"


@dataclass(frozen=True)
class ReleasedDraw:
    """The released draw and where it lies."""

    file: Path  # to hand out
    mechanism: Mechanism  # what the six steps came to; private but for its module

    @property
    def module(self) -> nn.Module:
        """A copy of the module with the weights of the released draw."""
        return self.mechanism.module

    @property
    def guarantee(self) -> Guarantee:
        """What may be said of the release."""
        return self.mechanism.guarantee


def release_draw(
    module: nn.Module,
    inputs: Inputs,
    truth: ArrayLike | Tensor,
    settings: ReleaseSettings,
    file: str | Path,
    *,
    seed: int = 0,
    logits: Logits = model_logits,
    progress: Progress | None = None,
) -> ReleasedDraw:
    """Run the six steps of `swag_ppm` and write the draw that may leave.

    The noise of the draw is a secret of 128 bits that is kept nowhere, so that another call gives
    another draw, which costs another epsilon.

    Guarantee:
        Asymptotic, an estimate on the observed records and on few draws; never a proof.

    Assumes:
        The file alone leaves, and no other call was or is made about these records.

    Args:
        module: as in `swag_ppm`, like what is not named here.
        inputs: private inputs.
        truth: private classes.
        settings: what to do.
        file: to be written, .safetensors; it may not exist yet.
        seed: of training and measuring.
        logits: (module, batch) -> (B, C) scores.
        progress: is told (step, done, of).

    Raises:
        InputError: as `swag_ppm`; or the file exists.
        RunFailed: the file cannot be written.
    """
    file = Path(file)
    if file.exists():
        raise InputError(
            f"{file} exists. A second draw costs a second epsilon: count both, and name another "
            "file."
        )
    mechanism = swag_ppm(module, inputs, truth, settings, seed, logits=logits, progress=progress)
    _write(file, mechanism, settings)
    return ReleasedDraw(file, mechanism)


def _write(path: Path, mechanism: Mechanism, settings: ReleaseSettings) -> None:
    """The drawn parameters in float32, and the label in the header."""
    estimate, response = mechanism.estimate, mechanism.response
    label: dict[str, Any] = {
        "weighting": settings.weighting,
        "estimated_local_epsilon": estimate.epsilon,
        "relation": estimate.relation,
        "draws": estimate.draws,
        "growth": list(estimate.growth),
        "loss_floor": settings.floor,
        "loss_bound": estimate.bounded,
        "scale_response": None if response is None else asdict(response),
        "delta": None,
    }
    header = {
        "format": FORMAT,
        "guarantee": json.dumps(mechanism.guarantee.to_json()),
        "release": json.dumps(label, allow_nan=False),
    }
    drawn = {
        name: value.detach().float().cpu().contiguous().numpy()
        for name, value in mechanism.module.named_parameters()
        if value.requires_grad
    }
    write_whole(path, tensor_bytes(drawn, header))
