//! Invariants of congestion controls.

use mptcp::cc::parameters::{LiaForm, Parameters, SlowStart};
use mptcp::cc::paths::Path;
use mptcp::cc::{Congestion, balia, lia, names, olia, reno};
use mptcp::time::{MICROSECOND, MILLISECOND, Nanos};
use proptest::prelude::*;

use crate::connection::{Connection, MSS_BYTES};

/// An event of a connection. Subflows are counted modulo their number.
#[derive(Clone, Debug)]
enum Incident {
    Add(Option<Nanos>),
    Remove(usize),
    Sent(usize, u32),
    Acked(usize, u32, Option<Nanos>, bool),
    Congested(usize, Congestion),
    Repaired(usize),
    Undone(usize),
    Idle(usize, Nanos),
    Usable(usize, bool),
    Penalized(usize),
    Wait(Nanos),
}

fn rtt() -> impl Strategy<Value = Nanos> {
    prop_oneof![Just(0), 1..2000_u64, MICROSECOND..800 * MILLISECOND]
}

/// Returns events that do not change the number of subflows.
fn incident() -> impl Strategy<Value = Incident> {
    let subflow = 0..8_usize;
    let congestion = prop_oneof![
        Just(Congestion::Loss),
        Just(Congestion::Ecn),
        Just(Congestion::Timeout)
    ];
    let acked = (
        subflow.clone(),
        1..20_u32,
        prop::option::of(rtt()),
        prop::bool::weighted(0.8),
    );
    prop_oneof![
        3 => (subflow.clone(), 1..40_u32).prop_map(|(subflow, packets)| Incident::Sent(subflow, packets)),
        6 => acked.prop_map(|(subflow, packets, rtt, limited)| Incident::Acked(subflow, packets, rtt, limited)),
        1 => (subflow.clone(), congestion).prop_map(|(subflow, congestion)| Incident::Congested(subflow, congestion)),
        1 => subflow.clone().prop_map(Incident::Repaired),
        1 => subflow.clone().prop_map(Incident::Undone),
        1 => (subflow.clone(), 0..20_000 * MILLISECOND).prop_map(|(subflow, idle)| Incident::Idle(subflow, idle)),
        1 => subflow.prop_map(Incident::Penalized),
        2 => (0..200 * MILLISECOND).prop_map(Incident::Wait),
    ]
}

fn incident_or_change() -> impl Strategy<Value = Incident> {
    let subflow = 0..8_usize;
    prop_oneof![
        1 => prop::option::of(rtt()).prop_map(Incident::Add),
        1 => subflow.clone().prop_map(Incident::Remove),
        1 => (subflow, any::<bool>()).prop_map(|(subflow, on)| Incident::Usable(subflow, on)),
        20 => incident(),
    ]
}

fn happen(connection: &mut Connection, incident: &Incident) {
    let count = connection.windows.len();
    match *incident {
        Incident::Add(srtt) => connection.add(srtt),
        Incident::Wait(duration) => connection.now += duration,
        _ if count == 0 => {}
        Incident::Remove(subflow) => connection.remove(subflow % count),
        Incident::Sent(subflow, packets) => connection.sent(subflow % count, packets),
        Incident::Acked(subflow, packets, rtt, limited) => {
            connection.acked(subflow % count, packets, rtt, limited)
        }
        Incident::Congested(subflow, congestion) => {
            connection.congested(subflow % count, congestion)
        }
        Incident::Repaired(subflow) => connection.repaired(subflow % count),
        Incident::Undone(subflow) => connection.undone(subflow % count),
        Incident::Idle(subflow, idle) => connection.idle(subflow % count, idle),
        Incident::Usable(subflow, on) => connection.windows[subflow % count].is_usable = on,
        Incident::Penalized(subflow) => {
            let window = &mut connection.windows[subflow % count];
            window.cwnd_bytes = (window.cwnd_bytes / 2.0).max(f64::from(MSS_BYTES));
        }
    }
}

