"""Generates files from the code: JSON Schemas, reference pages, the list of the catalogue, a corpus
for fuzzing.

python -m mptcplab.reference CHECKOUT
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic.fields import FieldInfo

from mptcplab import _core, algorithms, document
from mptcplab.catalogue import Entry, catalogue, entry_of
from mptcplab.doctor import MOST_TRIED
from mptcplab.document import Node
from mptcplab.experiment import Experiment, json_schema, members, profiles
from mptcplab.experiment.base import (
    ONE_OR_MORE,
    Choice,
    Directions,
    Model,
    Name,
    Shorthand,
    Summarized,
    meaning,
    plain,
)
from mptcplab.experiment.control import Control, Policy, Recovery
from mptcplab.experiment.failures import Errors
from mptcplab.experiment.flows import Flow
from mptcplab.experiment.links import LinkSettings
from mptcplab.features import features
from mptcplab.overlay.methods import document as host_controller
from mptcplab.reproduction import Claim, load, papers
from mptcplab.results import metric_reference
from mptcplab.units import Quantity

_GENERATED = "<!-- Written by `make schema` from the code. -->\n\n"


def documents(checkout: Path) -> dict[str, str]:
    """Returns the content of every generated file of a checkout, by path."""
    entries = [entry_of(member) for member in catalogue()]
    return {
        "python/mptcplab/papers/index.json": _json(entries),
        "python/mptcplab/cli/fields.json": _json(settable_fields()),
        "docs/reference/catalogue.md": _GENERATED + catalogue_reference(entries),
        "docs/schemas/description.json": _json(json_schema()),
        "docs/schemas/experiment.json": _json(json.loads(_core.resolved_schema())),
        "docs/schemas/overlay.json": _json(host_controller()),
        "python/mptcplab/experiment/resolved_form.py": resolved_types(),
        "docs/reference/description.md": _GENERATED + description_reference(),
        "docs/reference/metrics.md": _GENERATED + metric_reference(),
        "docs/reference/algorithms.md": _GENERATED + algorithm_reference(),
        "docs/reference/features.md": _GENERATED + feature_reference(),
        "docs/reference/profiles.md": _GENERATED + profile_reference(),
        "docs/reference/kernels.md": _GENERATED + kernel_reference(checkout / "docs" / "reference" / "kernels.json"),
        "docs/papers/README.md": _GENERATED + claim_index(checkout / "docs" / "papers"),
        **fuzzing_corpus(checkout / "examples"),
    }


def settable_fields() -> dict[str, dict[str, list[str]]]:
    """Returns the fields that `--set` can name, with the words that their values can be: of a
    description under "", and of each kind of thing that it names.
    """
    described = Experiment.model_fields
    groups = {name: get_args(described[name].annotation)[1] for name in ("hosts", "nodes", "media", "links", "flows")}
    return {"": _settable(Experiment), **{name: _settable(model) for name, model in groups.items()}}


def _settable(model: type[Model]) -> dict[str, list[str]]:
    schema = json_schema()
    shapes = (schema if model is Experiment else schema["$defs"][model.__name__])["properties"]
    names = [field.alias or name for name, field in model.model_fields.items()]
    return {name: list(dict.fromkeys(_words_of_value(shapes.get(name, {}), schema["$defs"]))) for name in names}


def _words_of_value(shape: dict[str, Any], definitions: dict[str, Any]) -> Iterator[str]:
    """Yields the words that a value can be, or the entries of a list."""
    if shape.get("type") == "boolean":
        yield from ("true", "false")
    yield from (word for word in (*shape.get("enum", ()), shape.get("const")) if isinstance(word, str))
    name = shape.get("$ref", "").rpartition("/")[2]
    parts = (definitions.get(name), shape.get("items"), *shape.get("anyOf", ()), *shape.get("oneOf", ()))
    # Without the definition that is read already, because some contain themselves.
    others = {other: definition for other, definition in definitions.items() if other != name}
    for part in filter(None, parts):
        yield from _words_of_value(part, others)


def write(checkout: Path) -> None:
    """Writes the generated files of a checkout."""
    for name, text in documents(checkout).items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _json(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _inline(value: object) -> str:
    """Formats a value of a description on one line of YAML, as code."""
    text = yaml.safe_dump(plain(value), default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"


# ---- what kernels offer
# ----------------------------------------------------------------------------

_KERNELS = """# What kernels offer for Multipath TCP

