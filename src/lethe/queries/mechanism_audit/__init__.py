"""Lower limits on the epsilon, rho or mu of a mechanism that is run as a black box.

`neighbours` says on which inputs, `trials` runs the mechanism, `outcomes` reads what it gave back,
`statistics` learns what tells both inputs apart, `bounds` bounds it on other runs, `reuse` looks at
successive answers, `reach` says what so many runs can show, `audit` joins them, and `document`
writes the findings.
"""
