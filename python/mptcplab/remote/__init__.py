"""Other machines: how a program there is started, and how its standard input and output are
reached.

No other module depends on where a program runs. None of this prints.
"""
