"""Traces of links: what each format says, what is refused and where, conversion with the origin,
synthetic traces.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from command_line import Ended, is_refused, mptcplab
from mptcplab.errors import SpecError, UsageError
from mptcplab.traces import formats, library
from mptcplab.traces.conversion import convert, format_for
from mptcplab.traces.model import Origin, Step, Trace, evenly, per_interval
from mptcplab.traces.statistics import statistics

MS = 1_000_000
SECOND = 1000 * MS
REPOSITORY = Path(__file__).parent.parent


def read(tmp_path: Path, text: str, name: str = "trace", **columns: str) -> Trace:
    """Returns the trace of a text."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    return formats.read(tmp_path / name, columns)[0]


# ---- formats ----


def test_milliseconds_are_opportunities_and_the_last_ends_the_period(tmp_path: Path) -> None:
    trace = read(tmp_path, "1\n1\n4\n10\n")
    assert (trace.opportunities_ns, trace.period_ns) == ((0, 1 * MS, 1 * MS, 4 * MS), 10 * MS)
    assert trace.mean_rate_bps() == 4 * 12_000 / 0.010


def test_two_columns_are_rates_and_the_last_holds_as_long_as_the_one_before(tmp_path: Path) -> None:
    trace = read(tmp_path, "# licence: CC0\n1500000000.5 12\n1500000001.5\t0.5\n1500000003.5 0\n")
    assert trace.rates == (Step(0, 12_000_000), Step(SECOND, 500_000), Step(3 * SECOND, 0))
    assert trace.period_ns == 5 * SECOND
    assert trace.origin == Origin(None, "CC0")


def test_six_columns_are_bytes_in_the_interval_before(tmp_path: Path) -> None:
    # Two lines as in the log of a ferry in Norway, and one of 0 ms, whose bytes belong to the next.
    text = "1289406399 1000 59.851754 10.781778 250000 1000\n1289406400 1000 59.85 10.78 100 0\n1289406401 1500 59.85 10.78 900 500\n"
    trace = read(tmp_path, text)
    assert trace.rates == (Step(0, 2_000_000), Step(SECOND, 16_000))
    assert trace.period_ns == 1500 * MS


def test_columns_of_csv_are_known_by_their_names(tmp_path: Path) -> None:
    trace = read(tmp_path, "time_ms,rate_mbps,rtt_ms,loss\n100,1.5,40,0\n200,3,40,0.5\n300,-,60,0\n", "t.csv")
    assert trace.rates == (Step(0, 1_500_000), Step(100 * MS, 3_000_000))
    assert trace.delays == (Step(0, 20 * MS), Step(200 * MS, 30 * MS))
    assert trace.losses == (Step(0, 0.0), Step(100 * MS, 0.5), Step(200 * MS, 0.0))
    assert trace.period_ns == 300 * MS


def test_columns_of_csv_are_chosen_with_their_units(tmp_path: Path) -> None:
    text = "Timestamp,State,DL\n2019.12.16_13.40.04,D,72\n2019.12.16_13.40.04,D,80\n2019.12.16_13.40.06,D,20\n"
    trace = read(tmp_path, text, "t.csv", time="Timestamp", rate="DL kbit")
    # Of two lines in the same second the last counts.
    assert trace.rates == (Step(0, 80_000), Step(2 * SECOND, 20_000))


def test_times_of_zones_are_compared_as_instants(tmp_path: Path) -> None:
    text = "time,rate_bps\n2019-12-16T13:40:04Z,9\n2019-12-16T14:40:06.5+01:00,8\n"
    assert read(tmp_path, text, "t.csv").rates == (Step(0, 9), Step(2500 * MS, 8))


def test_where_nothing_was_measured_the_value_before_holds(tmp_path: Path) -> None:
    trace = read(tmp_path, "time_s,rate_bps,delay_s\n0,9,-\n1,,3\n2,8,\n", "t.csv")
    assert trace.rates == (Step(0, 9), Step(2 * SECOND, 8))
    assert trace.delays == (Step(0, 3 * SECOND),)


def test_time_between_an_end_and_the_next_begin_is_left_out(tmp_path: Path) -> None:
    trace = read(tmp_path, "time_s,until_s,rate_bps\n0,1,8\n1,2,9\n100,103,10\n", "t.csv")
    assert trace.rates == (Step(0, 8), Step(SECOND, 9), Step(2 * SECOND, 10))
    assert trace.period_ns == 5 * SECOND


