"""Flows and their applications."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, Field, GetJsonSchemaHandler, model_serializer, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from mptcplab import algorithms
from mptcplab.experiment.base import ONE_OR_MORE, Model, described, one_of
from mptcplab.experiment.control import Policy
from mptcplab.experiment.uses import UsesByValue
from mptcplab.units import Duration, Rate, Size


class Application(Model):
    """The settings of an application."""

    #: Whether it needs a stream, so that datagrams cannot carry it.
    needs_stream: ClassVar[bool] = True


class Bulk(Application):
    """Sends data as fast as possible."""

    bytes: Size | None = Field(
        None,
        description="amount of data; without `bytes` and `duration`, the flow sends until the run ends",
        examples=["15MB"],
    )
    duration: Duration | None = None
    """Time for which the flow sends, from its start."""

    @model_validator(mode="after")
    def _one_end(self) -> Bulk:
        if self.bytes is not None and self.duration is not None:
            raise described("has both bytes and duration", "one of them")
        if self.bytes == 0:
            raise described("has no bytes", "1 byte or more")
        return self


class Cbr(Application):
    """Sends datagrams at a constant rate."""

    needs_stream = False

    rate: Rate = Field(examples=["4mbit"])
    """Payload rate, in bits per second."""
    size: Size = Size(1472)
    """Payload of a datagram."""
    duration: Duration | None = None
    """Time for which the flow sends, from its start. By default, it sends until the run ends."""


class Probe(Application):
    """Sends datagrams that the receiver echoes, to measure round-trip time and loss."""

    needs_stream = False

    every: Duration = Duration("1ms")
    """Time between two probes."""
    size: Size = Size(64)
    """Payload of a datagram."""
    duration: Duration | None = None
    """Time for which the flow sends, from its start. By default, it sends until the run ends."""


class RequestResponse(Application):
    """Sends one request after another, each once the response to the previous one is complete."""

    request: Size = Field(examples=["200B"])
    """Size of a request."""
    response: Size = Field(examples=["64kB"])
    """Size of a response."""
    count: Annotated[int, Field(ge=1)] | None = None
    """Number of requests. Without `count` and `duration`, requests are sent until the run ends."""
    duration: Duration | None = None
    """Time for which the flow sends, from its start."""


class ShortFlows(Application):
    """Opens connections at fixed or random intervals, each of which carries a fixed amount of
    data."""

    bytes: Size = Field(examples=["64kB"])
    """Amount of data in each connection."""
    every: Duration | None = Field(None, examples=["100ms"])
    """Time between two starts."""
    poisson: Duration | None = Field(None, examples=["100ms"])
    """Mean time between two starts; the times are exponentially distributed."""

    @model_validator(mode="after")
    def _one_arrival(self) -> ShortFlows:
        one_of(self, ["every", "poisson"], "short_flows")
        return self


class Streaming(Application):
    """Sends a start-up buffer as fast as possible, and then sends data at the rate of a stream."""

    bitrate: Rate = Field(examples=["5mbit"])
    """Rate of the stream, in bits per second."""
    startup: Duration = Duration("2s")
    """Playing time that is buffered first."""


class Video(Application):
    """Sends a video in segments. The player at the receiver chooses the bit rate of each segment
    from the playing time in its buffer (BBA-0)."""

    bitrates: Annotated[list[Rate], Field(min_length=1)] = Field(examples=[["1mbit", "2.5mbit", "5mbit"]])
    """The available bit rates, ascending."""
    segment: Duration = Duration("4s")
    """Playing time of a segment."""
    buffer: Duration = Duration("30s")
    """Largest playing time that the player buffers."""
    startup: Duration = Duration("4s")
    """Playing time in the buffer at which the player starts, and resumes after a stall."""
    length: Duration | None = None
    """Playing time of the whole video. By default, the video lasts until the run ends."""

    @model_validator(mode="after")
    def _can_be_played(self) -> Video:
        if any(low >= high for low, high in itertools.pairwise(self.bitrates)):
            raise described("the bit rates do not ascend", "each higher than the one before", field="bitrates")
        for name in ("segment", "length"):
            if getattr(self, name) == 0:
                raise described("is 0", "a duration above 0", field=name)
        whole = Duration(self.buffer // self.segment * self.segment)
        if whole == 0:
            raise described(f"holds less than a segment of {self.segment}", f"at least {self.segment}", field="buffer")
        if self.startup > whole:
            problem = f"{self.startup} is more than the whole segments that the buffer holds"
            raise described(problem, f"at most {whole}", field="startup")
        return self


class Iperf3(Application):
    """Runs the program iperf3."""

    needs_stream = False

    args: list[str] = []
    """Additional arguments for the iperf3 client, besides addresses and port."""


class App(Model):
    """The application of a flow: exactly one of these. An application without required settings may
    be written as its name: `app: bulk`.
    """

    kind_of_features = "app"

    bulk: Bulk | None = None
    """Sends data as fast as possible."""
    cbr: Cbr | None = None
    """Sends datagrams at a constant rate."""
    probe: Probe | None = None
    """Sends datagrams that the receiver echoes."""
    request_response: RequestResponse | None = None
    """Alternates requests and responses."""
    short_flows: ShortFlows | None = None
    """Opens many short connections."""
    streaming: Streaming | None = None
    """Sends data at the rate of a stream."""
    video: Video | None = None
    """Sends a video whose bit rate adapts."""
    iperf3: Iperf3 | None = None
    """Runs the iperf3 program."""
    command: Annotated[list[str], Field(min_length=1)] | None = Field(None, examples=[["curl", "http://server/"]])
    """Runs a program on the sending host: the program and its arguments."""

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, data: Any) -> Any:
        return {data: {}} if isinstance(data, str) else data

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = super().__get_pydantic_json_schema__(schema, handler)
        full = handler.resolve_ref_schema(reference)
        whole = dict(full)
        full.clear()
        full.update({"anyOf": [{"enum": _names_alone()}, whole]})
        return reference

    @model_validator(mode="after")
    def _one_kind(self) -> App:
        one_of(self, list(type(self).model_fields), "app")
        return self

    @property
    def kind(self) -> str:
        """The name of the application."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