This page compares, for several kernels, the parts of Linux that an MPTCP experiment depends on. Because
kernels change and distributions patch them, each value was measured, on {date}, in a guest that ran
Debian's kernel. Limits were set and read back, endpoints with their flags were added and listed, and support for
eBPF was looked up in the kernel's type information.

`make kernels` probes the newest kernel of each series that Debian currently has, and `make kernels
SERIES='6.12 7.3'` probes only those of the given series. Both commands write [a JSON
file](kernels.json) and this page. `mptcplab doctor --on PLACE -v` shows the same information about
[any other machine](../guide/remote.md), and `mptcplab doctor --on kernel -v` about this one.

"""


def kernel_reference(table: Path) -> str:
    """Returns the table of what kernels offer, a column for each."""
    document = json.loads(table.read_text(encoding="utf-8"))
    kernels = document["kernels"]
    rows = [[what, *cells] for what, *cells in zip(_OFFERED, *map(_offers, kernels), strict=True)]
    names = sorted({name for kernel in kernels for name in kernel["sysctls"]})
    settings = [[f"`{name}`", *(kernel["sysctls"].get(name, "none") for kernel in kernels)] for name in names]
    releases = [re.split(r"\+|-cloud", kernel["release"])[0] for kernel in kernels]
    return (
        _KERNELS.format(date=document["probed"])
        + _table(["what", *releases], rows)
        + "\n## Settings\n\n"
        + "The table gives the defaults of the settings in `net.mptcp`, with the guest's modules loaded.\n\n"
        + _table(["setting", *releases], settings)
    )


_OFFERED = (
    "largest number of endpoints in a namespace",
    "largest limit on additional subflows",
    "largest limit on accepted announced addresses",
    "defaults of these two limits in a new namespace",
    "endpoint flags",
    "congestion controls",
    "congestion controls in eBPF (those of mptcplab need Linux 6.4)",
    "packet schedulers in eBPF",
)


def _offers(kernel: dict[str, Any]) -> list[str]:
    """Returns a kernel's cells of the rows `_OFFERED`."""
    manager = kernel["path_manager"]
    return [
        _endpoints(manager),
        str(manager["subflows"]),
        str(manager["add_addr_accepted"]),
        ", ".join(map(str, manager["usual_limits"])),
        ", ".join(manager["flags"]),
        ", ".join(kernel["congestion_controls"]),
        _yes("tcp_congestion_ops" in kernel["struct_ops"]),
        _yes("mptcp_sched_ops" in kernel["struct_ops"]),
    ]


def _endpoints(path_manager: dict[str, Any]) -> str:
    count = path_manager["endpoints"]
    return f"at least {count}" if count >= MOST_TRIED else str(count)


def _yes(is_there: bool) -> str:
    return "yes" if is_there else "no"


# ---- claims of papers ----------------------------------------------------------------------------

_CLAIM_INDEX = """# Claims of papers, then and today

This page lists each claim of the papers whose experiments are built in, with its verdict for the
stack of the paper's time (`then`) and for today's stack (`today`), both in the simulator. The
verdicts are those on the paper's own page, which also gives the numbers and the reasons.
[Verdicts](../guide/reproducing.md#verdicts) explains how verdicts are reached. A claim with several
parts has one row, which states the first part; the verdicts on the other parts follow, each with
the letter of its part.

"""
_ROW_OF_CLAIM = re.compile(r"^\| (CL-[A-Z][0-9]+[a-z]?) \|(.+)\|$", re.MULTILINE)
_VERDICTS = ("reproduced", "refuted", "undecided", "depends", "cannot be run", "not tested")
_AS_THEN = ("as `then`", "the same runs")


def claim_index(pages: Path) -> str:
    """Returns the index of all claims, with the verdicts in the tables of the papers' pages below
    `pages`.
    """
    parts = []
    for name in papers():
        paper = load(name)
        rows = dict(_ROW_OF_CLAIM.findall((pages / f"{name}.md").read_text(encoding="utf-8")))
        of_base: dict[str, list[Claim]] = {}
        for claim in paper.claims:
            of_base.setdefault(claim.id.rstrip("abcdefgh"), []).append(claim)
        table = _table(
            ["claim", "statement", "`then`", "`today`"],
            [[base, claims[0].says, *_verdicts(base, claims, rows)] for base, claims in of_base.items()],
        )
        parts.append(f"## {paper.title}\n\n[This paper's page]({name}.md).\n\n{table}")
    return _CLAIM_INDEX + "\n".join(parts)