@pytest.mark.parametrize("first", [(0, 1, 5), ()])
def test_a_pair_of_cellreplay_is_one_trace(tmp_path: Path, first: tuple[int, ...]) -> None:
    (tmp_path / "up-pdo").write_text("1\n2\n1000\n")
    light = " ".join(str(number) for number in (0, 20, *first))
    trace = read(tmp_path, f"{light}\n500 30 0 0 0\n2000 10 0\n", "up-delay-light-pdo")
    assert trace.opportunities_ns == (0, 1 * MS, 2 * MS)
    assert trace.delays == (Step(0, 20 * MS), Step(500 * MS, 30 * MS))
    assert [train.opportunities_ns for train in trace.trains] == [
        tuple(number * MS for number in first),
        (0, 0, 0),
    ]


WRONG = {
    "": "trace:1: is empty; allowed: at least one line of a trace",
    "# only a comment\n": "trace:1: is empty; allowed: at least one line of a trace",
    "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n": (
        "trace:1: is a pointer of Git LFS, and not the trace; allowed: the file itself, which `git lfs pull` fetches"
    ),
    "{\n1\n": "trace:1: no format has a line such as '{'; allowed: csv",
    "1\n5\n4\n": "trace:3: 4 ms comes after 5 ms; allowed: ascending milliseconds",
    "1\n-5\n": "trace:2: found '-5'; allowed: a whole number of milliseconds",
    "0\n0\n": "trace:2: the trace ends at 0 ms; allowed: a last millisecond above 0",
    "0 5\n2 5\n1.5 5\n": "trace:3: time 1.5 s comes after 2 s; allowed: ascending times",
    "0 5\n1 -5\n": "trace:2: rate -5 is negative; allowed: 0 or more",
    "0 5\n1 nan\n": "trace:2: found 'nan' as rate; allowed: a number, as in 12 or 0.25",
    "0 0\n1 0\n": "trace: has only rates of 0; allowed: at least one rate above 0",
    "0 5\n1\n": "trace:2: found 1 columns; allowed: two, seconds and Mbit/s",
    "1289406399 9 59.8 10.7 25 9\n1289406399 8 59.8 10.7 25 9\n": (
        "trace:2: 8 ms comes after 9 ms; allowed: ascending times in column 2"
    ),
    "time_s,rate_bps\n0,9\n1,2,3\n": "trace:3: found 3 columns; allowed: 2, as in the head",
    "time_s,rate_bps\n": "trace:1: there is no line below the head; allowed: at least one line of a trace",
    "time_s,loss\n0,1.5\n": "trace:2: loss 1.5 is more than all; allowed: 0 to 1, or 0 to 100 with the unit percent",
    "time_s,until_s,rate_bps\n5,5,1\n": "trace:2: ends at 5, not after 5; allowed: an end after the time",
    "time_s,rate_bps\n0,9\n0,\xff": "trace:3: byte 0xff is not text; allowed: a text file",
    "a b c\n": "trace:1: no format has a line such as 'a b c'; allowed: csv:",
    "time_s,rate_bps\n0,-\n": "trace:2: no rate was measured in any line; allowed: numbers in that column",
    "time_s,rate_bps\n0,1\n10000000,1\n": "trace: has 20000000 s; allowed: at most 864000 s",
    "place,speed\n1,2\n": "trace:1: there is no column for the time; allowed: names such as time_s",
    "time_s,rate_mbps,rate_kbps\n0,1,2\n": "trace:1: the columns 'rate_mbps' and 'rate_kbps' are both rate; allowed: one",
    "time_s;rate_mbps\n0;1\n": "trace:1: found ';' between the columns; allowed: ','",
    "time_s,until_s,rate_bps\n0,2,1\n1,3,1\n": (
        "trace:3: begins at 1, before the line above ends; allowed: lines that do not overlap"
    ),
    "time,loss\n2019-02-30T13:40:04Z,0\n": "trace:2: found '2019-02-30T13:40:04Z' as time; allowed: a date and a time",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_trace_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "trace").write_bytes(text.encode("latin-1"))
    with pytest.raises(SpecError) as refused:
        formats.read(tmp_path / "trace")
    message = str(refused.value)
    assert message.startswith(f"{tmp_path}/{WRONG[text]}")
    assert "\n" not in message


def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"t.csv:1: columns.rate: there is no column 'up'; allowed: t, down"):
        read(tmp_path, "t,down\n0,1\n", "t.csv", time="t", rate="up kbit")
    with pytest.raises(SpecError, match=r"columns.rate: unknown unit 'furlong'; allowed: bps, kbps, mbps, gbps"):
        read(tmp_path, "t,down\n0,1\n", "t.csv", time="t", rate="down furlong")


# ---- conversion ----


