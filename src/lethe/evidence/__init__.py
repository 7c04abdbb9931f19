"""The words every room speaks: estimates, rates, guarantees, candidates, rules, findings."""