def _verdicts(base: str, claims: Sequence[Claim], rows: dict[str, str]) -> list[str]:
    """Returns the verdicts of a claim and its other parts: ``refuted; b: reproduced``."""
    of_claims = [(claim.id.removeprefix(base), _verdict_of(claim, rows)) for claim in claims]
    return ["; ".join(f"{part}: {pair[n]}" if part else pair[n] for part, pair in of_claims) for n in (0, 1)]


def _verdict_of(claim: Claim, rows: dict[str, str]) -> tuple[str, str]:
    """Returns the verdicts `then` and `today`. Raises ValueError if the page of the paper has no
    such row.
    """
    cells = [cell.strip() for cell in rows.get(claim.id, "").split("|")]
    if len(cells) < 3:
        raise ValueError(f"the page of the paper has no row for {claim.id}")
    then = _kind_of(claim, cells[1])
    return then, then if cells[2].startswith(_AS_THEN) else _kind_of(claim, cells[2])


def _kind_of(claim: Claim, cell: str) -> str:
    kind = next((kind for kind in _VERDICTS if cell.startswith(kind)), None)
    if kind is None:
        raise ValueError(f"{claim.id}: the verdict {cell!r} is none of {', '.join(_VERDICTS)}")
    return kind


# ---- the resolved form ---------------------------------------------------------------------------

_RESOLVED_FORM = '''"""The types of the resolved form, which back-ends read.

Quantities are integers with their unit in the name. Every key is present, and None where there is no value. Lists keep
the order of the description. Packets are numbered from 0.

Written by `make schema` from crates/experiment/src/resolved.
"""
'''


_OF_GENERATOR = [
    *("--input-file-type", "jsonschema"),
    *("--output-model-type", "typing.TypedDict"),
    *("--target-python-version", "3.11"),
    *("--custom-file-header", _RESOLVED_FORM),
    *("--enum-field-as-literal", "all"),
    *("--formatters", "ruff-check", "ruff-format"),
    "--use-title-as-name",
    "--use-schema-description",
    "--use-field-description",
    "--use-inline-field-description",
    "--use-single-line-docstring",
    "--use-standard-collections",
    "--use-union-operator",
    "--no-use-closed-typed-dict",
]


def resolved_types() -> str:
    """Returns the module with the types of the resolved form, made from its schema.

    The tool that makes it is installed for developers only.
    """
    # Beside this file, because the formatter finds its settings in the folders above.
    with TemporaryDirectory(dir=Path(__file__).parent) as directory:
        schema, module = Path(directory, "schema.json"), Path(directory, "types.py")
        titled = json.loads(_core.resolved_schema()) | {"title": "Experiment"}
        schema.write_text(json.dumps(titled), encoding="utf-8")
        # It warns that it does not know the sizes of integers.
        generator = [sys.executable, "-W", "ignore", "-m", "datamodel_code_generator"]
        files = ["--input", str(schema), "--output", str(module)]
        subprocess.run([*generator, *_OF_GENERATOR, *files], check=True)
        return module.read_text(encoding="utf-8")


#: The examples from which the fuzzer makes resolved experiments.
_FUZZED = [
    *("aqm-comparison", "failing-link", "gilbert-elliott-loss", "host-queue", "router-and-switch", "two-paths-mptcp"),
]


def fuzzing_corpus(examples: Path) -> dict[str, str]:
    """Returns the resolved form of the first member of some examples, without origins."""
    first = {name: next(iter(members(examples / f"{name}.yaml"))).resolve().data for name in _FUZZED}
    return {f"fuzz/corpus/resolved/{name}": json.dumps(data | {"origins": {}}) + "\n" for name, data in first.items()}


# ---- the description -----------------------------------------------------------------------------

