"""User-defined classes as algorithms of the engine: loads them, and watches runs that use them."""

from __future__ import annotations

import ctypes
import inspect
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mptcplab import algorithms, consent
from mptcplab.errors import RunFailed, SpecError
from mptcplab.user_classes import MODULE, check_parameters, class_of, module_of

if TYPE_CHECKING:
    from mptcplab.backends.adapters import Scheduler

#: Makes the adapter of a class from its parameters (JSON) and from the view of its connection.
Make = Callable[[str, object], object]
Classes = dict[str, dict[str, Make]]

#: The required hooks of a class, by the field of a flow that names it.
REQUIRED = {"cc": ("acked", "congestion"), "scheduler": ("next",), "path_manager": ("handle",)}
#: The arguments with which the hooks of a class are called, by the field of a flow.
ARGUMENTS: dict[str, dict[str, tuple[str, ...]]] = {
    "cc": {
        "acked": ("context", "acked"),
        "congestion": ("context", "congestion"),
        "subflow_added": ("context",),
        "subflow_removed": ("which",),
        "segment_sent": ("context", "bytes"),
        "recovery_exited": ("context",),
        "undone": ("context",),
        "restarted_after_idle": ("context", "idle_ns"),
        "pacing_rate": ("context",),
    },
    "scheduler": {"next": ("view",)},
    "path_manager": {"handle": ("now_ns", "event"), "poll_timeout": (), "handle_timeout": ("now_ns",)},
}
#: Hooks that need another one.
TOGETHER = {"poll_timeout": "handle_timeout"}
#: Real time without progress of simulated time after which a hook counts as hanging.
PATIENCE_S = 10.0
#: Time that an interrupted hook has to end.
GRACE_S = 2.0
#: The words by which the simulator reports a flow that stands still
#: (`crates/simulator/src/stall.rs`).
STANDS_STILL = " stands still: with "
#: Interval of simulated time at which progress is checked.
STEP_NS = 1_000_000


def load(experiment: Mapping[str, Any]) -> Classes:
    """Returns the classes that the flows of a resolved experiment name, by field and name.

    Raises SpecError for a file that does not run, a class that is not there, and one that cannot be
    used, NotAllowed for code that was not allowed.
    """
    consent.require(experiment, in_real_time=False)
    modules = {
        code["file"]: module_of(code["file"], code["source"])
        for code in experiment["user_code"]
        if not algorithms.is_object(code["file"])
    }
    classes: Classes = {}
    for flow in experiment["flows"]:
        for field in REQUIRED:
            for choice in flow[field]:
                name = choice if isinstance(choice, str) else choice["name"]
                file, _, class_name = name.rpartition(":")
                if file in modules:
                    place = f"flows.{flow['id']}.{field}: {name}"
                    found = class_of(modules[file], class_name, place)
                    _check_hooks(found, field, place)
                    parameters = {} if isinstance(choice, str) else choice
                    own = {key: parameters[key] for key in parameters if key != "name"}
                    # A path manager gets its connection first.
                    check_parameters(found, own, place, *([None] if field == "path_manager" else []))
                    from mptcplab.backends.adapters import ADAPTERS  # most descriptions bring no class along

                    classes.setdefault(field, {})[name] = partial(ADAPTERS[field], found)
    return classes


def fields_of(name: str) -> list[str]:
    """Returns the fields of a flow that can name a class, by its hooks. `name` is
    `./FILE.py:CLASS`, relative to the working directory.

    Raises SpecError for a file that cannot be read or does not run, and for an unknown class.
    """
    file, _, class_name = name.rpartition(":")
    try:
        source = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{file} cannot be read: {error.strerror}", allowed="a Python file") from error
    found = class_of(module_of(file, source), class_name, name)
    return [field for field, hooks in REQUIRED.items() if all(callable(getattr(found, hook, None)) for hook in hooks)]


def _check_hooks(found: type, field: str, place: str) -> None:
    lacking = [hook for hook in REQUIRED[field] if not callable(getattr(found, hook, None))]
    lacking += [second for first, second in TOGETHER.items() if hasattr(found, first) and not hasattr(found, second)]
    if lacking:
        allowed = f"a class with the hooks {', '.join(REQUIRED[field])}"
        raise SpecError(f"{place}: the class has no method {', '.join(lacking)}", allowed=allowed)
    for hook, arguments in ARGUMENTS[field].items():
        _check_arguments(found, hook, arguments, place)


