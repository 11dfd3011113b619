//! Measures the throughput of one TCP flow over a link without a rate, delay or loss, with
//! super-packets and packet by packet.
//!
//! Needs root. Prints `NAME BITS_PER_SECOND`, medians of several runs that alternate. The reference
//! is a pair of virtual Ethernet devices.

mod description;
mod traffic;

use std::time::Duration;

use description::{direction, parallel_links};
use serde_json::json;
use traffic::{End, Pair, World, goodput_bps, quantile};

const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(2);
const RUNS: usize = 5;

fn main() {
    let unshaped = direction(None, 0, 100_000);
    let mut one_by_one = unshaped.clone();
    // The list is never reached, but the link must count each packet.
    one_by_one["loss"] = json!({"kind": "list", "packets": [u32::MAX]});
    let mut found: [Vec<f64>; 3] = Default::default();
    for _ in 0..RUNS {
        let [with_super_packets, one_by_one] = [&unshaped, &one_by_one].map(|shape| {
            let world = World::new(&parallel_links(1, shape), 1);
            measured(world.ends(0))
        });
        let pair = Pair::new(None).expect("this needs ip(8)");
        let all = [with_super_packets, one_by_one, measured(pair.ends())];
        found
            .iter_mut()
            .zip(all)
            .for_each(|(found, rate)| found.push(rate));
    }
    let names = ["unshaped", "unshaped-packets", "veth"];
    for (name, mut found) in names.into_iter().zip(found) {
        found.sort_by(f64::total_cmp);
        println!("{name} {:.0}", quantile(&found, 0.5));
    }
}

fn measured(ends: [End<'_>; 2]) -> f64 {
    goodput_bps(&[ends], WARM_UP, MEASURED, || ())
}