_DESCRIPTION_HEAD = """\
# The fields of a description

A description is a YAML file. Its top level has the fields of an [experiment](#experiment). The other sections list the
fields of the values that these fields contain. The [guide](../README.md#describing-an-experiment) explains them with
examples.

- Rates, sizes and durations have [units](../guide/description/units-of-quantities.md).
- *Per direction* means that the value may also be `{forward: .., backward: ..}`. A direction that is left out
  keeps the default.
- Any value may be replaced by `$name`, which stands for a parameter of a
  [family](../guide/description/families.md).
- Besides the fields of an experiment, the top level may have the field `experiments`, a list of descriptions. Each
  description is merged with the rest of the file and takes precedence over it.
- An unknown field is an error, and so is a setting that would have no effect.
- *Not on* `kernel` means that the back-end `kernel` refuses the field or the value. [Features of the
  back-ends](features.md) gives the reasons.

"""
# Fields whose type says less than what users can write.
_KINDS = {
    (Flow, "cc"): "[congestion control](algorithms.md#congestion-control) or list",
    (Flow, "scheduler"): "[scheduler](algorithms.md#scheduler) or list",
    (Flow, "path_manager"): "[path manager](algorithms.md#path-manager) or list",
    (Experiment, "profile"): "[profile](profiles.md), file or list",
    (Policy, "name"): "[policy](algorithms.md#policy)",
    (Recovery, "name"): "[strategy](algorithms.md#strategy)",
    (Errors, "name"): "[error model](algorithms.md#error-model)",
}
_SCALARS: dict[Any, str] = {bool: "true or false", int: "whole number", float: "number", str: "text", Any: "anything"}


def description_reference() -> str:
    """Returns the reference of the description, field by field."""
    every = models()
    users = {model: [user for user in every if model in _below(user)] for model in every}
    return _DESCRIPTION_HEAD + "\n".join(_section(model, users[model]) for model in every)


def models() -> list[type[Model]]:
    """Returns the models of a description, each after the one that first uses it."""
    found: dict[type[Model], None] = {}

    def visit(model: type[Model]) -> None:
        if model not in found:
            found[model] = None
            for below in _below(model):
                visit(below)

    visit(Experiment)
    return list(found)


def _below(model: type[Model]) -> list[type[Model]]:
    """Returns the models that the fields of a model hold, and its base model."""
    mentioned = [part for field in _own_fields(model).values() for part in _parts(field.annotation)]
    found: list[type[Model]] = [part for part in mentioned if inspect.isclass(part) and issubclass(part, Model)]
    inherited: list[type[Model]] = (
        [LinkSettings] if issubclass(model, LinkSettings) and model is not LinkSettings else []
    )
    return [part for part in dict.fromkeys([*inherited, *found]) if not issubclass(part, Directions)]


def _parts(annotation: Any) -> Iterator[Any]:
    """Yields the types that make up a type."""
    if isinstance(annotation, type) and issubclass(annotation, Directions):
        arguments = annotation.__pydantic_generic_metadata__["args"]
    else:
        arguments = get_args(annotation)
        yield annotation
    for argument in arguments:
        yield from _parts(argument)


def _own_fields(model: type[Model]) -> dict[str, FieldInfo]:
    """Returns the fields of a model without the link settings, which have their own section."""
    inherited = LinkSettings.model_fields if issubclass(model, LinkSettings) and model is not LinkSettings else {}
    return {name: field for name, field in model.model_fields.items() if name not in inherited}


#: The names of models in words, where these are not the words of the class name in lower case.
_SPELLINGS = {
    "Cbr": "CBR",
    "Geant5": "GEANT5",
    "GilbertElliott": "Gilbert-Elliott",
    "Iperf3": "iperf3",
    "Leo": "LEO",
    "Mcs": "MCS",
    "Nat": "NAT",
    "NrLeg": "NR leg",
    "SnrPoint": "SNR point",
    "Wifi": "Wi-Fi",
    "WifiStation": "Wi-Fi station",
}


def _words(model: type[Model]) -> str:
    """Returns the name of a model in words: `NetworkNode` becomes `network node`."""
    return _SPELLINGS.get(model.__name__) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__).lower()


def _title(model: type[Model]) -> str:
    words = _words(model)
    return words if model.__name__ in _SPELLINGS else words.capitalize()


def _link(model: type[Model]) -> str:
    words = _words(model)
    return f"[{words}](#{words.lower().replace(' ', '-')})"