def _check_arguments(found: type, hook: str, arguments: tuple[str, ...], place: str) -> None:
    """Checks that a method takes what its hook is called with. Other callables are left alone."""
    method = inspect.getattr_static(found, hook, None)
    if not inspect.isfunction(method):
        return
    signature = inspect.signature(method)
    try:
        signature.bind("self", *arguments)
    except TypeError:
        allowed = f"{hook}({', '.join(('self', *arguments))})"
        raise SpecError(f"{place}: found the hook {hook}{signature}", allowed=allowed) from None


class Schedulers:
    """The schedulers of a run, for the last call of one that stands still."""

    def __init__(self, classes: Classes) -> None:
        self._made: list[Scheduler] = []
        for name, make in classes.get("scheduler", {}).items():
            classes["scheduler"][name] = partial(self._remembered, make)

    def _remembered(self, make: Make, parameters: str, seen: object) -> object:
        made = cast("Scheduler", make(parameters, seen))
        self._made.append(made)
        return made

    def explained(self, why: str) -> str:
        """Returns the reason of a failed run, with the last call of a scheduler if a flow stands
        still.
        """
        if STANDS_STILL not in why or not self._made:
            return why
        last = max(self._made, key=lambda one: one.last_called_ns)
        return f"{why}; of the scheduler, {last.last_call()}"


class Watched:
    """A simulation in its own thread, so a hook that never ends does not block the caller."""

    def __init__(self, simulation: Any) -> None:
        self._simulation = simulation
        self._beat = time.monotonic()
        self._done = threading.Event()
        self._outcome: Callable[[], bool] = lambda: False

    def advance(self, until_ns: int) -> bool:
        """Advances to `until_ns` and returns whether the run has ended. Raises RunFailed if a hook
        hangs.
        """
        self._done.clear()
        self._beat = time.monotonic()
        thread = threading.Thread(target=self._work, args=(until_ns,), daemon=True)
        thread.start()
        while not self._done.wait(timeout=PATIENCE_S / 10):
            if time.monotonic() - self._beat > PATIENCE_S:
                self._interrupt(thread)
                break
        return self._outcome()

    def _work(self, until_ns: int) -> None:
        try:
            ended = self._step_to(until_ns)
            self._outcome = lambda: ended
        except BaseException as error:
            # The hook may have ended just before it was interrupted.
            failure = RunFailed(str(error)) if isinstance(error, HangingHook) else error

            def raised() -> bool:
                raise failure

            self._outcome = raised
        finally:
            self._done.set()

    def _step_to(self, until_ns: int) -> bool:
        while self._simulation.now_ns < until_ns:
            if self._simulation.advance(min(self._simulation.now_ns + STEP_NS, until_ns)):
                return True
            self._beat = time.monotonic()
        return False

    def _interrupt(self, thread: threading.Thread) -> None:
        """Interrupts the hanging hook, which ends the run with its traceback. If the hook does not
        end, raises RunFailed.
        """
        hanging = sys._current_frames().get(thread.ident or 0)
        where = "".join(traceback.format_stack(hanging)) if hanging is not None else ""
        identity, interrupt = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(HangingHook)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, interrupt)
        if not self._done.wait(timeout=GRACE_S):
            why = f"user code: simulated time has stood still for {PATIENCE_S:g} s of real time, and cannot be stopped"
            raise RunFailed(f"{why}; it was here:\n{where}")


def interrupt_hooks() -> str:
    """Interrupts the running hooks of all threads. Returns where they were, or "" if none was
    running.
    """
    where = ""
    for identity, frame in sys._current_frames().items():
        if any(inner.f_globals.get("__name__", "").startswith(MODULE) for inner, _ in traceback.walk_stack(frame)):
            where += "".join(traceback.format_stack(frame))
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(identity), ctypes.py_object(HangingHook))
    return where


class HangingHook(BaseException):
    """Raised in a hook that does not end."""

    def __str__(self) -> str:
        return f"simulated time has stood still for {PATIENCE_S:g} s of real time"