def test_opportunities_of_a_rate_are_spread_evenly_and_lose_nothing_at_steps() -> None:
    trace = Trace(2 * SECOND, rates=(Step(0, 9_000), Step(SECOND, 15_000)))
    # 12000 bits are carried after 1 s + 3000/15000 s; the next 12000 after 2 s.
    assert evenly(trace) == [1200 * MS, 2000 * MS]


def test_every_format_reads_back_what_it_wrote(tmp_path: Path) -> None:
    trace = Trace(
        4 * SECOND,
        rates=(Step(0, 2_400_000), Step(SECOND, 0), Step(2 * SECOND, 1_200_000)),
        delays=(Step(0, 10 * MS), Step(2 * SECOND, 30 * MS)),
        losses=(Step(0, 0.0), Step(SECOND, 0.25)),
        origin=Origin("a walk", "CC0"),
    )
    for name, one in formats.FORMATS.items():
        converted = convert(trace, tmp_path / name, one, 1000 * MS)
        for path, text in converted.contents.items():
            path.write_text(text, encoding="utf-8")
        first = next(iter(converted.contents))
        again, kind = library.load(first)
        assert kind == name
        assert again.origin == trace.origin
        assert again.period_ns == trace.period_ns
        assert [step.value for step in per_interval(again, SECOND)] == pytest.approx(
            [2_400_000, 0, 1_200_000, 1_200_000], abs=12_000
        )
        assert again.delays == (trace.delays if "delays" in one.keeps else ())
        assert again.losses == (trace.losses if "losses" in one.keeps else ())
        assert bool(converted.left_out) == (name != "csv")


def test_a_trace_without_a_licence_line_is_not_converted(tmp_path: Path) -> None:
    trace = Trace(SECOND, rates=(Step(0, 9),))
    with pytest.raises(UsageError, match="has no licence line"):
        convert(trace, tmp_path / "out.csv", format_for(tmp_path / "out.csv", None), 100 * MS)


#: What is converted, the name of the new file, the intervals in ms, and how many lines it has.
ALTERNATING = tuple(Step(number * 10 * MS, 10_000_000 * (number % 2)) for number in range(100))
KEPT = {
    "steps of 10 ms": (Trace(SECOND, rates=ALTERNATING), "a.rates", None, 100),
    "steps of 10 ms as log": (Trace(SECOND, rates=ALTERNATING), "a.log", None, 100),
    "two steps": (Trace(2 * SECOND, rates=(Step(0, 5), Step(SECOND, 3))), "a.rates", None, 2),
    "ten days": (Trace(864_000 * SECOND, rates=(Step(0, 5), Step(3, 8))), "a.csv", None, 2),
    "a short end": (Trace(120 * SECOND, rates=(Step(0, 8000),)), "a.rates", 7000, 19),
    "an odd end": (Trace(2 * SECOND + 1, rates=(Step(0, 8), Step(SECOND, 9))), "a.rates", None, 4),
}


@pytest.mark.parametrize("name", KEPT)
def test_rates_keep_their_intervals_and_the_trace_its_length(tmp_path: Path, name: str) -> None:
    trace, file, every_ms, lines = KEPT[name]
    trace = replace(trace, origin=Origin(None, "CC0"))
    every_ns = every_ms and every_ms * MS
    [(path, text)] = convert(trace, tmp_path / file, format_for(Path(file), None), every_ns).contents.items()
    path.write_text(text)
    again = library.load(path)[0]
    assert (again.rates, again.period_ns) == (trace.rates, trace.period_ns)
    assert sum(line[0].isdigit() for line in text.splitlines()) == lines


def test_a_licence_of_two_lines_is_not_written_because_it_would_not_be_read() -> None:
    trace = Trace(SECOND, rates=(Step(0, 9),), origin=Origin(None, "CC0\nBY"))
    with pytest.raises(UsageError, match=r"out.csv: licence: found 'CC0\\nBY'; allowed: a text of one line"):
        convert(trace, Path("out.csv"), formats.FORMATS["csv"], 100 * MS)


def test_a_trace_without_a_rate_is_only_written_as_csv(tmp_path: Path) -> None:
    trace = Trace(SECOND, delays=(Step(0, 9),), origin=Origin(None, "CC0"))
    with pytest.raises(UsageError, match="the trace has no rate, which format rates is; allowed: csv"):
        convert(trace, tmp_path / "out.rates", formats.FORMATS["rates"], 100 * MS)


# ---- the command ----


