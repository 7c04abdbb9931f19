"""Lower limits on the epsilon, rho or mu of a mechanism that is run as a black box.

`neighbours` says on which inputs, `runs` runs the mechanism, `encode` writes down exactly what left
it, `events` learns what tells both inputs apart, `bounds` bounds it on other runs, and `audit`
joins them and writes the findings.
"""
