"""The time line of a cluster: leaders, ISR changes, rebalances, errors that clients were sent,
faults and dead nodes, for the report of a failed test.

`recorder.py` keeps events, `observer.py` takes them from the nodes, `errors.py` finds errors in
answers, `report.py` is the part of the pytest plugin.
"""
