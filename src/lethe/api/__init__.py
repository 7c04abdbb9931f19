"""An audit in one line of Python: what is in memory goes in, findings come out.

All of them take a `name` for the report, `out`, a folder of the run (by default
``lethe-runs/NAME-HASH``), ``save=False`` to leave nothing behind, `quiet`, and the settings of
their kind as keyword arguments; where several values are taken, one will do. The same call again
goes on where it was stopped. All raise InputError, which names the value, the rule and the way out,
and RunFailed where a worker died or the disk is full.
"""