def _section(model: type[Model], users: list[type[Model]]) -> str:
    # The first paragraph is about the description. The others are for users of the Python classes.
    said = inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0]
    parts = [f"## {_title(model)}\n", f"{said}\n"]
    if issubclass(model, Shorthand):
        parts.append(f"May be written as just its `{model.shorthand}`.\n")
    if users:
        parts.append(f"Part of: {', '.join(_link(user) for user in users)}.\n")
    if issubclass(model, LinkSettings) and model is not LinkSettings:
        parts.append(f"All fields of {_link(LinkSettings)}, and:\n")
    rows = [_row(model, name, field) for name, field in _own_fields(model).items()]
    fields = _table(["field", "kind", "default", "meaning", "example"], rows) if rows else "It has no fields.\n"
    return "\n".join([*parts, fields])


def _row(model: type[Model], name: str, field: FieldInfo) -> list[str]:
    written = field.alias or name
    kind = _KINDS.get((model, name)) or ("profile or list" if name == "profile" else _kind(field.annotation, field))
    return [f"`{written}`", kind, _default(field), _sentence(meaning(model, name)), _example(written, field)]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(("..", ".")) else ".")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = plain(field.default)
    if isinstance(field.default, Model) and not value:
        return "its defaults"
    return "" if value in (None, "", [], {}) else _inline(value)


def _kind(annotation: Any, field: FieldInfo | None = None) -> str:
    """Returns the kind of values of a field, in words."""
    limits = list(field.metadata) if field else []
    if get_origin(annotation) is Annotated and annotation != Name:
        annotation, *more = get_args(annotation)
        limits += [limit for one in more for limit in (one.metadata if isinstance(one, FieldInfo) else [one])]
    if annotation == Name or any(getattr(limit, "pattern", None) for limit in limits):
        return "name"
    if get_origin(annotation) in (Union, UnionType):
        return _choice(get_args(annotation))
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(annotation))
    if get_origin(annotation) is list:
        return _list(_kind(get_args(annotation)[0]), limits)
    if get_origin(annotation) is dict:
        return "mapping" if Any in get_args(annotation) else f"mapping from names to {_kind(get_args(annotation)[1])}"
    return _simple(annotation) + _bounds(limits)


def _choice(choices: Sequence[Any]) -> str:
    kinds = [_kind(choice) for choice in choices if choice is not type(None) and not _is_per_direction(choice)]
    each = "; or per direction" if any(_is_per_direction(choice) for choice in choices) else ""
    either = " or ".join("list" if kind == f"list ({kinds[0]})" else kind for kind in kinds)
    return either + each


def _is_per_direction(annotation: Any) -> bool:
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return isinstance(inner, type) and issubclass(inner, Directions)


def _list(item: str, limits: Sequence[Any]) -> str:
    if ONE_OR_MORE in limits:
        return f"{item} or list"
    least = next((limit.min_length for limit in limits if isinstance(limit, MinLen)), None)
    most = next((limit.max_length for limit in limits if isinstance(limit, MaxLen)), None)
    return f"list of {least} ({item})" if least is not None and least == most else f"list ({item})"


def _simple(annotation: Any) -> str:
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if issubclass(annotation, Model):
        return _link(annotation)
    if issubclass(annotation, Quantity):
        return str(annotation.summary)
    raise TypeError(f"the reference has no words for {annotation}")


def _bounds(limits: Sequence[Any]) -> str:
    low = next((limit.ge for limit in limits if isinstance(limit, Ge)), None)
    high = next((limit.le for limit in limits if isinstance(limit, Le)), None)
    if low is None:
        return ""
    return f", {low} to {high}" if high is not None else f", at least {low}"


def _example(written: str, field: FieldInfo) -> str:
    """Returns an example of a field in a form that its kind and default do not show."""
    types = list(_parts(field.annotation))
    quantity = next((part for part in types if isinstance(part, type) and issubclass(part, Quantity)), None)
    if field.examples:
        example = field.examples[0]
    elif quantity is not None and field.is_required():
        example = quantity.examples[0]
    else:
        return ""
    return f"`{written}: {_inline(example).strip('`')}`"


# ---- algorithms ----------------------------------------------------------------------------------

