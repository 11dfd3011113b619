"""Builds hosts and links with Mininet, prints how many seconds that took, and removes them.

Usage, as root in namespaces of its own: build_with_mininet.py links|star NUMBER.
"""

import sys
import time

from mininet.net import Mininet
from mininet.nodelib import LinuxBridge


def parallel_links(net: Mininet, n: int) -> None:
    """Two hosts and `n` links, each with a subnet."""
    ends = [net.addHost(name, ip=None) for name in ("client", "server")]
    for i in range(n):
        addresses = [{"ip": f"10.1.{i}.{me}/24"} for me in (1, 2)]
        net.addLink(*ends, params1=addresses[0], params2=addresses[1])


def star(net: Mininet, n: int) -> None:
    """`n` hosts on a bridge, in one subnet."""
    hub = net.addSwitch("s1", inNamespace=True)
    for i in range(n):
        net.addLink(net.addHost(f"h{i}", ip=f"10.1.0.{i + 1}/24"), hub)


def main(shape: str, n: int) -> None:
    begun = time.perf_counter()
    net = Mininet(switch=LinuxBridge, controller=None)
    {"links": parallel_links, "star": star}[shape](net, n)
    net.start()
    print(time.perf_counter() - begun)
    net.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
