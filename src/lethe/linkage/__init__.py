"""Which released row is this person's? Linkage, singling out and anonymity of released rows.

Throughout: `confidence` in (0, 1) of each interval; `times` (rows,) how many equal rows each row
stands for, None = one each; of synthetic rows `original` are those they were made from and
`control` rows from the same source that were not used.
"""
