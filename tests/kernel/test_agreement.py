"""Tests the comparison of the simulator with the kernel through the program."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from command_line import mptcplab
from documentation import ROOT
from measured import program_unless_busy

pytestmark = pytest.mark.kernel

TWO_PATHS = """
name: two-paths
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 8mbit, delay: 10ms}
  lte: {between: [phone.wwan0, server.eth1], rate: 4mbit, delay: 20ms}
flows:
  file: {from: server, to: phone, opened_by: to, transport: mptcp, app: {bulk: {}}, primary: wifi}
duration: 2s
"""


def test_back_ends_are_held_against_each_other_and_the_kernel_against_itself(tmp_path: Path) -> None:
    (tmp_path / "two-paths.yaml").write_text(TWO_PATHS)
    options = ("compare", "two-paths.yaml", "--on", "sim,kernel", "--repeat", "4", "--band", "0.3")
    ended = program_unless_busy(*options, "--json", cwd=tmp_path)
    assert ended.status == 0, ended.err
    schema = json.loads((ROOT / "docs" / "schemas" / "summary.json").read_text(encoding="utf-8"))
    jsonschema.validate(ended.document, schema)
    agreement = ended.document["agreement"]
    goodput = next(entry for entry in agreement["metrics"] if entry["metric"] == "goodput_bps")
    assert (agreement["reference"], goodput["n"], goodput["reference_n"]) == ("kernel", 4, 4)
    assert goodput["verdict"] == "equivalent"
    assert goodput["provisional"]
    assert goodput["self_ci90"][0] <= goodput["self_ci90"][1]
    assert [entry["link"] for entry in agreement["shares"]] == ["wifi", "lte"]
    assert "Agreement with kernel" in (tmp_path / "comparison.html").read_text(encoding="utf-8")
    again = mptcplab(*options, cwd=tmp_path)
    assert "kernel against itself" in again.out
    assert "equivalent, provisional" in again.out