/// Returns every control, with each parameter that selects another computation.
fn all_controls() -> Vec<(&'static str, Parameters)> {
    let default = Parameters::default();
    let mut all: Vec<_> = names().map(|name| (name, default)).collect();
    for form in [LiaForm::Integer { alpha_scale: 512 }, LiaForm::Nsdi] {
        let mut parameters = default;
        parameters.lia.form = form;
        all.push(("lia", parameters));
    }
    for slow_start in [SlowStart::UntilLoss, SlowStart::HyStartPlusPlus] {
        let mut parameters = default;
        parameters.cubic.slow_start = slow_start;
        all.extend(["cubic", "cubic-rfc9438"].map(|name| (name, parameters)));
    }
    all
}

/// Returns the controls that equal Reno when there is one subflow.
fn reno_when_alone() -> Vec<(&'static str, Parameters)> {
    let names = [
        "lia",
        "olia",
        "balia",
        "coupled",
        "semicoupled",
        "ewtcp",
        "x-dwc",
    ];
    let is_integer =
        |parameters: &Parameters| matches!(parameters.lia.form, LiaForm::Integer { .. });
    let mut controls = all_controls();
    controls.retain(|(name, parameters)| names.contains(name) && !is_integer(parameters));
    controls
}

/// Returns the controls that the driver holds to a promise.
fn that_promise() -> Vec<(&'static str, Parameters)> {
    let mut controls = all_controls();
    controls.retain(|(name, _)| ["lia", "olia"].contains(name));
    controls
}

/// Returns the controls that consider whether the window was used: all except BBR and the constant
/// window, which do not, and wVegas of the out-of-tree kernel, which forgot to.
fn that_look_at_use() -> Vec<(&'static str, Parameters)> {
    let excepted = ["bbr", "fixed_cwnd", "wvegas-oot"];
    let mut controls = all_controls();
    controls.retain(|(name, _)| !excepted.contains(name));
    controls
}

fn check_sound(name: &str, connection: &mut Connection) -> Result<(), TestCaseError> {
    for subflow in 0..connection.windows.len() {
        let window = connection.windows[subflow].clone();
        prop_assert!(window.cwnd_bytes.is_finite(), "{name}: {window:?}");
        prop_assert!(
            window.cwnd_bytes >= f64::from(MSS_BYTES),
            "{name}: {window:?}"
        );
        prop_assert!(
            window.ssthresh_bytes >= f64::from(MSS_BYTES),
            "{name}: {window:?}"
        );
        let (control, context) = connection.context(subflow);
        let rate = control.pacing_rate(&context);
        prop_assert!(
            rate.is_none_or(|rate| rate.is_finite() && rate > 0.0),
            "{name}: paced at {rate:?}"
        );
        let state = control.state(subflow);
        prop_assert!(
            state.iter().all(|(_, value)| value.is_finite()),
            "{name}: {state:?}"
        );
    }
    Ok(())
}

fn paths() -> impl Strategy<Value = Vec<Path>> {
    let path = (1.0..2000.0_f64, 1e-4..1.0_f64, 0.0..1e6_f64);
    prop::collection::vec(path, 1..9).prop_map(|paths| {
        let numbered = paths.into_iter().enumerate();
        numbered
            .map(
                |(subflow, (window_packets, rtt_s, loss_interval_packets))| Path {
                    subflow,
                    window_packets,
                    mss_bytes: MSS_BYTES,
                    rtt_s,
                    loss_interval_packets,
                },
            )
            .collect()
    })
}

