"""The analysis of captures."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import MPTCPLAB, ROOT, Figure, alone, printed

#: Options that take part in the analysis of a capture, as tshark calls them.
TSHARK_FIELDS = (
    *("frame.number", "frame.time_relative", "tcp.stream", "mptcp.stream", "tcp.seq_raw", "tcp.ack_raw", "tcp.len"),
    *(f"tcp.options.mptcp.{name}" for name in ("rawdataseqno", "rawdataack", "datalvllen")),
)


#: Prints packets, seconds of the full analysis, and the most memory of the process in kB.
EXPLAIN = """
import json, resource, sys, time
from mptcplab import _core
def once():
    captures = _core.Captures([sys.argv[1]])
    begun = time.perf_counter()
    while captures.advance(1 << 20):
        pass
    return time.perf_counter() - begun, json.loads(captures.summary())["frames"]["frames"]
seconds, frames = min(once() for _ in range(5))
print(frames, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


PAGE = """
import pathlib, sys, time
from mptcplab.captures import explain
from mptcplab.report.capture import capture_page
series = pathlib.Path(sys.argv[2])
document = explain([pathlib.Path(sys.argv[1])], series=series)
begun = time.perf_counter()
capture_page(document, series)
print(time.perf_counter() - begun)
"""


def pcap() -> dict[str, Figure]:
    """Explaining a capture of seven subflows, 385,000 packets; the peer is tshark writing ten
    fields of each.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run(
            [MPTCPLAB, "run", ROOT / "benches" / "seven-subflows.yaml", "--out", folder, "--json"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        [whole] = folder.rglob("client.eth0.pcapng")
        capture, rows = folder / "capture.pcapng", folder / "rows.parquet"
        subprocess.run(["editcap", "-s", "128", whole, capture], check=True)
        frames, seconds, kilobytes = map(float, printed(sys.executable, "-c", EXPLAIN, capture).split())
        page_s = float(printed(sys.executable, "-c", PAGE, capture, rows))
        tshark = ["tshark", "-r", capture, "-T", "fields", *(word for name in TSHARK_FIELDS for word in ("-e", name))]
        begun = time.perf_counter()
        subprocess.run(tshark, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tshark_s = time.perf_counter() - begun
    peer = {"peer": "tshark", "peer_value": frames / tshark_s / 1e6}
    return {
        "pcap": {"value": frames / seconds / 1e6, "unit": "M packets/s", "limit": 3, **peer},
        "pcap-memory": alone(kilobytes / 1000, "MB", 50),
        "pcap-page": alone(page_s, "s", 2),
    }
