//! Where the controls settle if every packet may be lost, compared with the windows of their fluid
//! models.

use mptcp::cc::Congestion;
use mptcp::cc::fluid::{LossyPath, NoEquilibrium, equilibrium};
use mptcp::cc::parameters::{LiaForm, Parameters};
use mptcp::time::MILLISECOND;

use crate::connection::Connection;

const P: [f64; 2] = [1e-3, 4e-3];
const RTT_S: f64 = 0.1;
const ROUNDS: u32 = 6_000;
/// Rounds before windows are measured.
const WARM_UP: u32 = 500;

/// Numbers from 0 to 1 (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Sends one window of packets. The first lost packet ends the round with a recovery.
fn round(connection: &mut Connection, subflow: usize, random: &mut Random) {
    let packets = connection.cwnd_packets(subflow) as u32;
    connection.sent(subflow, packets);
    for _ in 0..packets {
        if random.next() < P[subflow] {
            connection.congested(subflow, Congestion::Loss);
        }
        connection.acked(subflow, 1, Some(100 * MILLISECOND), true);
    }
    connection.repaired(subflow);
}

/// Returns the mean windows on two paths with equal round-trip times.
fn mean_windows(name: &str) -> Vec<f64> {
    let mut connection = Connection::new(name, &Parameters::default());
    let mut random = Random(0x5eed_0123_4567_89ab);
    let mut sums = vec![0.0; P.len()];
    P.iter()
        .for_each(|_| connection.add(Some(100 * MILLISECOND)));
    for done in 0..ROUNDS {
        for (subflow, sum) in sums.iter_mut().enumerate() {
            round(&mut connection, subflow, &mut random);
            if done >= WARM_UP {
                *sum += connection.cwnd_packets(subflow) / f64::from(ROUNDS - WARM_UP);
            }
        }
        connection.now += 100 * MILLISECOND;
    }
    sums
}

/// Checks that the sum is a little below that of the fluid model, because losses come in bursts,
/// and that the first path has its share.
fn assert_settles(name: &str) {
    let total = |windows: &[f64]| windows.iter().sum::<f64>();
    let (found, fluid) = (mean_windows(name), fluid(name));
    let ratio = total(&found) / total(&fluid);
    assert!(
        (0.8..=1.05).contains(&ratio),
        "{name}: {found:?} against {fluid:?}"
    );
    let (share, expected) = (found[0] / total(&found), fluid[0] / total(&fluid));
    assert!(
        (share - expected).abs() <= 0.05,
        "{name}: {share} against {expected}"
    );
}

fn fluid(name: &str) -> Vec<f64> {
    equilibrium(name, &Parameters::default(), &paths()).unwrap()
}

fn paths() -> Vec<LossyPath> {
    P.iter()
        .map(|p| LossyPath {
            p: *p,
            rtt_s: RTT_S,
        })
        .collect()
}

#[test]
fn reno_and_ewtcp_settle_as_single_flows_of_their_weight() {
    assert_settles("reno");
    assert_settles("ewtcp");
}

#[test]
fn semicoupled_lia_and_balia_settle_where_their_fluids_do() {
    assert_settles("semicoupled");
    assert_settles("lia");
    assert_settles("balia");
}

#[test]
fn olia_leaves_most_to_the_best_path() {
    let found = mean_windows("olia");
    let (total, fluid) = (found[0] + found[1], fluid("olia"));
    assert!((0.8..=1.05).contains(&(total / fluid[0])), "{found:?}");
    assert!(found[0] / total > 0.8, "{found:?}");
    assert_eq!(fluid[1], 0.0);
}

#[test]
fn coupled_leaves_the_lossy_path_near_its_least_window() {
    let found = mean_windows("coupled");
    assert!(found[0] / (found[0] + found[1]) > 0.8, "{found:?}");
}

#[test]
fn what_has_no_equilibrium_says_why() {
    let why = |control: &str, parameters: &Parameters, paths: &[LossyPath]| {
        let error: NoEquilibrium = equilibrium(control, parameters, paths).unwrap_err();
        error.to_string()
    };
    let default = Parameters::default();
    let mut nsdi = default;
    nsdi.lia.form = LiaForm::Nsdi;
    let path = |p, rtt_s| vec![LossyPath { p, rtt_s }];
    assert!(why("bbr", &default, &paths()).starts_with("bbr has no fluid: its windows follow"));
    assert!(why("lia", &nsdi, &paths()).contains("form: nsdi"));
    assert!(why("mine", &default, &paths()).contains("those of reno, lia, olia"));
    assert!(why("lia", &default, &[]).contains("found no path"));
    assert!(why("lia", &default, &path(0.0, 0.1)).contains("path 0: found a loss rate of 0"));
    assert!(why("lia", &default, &path(1e-3, f64::NAN)).contains("round-trip time of NaN s"));
}
