"""Policy routing of this machine (Barreira 2014, section 5.3): for each interface a rule, a table
and an MPTCP endpoint, as it comes, changes and goes.

`machine.py` reads what is there, `plan.py` decides what should be, `changes.py` makes it so,
`daemon.py` repeats that at every event, and `installation.py` writes the files that start it.
"""
