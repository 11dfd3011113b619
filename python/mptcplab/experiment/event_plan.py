"""The events of an experiment: those of its description, those that a model of failures makes, and
what recovery strategies do about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from mptcplab.document import FieldPath, wrong
from mptcplab.errors import SpecError
from mptcplab.experiment import schedule
from mptcplab.experiment.description import Experiment
from mptcplab.experiment.events import Event
from mptcplab.experiment.failures import failures
from mptcplab.experiment.recoveries import check_detection, reroutes
from mptcplab.experiment.switched_network import SwitchedNetwork
from mptcplab.experiment.validation import at
from mptcplab.recovery import STRATEGIES

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form


class EventPlan:
    """The events of an experiment, in order of time."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._tree = experiment.tree
        self._all_events = list(experiment.events)

    def resolved(self, parts: Mapping[str, Any]) -> list[form.Event]:
        """Returns the events as back-ends read them. `parts` is the rest of the resolved form, which
        they refer to. Raises SpecError.
        """
        bdp_rtts = {
            name: int(link.bdp_rtt) for name, link in self._experiment.links.items() if link.bdp_rtt is not None
        }
        with at(self._tree, "control", "recovery"):
            world = schedule.World.of({**parts, "events": self._changes_of_strategy(parts)}, bdp_rtts)
        self._all_events += self._failures(world.switched, parts["user_code"])
        planned: list[schedule.Step] = []
        for number, event in enumerate(self._all_events):
            with at(self._tree, *self._place_of(number), event.action):
                steps = schedule.steps(event, number, world)
            # A failure that a model made may last until the end, which undoes it.
            is_made = number >= len(self._experiment.events)
            planned += [step for step in steps if not is_made or step.at_ns < self._experiment.duration]
        self._check_times(planned)
        walked = list(self._walked(planned, world))
        return self._numbered(self._recovered(walked, world.switched))

    def _changes_of_strategy(self, parts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the events that choose a strategy, in order of time."""
        control = parts["control"]
        first = control["recovery"]["strategy"] if control is not None else ""
        changes = [
            {"at_ns": int(event.at), "action": {"kind": "set_recovery", "strategy": event.recovery.name}}
            for event in self._experiment.events
            # Any other name is refused where its event is.
            if event.recovery is not None and (event.recovery.name in STRATEGIES or event.recovery.name == first)
        ]
        return sorted(changes, key=lambda change: change["at_ns"])

    def _failures(self, switched: SwitchedNetwork | None, code: Sequence[Mapping[str, str]]) -> list[Event]:
        errors = self._experiment.errors
        if errors is None:
            return []
        links = list(switched.graph.edges) if switched else []
        groups = switched.groups if switched else {}
        with at(self._tree, "errors"):
            return failures(errors, links, groups, int(self._experiment.duration), code)

    def _recovered(
        self, walked: list[tuple[schedule.Step, form.Action]], switched: SwitchedNetwork | None
    ) -> list[tuple[schedule.Step, form.Action]]:
        """Adds what the recovery strategies do after the actions that take links down and up, and where
        another one begins.
        """
        if switched is None:
            return walked
        for step, _ in walked:
            with at(self._tree, *self._place_of(step.event)):
                check_detection(switched, step)
        with at(self._tree, "control", "recovery"):
            found = list(reroutes(switched, [step for step, _ in walked]))
        added = [(step, cast("form.Action", step.action)) for step in found if step.at_ns < self._experiment.duration]
        return sorted([*walked, *added], key=lambda one: one[0].at_ns)

    def _place_of(self, number: int) -> FieldPath:
        """Returns the place of an event in the description, which is `errors` for one that a model
        made.
        """
        return ("events", number) if number < len(self._experiment.events) else ("errors",)

    def _check_times(self, planned: Sequence[schedule.Step]) -> None:
        end = self._experiment.duration
        for step in planned:
            if step.at_ns > end:
                late = f"{step.action['kind']} at {step.at_ns / 1e9:g}s is after the end"
                raise wrong(self._tree, (*self._place_of(step.event), "at"), late, f"at most {end}, the duration")

    def _walked(
        self, planned: Sequence[schedule.Step], world: schedule.World
    ) -> Iterator[tuple[schedule.Step, form.Action]]:
        walk = schedule.Walk(world)
        for step in schedule.in_order(planned):
            try:
                with at(self._tree, *self._place_of(step.event), self._all_events[step.event].action):
                    action = walk.take(step)
            except schedule.ContradictionError as contradiction:
                raise self._contradiction(contradiction) from None
            if action is not None:
                yield step, cast("form.Action", action)

    def _contradiction(self, found: schedule.ContradictionError) -> SpecError:
        before = "from the start"
        if found.before is not None:
            node = self._tree.find(self._place_of(found.before))
            where = f" ({node.source})" if node else ""
            before = f"{found.word} event {self._event_id(found.before)}{where}"
        path = (*self._place_of(found.event), self._all_events[found.event].action)
        return wrong(self._tree, path, f"{found.problem} {before}", "an event that changes something")

    def _event_id(self, number: int) -> str:
        return self._all_events[number].id or f"e{number + 1}"

    def _numbered(self, walked: list[tuple[schedule.Step, form.Action]]) -> list[form.Event]:
        """Assigns ids: that of the event if it is one action, else ID.1, ID.2
        .. in order of time.
        """
        self._check_ids()
        counts = Counter(step.event for step, _ in walked)
        seen: Counter[int] = Counter()
        result: list[form.Event] = []
        for step, action in walked:
            seen[step.event] += 1
            name = self._event_id(step.event)
            several = counts[step.event] > 1
            own = f"{name}.{seen[step.event]}" if several else name
            result.append({"id": own, "parent": name if several else None, "at_ns": step.at_ns, "action": action})
        return result

    def _check_ids(self) -> None:
        first: dict[str, int] = {}
        for number in range(len(self._all_events)):
            name = self._event_id(number)
            if name in first:
                problem = f"'{name}' is also event {first[name] + 1}"
                raise wrong(self._tree, (*self._place_of(number), "id"), problem, "different ids")
            first[name] = number
