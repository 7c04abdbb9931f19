"""Releasing a model: was this record in the training set?

Throughout: K shadow models, N records, T given targets. `signals` (K, N) are phi, finite, higher =
better known; `members` (K, N) true membership; `pairs` (K,) the label of each model's complementary
pair; `people` (N,) the person of each record; `scored` (K, N) the cells that count; scores (K, N)
float64, higher = member, NaN where not scored; `phi` (N,) one target's signals; `confidence`
two-sided, in (0, 1); `fpr` the rate a TPR is read at, None for the AUC.
"""
