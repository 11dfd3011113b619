//! The JSON of a direction.

use experiment::features::Feature;
use experiment::resolved::Direction;
use serde_json::{Value, json};

fn base() -> Value {
    json!({"rate_bps": 12000000, "overhead_bytes": 14, "framing": "plain", "delay_ns": 30000000, "jitter_ns": 0, "reorder": false,
           "loss": {"kind": "none"}, "loss_at": "egress",
           "queue": {"kind": "drop_tail", "limit_packets": 100, "limit_bytes": null}, "trace": null})
}

fn with(field: &str, value: Value) -> Value {
    let mut direction = base();
    direction[field] = value;
    direction
}

/// A trace of 9 ns with some contents.
fn trace(contents: Value) -> Value {
    let mut trace = json!({"opportunities_ns": [], "rates": [], "delays": [], "trains": null, "losses": [], "period_ns": 9,
                           "opportunity_bytes": 1500, "start": {"kind": "at", "at_ns": 0}});
    for (key, value) in contents.as_object().unwrap() {
        trace[key] = value.clone();
    }
    trace
}

fn parse(value: &Value) -> Result<Direction, String> {
    let direction: Direction =
        serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())?;
    direction.validate().map_err(|error| error.to_string())?;
    Ok(direction)
}

/// Returns the kinds that the value of a field can be of, beside the field.
fn kinds(field: &str) -> impl Iterator<Item = (&str, &'static str)> {
    Feature::of_kind(field).map(move |one| (field, one.short_name()))
}

#[test]
fn every_kind_is_read_and_written_as_it_stands() {
    let limits = |mut queue: Value| {
        queue["limit_packets"] = json!(null);
        queue["limit_bytes"] = json!(64000);
        queue
    };
    let codel = json!({"kind": "codel", "target_ns": 5000000, "interval_ns": 100000000});
    let fq_codel = json!({"kind": "fq_codel", "target_ns": 5000000, "interval_ns": 100000000, "flows": 1024, "quantum_bytes": 1514});
    let red = json!({"kind": "red", "min_bytes": 1, "max_bytes": 2, "max_probability": 0.1, "weight": 0.002});
    let pie = json!({"kind": "pie", "target_ns": 15000000, "update_ns": 15000000, "max_burst_ns": 150000000});
    let mut valid: Vec<Value> = [codel, fq_codel, red, pie]
        .into_iter()
        .map(|queue| with("queue", limits(queue)))
        .collect();
    valid.push(base());
    valid.push(with(
        "loss",
        json!({"kind": "bernoulli", "probability": 0.001}),
    ));
    valid.push(with("loss", json!({"kind": "list", "packets": [3, 7]})));
    let chain = json!({"kind": "gilbert_elliott", "good_to_bad": 0.1, "bad_to_good": 0.2, "loss_good": 0.0, "loss_bad": 1.0});
    valid.push(with("loss", chain));
    let mut traced = with("trace", trace(json!({"opportunities_ns": [0, 5, 5, 9]})));
    traced["rate_bps"] = json!(null);
    valid.push(traced.clone());
    let start = json!({"kind": "drawn", "recording": "drive", "below_ns": 9});
    let rates = json!([{"from_ns": 0, "rate_bps": 0}, {"from_ns": 3, "rate_bps": 8}]);
    traced["trace"] = trace(json!({"rates": rates, "start": start}));
    valid.push(traced);
    let delays = json!([{"from_ns": 0, "delay_ns": 7}]);
    let losses = json!([{"from_ns": 0, "probability": 0.5}]);
    valid.push(with(
        "trace",
        trace(json!({"delays": delays, "losses": losses})),
    ));
    for framing in ["atm", "ptm"] {
        valid.push(with("framing", json!(framing)));
    }
    for (field, kind) in ["queue", "loss"].into_iter().flat_map(kinds) {
        let mut kinds = valid.iter().map(|value| &value[field]["kind"]);
        assert!(kinds.any(|one| *one == kind), "no {field} of kind {kind}");
    }
    for value in valid {
        let direction = parse(&value).unwrap_or_else(|error| panic!("{value}: {error}"));
        assert_eq!(serde_json::to_value(direction).unwrap(), value);
    }
}

#[test]
fn unknown_and_missing_keys_are_refused() {
    let queue = |queue| with("queue", queue);
    let invalid = [
        with("colour", json!(1)),
        with("loss", json!({"kind": "none", "probability": 0.1})),
        with(
            "loss",
            json!({"kind": "bernoulli", "probability": 0.1, "seed": 1}),
        ),
        with("loss", json!({"kind": "sometimes"})),
        queue(json!({"kind": "drop_tail", "limit_packets": 100})),
        queue(
            json!({"kind": "drop_tail", "limit_packets": 1, "limit_bytes": null, "target_ns": 5}),
        ),
        with("delay_ns", json!(-1)),
        with("delay_ns", json!(0.5)),
    ];
    for value in invalid {
        assert!(parse(&value).is_err(), "{value}");
    }
    for key in base().as_object().unwrap().keys() {
        let mut value = base();
        value.as_object_mut().unwrap().remove(key);
        assert!(parse(&value).is_err(), "without {key}");
    }
}

