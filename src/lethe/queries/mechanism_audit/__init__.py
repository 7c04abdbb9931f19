"""Lower limits on the epsilon, rho or mu of a mechanism that is run as a black box.

`neighbours` says on which inputs, `runs` runs the mechanism and reads what it gave back,
`statistics` learns what tells both inputs apart, `bounds` bounds it on other runs, and `audit`
joins them and writes the findings.
"""
