//! Events on links with access networks.

use experiment::features::Feature;
use serde_json::json;

use crate::complete::carriers::carry;
use crate::experiments::{MS, Run, SECOND, add_event, cbr, pair, run};

/// Varies what carries the link: 802.11n with stations that neither sleep nor scan.
const NUMBER: u64 = 9;

/// Returns the packets that the link had delivered by each second.
fn delivered(run: &Run) -> Vec<f64> {
    let series = run.series("links.wire.forward", "delivered_packets");
    let seconds = (0..=6).map(|second| {
        let mut before = series.iter().filter(|(at, _)| *at <= second * SECOND);
        before.next_back().map_or(0.0, |(_, packets)| *packets)
    });
    seconds.collect()
}

#[test]
fn an_event_sets_the_signal_of_a_station() {
    let mut experiment = pair(cbr(10 * MS, 600));
    experiment["duration_ns"] = json!(6 * SECOND);
    carry(&mut experiment, Feature::Wifi, &[0], NUMBER);
    for (at, mean_mdb) in [(2, -30_000), (4, 40_000)] {
        let action = json!({"kind": "set_signal", "link": "wire", "mean_mdb": mean_mdb});
        add_event(&mut experiment, at * SECOND, action);
    }
    let run = run(&experiment);
    let delivered = delivered(&run);
    assert!(delivered[2] > 190.0, "{delivered:?}");
    assert_eq!(
        delivered[4],
        delivered[2] + f64::from(u8::from(delivered[4] > delivered[2]))
    );
    assert!(delivered[6] > delivered[4] + 150.0, "{delivered:?}");
    assert!(run.last("links.wire.forward", "dropped_retries") > 0.0);
}

#[test]
fn an_event_sets_the_rate_of_a_cellular_link() {
    let mut experiment = pair(cbr(MS, 6000));
    experiment["duration_ns"] = json!(6 * SECOND);
    carry(&mut experiment, Feature::Cellular, &[0], NUMBER);
    let mut slow = experiment["links"][0]["forward"].clone();
    slow["rate_bps"] = json!(1_000_000);
    let action = json!({"kind": "set_link", "link": "wire", "forward": slow, "backward": slow});
    add_event(&mut experiment, 3 * SECOND, action);
    let delivered = delivered(&run(&experiment));
    let [before, after] = [delivered[3] - delivered[1], delivered[6] - delivered[4]];
    assert!(before > 500.0, "{delivered:?}");
    // 1 Mbit/s are 83 packets a second, and the rate varies.
    assert!((50.0..500.0).contains(&after), "{delivered:?}");
}
