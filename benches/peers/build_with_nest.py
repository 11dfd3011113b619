"""Builds hosts and links with NeST, prints how many seconds that took, and removes them.

Usage, as root in namespaces of its own: build_with_nest.py links|star NUMBER.
"""

import sys
import time

from nest import config
from nest.topology import Node, Switch, connect

config.set_value("log_level", "ERROR")


def parallel_links(n: int) -> None:
    """Two hosts and `n` links, each with a subnet."""
    ends = [Node(name) for name in ("client", "server")]
    for i in range(n):
        for me, interface in enumerate(connect(*ends), start=1):
            interface.set_address(f"10.1.{i}.{me}/24")


def star(n: int) -> None:
    """`n` hosts on a bridge, in one subnet."""
    hub = Switch("hub")
    for i in range(n):
        interface, _ = connect(Node(f"h{i}"), hub)
        interface.set_address(f"10.1.0.{i + 1}/24")


def main(shape: str, n: int) -> None:
    begun = time.perf_counter()
    {"links": parallel_links, "star": star}[shape](n)
    print(time.perf_counter() - begun)
    # NeST removes everything when the interpreter ends.


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