_ALGORITHMS_HEAD = """\
# Algorithms

This page lists the names that `cc`, `scheduler` and `path_manager` of a [flow](description.md#flow) accept, and
[those of path policies, recovery strategies and error models](#network). Case, hyphens and underscores do not matter:
`RoundRobin` and `round-robin` mean `round_robin`. A list is in order of preference: a back-end uses the first entry
that it supports. If this is not the first entry of the list, the result records the substitution.

An algorithm with a published name uses the published formula. One whose name ends in `-oot` computes the same formula
in the integer arithmetic of the out-of-tree kernel. Algorithms whose names begin with `x-` are defined by mptcplab,
because their sources do not state how to compute them.

Parameters follow the name, as in `scheduler: {round_robin: {num_segments: 4}}`. Parameters that you leave out keep
their defaults. `./FILE.py:CLASS` and `crate:NAME` select [algorithms of your own](../guide/extending.md).

The last column of the first table says whether a congestion control has a [fluid
model](../internals/congestion-controls.md#where-they-settle), and if not, why. [The report of a
run](../guide/results.md#in-equilibrium) compares the measured shares of the subflows with those
of the model.

"""


def algorithm_reference() -> str:
    """Returns the names of congestion controls, schedulers and path managers, and of what networks
    do.
    """
    families = (algorithms.CC, algorithms.SCHEDULER, algorithms.PATH_MANAGER)
    tables = [table(family) for family in families for table in (_algorithm_table, _parameter_table)]
    choices = [_choice_table(field, model) for field, model in _CHOICES.items()]
    return _ALGORITHMS_HEAD + "\n".join(tables) + _CHOICES_HEAD + "\n".join(choices)


_CHOICES: dict[str, type[Choice]] = {"policy": Policy, "recovery": Recovery, "errors": Errors}
_CHOICES_HEAD = """
## Network

[Paths and recovery](../internals/paths.md) explains the methods behind these names.

"""


def _choice_table(field: str, model: type[Choice]) -> str:
    holder = Experiment if field in Experiment.model_fields else Control
    default = holder.model_fields[field].default
    said = f". The default is `{default.name}`" if default is not None else ""
    own = ". `./FILE.py:CLASS` selects a class of your own" if model.takes_classes else ""
    where = _link(holder).replace("](", "](description.md")
    head = f"### {model.kind[:1].upper()}{model.kind[1:]}\n\nField `{field}` of {where}{said}{own}.\n\n"
    rows = [[f"`{name}`", _sentence(one.summary), _parameters(one)] for name, one in model.choices.items()]
    return head + _table(["name", "what it does", "parameters"], rows)


def _parameters(choice: Summarized) -> str:
    """Returns the parameters of a class, with their defaults."""
    if not inspect.isclass(choice):
        return ""
    taken = inspect.signature(choice).parameters.values()
    return ", ".join(f"`{one.name}`{_default_of(one)}" for one in taken)


def _default_of(parameter: inspect.Parameter) -> str:
    return "" if parameter.default in (inspect.Parameter.empty, None) else f" ({parameter.default})"


def _parameter_table(family: algorithms.Family) -> str:
    takers: dict[algorithms.Parameter, list[str]] = {}
    for algorithm in family.algorithms:
        for parameter in algorithm.parameters:
            takers.setdefault(parameter, []).append(f"`{algorithm.name}`")
    rows = [
        [f"`{one.name}`", ", ".join(names), one.unit, one.values, one.default, _sentence(one.meaning)]
        for one, names in takers.items()
    ]
    head = f"Parameters of {family.kind}s:\n\n"
    return head + _table(["parameter", "of", "unit", "values", "default", "meaning"], rows)


def _algorithm_table(family: algorithms.Family) -> str:
    field = family.field
    default = Flow.model_fields[field].default[0].name
    rows = [
        [f"`{one.name}`", ", ".join(f"`{alias}`" for alias in one.aliases), _sentence(one.summary), one.source]
        for one in family.algorithms
    ]
    columns = ["name", "also written", "what it does", "source"]
    if family is algorithms.CC:
        columns.append("fluid model")
        for row, name in zip(rows, family.names, strict=True):
            why_none = algorithms.why_no_fluid(name)
            row.append(f"none: {why_none.partition(': ')[2]}" if why_none else "yes")
    head = f"## {family.kind[:1].upper()}{family.kind[1:]}\n\nField `{field}`. The default is `{default}`.\n\n"
    return head + _table(columns, rows)


