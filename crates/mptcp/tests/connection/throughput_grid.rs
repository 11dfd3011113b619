//! Goodput over two paths, for buffers, losses, round-trip times and congestion controls: a
//! snapshot for review.
//!
//! A change of the engine that changes a number changes it here too. `UPDATE_SNAPSHOTS=1 cargo test
//! -p mptcp --test connection grid` writes the file anew, and the diff shows the changes.
//!
//! What stands out, and why:
//! - 50 kB without losses: the buffer is the window, whatever the control; `fixed_cwnd` has its ten
//!   packets in each cell.
//! - 1000 kB, 20 ms, without losses, 9.6: slow start overfills the slower path, and the transfer
//!   waits for its queue. Controls that leave slow start earlier (`cubic`, `x-mpcubic`, `wvegas`)
//!   or reduce more at the first loss (`coupled`) wait less; `bbr` drains the queue that it filled.
//! - `wvegas` is last at 100 ms: more than one packet in a queue ends its slow start, then a window
//!   gains a packet in a round trip. `wvegas-oot` rounds the queue down and leaves later.
//! - With losses, room and 100 ms `bbr`, which ignores losses, is first, followed by `cubic` and
//!   `x-mpcubic`, which take 0.3 of a window. `coupled` is last except for `wvegas`, because it
//!   takes half of all windows from one. The other coupled controls are near `reno`, because a
//!   dozen losses are few.
//! - `lia-oot`, `olia-oot`, `balia-oot` at 100 ms without losses, 6.8 instead of 6.5: segments that
//!   options shorten count as whole packets.

use std::fmt::Write;

use mptcp::cc;
use mptcp::connection::Buffer;

use crate::world::{Faults, Pair, PathModel, SERVER, Stack, seconds};

const SNAPSHOT: &str = include_str!("throughput_grid.txt");
const SNAPSHOT_PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/connection/throughput_grid.txt"
);
const BYTES: u64 = 1_200_000;
/// Several draws, because one draw of a dozen losses says little.
const DRAWS: u64 = 7;
const BUFFERS_KB: [u64; 2] = [50, 1000];
const LOSSES_PERCENT: [f64; 2] = [0.0, 1.0];
const ROUND_TRIPS_MS: [u64; 2] = [20, 100];

/// A point of the grid.
#[derive(Clone, Copy)]
struct Point {
    control: &'static str,
    buffer_kb: u64,
    loss_percent: f64,
    round_trip_ms: u64,
}

/// Returns the goodput from the SYN to the last byte in Mbit/s: the median of several draws of the
/// losses.
fn median_goodput(point: Point) -> f64 {
    let draws = if point.loss_percent > 0.0 { DRAWS } else { 1 };
    let mut goodputs: Vec<f64> = (1..=draws).map(|seed| goodput(seed, point)).collect();
    goodputs.sort_by(f64::total_cmp);
    goodputs[goodputs.len() / 2]
}

fn goodput(seed: u64, point: Point) -> f64 {
    let Point {
        control,
        buffer_kb,
        loss_percent,
        round_trip_ms,
    } = point;
    let mut stack = Stack {
        congestion_control: control,
        ..Stack::default()
    };
    stack.config.send_buffer = Buffer::Fixed(buffer_kb * 1000);
    stack.config.receive_buffer = Buffer::Fixed(buffer_kb * 1000);
    let faults = Faults {
        loss: loss_percent / 100.0,
        ..Faults::default()
    };
    let paths = vec![
        PathModel::new(8, round_trip_ms / 2).with(faults.clone()),
        PathModel::new(4, round_trip_ms).with(faults),
    ];
    let mut pair = Pair::new(seed, paths, &stack);
    pair.transfer(BYTES, 0);
    pair.run_until(seconds(60), |pair| pair.sides[SERVER].received == BYTES);
    (8 * BYTES) as f64 / pair.now as f64 * 1000.0
}

fn grid() -> String {
    let mut table = String::from(
        "Mbit/s of 1.2 MB over two paths: 8 Mbit/s with the round-trip time R, 4 Mbit/s with 2 R; with losses the median of seven draws.\n\
         control        buffer   loss   R: 20 ms  100 ms\n",
    );
    for control in cc::names() {
        for buffer_kb in BUFFERS_KB {
            for loss_percent in LOSSES_PERCENT {
                write!(
                    table,
                    "{control:13} {buffer_kb:4} kB  {loss_percent:3.1} % "
                )
                .expect("it grows");
                for round_trip_ms in ROUND_TRIPS_MS {
                    let goodput = median_goodput(Point {
                        control,
                        buffer_kb,
                        loss_percent,
                        round_trip_ms,
                    });
                    write!(table, " {goodput:7.1}").expect("it grows");
                }
                table.push('\n');
            }
        }
    }
    table
}

#[test]
fn the_grid_of_throughputs_is_as_reviewed() {
    let grid = grid();
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(SNAPSHOT_PATH, &grid).expect("the file can be written");
        return;
    }
    for (number, (is, was)) in grid.lines().zip(SNAPSHOT.lines()).enumerate() {
        assert_eq!(is, was, "line {} of {SNAPSHOT_PATH}", number + 1);
    }
    assert_eq!(grid, SNAPSHOT);
}
