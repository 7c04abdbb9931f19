"""The SWAG pseudo-posterior mechanism: six steps to one released draw of a model.

`release_draw` works in a folder, where a killed run goes on; `swag_ppm` is the same in memory.
"""

from __future__ import annotations

from lethe.mitigations.pseudo_posterior import ScaleResponse, scale_response
from lethe.mitigations.swag_release.mechanism import Mechanism, swag_ppm
from lethe.mitigations.swag_release.records import ReleaseSettings, model_logits
from lethe.mitigations.swag_release.release import ReleasedDraw, read_release, release_draw

__all__ = [
    "Mechanism",
    "ReleaseSettings",
    "ReleasedDraw",
    "ScaleResponse",
    "model_logits",
    "read_release",
    "release_draw",
    "scale_response",
    "swag_ppm",
]