def test_the_command_lists_shows_and_converts(tmp_path: Path) -> None:
    def run(*arguments: str) -> Ended:
        return mptcplab("traces", *arguments, cwd=tmp_path)

    (tmp_path / "mine.trace").write_text("1\n2\n1000\n")
    assert "lte-driving-down" in run("list").out
    listed = run("list", str(tmp_path), "--json").document
    assert [(one["name"], one["format"], one["length_s"]) for one in listed["traces"]] == [
        ("mine.trace", "mahimahi", 1.0)
    ]
    shown = run("show", "leo-down", "--export", "figures", "--format", "svg", "--json").document
    assert shown["licence"] == "MIT OR Apache-2.0"
    assert shown["delay_s"]["p50"] == pytest.approx(0.025)
    assert (tmp_path / shown["pictures"][0]).read_text().startswith("<?xml")
    refused = run("convert", "mine.trace", "mine.csv")
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert "has no licence line" in refused.err
    assert run("convert", "mine.trace", "mine.csv", "--licence", "CC0", "--source", "a walk").status == 0
    assert (tmp_path / "mine.csv").read_text().startswith("# source: a walk\n# licence: CC0\ntime_s,until_s,rate_bps\n")


@pytest.mark.parametrize("arguments", [["."], []])
def test_a_list_tells_how_many_files_it_leaves_out(tmp_path: Path, arguments: list[str]) -> None:
    for name, text in {"back.rates": "0 5\n2 5\n1 5\n", "empty": "", "good": "1\n2\n", "origin.yaml": "{}"}.items():
        (tmp_path / name).write_text(text)
    ended = mptcplab("traces", "list", *arguments, cwd=tmp_path, MPTCPLAB_TRACES=str(tmp_path))
    assert "good" in ended.out
    assert re.fullmatch(r"2 files left out: .*back.rates:3: time 1 s comes after 2 s; allowed: .*\n", ended.err)


def test_the_example_of_the_help_works(tmp_path: Path) -> None:
    shown = re.search(r"^ *Example: mptcplab (.*)", mptcplab("traces", "--help", cwd=tmp_path).out, re.MULTILINE)
    assert shown
    assert mptcplab(*shown[1].split(), cwd=tmp_path).out.startswith("wrote lte-driving.down, ")


