"""The compiled part of mptcplab: the simulator, the tables of a run, and the fluids of congestion controls."""

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address
from os import PathLike
from pathlib import Path
from typing import Any, final

_Classes = Mapping[str, Mapping[str, Callable[[str, object], object]]]

__version__: str

def features() -> list[tuple[str, list[tuple[str, str | None]]]]:
    """(feature, [(back-end, why it lacks the feature)]); None where it is there."""

def capabilities() -> list[tuple[str, bool, str]]:
    """(feature, whether the simulator has it, why not) for all that can be asked for, as in "transport udp"."""

def check(resolved: str, classes: _Classes = {}) -> list[tuple[str, str]]:
    """(feature, why) for all that the simulator cannot do, [] if it can run it.

    ``classes`` make a user's own algorithms, by the field that names them and their name there.

    ValueError if the JSON is not of the schema.
    """

_Parameter = tuple[str, str, str, str, str]

SCHEMA: str
"""Name and version of the resolved form."""

def resolved_schema() -> str:
    """The JSON Schema (2020-12) of the resolved form, as JSON."""

def behaviours() -> str:
    """The presets of behaviours, as JSON: a list of behaviours in the resolved form."""

def usual_host(name: str) -> str:
    """The host with this id that experiments mean by leaving out all else, as JSON in the resolved form."""

def algorithms() -> list[tuple[str, str, list[str], str, str, list[_Parameter]]]:
    """The engine's algorithms.

    Each is (field of a flow, name, aliases, summary, source, parameters); a parameter is (name, unit, allowed values,
    default, meaning).
    """

def check_parameters(kind: str, algorithm: str, parameters: str) -> tuple[str, str, str] | None:
    """What is wrong with the parameters (JSON) of an algorithm: (parameter, found, allowed), None if nothing is.

    ValueError if it is not the JSON of an object.
    """

def most_payload_over_wifi_bps(network: str, payload_bytes: int, header_bytes: int) -> dict[str, int]:
    """The largest rate of payload in bit/s in one direction of each station that has the air for itself, by link.

    ``network`` is an access network of kind ``wifi`` in the resolved form (JSON). Packets have ``payload_bytes`` behind
    ``header_bytes`` of IP and transport. ValueError if the network is of another form.
    """

def why_no_fluid(control: str, parameters: str = "{}") -> str | None:
    """Why a congestion control with these parameters (JSON) has no fluid, None if it has one.

    ValueError if it does not take the parameters.
    """

def equilibrium(control: str, paths: list[tuple[float, float]], parameters: str = "{}") -> list[float]:
    """The windows in packets at which a congestion control settles as a fluid, one for each path.

    A path is (loss rate, round-trip time in seconds). ValueError if the control has no fluid or does not take the
    parameters (JSON), and for a path without loss.
    """

@final
class Captures:
    """Captures made at one place, read step by step: a file, or one for each interface of a host."""

    def __init__(self, files: list[Path], series: Path | None = None) -> None:
        """Opens them; ``series`` is a Parquet file that gets a row for every TCP packet.

        OSError if a file cannot be read or written, ValueError if one is no capture.
        """

    def advance(self, frames: int) -> bool:
        """Read so many frames; False when there are no more. OSError if a file cannot be read or written."""

    @property
    def bytes_read(self) -> int:
        """Bytes read of the files."""

    def summary(self) -> str:
        """What is known by now (JSON, mptcplab/pcap/1)."""

    def decode(self, number: int) -> str | None:
        """The packet of that number, which lies ahead, with its options (JSON); None if it is none of TCP.

        OSError if a file cannot be read.
        """

    def finish(self) -> None:
        """Write the rest of the series. OSError if it cannot be written."""

def one_way(here: list[Path], there: Path) -> str:
    """What captures of one end and the capture of the other say together (JSON).

    OSError if a file cannot be read, ValueError if one is no capture or they have nothing in common.
    """

class Run:
    """A run of a resolved experiment."""

    @property
    def now_ns(self) -> int:
        """The present instant of the run."""

    def advance(self, until_ns: int) -> bool:
        """Carry out everything before ``until_ns``; True when the run has ended.

        OSError if a table cannot be written.
        """

    def inject(self, action: str) -> str:
        """Carry out an action (JSON) now; the event as recorded (JSON).

        Keys: id, parent, asked_ns, actual_ns, injected, action.
        """

    def latest(self) -> dict[str, dict[str, float]]:
        """Entity to metric to value, as of the last sample."""

    def events(self, since: int = 0) -> str:
        """The events that have happened, in order and without the first ``since`` (JSON), each as by ``inject``."""

    def finish(self) -> str:
        """End the run where it is, write the Parquet files, remove the streams; the summary (JSON)."""

