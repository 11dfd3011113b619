//! The adaptive video player.

use serde_json::{Value, json};

use crate::experiments::{MS, SECOND, add_event, parallel, run};

/// Returns 20 s of a video over a link of 12 Mbit/s.
fn film(bitrates_bps: &[u64]) -> Value {
    let app = json!({
        "kind": "video", "bitrates_bps": bitrates_bps, "segment_ns": SECOND, "buffer_ns": 10 * SECOND, "startup_ns": SECOND,
        "length_ns": 20 * SECOND,
    });
    let mut experiment = parallel("tcp", &["one"], app);
    experiment["flows"][0]["opened_by"] = json!("to");
    experiment
}

#[test]
fn the_player_climbs_to_the_bit_rate_that_the_link_carries() {
    let run = run(&film(&[1_000_000, 2_000_000, 4_000_000, 8_000_000]));
    let bytes: Vec<_> = run.units.iter().map(|unit| unit[1]).collect();
    assert_eq!(bytes.len(), 20);
    assert_eq!((bytes[0], bytes[19]), (125_000, 1_000_000));
    assert_eq!(run.summary.flows[0].error, None);
    assert_eq!(run.last("flows.bulk", "video_stalls"), 0.0);
    let startup = run.last("flows.bulk", "video_startup_s");
    assert!((0.1..0.5).contains(&startup), "{startup}");
    // The last segment is requested when the buffer has room for it.
    let end = run.summary.end_ns;
    assert!((10 * SECOND..12 * SECOND).contains(&end), "{end}");
}

#[test]
fn without_enough_capacity_it_stands_still_between_segments() {
    let run = run(&film(&[24_000_000]));
    // Each second of the video takes 2 s and more; playback starts after the first.
    assert_eq!(run.last("flows.bulk", "video_stalls"), 19.0);
    let stalled = run.last("flows.bulk", "video_stalled_s");
    assert!((19.0..23.0).contains(&stalled), "{stalled}");
}

#[test]
fn an_outage_longer_than_the_buffer_is_one_stall() {
    let mut experiment = film(&[1_000_000]);
    for (at, kind) in [(3 * SECOND, "link_down"), (15 * SECOND, "link_up")] {
        let action = json!({"kind": kind, "link": "one", "by": "cut"});
        add_event(&mut experiment, at, action);
    }
    let run = run(&experiment);
    assert_eq!(run.last("flows.bulk", "video_stalls"), 1.0);
    let buffer = run.series("flows.bulk", "video_buffer_s");
    let at = |time: u64| buffer.iter().find(|(at, _)| *at == time).map(|(_, s)| *s);
    assert_eq!(at(14_900 * MS), Some(0.0));
    assert!(at(3 * SECOND).is_some_and(|seconds| seconds > 8.0));
}
