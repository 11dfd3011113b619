"""The live page: a run that a browser watches and changes.

The thread that drives the run calls `watching`, which puts what happens into a `feed` and carries
out what viewers ask for. A server (`serving`) in another thread passes the feed on and takes
requests (`live`), which only reach it through a `gate`.
"""
