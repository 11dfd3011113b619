"""Tests the machines of hosts in a description."""

from __future__ import annotations

import pytest
from mptcplab import consent
from mptcplab.errors import SpecError
from mptcplab.experiment import Experiment, resolve
from mptcplab.resolved_versions import SCHEMA, VERSION_2, in_earliest_version, upgraded
from mptcplab.results import digest

SPLIT = """
name: split
machines: {lab2: {at: ssh://root@192.0.2.7}, lab3: {at: 'exec:docker exec -i c1', address: fd00::3}}
hosts: {client: {}, server: {on: lab2}, other: {on: lab3}}
links:
  one: {between: [client.eth0, server.eth0], rate: 1mbit}
  two: {between: [client.eth1, other.eth0], rate: 1mbit}
flows: {bulk: {from: client, to: server}}
"""


def resolved(text: str = SPLIT) -> dict[str, object]:
    return resolve(Experiment.from_yaml(text)).data


def test_each_host_has_its_machine() -> None:
    machines = {host["id"]: host["machine"] for host in resolve(Experiment.from_yaml(SPLIT)).data["hosts"]}
    assert machines == {
        "client": None,
        "server": {"id": "lab2", "at": "ssh://root@192.0.2.7", "address": None},
        "other": {"id": "lab3", "at": "exec:docker exec -i c1", "address": "fd00::3"},
    }


def test_only_experiments_with_machines_have_another_digest() -> None:
    whole = SPLIT.replace("server: {on: lab2}", "server: {}").replace("other: {on: lab3}", "other: {}")
    whole = "\n".join(line for line in whole.splitlines() if not line.startswith("machines"))
    split, alone = resolved(), resolved(whole)
    assert in_earliest_version(split)["schema"] == SCHEMA
    assert in_earliest_version(alone)["schema"] != SCHEMA
    assert digest(split) != digest(alone)
    assert upgraded(in_earliest_version(split)) == split
    assert upgraded(in_earliest_version(alone)) == alone
    assert VERSION_2 != SCHEMA


def test_reaching_a_machine_needs_consent_in_real_time() -> None:
    found = consent.brought_by(resolved(), in_real_time=True)
    assert [str(one) for one in found] == [
        "machines.lab2: ssh://root@192.0.2.7",
        "machines.lab3: exec:docker exec -i c1",
    ]
    assert consent.brought_by(resolved(), in_real_time=False) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{on: lab2}", "{on: lab4}", "unknown machine 'lab4'"),
        ("{on: lab2}", "{}", "machines.lab2: no host is on it; allowed: a host with on: lab2"),
        (", address: fd00::3", "", "machines.lab3: the machine has no address"),
        ("fd00::3", "lab3.example", "invalid address 'lab3.example'"),
        ("ssh://root@192.0.2.7", "docker:lab2", "machines.lab2.at: 'docker:lab2' is not a machine"),
        ("fd00::3", "0.0.0.0", "invalid address '0.0.0.0'"),
        ("fd00::3", "224.0.0.1", "invalid address '224.0.0.1'"),
        ("'exec:docker exec -i c1'", '"exec:\'x"', "machines.lab3.at: No closing quotation; allowed: a command line"),
        ("exec:docker exec -i c1", "exec:", "machines.lab3.at: no command; allowed: a command line"),
        ("lab3: {at", "lab2: {at", "lab2"),
    ],
)
def test_a_machine_that_means_nothing_is_refused_in_one_line(old: str, new: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        resolved(SPLIT.replace(old, new))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
