"""Experiments: descriptions, their families, and the resolved form that back-ends read.

`Experiment` is a description as a Python object. `members(path)` lists the experiments of a
description file. `Member.resolve()` and `resolve(experiment)` return the resolved form.
"""

from mptcplab.experiment.description import Experiment, Published
from mptcplab.experiment.events import Event, Handover, Sequence
from mptcplab.experiment.family_metrics import FamilyMetric
from mptcplab.experiment.flows import (
    App,
    Bulk,
    Cbr,
    Flow,
    Iperf3,
    PathManager,
    Probe,
    RequestResponse,
    ShortFlows,
    Streaming,
    Video,
)
from mptcplab.experiment.hosts import Behaviour, Host, Interface, NetworkNode
from mptcplab.experiment.inject import parse_action, parse_actions
from mptcplab.experiment.links import GilbertElliott, Link, Loss, Medium, Queue
from mptcplab.experiment.load import Member, load, members
from mptcplab.experiment.measure import Measure, ProbeSettings, Vary
from mptcplab.experiment.middleboxes import Middlebox
from mptcplab.experiment.resolve import Resolved, resolve
from mptcplab.experiment.schema import json_schema

__all__ = [
    "App",
    "Behaviour",
    "Bulk",
    "Cbr",
    "Event",
    "Experiment",
    "FamilyMetric",
    "Flow",
    "GilbertElliott",
    "Handover",
    "Host",
    "Interface",
    "Iperf3",
    "Link",
    "Loss",
    "Measure",
    "Medium",
    "Member",
    "Middlebox",
    "NetworkNode",
    "PathManager",
    "Probe",
    "ProbeSettings",
    "Published",
    "Queue",
    "RequestResponse",
    "Resolved",
    "Sequence",
    "ShortFlows",
    "Streaming",
    "Vary",
    "Video",
    "json_schema",
    "load",
    "members",
    "parse_action",
    "parse_actions",
    "resolve",
]
