"""An experiment as Python objects: built, changed, run tick by tick, with a link cut while it runs.

python examples/python-objects.py
"""

import tempfile
from pathlib import Path

from mptcplab.backends import backend
from mptcplab.experiment import App, Cbr, Experiment, Flow, Host, Link, parse_action, resolve

CUT_AFTER_S = 5.0

experiment = Experiment(
    name="from-python",
    hosts={"phone": Host(), "server": Host()},
    links={"wifi": Link(between=["phone.wlan0", "server.eth0"], rate="6mbit", delay="15ms")},
    flows={"call": Flow(from_="phone", to="server", transport="udp", app=App(cbr=Cbr(rate="4mbit", size=1200)))},
    duration="10s",
)
slower = experiment.override({"links.wifi.rate": "2mbit"})
print(slower.to_yaml())


def received_mbit(description: Experiment, cut: bool) -> float:
    """Megabits that arrive in a run of the simulator; ``cut`` takes the link away half-way."""
    resolved = resolve(description)
    with tempfile.TemporaryDirectory() as directory:
        run = backend("sim").start(resolved.data, seed=1, directory=Path(directory))
        for tick in run.samples():
            if cut and tick.time_ns >= CUT_AFTER_S * 1e9:
                run.inject(parse_action("down: wifi", resolved, tick.time_ns))
                cut = False
        result = run.result()
    return float(result["flows"][0]["bytes"] * 8 / 1e6)


whole = received_mbit(experiment, cut=False)
half = received_mbit(experiment, cut=True)
throttled = received_mbit(slower, cut=False)
print(f"{whole:.1f} Mbit arrive, {half:.1f} with the link cut after {CUT_AFTER_S:.0f} s, {throttled:.1f} at 2 Mbit/s")

assert 39 < whole <= 40
assert 0.45 < half / whole < 0.55
assert 18 < throttled < 20