def _applications() -> Iterator[tuple[str, type[Application]]]:
    """Yields the applications with settings, by name."""
    for name, field in App.model_fields.items():
        parts = [part for part in get_args(field.annotation) if inspect.isclass(part)]
        yield from ((name, part) for part in parts if issubclass(part, Application))


def _names_alone() -> list[str]:
    """Returns the applications without required settings, whose name alone is a description."""
    settings = {name: model.model_fields.values() for name, model in _applications()}
    return [name for name, fields in settings.items() if not any(field.is_required() for field in fields)]


OWN_ALGORITHM = (
    "./FILE.py:CLASS for one of your own, ./FILE.bpf.o for an eBPF congestion control, "
    "crate:NAME for one of your own simulator"
)


class Algorithm(Model):
    """An algorithm: its name, or `NAME: {..}` with its parameters."""

    family: ClassVar[algorithms.Family]

    name: str
    """Its name, or `./FILE.py:CLASS`."""
    parameters: dict[str, Any] = {}
    """Its parameters, by name."""

    @model_validator(mode="before")
    @classmethod
    def _from_one_line(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"name": cls._known(data)}
        if isinstance(data, Mapping) and "name" in data:
            return {**data, "name": cls._known(data["name"])}
        if isinstance(data, Mapping) and len(data) == 1 and isinstance(given := next(iter(data.values())), Mapping):
            return {"name": cls._known(next(iter(data))), "parameters": dict(given)}
        if isinstance(data, BaseModel):
            return data
        raise described(f"found {data!r}", f"the name of a {cls.family.kind}, or NAME: {{PARAMETER: VALUE}}")

    @classmethod
    def _known(cls, name: object) -> str:
        """Our name of an algorithm; that of a user's own is kept as given."""
        if not isinstance(name, str):
            raise described(f"found {name!r}", f"the name of a {cls.family.kind}")
        if algorithms.is_users(name) and (cls.family is algorithms.CC or not algorithms.is_object(name)):
            return name
        if name.startswith((".", "/", "crate:")):
            raise described(f"found {name!r}", OWN_ALGORITHM)
        found = cls.family.find(name)
        if found is None:
            close = algorithms.nearest(name, [*cls.family.names, *cls.family.aliases])
            meant = algorithms.as_users(name) or (close and cls.family.find(close))
            hint = f", did you mean '{meant}'?" if meant else ""
            raise described(f"unknown {cls.family.kind} '{name}'{hint}", ", ".join(cls.family.names))
        return found

    @model_validator(mode="after")
    def _parameters_have_effect(self) -> Self:
        refused = self.family.refusal(self.name, self.parameters)
        if refused is not None:
            raise described(f"found {refused.found}", refused.allowed, field=f"{self.name}.{refused.parameter}")
        return self

    @model_serializer
    def _to_one_line(self) -> Any:
        return {self.name: self.parameters} if self.parameters else self.name

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Any text is allowed (aliases, user code); the known names and their parameters are
        offered for completion.
        """
        with_parameters = {
            algorithm.name: {
                "type": "object",
                "properties": {
                    one.name: {"description": f"{one.meaning}; {one.values}"} for one in algorithm.parameters
                },
                "additionalProperties": False,
                "description": f"parameters of {algorithm.name}",
            }
            for algorithm in cls.family.algorithms
        }
        return {
            "anyOf": [
                {"oneOf": [{"const": one.name, "description": one.summary} for one in cls.family.algorithms]},
                {"type": "string"},
                {
                    "type": "object",
                    "properties": with_parameters,
                    "patternProperties": {r"^(\.{0,2}/|crate:)": {"type": "object"}},
                    "additionalProperties": False,
                    "maxProperties": 1,
                },
            ]
        }


class CongestionControl(Algorithm):
    """A congestion control: its name, or `NAME: {..}` with its parameters, as in `{fixed_cwnd:
    {packets: 20}}`.
    """

    family = algorithms.CC


class Scheduler(Algorithm):
    """A scheduler: its name, or `NAME: {..}` with its parameters, as in `{round_robin:
    {num_segments: 4}}`.
    """

    family = algorithms.SCHEDULER


class PathManager(Algorithm):
    """A path manager: its name, or `NAME: {..}` with its parameters, as in `{n_diff_ports:
    {subflows: 3}}`.
    """

    family = algorithms.PATH_MANAGER


class Flow(Model):
    """A flow of data from one host to another, or several flows made by a pattern."""

    profile: str | list[str] | None = Field(None, description="defaults for this flow")
    from_: str | None = Field(None, alias="from", description="the host that sends")
    to: str | None = None
    """The host that receives; with `pattern: incast`, the host that all others send to."""
    pattern: Literal["all_to_all", "permutation", "incast", "stride"] | None = None
    """In place of `from` and `to`: creates flows between `hosts`, named NAME.A-B."""
    hosts: list[str] | None = Field(
        None, description="the hosts of the pattern; ranges are expanded", examples=[["h[1-16]"]]
    )
    stride: Annotated[int, Field(ge=1)] | None = None
    """With `pattern: stride`: host i sends to host i + stride."""
    opened_by: Literal["from", "to"] = "from"
    """The end of the flow that opens the connection. Only that host opens subflows."""
    transport: Annotated[Literal["udp", "tcp", "mptcp"], UsesByValue("transport")] = "mptcp"
    """The transport protocol."""
    app: App = App.default(bulk=Bulk.default())
    """The application that sends the data."""
    cc: Annotated[list[CongestionControl], ONE_OR_MORE, Field(min_length=1)] = [CongestionControl.default(name="cubic")]
    """Congestion control: one, or a list in order of preference. Using an entry other than the
    first is recorded as a substitution."""
    scheduler: Annotated[list[Scheduler], ONE_OR_MORE, Field(min_length=1)] = [Scheduler.default(name="kernel_default")]
    """Packet scheduler: one, or a list in order of preference."""
    path_manager: Annotated[list[PathManager], ONE_OR_MORE, Field(min_length=1)] = [
        PathManager.default(name="kernel_endpoints")
    ]
    """Path manager, which decides which subflows are opened: one, or a list in
    order of preference.
    """
    handshake: Annotated[Literal["primary", "race"], UsesByValue("handshake")] = "primary"
    """Where a connection starts: `primary` on the primary path, or `race` on all paths at once,
    where the first answer wins.
    """
    primary: str | None = Field(
        None,
        description="link or interface of the initial subflow; by default, that of the first path",
        examples=["wifi"],
    )
    via: Annotated[list[str], ONE_OR_MORE] | None = Field(
        None, description="the interfaces that may be used; by default, all of them", examples=[["client.wlan0"]]
    )
    routes: list[list[str]] | None = Field(
        None,
        description="in place of shortest paths: for each path, the nodes between the two hosts, in order",
        examples=[[["uk", "hr", "de"]]],
    )
    policy: Policy | None = None
    """How the flow's routes through OpenFlow switches are chosen; by default, with the policy of
    `control`.
    """
    start: Duration = Duration(0)
    """Start of the flow, as the time since the start of the run."""
    parallel: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of copies of the flow, named NAME.1, NAME.2 .."""
    direction: Literal["one_way", "both"] = "one_way"
    """`both`: NAME.up as given, and NAME.down in the opposite direction."""

    @model_validator(mode="after")
    def _ends(self) -> Flow:
        if self.pattern is None:
            missing = [name for name, end in (("from", self.from_), ("to", self.to)) if end is None]
            if missing:
                raise described(f"'{missing[0]}' is missing", "from and to, or pattern and hosts")
            if self.from_ == self.to:
                raise described(f"from and to are both {self.to}", "two hosts")
        self._check_pattern()
        if self.policy is not None and self.routes is not None:
            raise described("has both policy and routes", "one of them", field="policy")
        return self

    def _check_pattern(self) -> None:
        if (self.pattern is None) != (self.hosts is None):
            raise described("pattern and hosts belong together", "both or none")
        if self.pattern is not None and self.from_ is not None:
            raise described(f"'from' has no meaning beside pattern {self.pattern}", "hosts")
        if (self.pattern == "incast") != (self.to is not None) and self.pattern is not None:
            raise described("'to' belongs to pattern incast, and incast needs it", "to: HOST with incast only")
        if (self.pattern == "stride") != (self.stride is not None):
            raise described("'stride' belongs to pattern stride, and stride needs it", "stride: N with pattern: stride")

    @model_validator(mode="after")
    def _settings_have_effect(self) -> Flow:
        for name, transports in MEANINGFUL.items():
            if name in self.model_fields_set and self.transport not in transports:
                ways = f"with {' or '.join(transports)}"
                if self.transport == "tcp":
                    ways += f"; 'mptcp: false' of host {self.from_ or 'NAME'} turns MPTCP off as well"
                raise described(f"'{name}' has no effect on transport {self.transport}", ways, field=name)
        if self.app.kind == CHOOSES_ITS_CC and "cc" in self.model_fields_set:
            raise described(
                f"'cc' has no effect on a {CHOOSES_ITS_CC}: a program asks for its own, or has its host's default",
                "none with this app",
                field="cc",
            )
        streams = [name for name, model in _applications() if model.needs_stream]
        if self.transport == "udp" and self.app.kind in streams:
            others = [name for name in App.model_fields if name not in streams]
            raise described(
                f"app {self.app.kind}{'' if 'app' in self.model_fields_set else ' (the default)'} needs a stream, "
                "transport is udp",
                f"tcp or mptcp; over udp {', '.join(others)}",
                field="app",
            )
        return self


# The application whose connections mptcplab does not open.
CHOOSES_ITS_CC = "command"

# The transports that a setting has an effect on. Other settings have an effect on all.
MEANINGFUL: dict[str, tuple[str, ...]] = {
    "cc": ("tcp", "mptcp"),
    "scheduler": ("mptcp",),
    "path_manager": ("mptcp",),
    "handshake": ("mptcp",),
    "opened_by": ("tcp", "mptcp"),
}
