//! What can carry the packets of a link in place of a serializer of its own, as JSON.

use experiment::features::{BackEnd, Feature};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const MEGABIT: u64 = 1_000_000;

/// Returns the features that carry packets.
pub fn all() -> Vec<Feature> {
    let all = Feature::of_kind("access").chain([Feature::Medium, Feature::Trace]);
    all.filter(|one| one.lacking(BackEnd::Simulator).is_none())
        .collect()
}

/// Lets a carrier carry the links of these indices. `number` varies its values.
pub fn carry(experiment: &mut Value, carrier: Feature, links: &[usize], number: u64) {
    if links.is_empty() {
        return;
    }
    match carrier {
        Feature::Medium => share(experiment, links, json!(4 * MEGABIT)),
        Feature::Wifi => {
            share(experiment, links, Value::Null);
            let medium = medium_of(links);
            let stations = links.iter().enumerate();
            let stations: Vec<_> = stations
                .map(|(index, link)| station(&id(experiment, *link), number, index as u64))
                .collect();
            push(&mut experiment["access"], wifi(&medium, stations, number));
        }
        Feature::Cellular => each(experiment, links, |link| cellular(link, number)),
        Feature::Leo => each(experiment, links, leo),
        Feature::Cable => each(experiment, links, |link| {
            let requests = json!({"period_ns": 2 * MS, "grant_ns": 4 * MS});
            json!({"kind": "cable", "link": link, "uplink": "forward", "requests": requests})
        }),
        Feature::Trace => {
            for link in links {
                for direction in ["forward", "backward"] {
                    let direction = &mut experiment["links"][link][direction];
                    direction["rate_bps"] = Value::Null;
                    direction["trace"] = trace(number);
                }
            }
        }
        other => panic!("{} carries nothing here", other.name()),
    }
}

fn push(list: &mut Value, item: Value) {
    list.as_array_mut().expect("a list").push(item);
}

fn id(experiment: &Value, link: usize) -> String {
    let id = experiment["links"][link]["id"].as_str();
    id.expect("an id").to_owned()
}

fn medium_of(links: &[usize]) -> String {
    format!("medium{}", links[0])
}

fn share(experiment: &mut Value, links: &[usize], rate_bps: Value) {
    let medium = medium_of(links);
    for link in links {
        experiment["links"][link]["medium"] = json!(medium);
    }
    let medium = json!({"id": medium, "rate_bps": rate_bps, "overhead_bytes": 14});
    push(&mut experiment["media"], medium);
}

fn each(experiment: &mut Value, links: &[usize], access: impl Fn(&str) -> Value) {
    for link in links {
        let access = access(&id(experiment, *link));
        push(&mut experiment["access"], access);
    }
}

/// Returns a trace of opportunities or of rates, delays and losses, with an outage.
fn trace(number: u64) -> Value {
    let instants = (0..40).map(|one| {
        if one % 8 < 5 {
            5 * one
        } else {
            5 * (one / 8 * 8) + 20
        }
    });
    let opportunities: Vec<u64> = instants.map(|ms: u64| ms * MS).collect();
    let rates = json!([{"from_ns": 0, "rate_bps": 4 * MEGABIT}, {"from_ns": 120 * MS, "rate_bps": 0},
        {"from_ns": 170 * MS, "rate_bps": 9 * MEGABIT}]);
    let delays =
        json!([{"from_ns": 0, "delay_ns": 2 * MS}, {"from_ns": 60 * MS, "delay_ns": 40 * MS}]);
    let is_listed = number.is_multiple_of(2);
    json!({
        "opportunities_ns": if is_listed { json!(opportunities) } else { json!([]) },
        "rates": if is_listed { json!([]) } else { rates },
        "delays": if is_listed { json!([]) } else { delays },
        "trains": null, "losses": [], "period_ns": 200 * MS, "opportunity_bytes": 1500,
        "start": {"kind": "drawn", "recording": "walk", "below_ns": 200 * MS},
    })
}

fn wifi(medium: &str, stations: Vec<Value>, number: u64) -> Value {
    let (band, standards) = standards(number);
    let edca = edca(number);
    let ap_queue = match number.is_multiple_of(3) {
        true => json!({"kind": "fifo", "limit_packets": 200, "driver_packets": 20}),
        false => {
            json!({"kind": "fq", "quantum_ns": 300_000, "aql_low_ns": 5 * MS, "aql_high_ns": 12 * MS,
            "aql_threshold_ns": 24 * MS})
        }
    };
    let neighbours = json!([{"stations": 2, "load_bps": MEGABIT, "rate_bps": 11 * MEGABIT, "packet_bytes": 1000}]);
    json!({
        "kind": "wifi", "medium": medium, "standard": standards[0], "band": band,
        "rts_bytes": if number.is_multiple_of(5) { json!(1000) } else { Value::Null }, "retry_limit": 4 + number % 7,
        "edca": [edca, edca, edca, edca], "ap_queue": ap_queue, "stations": stations,
        "neighbours": if number.is_multiple_of(4) { neighbours } else { json!([]) },
    })
}

