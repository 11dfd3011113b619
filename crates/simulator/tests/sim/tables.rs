//! The tables of a run: what they contain when, and what remains after an error.

use std::fs;
use std::time::Duration;

use experiment::algorithms::Registry;
use experiment::resolved::Experiment;
use experiment::run::Run;
use experiment::samples::{Column, Table, TableError, read_table};
use serde_json::json;
use simulator::{QueueKind, Simulation, SimulationError};

use crate::experiments::{MS, SECOND, cbr, pair, run, start};

fn rows(table: &Table) -> usize {
    let mut lengths = table.iter().filter_map(|(_, column)| match column {
        Column::Integers(values) => Some(values.len()),
        _ => None,
    });
    lengths.next().expect("a column of integers")
}

#[test]
fn samples_come_at_0_at_every_tick_and_at_the_end() {
    let run = run(&pair(cbr(2 * MS, 100)));
    let sent = run.series("flows.bulk", "packets_sent");
    // Events at a time are in the sample of that time, except at 0.
    assert_eq!(
        sent,
        [
            (0, 0.0),
            (100 * MS, 51.0),
            (200 * MS, 100.0),
            (209 * MS, 100.0)
        ]
    );
    let wire_bytes = run.series("links.wire.forward", "wire_bytes");
    assert_eq!(wire_bytes[1], (100 * MS, 50.0 * 1500.0));
}

#[test]
fn a_run_without_an_end_of_its_own_ends_with_its_duration() {
    let run = run(&pair(
        json!({"kind": "cbr", "rate_bps": 1_000_000, "size_bytes": 1000, "duration_ns": null}),
    ));
    let times: Vec<_> = run
        .series("flows.bulk", "packets_sent")
        .iter()
        .map(|(time, _)| *time)
        .collect();
    assert_eq!(
        times,
        (0..=10).map(|tick| tick * 100 * MS).collect::<Vec<_>>()
    );
    assert_eq!(run.summary.end_ns, SECOND);
}

#[test]
fn the_last_sample_is_there_for_the_live_view() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut simulation = start(
        &pair(cbr(2 * MS, 100)),
        1,
        directory.path(),
        QueueKind::Calendar,
    );
    simulation.advance(150 * MS).expect("a run");
    assert_eq!(simulation.latest()["flows.bulk"]["packets_sent"], 51.0);
    assert_eq!(simulation.latest()["interfaces.server.wire"]["up"], 1.0);
}

#[test]
fn a_stream_that_was_cut_gives_its_whole_rows() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut experiment = pair(cbr(100_000, 9_000));
    experiment["measure"]["every_ns"] = json!(MS / 10);
    let mut simulation = start(&experiment, 1, directory.path(), QueueKind::Calendar);
    simulation.advance(u64::MAX).expect("a run");
    // As if the process were killed here.
    drop(simulation);
    let path = directory.path().join("samples.csv");
    let whole = rows(&read_table(&path).expect("a table"));
    assert!(whole >= 3 * 65536, "{whole}");
    let bytes = fs::read(&path).expect("a file");
    for kept in [bytes.len() - 1, bytes.len() * 2 / 3, bytes.len() / 2, 3000] {
        fs::write(&path, &bytes[..kept]).expect("a file");
        let found = rows(&read_table(&path).expect("a table"));
        let lines = bytes[..kept].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(found, lines - 1, "the rows in {kept} bytes");
        assert!(found < whole);
    }
}

#[test]
fn rows_reach_the_disk_within_a_second_or_at_the_next_step() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = pair(cbr(2 * MS, 100));
    let mut simulation = start(&run, 1, directory.path(), QueueKind::default());
    let written = || {
        ["samples.csv", "units.csv"]
            .map(|name| rows(&read_table(&directory.path().join(name)).expect("a table")))
    };
    simulation.advance(110 * MS).expect("a run");
    std::thread::sleep(Duration::from_millis(1050));
    simulation.advance(111 * MS).expect("a run");
    let [samples, units] = written();
    assert!(samples > 0);
    // Sent at 0 to 98 ms, 11 ms on the link. The unit that arrives at 111 ms is not written yet.
    assert_eq!(units, 50);
}

#[test]
fn what_is_no_table_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["none.csv", "empty.csv", "text.csv", "text.parquet"] {
        let path = directory.path().join(name);
        if name != "none.csv" {
            fs::write(
                &path,
                if name.starts_with("text") {
                    "no table, just words"
                } else {
                    ""
                },
            )
            .expect("a file");
        }
        let error = read_table(&path).expect_err("an error").to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn finishing_leaves_only_parquet() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut simulation = start(
        &pair(cbr(2 * MS, 5)),
        1,
        directory.path(),
        QueueKind::Calendar,
    );
    simulation.advance(u64::MAX).expect("a run");
    simulation.finish().expect("a result");
    let mut names: Vec<_> = fs::read_dir(directory.path())
        .expect("a directory")
        .map(|entry| entry.expect("a file").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["samples.parquet", "units.parquet"]);
}

#[test]
fn a_directory_that_is_not_there_is_an_error_with_its_path() {
    let experiment = Experiment::from_json(&pair(cbr(2 * MS, 5)).to_string()).expect("valid");
    let missing = tempfile::tempdir()
        .expect("a directory")
        .path()
        .join("missing");
    let error = Simulation::new(
        experiment,
        1,
        &missing,
        QueueKind::Heap,
        Registry::default(),
    )
    .err()
    .expect("an error");
    assert!(error.to_string().contains("missing/samples.csv"), "{error}");
}

/// /dev/full refuses every byte, as a full disk does.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_with_its_path() {
    let directory = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink("/dev/full", directory.path().join("samples.csv")).expect("a link");
    let experiment = Experiment::from_json(&pair(cbr(2 * MS, 5)).to_string()).expect("valid");
    let error = Simulation::new(
        experiment,
        1,
        directory.path(),
        QueueKind::Heap,
        Registry::default(),
    )
    .err()
    .expect("an error");
    assert!(
        matches!(&error, SimulationError::Table(TableError::Io { .. })),
        "{error:?}"
    );
    assert!(error.to_string().contains("samples.csv"), "{error}");
}
