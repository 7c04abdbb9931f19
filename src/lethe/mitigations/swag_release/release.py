"""One release in a folder: resumable, one draw, one file to hand out with its label."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.evidence.guarantee import Guarantee, from_seeded_noise, noise_seed
from lethe.files import write_for_owner, write_whole
from lethe.mitigations.swag_release.mechanism import Mechanism, swag_ppm
from lethe.mitigations.swag_release.records import (
    Inputs,
    Logits,
    Records,
    ReleaseSettings,
    model_logits,
)
from lethe.mitigations.swag_release.training import FolderCheckpoints, Progress
from lethe.training.fingerprint import hash_value
from lethe.training.folder import lock_folder
from lethe.training.shards import tensor_bytes

FORMAT = "lethe-released-draw-1"

_STATE_FORMAT = "lethe-release-state-1"
_STATE = "state.json"


@dataclass(frozen=True)
class ReleasedDraw:
    """The released draws and where they lie.

    Attributes:
        files: the files to hand out, one a draw; nothing else of the folder may leave.
    """

    files: tuple[Path, ...]
    mechanism: Mechanism  # what the six steps came to

    @property
    def module(self) -> nn.Module:
        """A copy of the module with the weights of the first released draw."""
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
    folder: str | Path,
    *,
    seed: int = 0,
    draw_seed: int | None = None,
    logits: Logits = model_logits,
    progress: Progress | None = None,
) -> ReleasedDraw:
    """Run the six steps of `swag_ppm` in a folder and write the draw that may leave.

    The same call goes on where it was killed, with the same bytes at the end, and gives the same
    draw when all is done. Another draw costs another epsilon, and is refused unless `releases`
    asked for it at the first call.

    Guarantee:
        Asymptotic, an estimate on the observed records and on few draws; never a proof.

    Assumes:
        Only ``released-*.safetensors`` leaves. The folder ``private`` beside it holds weights,
        risks and the seed of the draw.

    Args:
        module: as in `swag_ppm`, like what is not named here.
        inputs: private inputs.
        truth: private classes.
        settings: what to do.
        folder: of this release; new or empty at the first call.
        seed: of training and measuring.
        draw_seed: of the released draw; by default 128 secret bits, kept in the folder.
        logits: (module, batch) -> (B, C) scores.
        progress: is told (step, done, of).

    Raises:
        InputError: as `swag_ppm`; or the folder was begun with something else, which is named.
        RunFailed: the folder cannot be written.
    """
    place = Path(folder)
    if place.is_dir() and not (place / "private").exists() and any(place.iterdir()):
        raise InputError(f"{place} holds other files; name an empty folder.")
    first = next(module.parameters(), None)
    if first is None:
        raise InputError("the module has no parameters.")
    records = Records(inputs, truth, first.device)
    live = {name: parameter.requires_grad for name, parameter in module.named_parameters()}
    kinds = {name: type(part) for name, part in module.named_modules()}
    state = {name: value.detach().clone() for name, value in module.state_dict().items()}
    terms = {  # what the released bytes depend on
        "records": records.fingerprint(),
        "weights": hash_value(state),
        "module": hash_value([str(module), live, kinds]),
        "logits": hash_value(logits),
        "seed": seed,
        "draw_seed": None if draw_seed is None else str(draw_seed),
        "draw_seed_given": None if draw_seed is None else True,
        **asdict(settings),
    }
    fresh = {"draw_seed": str(noise_seed(None)), "draw_seed_given": False}
    with private_folder(place / "private", terms, fresh) as known:
        mechanism = swag_ppm(
            module,
            inputs,
            truth,
            settings,
            seed,
            draw_seed=int(known["draw_seed"]),
            logits=logits,
            progress=progress,
            checkpoints=FolderCheckpoints(place / "private"),
        )
        # The folder's own secret is given to the mechanism too, and is a secret all the same.
        label = from_seeded_noise(mechanism.guarantee, given=bool(known["draw_seed_given"]))
        mechanism = replace(mechanism, guarantee=label)
        files = [
            _write(place / f"released-{number + 1}.safetensors", draw, number, mechanism, settings)
            for number, draw in enumerate(mechanism.draws)
        ]
    return ReleasedDraw(tuple(files), mechanism)


def _write(
    path: Path, draw: Mapping[str, Tensor], number: int, mechanism: Mechanism, of: ReleaseSettings
) -> Path:
    """One released file: the drawn parameters in float32, and the label in its header."""
    estimate, response = mechanism.estimate, mechanism.response
    label: dict[str, Any] = {
        "draw": number + 1,
        "releases": of.releases,
        "weighting": of.weighting,
        "estimated_local_epsilon": estimate.epsilon,
        "relation": estimate.relation,
        "draws": estimate.draws,
        "growth": list(estimate.growth),
        "loss_floor": of.floor,
        "loss_bound": estimate.bounded,
        "scale_response": None if response is None else asdict(response),
        "delta": None,
    }
    header = {
        "format": FORMAT,
        "guarantee": json.dumps(mechanism.guarantee.to_json()),
        "release": json.dumps(label, allow_nan=False),
    }
    # Counters, which only training reads, are no part of the draw.
    solid = {
        name: value.float().cpu().contiguous().numpy()
        for name, value in draw.items()
        if value.is_floating_point()
    }
    write_whole(path, tensor_bytes(solid, header))
    return path


@contextlib.contextmanager
def private_folder(
    folder: Path, asked: Mapping[str, Any], fresh: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Open or begin the folder of one release, held by one process at a time.

    Args:
        folder: created if absent.
        asked: what the release depends on, plain values; the first call writes it, and every
            later one must ask for the same.
        fresh: what stands at the first call for values of `asked` that are None; later calls
            may leave these None, which means: as it was at the first call.

    Yields:
        What was asked at the first call.

    Raises:
        InputError: the folder holds another release or other files, or is in use.
        RunFailed: it cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"folder={str(folder)!r} is a file; name a folder.")
    file = folder / _STATE
    if folder.is_dir() and not file.exists():
        kept = r"\.lock|\..*\.part"  # by a first call that was killed
        names = [entry.name for entry in folder.iterdir()]
        foreign = [name for name in names if not re.fullmatch(kept, name)]
        if foreign:
            raise InputError(
                f"{folder} holds {foreign[0]!r} but no {_STATE}, so it is no release; "
                "name an empty folder."
            )
    # Only the owner may read what is in here.
    lock = lock_folder(folder, "name another folder", private=True)
    try:
        for left in folder.glob(".*.part"):
            left.unlink()
        if not file.exists():
            settled = {n: fresh.get(n) if v is None else v for n, v in asked.items()}
            text = json.dumps({"format": _STATE_FORMAT, "asked": settled}, indent=1)
            write_for_owner(file, text.encode() + b"\n")
        yield _same(file, asked, fresh)
    finally:
        os.close(lock)


def _same(file: Path, asked: Mapping[str, Any], fresh: Mapping[str, Any]) -> dict[str, Any]:
    try:
        state = json.loads(file.read_bytes())
        known = dict(state["asked"])
        right = state["format"] == _STATE_FORMAT
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{file} is damaged ({error!r}); begin in a new folder.") from error
    if not right:
        raise InputError(f"{file} is of another version; begin in a new folder.")
    plain = json.loads(json.dumps(dict(asked)))
    differ = [
        name if name in fresh else f"{name} ({_short(known.get(name))} there, {_short(value)} now)"
        for name, value in plain.items()
        if known.get(name) != value and not (name in fresh and value is None)
    ]
    if differ:
        raise InputError(
            f"{file.parent} holds another release; it differs in {', '.join(differ)}. A second "
            "draw costs a second epsilon: ask for it beforehand with releases=2, or begin anew "
            "in another folder and count both."
        )
    return known


def _short(value: Any) -> str:
    text = str(value)
    return text[:8] if re.fullmatch(r"[0-9a-f]{64}", text) else text