proptest! {
    #[test]
    fn no_sequence_of_hooks_spoils_a_window(
        (name, parameters) in prop::sample::select(all_controls()),
        incidents in prop::collection::vec(incident_or_change(), 0..100),
    ) {
        let mut connection = Connection::new(name, &parameters);
        connection.add(Some(20 * MILLISECOND));
        connection.add(None);
        for incident in &incidents {
            happen(&mut connection, incident);
            check_sound(name, &mut connection)?;
        }
    }

    /// The driver checks the promises at every acknowledgment.
    #[test]
    fn lia_and_olia_keep_their_promises(
        (name, parameters) in prop::sample::select(that_promise()),
        rtts in prop::collection::vec(rtt(), 1..5),
        incidents in prop::collection::vec(incident_or_change(), 0..100),
    ) {
        let mut connection = Connection::new(name, &parameters);
        rtts.iter().for_each(|rtt| connection.add(Some(*rtt)));
        incidents.iter().for_each(|incident| happen(&mut connection, incident));
    }

    #[test]
    fn with_one_subflow_the_coupled_controls_are_reno(
        (name, parameters) in prop::sample::select(reno_when_alone()),
        incidents in prop::collection::vec(incident(), 0..100),
    ) {
        let mut reno = Connection::new("reno", &parameters);
        let mut connection = Connection::new(name, &parameters);
        reno.add(Some(20 * MILLISECOND));
        connection.add(Some(20 * MILLISECOND));
        for incident in &incidents {
            happen(&mut reno, incident);
            happen(&mut connection, incident);
            prop_assert_eq!(&connection.windows, &reno.windows, "{}", name);
        }
    }

    #[test]
    fn a_window_that_is_not_in_use_does_not_grow(
        (name, parameters) in prop::sample::select(that_look_at_use()),
        incidents in prop::collection::vec(incident(), 0..100),
        subflow in 0..2_usize,
    ) {
        let mut connection = Connection::new(name, &parameters);
        connection.add(Some(20 * MILLISECOND));
        connection.add(Some(30 * MILLISECOND));
        for incident in &incidents {
            happen(&mut connection, incident);
        }
        connection.sent(subflow, 5);
        let before = connection.windows[subflow].cwnd_bytes;
        connection.acked(subflow, 5, Some(20 * MILLISECOND), false);
        let after = connection.windows[subflow].cwnd_bytes;
        // The smallest window of wVegas.
        let floor = 2.0 * f64::from(MSS_BYTES);
        prop_assert!(after <= before.max(floor), "{}: {} to {}", name, before, after);
    }

    #[test]
    fn windows_of_the_out_of_tree_kernel_are_whole_packets(
        name in prop::sample::select(&["lia-oot", "olia-oot", "balia-oot", "wvegas-oot"][..]),
        incidents in prop::collection::vec(incident(), 0..100),
    ) {
        let mut connection = Connection::new(name, &Parameters::default());
        connection.add(Some(20 * MILLISECOND));
        connection.add(Some(30 * MILLISECOND));
        // A penalty or an idle period need not leave whole packets.
        let is_others = |incident: &&Incident| matches!(incident, Incident::Penalized(_) | Incident::Idle(..));
        for incident in incidents.iter().filter(|incident| !is_others(incident)) {
            happen(&mut connection, incident);
            for window in &connection.windows {
                prop_assert_eq!(window.cwnd_packets().fract(), 0.0, "{}", name);
            }
        }
    }

    #[test]
    fn lia_is_never_faster_than_reno_in_any_form(paths in paths()) {
        for this in 0..paths.len() {
            let reno = reno::increase(paths[this].window_packets);
            let lia = lia::increase(&paths, this);
            prop_assert!(lia <= reno);
            prop_assert!(lia::increase_over_sets(&paths, this) <= lia * (1.0 + 1e-12));
        }
    }

    #[test]
    fn olia_moves_windows_without_changing_their_sum(paths in paths()) {
        let sum: f64 = (0..paths.len()).map(|this| olia::alpha(&paths, this)).sum();
        prop_assert!(sum.abs() < 1e-12, "{}", sum);
    }

    #[test]
    fn balia_compares_with_the_fastest_path_and_takes_at_most_three_quarters(paths in paths()) {
        for this in 0..paths.len() {
            prop_assert!(balia::alpha(&paths, this) >= 1.0);
            let part = balia::decrease(&paths, this) / paths[this].window_packets;
            prop_assert!((0.5 - 1e-12..=0.75 + 1e-12).contains(&part), "{}", part);
        }
    }
}