REFUSED = {
    "show lte-drivin-down": "there is no trace 'lte-drivin-down', did you mean 'lte-driving-down'?; allowed: a file, or ",
    "list --columns rate=x": "traces list: found --columns, which it does not use; allowed: traces show or traces convert",
    "convert slow.rates slow.down": "slow.down: the trace carries less than the 1500 bytes of an opportunity; allowed: ",
    "show a.rates --columns rate=x --columns rate=y": "--columns: found two for one of rate; allowed: one for each kind",
    "show a.rates --columns rate=x": "a.rates: format rates has no columns with names; allowed: columns with a CSV file",
    "convert leo-up new.csv --licence ' '": "--licence: found ' '; allowed: a text of one line",
    "convert leo-up new.down --source 'a\nb'": "--source: found 'a\\nb'; allowed: a text of one line",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_wrong_command_line_is_refused_in_one_line(tmp_path: Path, arguments: str) -> None:
    (tmp_path / "a.rates").write_text("# licence: CC0\n0 5\n1 3\n")
    (tmp_path / "slow.rates").write_text("# licence: CC0\n0 0.001\n1 0.001\n")
    ended = mptcplab("traces", *shlex.split(arguments), cwd=tmp_path)
    assert is_refused(ended, 2, REFUSED[arguments])
    assert ended.err.count("\n") == 1


def test_a_pair_has_rounded_delays_and_a_quiet_end_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# licence: CC0\ntime_s,rate_mbps,delay_ms\n0,5,10.6\n1,0,20.4\n")
    converted = mptcplab("traces", "convert", "a.csv", "b", "--to", "cellreplay", "--every", "1s", cwd=tmp_path)
    assert converted.err == "added: an opportunity at the end, because the last one sets the length\n"
    lines = (tmp_path / "b-delay-light-pdo").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["11", "20"]


def test_a_long_trace_with_two_opportunities_is_shown_at_once(tmp_path: Path) -> None:
    (tmp_path / "sparse").write_text("1\n863999999\n")
    numbers = mptcplab("traces", "show", "sparse", "--json", cwd=tmp_path).document
    assert (numbers["rate_bps"]["p95"], numbers["longest_outage_s"]) == (0, 863_999.998)


# ---- synthetic and measured traces ----


def test_a_link_delivers_what_its_trace_can_carry(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "name: x\nhosts: {a: {}, b: {}}\n"
        "links: {l: {between: [a.e, b.e], trace: {synthetic: lte-driving-down}, overhead: ip, queue: 1000p}}\n"
        "flows: {f: {from: a, to: b, transport: udp, app: {cbr: {rate: 50mbit, size: 1472}}}}\nduration: 120s\n"
    )
    ended = mptcplab("run", "x.yaml", "--json", cwd=tmp_path)
    goodput_bps = ended.document["runs"][0]["flows"][0]["goodput_bps"]
    capacity_bps = library.load(library.synthetic("lte-driving-down"))[0].mean_rate_bps()
    assert capacity_bps is not None
    assert goodput_bps == pytest.approx(capacity_bps * 1372 / 1400, rel=0.01)


def test_synthetic_traces_are_those_of_their_script_and_have_the_statistics_of_their_kind() -> None:
    made = runpy.run_path(str(REPOSITORY / "scripts" / "synthetic_traces.py"))["contents"]()
    assert made == {path.name: path.read_text() for path in library.SYNTHETIC.iterdir()}
    for name in ("lte-driving-down", "lte-driving-up"):
        rate = statistics(library.load(library.synthetic(name))[0]).rate_bps
        assert rate is not None
        # The span of the LTE traces of mahimahi.
        assert 0 <= rate["p5"] / rate["p50"] <= 0.14
        assert 2.0 <= rate["p95"] / rate["p50"] <= 3.7


def test_a_short_burst_over_a_pair_arrives_as_its_train_says_and_a_long_one_at_the_rate_under_load(
    tmp_path: Path,
) -> None:
    pair = library.load(library.synthetic("lte-pair-down"))[0]
    described = (
        "name: x\nhosts: {a: {}, b: {}}\n"
        "links: {l: {between: [a.e, b.e], trace: {synthetic: lte-pair-down}, overhead: ip, queue: 4000p}}\n"
        "flows: {f: {from: a, to: b, transport: udp, app: {cbr: {rate: RATE, size: 1372}}}}\nduration: 20s\n"
    )
    # A packet each 200 ms begins a train, and has the delay of its time.
    delay_s = median(train.delay_ns for train in pair.trains) / 1e9
    expected = f"expect: [flows.f.delay_p50_s > {delay_s - 0.003}, flows.f.delay_p50_s < {delay_s + 0.003}]\n"
    (tmp_path / "idle.yaml").write_text(described.replace("RATE", "54880bit") + expected)
    (tmp_path / "load.yaml").write_text(described.replace("RATE", "50mbit"))
    idle, load = (mptcplab("run", f"{name}.yaml", "--json", cwd=tmp_path) for name in ("idle", "load"))
    assert idle.status == 0, idle.out
    capacity_bps = pair.mean_rate_bps()
    assert capacity_bps is not None
    goodput_bps = load.document["runs"][0]["flows"][0]["goodput_bps"]
    assert goodput_bps == pytest.approx(capacity_bps * 1372 / 1400, rel=0.02)


#: Facts of measured traces that are not part of the repository: mean Mbit/s, p5/p50 and p95/p50 of
#: the rate in 100 ms.
MEASURED = {
    "mahimahi/ATT-LTE-driving-2016.down": (4.560, 0.0, 3.66),
    "mahimahi/Verizon-LTE-short.down": (5.028, 0.139, 2.81),
    "mahimahi/Verizon-LTE-short.up": (5.946, 0.133, 2.27),
}


@pytest.mark.skipif(library.VARIABLE not in os.environ, reason=f"{library.VARIABLE} names no measured traces")
@pytest.mark.parametrize("name", MEASURED)
def test_measured_traces_are_read_as_published(name: str) -> None:
    if not library.resolved(name).is_file():
        pytest.skip(f"no {name}")
    numbers = statistics(library.load(library.measured(name))[0])
    assert numbers.mean_rate_bps is not None
    assert numbers.rate_bps is not None
    p5, p50, p95 = (numbers.rate_bps[quantile] for quantile in ("p5", "p50", "p95"))
    assert (numbers.mean_rate_bps / 1e6, p5 / p50, p95 / p50) == pytest.approx(MEASURED[name], abs=0.01)


def test_measured_traces_are_found_below_their_folder_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.VARIABLE, raising=False)
    with pytest.raises(SpecError, match=f"measured trace a.down: {library.VARIABLE} names no folder"):
        library.measured("a.down")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "a.down").write_text("1\n2\n")
    monkeypatch.setenv(library.VARIABLE, str(tmp_path))
    assert library.measured("lab/a.down") == tmp_path / "lab" / "a.down"
    with pytest.raises(SpecError, match=r"there is no measured trace lab/b.down, did you mean 'lab/a.down'\?"):
        library.measured("lab/b.down")
    with pytest.raises(SpecError, match="is outside of"):
        library.measured("../a.down")
