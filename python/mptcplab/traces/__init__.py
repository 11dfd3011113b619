"""Traces of links: capacity, delay and loss over time, in the formats in which they are recorded.

`library` finds them, `formats` reads and writes them, `model` has them in memory.
"""
