"""Per-example gradient clipping: the sum that differentially private training adds noise to.

`plan_clipping` tests the clipping bound on the user's own model and takes the fastest way that
keeps it; `ClippingPlan.clipped_sum` is then called once a step.
"""

from __future__ import annotations

from lethe.mitigations.clipping.plan import WAYS, ClippingPlan, plan_clipping
from lethe.mitigations.clipping.selfcheck import MOST_CHANGE, SelfCheck

__all__ = ["MOST_CHANGE", "WAYS", "ClippingPlan", "SelfCheck", "plan_clipping"]