@final
class Simulation(Run):
    """A run of the simulator with one seed."""

    def __init__(
        self,
        resolved: str,
        seed: int,
        directory: str | PathLike[str],
        event_queue: str | None = None,
        classes: _Classes = {},
    ) -> None:
        """A run at time 0; creates samples.csv and units.csv in ``directory``.

        ``classes`` make a user's own algorithms, by the field that names them and their name there.
        ``event_queue`` is "calendar" or "heap", None the faster one; the result is the same.
        ValueError if the simulator cannot run it, OSError if a file cannot be written.
        """

@final
class LiveRun(Run):
    """A run in real time on this machine's kernel. Only on Linux."""

    def __init__(
        self,
        resolved: str,
        seed: int,
        directory: str | PathLike[str],
        classes: _Classes = {},
        *,
        caller: tuple[int, int, list[int], dict[str, str]] | None = None,
        controller: list[str] = [],
        machines: list[tuple[str, int, IPv4Address | IPv6Address | None, list[int]]] = [],
    ) -> None:
        """Build the hosts and their network, verify them, and start at time 0.

        Programs run as ``caller``: user, group, further groups and environment; without one as this process.
        ``controller`` is the program that controls switches, unless the experiment names another one.
        ``machines`` are the machines of its hosts: name, the descriptor of a stream of lines to an agent, the
        address, and without one the descriptors of sockets that carry the frames of its network devices. This run
        duplicates the descriptors.
        ValueError if the JSON is not of the schema, OSError if a file cannot be written, RuntimeError if the machine
        refuses or the network is not as described.
        """

def live_capabilities(*, on_any_machine: bool = False, own_stack: bool = False) -> list[tuple[str, bool, str]]:
    """As ``capabilities``, in real time on this machine, or on any with a mainline kernel of today. Only on Linux."""

def live_check(
    resolved: str, *, on_any_machine: bool = False, own_stack: bool = False, classes: _Classes = {}
) -> list[tuple[str, str]]:
    """As ``check``, in real time: on this machine, or on any with a mainline kernel of today. Only on Linux."""

def enter_user_namespace() -> None:
    """Gives this process rights over networks of its own, for good. Only on Linux.

    Raises PermissionError with what forbids it and how to allow it.
    """

def live_controls() -> list[tuple[str, str]]:
    """Congestion controls of this kernel and those that come along: (name, in_kernel | installed | not_installed)."""

def install_control(name: str) -> None:
    """Register a control that comes along under its plain name until it is removed. Only on Linux.

    ValueError for another name or one that is taken, PermissionError without the rights, RuntimeError if the machine
    refuses.
    """

def remove_control(name: str) -> None:
    """Take an installed control back. Raises as ``install_control``. Only on Linux."""

@final
class Proxy:
    """A proxy for a command's TCP, or a gateway, in a thread of its own. Only on Linux."""

    def __init__(
        self,
        interfaces: list[str],
        *,
        cc: str,
        scheduler: str,
        path_manager: str,
        give_up_after_s: int,
        command: list[str] = ...,
        to: str | None = None,
        gateway_port: int | None = None,
    ) -> None:
        """Start ``command``, whose TCP goes over ``interfaces``, all to the gateway ``to`` (ADDRESS:PORT) if given.

        With ``gateway_port`` there is no command, and connections to that port go on by the kernel's TCP.
        ValueError for what is asked wrongly, PermissionError without the rights, RuntimeError if the machine refuses.
        """

    def wait(self, seconds: float) -> str | None:
        """Wait for its end, at most so long; what it has done (JSON), None if it goes on. Raises as the constructor."""

    def stop(self) -> None:
        """End it: what it has started is killed, its connections are reset."""

def student_t_above(value: float, df: float) -> float:
    """The probability that Student's t with ``df`` degrees of freedom is above ``value``. ValueError unless df > 0."""

def student_t_quantile(above: float, df: float) -> float:
    """The value above which Student's t with ``df`` degrees of freedom lies with a probability.

    ValueError unless df > 0 and the probability is between 0 and 1.
    """

def read_table(path: str | PathLike[str]) -> dict[str, Any]:
    """A table whole, from .parquet, or from the .csv of a run that has not ended, of which all whole rows are read.

    Numeric columns are numpy arrays (int64 or float64), columns of words are (codes as int32 array, list of words).
    OSError if the file cannot be read, ValueError if it is no table of a run.
    """

def write_columns(path: str | PathLike[str], columns: list[tuple[str, str, list[Any]]]) -> None:
    """Write columns, each (name, "int64", "float64" or "text", values or None), as a Parquet file, whole or not at all.

    OSError if it cannot be written, ValueError for another kind or columns of different lengths.
    """
