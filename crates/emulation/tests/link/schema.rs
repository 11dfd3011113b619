//! The JSON of a direction.

use experiment::features::Feature;
use experiment::resolved::Direction;
use serde_json::{Value, json};

fn base() -> Value {
    json!({"rate_bps": 12000000, "overhead_bytes": 14, "delay_ns": 30000000, "jitter_ns": 0, "reorder": false,
           "loss": {"kind": "none"}, "loss_at": "egress",
           "queue": {"kind": "drop_tail", "limit_packets": 100, "limit_bytes": null}, "trace": null})
}

fn with(field: &str, value: Value) -> Value {
    let mut direction = base();
    direction[field] = value;
    direction
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
    let mut traced = with(
        "trace",
        json!({"opportunities_ns": [0, 5, 5, 9], "period_ns": 9, "opportunity_bytes": 1500}),
    );
    traced["rate_bps"] = json!(null);
    valid.push(traced);
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
    let traced = |instants: &[u64]| {
        let mut value = with(
            "trace",
            json!({"opportunities_ns": instants, "period_ns": 9, "opportunity_bytes": 1500}),
        );
        value["rate_bps"] = json!(null);
        value
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
            with(
                "trace",
                json!({"opportunities_ns": [0], "period_ns": 9, "opportunity_bytes": 1500}),
            ),
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
            traced(&[]),
            "trace.opportunities_ns: found an empty list, allowed is at least one instant",
        ),
        (
            traced(&[5, 3]),
            "trace.opportunities_ns: found [5, 3], allowed is ascending instants",
        ),
        (
            traced(&[10]),
            "trace.opportunities_ns: found 10, allowed is instants of at most period_ns",
        ),
    ];
    for (value, message) in cases {
        assert_eq!(parse(&value), Err(message.to_owned()));
    }
}