#[test]
fn values_out_of_range_are_named_with_what_is_allowed() {
    let red = |min, max, weight| {
        with(
            "queue",
            json!({"kind": "red", "limit_packets": null, "limit_bytes": null, "min_bytes": min, "max_bytes": max, "max_probability": 0.1, "weight": weight}),
        )
    };
    let traced = |contents: Value| {
        let mut value = with("trace", trace(contents));
        value["rate_bps"] = json!(null);
        value
    };
    let at = |instants: &[u64]| traced(json!({"opportunities_ns": instants}));
    let rates = |steps: &[(u64, u64)]| -> Value {
        let step =
            |(from_ns, rate_bps): &(u64, u64)| json!({"from_ns": from_ns, "rate_bps": rate_bps});
        steps.iter().map(step).collect()
    };
    let trains = |pause_ns: u64, instants: &[u64]| {
        let probe = |at_ns: &u64| json!({"at_ns": at_ns, "opportunities_ns": [0, 3]});
        let probes: Vec<Value> = instants.iter().map(probe).collect();
        json!({"pause_ns": pause_ns, "probes": probes})
    };
    let cases = [
        (
            with("rate_bps", json!(0)),
            "rate_bps: found 0, allowed is null or at least 1",
        ),
        (
            with("overhead_bytes", json!(70000)),
            "overhead_bytes: found 70000, allowed is at most 65535",
        ),
        (
            with("trace", trace(json!({"opportunities_ns": [0]}))),
            "rate_bps: found 12000000 beside a trace, allowed is null",
        ),
        (
            with("loss", json!({"kind": "bernoulli", "probability": 1.5})),
            "loss.probability: found 1.5, allowed is 0 to 1",
        ),
        (
            red(5, 5, 0.1),
            "queue.max_bytes: found 5, allowed is more than min_bytes",
        ),
        (
            red(5, 6, 0.0),
            "queue.weight: found 0, allowed is more than 0, at most 1",
        ),
        (
            at(&[]),
            "trace.opportunities_ns: found an empty list, allowed is at least one instant, or rates, delays or losses",
        ),
        (
            at(&[5, 3]),
            "trace.opportunities_ns: found [5, 3], allowed is ascending instants",
        ),
        (
            at(&[10]),
            "trace.opportunities_ns: found 10, allowed is instants of at most period_ns",
        ),
        (
            traced(json!({"opportunities_ns": [1], "rates": rates(&[(0, 1)])})),
            "trace.rates: found opportunities too, allowed is one of both",
        ),
        (
            traced(json!({"rates": rates(&[(0, 1), (5, 1), (5, 2)])})),
            "trace.rates: found a step at 5, allowed is steps in ascending order, the first at 0, the last before period_ns",
        ),
        (
            traced(json!({"rates": rates(&[(0, 0), (5, 0)])})),
            "trace.rates: found only outages, allowed is at least one rate above 0",
        ),
        (
            traced(json!({"delays": [{"from_ns": 1, "delay_ns": 0}]})),
            "trace.delays: found a step at 1, allowed is steps in ascending order, the first at 0, the last before period_ns",
        ),
        (
            traced(json!({"rates": rates(&[(0, 1)]), "trains": trains(5, &[0])})),
            "trace.trains: found no trace.opportunities_ns, allowed is opportunities under load too",
        ),
        (
            traced(json!({"opportunities_ns": [1], "trains": trains(0, &[0])})),
            "trace.trains.pause_ns: found 0, allowed is at least 1",
        ),
        (
            traced(json!({"opportunities_ns": [1], "trains": trains(5, &[0, 4, 4])})),
            "trace.trains: found a probe at 4, allowed is probes in ascending order, before period_ns",
        ),
        (
            traced(json!({"opportunities_ns": [1], "trains": trains(5, &[])})),
            "trace.trains: found no probes, allowed is at least one",
        ),
        (
            traced(json!({"losses": [{"from_ns": 0, "probability": 1.5}]})),
            "trace.losses: found 1.5, allowed is 0 to 1",
        ),
        (
            traced(json!({"rates": rates(&[(0, 1)]), "start": {"kind": "at", "at_ns": 9}})),
            "trace.start.at_ns: found 9, allowed is an instant within the period",
        ),
    ];
    for (value, message) in cases {
        assert_eq!(parse(&value), Err(message.to_owned()));
    }
}