# ---- features ------------------------------------------------------------------------------------

_FEATURES_HEAD = """\
# Features of the back-ends

This page lists the features that a description can use, and the back-ends that support each of them: `sim` is the
simulator, `kernel` is a current Linux kernel, and `userspace` is the engine on that kernel's network. If a description
uses a feature that its back-end lacks, mptcplab refuses to run it and gives the reason. `mptcplab list SPEC` shows the
missing features of each experiment, and `mptcplab doctor` those of each back-end on this machine. The
[limitations](../guide/limitations.md) list what else is missing. [Algorithms](algorithms.md) and [your own
algorithms](../guide/extending.md) are on separate pages.

"""


def feature_reference() -> str:
    """Returns the features that descriptions can use, and which back-end has them."""
    everywhere: dict[str, list[str]] = {}
    lacking = []
    backends: dict[str, None] = {}
    for feature, reasons in features().items():
        backends |= dict.fromkeys(reasons)
        kind, _, name = feature.partition(" ")
        if any(reasons.values()):
            lacking.append([f"`{feature}`", *(_sentence(why) if why else "yes" for why in reasons.values())])
            continue
        everywhere.setdefault(kind, []).extend([f"`{name}`"] if name else [])
    rows = [[f"`{kind}`", ", ".join(names) or "yes"] for kind, names in everywhere.items()]
    return (
        _FEATURES_HEAD
        + "## Not on every back-end\n\n"
        + _table(["feature", *(f"`{name}`" for name in backends)], lacking)
        + "\n## On every back-end\n\n"
        + _table(["kind", "features"], rows)
    )


# ---- catalogue -----------------------------------------------------------------------------------

_CATALOGUE_HEAD = """\
# The catalogue

This page lists the experiments from published works that come with mptcplab. `mptcplab show NAME` prints one of them,
with the published values and the assumptions. A prefix such as `barreira2014/F.1` selects all experiments below it.
The last column names features that an experiment needs but no back-end has yet. It is empty for every experiment
that can be run.

"""


def catalogue_reference(entries: Sequence[Entry]) -> str:
    """Returns every experiment with its title and the features that no back-end has yet."""
    rows = [[f"`{entry['id']}`", entry["title"], ", ".join(entry["missing"])] for entry in entries]
    return _CATALOGUE_HEAD + _table(["experiment", "title", "missing features"], rows)


# ---- profiles ------------------------------------------------------------------------------------

_PROFILES_HEAD = """\
# Profiles

This page lists the named sets of defaults that come with mptcplab. Each value has its source, or the reason why it was
assumed. [Profiles](../guide/description/profiles.md) explains how to use and write them.

"""


@dataclass(frozen=True)
class _Default:
    """A value of a profile with its source."""

    field: str
    value: object
    ground: str


def profile_reference() -> str:
    """Returns the values of each profile with their sources."""
    return _PROFILES_HEAD + "\n".join(_profile(name) for name in profiles.shipped())


def _profile(name: str) -> str:
    tree = document.read(profiles.DIRECTORY / f"{name}.yaml")
    title, source = tree.child("title"), tree.child("source")
    told = [] if title is None else [str(title.value)]
    if source is not None:
        told.append(f"Sources: {source.value}")
    illustrative = tree.child("illustrative")
    if illustrative is not None:
        told.append(f"The results of runs with this profile are illustrative, because {illustrative.value}")
    rows = [[f"`{one.field}`", _inline(one.value), one.ground] for one in _defaults(tree.mapping["defaults"], ())]
    return f"## {name}\n\n{'. '.join(told)}.\n\n" + _table(["field", "value", "source"], rows)


def _defaults(node: Node, path: tuple[str, ...]) -> Iterator[_Default]:
    if "value" not in node.mapping:
        for key, below in node.mapping.items():
            yield from _defaults(below, (*path, key))
        return
    source, assumed = node.child("source"), node.child("assumed")
    ground = str(source.value) if source is not None else f"assumed: {assumed.value if assumed else ''}"
    yield _Default(".".join(path), node.mapping["value"].plain(), ground)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m mptcplab.reference CHECKOUT")
    write(Path(sys.argv[1]))