/// Returns a band, and standards of stations there, those that have the network's first.
fn standards(number: u64) -> (&'static str, &'static [&'static str]) {
    match number % 8 {
        0 => ("2.4ghz", &["b"]),
        1 => ("5ghz", &["n", "a"]),
        2 => ("5ghz", &["a"]),
        3 => ("2.4ghz", &["n", "g"]),
        4 => ("2.4ghz", &["g", "b"]),
        5 => ("5ghz", &["ac", "n", "a"]),
        6 => ("2.4ghz", &["ax", "b", "n"]),
        _ => ("5ghz", &["ax", "ac"]),
    }
}

fn edca(number: u64) -> Value {
    json!({"aifsn": 3, "cw_min": 15, "cw_max": 1023, "txop_limit_ns": number % 2 * 2 * MS})
}

/// Returns the station of this index in its network.
fn station(link: &str, number: u64, index: u64) -> Value {
    let (_, standards) = standards(number);
    let standard = standards[(number / 16 + index) as usize % standards.len()];
    let max_mpdus = if ["b", "g", "a"].contains(&standard) {
        1
    } else {
        32
    };
    let scan = json!({"every_ns": SECOND, "shortest_ns": 20 * MS, "longest_ns": 120 * MS});
    json!({
        "link": link, "uplink": "forward", "standard": standard, "width_mhz": 20, "guard_interval_ns": 800, "streams": 1,
        "aggregation": {"max_mpdus": max_mpdus, "max_bytes": 65_535, "max_ppdu_ns": 4 * MS},
        "access_category": "best_effort", "edca": edca(number), "rate": {"kind": "auto"},
        "snr": {"means": [{"at_ns": 0, "mean_mdb": 12_000 + number % 20 * 1000}], "sd_mdb": 2000,
            "correlation_ns": 200 * MS},
        "power_save_after_ns": if number.is_multiple_of(2) { json!(50 * MS) } else { Value::Null },
        "scan": if number.is_multiple_of(7) { scan } else { Value::Null },
    })
}

fn cellular(link: &str, number: u64) -> Value {
    let gaps = |interval_ns: u64| json!({"interval_ns": interval_ns, "gap_median_ns": 60 * MS, "gap_sd_ppm": 700_000});
    let tti_ns = [MS, MS / 2][number as usize % 2];
    json!({
        "kind": "cellular", "link": link, "uplink": "forward", "tti_ns": tti_ns,
        "harq": {"first_error_ppm": 100_000, "repeat_error_ppm": 20_000, "round_trip_ns": 8 * tti_ns, "tries": 4,
            "rlc_ns": 50 * MS},
        "requests": {"period_ns": 10 * MS, "grant_ns": 8 * MS},
        "rrc": {"drx_after_ns": 100 * MS, "drx_cycle_ns": 320 * MS, "inactivity_ns": 1000 * MS,
            "paging_cycle_ns": 1280 * MS, "promotion_ns": 260 * MS},
        "signal": {"median_mdb": 5000, "fast_sd_mdb": 3000, "fast_ns": 100 * MS, "slow_sd_mdb": 3000,
            "slow_ns": 10 * SECOND},
        "neighbours": {"mean_ppm": number % 3 * 500_000, "busy_ns": SECOND},
        "handovers": {"gaps": gaps(3 * SECOND), "forward_queue": number.is_multiple_of(3)},
        "nr_leg": if number.is_multiple_of(5) { json!({"gaps": gaps(2 * SECOND), "rate_without_ppm": 300_000}) }
            else { Value::Null },
    })
}

fn leo(link: &str) -> Value {
    json!({
        "kind": "leo", "link": link, "uplink": "forward", "slot_ns": 3 * SECOND, "phase_ns": null,
        "bent_pipe": {"mean_ns": 20 * MS, "sd_ns": 3 * MS, "min_ns": 10 * MS, "max_ns": 35 * MS},
        "step": {"sd_ppm": 270_000, "correlation_ppm": 500_000},
        "fade": {"sd_ppm": 145_000, "correlation_ns": SECOND},
        "uplink_frame_ns": 4 * MS, "stall": {"probability_ppm": 500_000, "min_ns": 20 * MS, "max_ns": 150 * MS},
        "loss": {"interval_ns": 560 * MS, "durations": [{"below_ppm": 0, "duration_ns": 10_000},
            {"below_ppm": 990_000, "duration_ns": 7 * MS}, {"below_ppm": 1_000_000, "duration_ns": SECOND}]},
    })
}
