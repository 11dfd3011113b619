"""Tests TCP over a cellular link in the simulator: a deep queue delays, and nothing is lost before it is full."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from mptcplab.interactive import load, run

pytest.importorskip("mptcplab._core")

BULK = """
name: bloat
duration: 12s
hosts: {phone: {rcvbuf: 16MiB, sndbuf: 16MiB}, server: {rcvbuf: 16MiB, sndbuf: 16MiB}}
links:
  lte: {between: [phone.wwan0, server.eth0], cellular: {rate: 9mbit, uplink_rate: 9mbit}, delay: 26ms}
flows:
  bulk: {from: server, to: phone, transport: tcp, cc: cubic, app: bulk}
"""
