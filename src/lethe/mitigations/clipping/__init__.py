"""Per-example gradient clipping: the sum that differentially private training adds noise to.

`plan_clipping` tests the clipping bound on the user's own model and takes the fastest way that
keeps it; `ClippingPlan.clipped_sum` is then called once a step.

Not by book-keeping but one gradient an example (`vmap`, else a loop; the plan says why): attention
and recurrent layers of torch itself, layers called with examples in a later dimension than the
first, weights that are computed from others, and layers whose output is then changed in place.
"""
