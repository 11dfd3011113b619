"""``python -m mptcplab``: the command line, where the program ``mptcplab`` is not on the path."""

from mptcplab.cli import main

main()
