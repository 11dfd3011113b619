//! How windows change over time.

use std::collections::VecDeque;

use mptcp::cc::parameters::{AckCounting, Parameters, SlowStart, SubflowOrder};
use mptcp::cc::{Acked, Congestion, DeliveryRate, cubic, cubic_rfc9438};
use mptcp::time::{MICROSECOND, MILLISECOND, Nanos, SECOND, seconds};

use crate::connection::{Connection, MSS_BYTES};

fn connection(name: &str, parameters: &Parameters, rtts: &[Nanos]) -> Connection {
    let mut connection = Connection::new(name, parameters);
    rtts.iter().for_each(|rtt| connection.add(Some(*rtt)));
    connection
}

/// Sets a window of `packets` packets, after slow start.
fn avoiding_congestion(connection: &mut Connection, subflow: usize, packets: u32) {
    let bytes = f64::from(packets * MSS_BYTES);
    connection.windows[subflow].cwnd_bytes = bytes;
    connection.windows[subflow].ssthresh_bytes = bytes / 2.0;
}

#[test]
fn reno_doubles_in_slow_start_and_adds_one_segment_per_round_after_it() {
    let rtt = 20 * MILLISECOND;
    let mut connection = connection("reno", &Parameters::default(), &[rtt]);
    connection.round(0, rtt);
    assert_eq!(connection.cwnd_packets(0), 20.0);
    connection.congested(0, Congestion::Loss);
    connection.repaired(0);
    assert_eq!(connection.cwnd_packets(0), 10.0);
    connection.round(0, rtt);
    let grown = connection.cwnd_packets(0) - 10.0;
    assert!((0.9..=1.0).contains(&grown), "{grown}");
}

#[test]
fn when_acks_are_counted_delayed_ones_halve_the_growth() {
    let rtt = 20 * MILLISECOND;
    let grown = |ack_counting| {
        let parameters = Parameters {
            ack_counting,
            ..Parameters::default()
        };
        let mut connection = connection("reno", &parameters, &[rtt]);
        avoiding_congestion(&mut connection, 0, 100);
        connection.sent(0, 100);
        (0..50).for_each(|_| connection.acked(0, 2, Some(rtt), true));
        connection.cwnd_packets(0) - 100.0
    };
    let ratio = grown(AckCounting::Acks) / grown(AckCounting::Packets);
    assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
}

#[test]
fn a_timeout_leaves_one_segment_and_half_the_window_as_threshold() {
    let mut connection = connection("reno", &Parameters::default(), &[20 * MILLISECOND]);
    connection.congested(0, Congestion::Timeout);
    assert_eq!(connection.cwnd_packets(0), 1.0);
    assert_eq!(
        connection.windows[0].ssthresh_bytes,
        f64::from(5 * MSS_BYTES)
    );
}

#[test]
fn cubic_is_back_at_its_window_when_its_curve_says_so() {
    let rtt = 100 * MILLISECOND;
    for name in ["cubic", "cubic-rfc9438"] {
        let mut connection = connection(name, &Parameters::default(), &[rtt]);
        avoiding_congestion(&mut connection, 0, 1000);
        connection.congested(0, Congestion::Loss);
        connection.repaired(0);
        assert_eq!(connection.cwnd_packets(0), 700.0, "{name}");
        let begin = connection.now;
        while connection.cwnd_packets(0) < 999.0 {
            connection.round(0, rtt);
        }
        let (found, expected) = (
            seconds(connection.now - begin),
            cubic_rfc9438::time_to_w_max(1000.0, 700.0, 0.4),
        );
        assert!(
            (found / expected - 1.0).abs() < 0.2,
            "{name}: {found} s against {expected} s"
        );
    }
}

/// Returns the windows after each of `rounds` rounds that follow a loss at a window of `packets`
/// packets.
fn windows_after_a_loss(name: &str, packets: u32, rounds: usize) -> Vec<f64> {
    let rtt = 20 * MILLISECOND;
    let mut connection = connection(name, &Parameters::default(), &[rtt]);
    avoiding_congestion(&mut connection, 0, packets);
    connection.congested(0, Congestion::Loss);
    connection.repaired(0);
    let mut after_round = || {
        connection.round(0, rtt);
        connection.cwnd_packets(0)
    };
    (0..rounds).map(|_| after_round()).collect()
}

#[test]
fn the_cubic_of_linux_grows_as_reno_by_half_a_packet_per_round_for_ever() {
    // Seven of ten packets are left. By RFC 9438, section 4.3, ten are back after 3 / 0.53 rounds,
    // and one packet per round is added from then on. Linux's estimate needs more than 15/8 of a
    // window for each packet, and a window that is one below the estimate grows by one per window.
    let linux = windows_after_a_loss("cubic", 10, 20);
    assert!(
        linux.iter().all(|window| window.fract() == 0.0),
        "{linux:?}"
    );
    let (linux, rfc) = (linux[19], windows_after_a_loss("cubic-rfc9438", 10, 20)[19]);
    assert!((16.0..=18.0).contains(&linux), "{linux}");
    assert!(rfc > 22.0, "{rfc}");
}

#[test]
fn the_cubic_of_linux_grows_by_a_twentieth_per_round_until_it_knows_of_a_loss() {
    let rtt = 100 * MILLISECOND;
    let grown = |name: &str, timeout: bool| {
        let mut connection = connection(name, &Parameters::default(), &[rtt]);
        if timeout {
            connection.congested(0, Congestion::Timeout);
            connection.repaired(0);
        }
        avoiding_congestion(&mut connection, 0, 400);
        connection.round(0, rtt);
        connection.cwnd_packets(0)
    };
    for timeout in [false, true] {
        assert_eq!(grown("cubic", timeout), 420.0);
        assert!(grown("cubic-rfc9438", timeout) < 402.0);
    }
}

#[test]
fn cubic_in_whole_packets_has_the_numbers_of_linux() {
    let scaled = cubic::Scaled::of(&Parameters::default().cubic);
    assert_eq!((scaled.beta, scaled.steepness), (717, 410));
    // 100 * 717 / 1024, and 70 * (1024 + 717) / 2048.
    assert_eq!(scaled.after_loss(100), 70);
    assert_eq!(scaled.w_max_after_loss(70, 100, true), 59);
    assert_eq!(scaled.w_max_after_loss(70, 100, false), 70);
    // K of RFC 9438 is 4.217 s for 30 packets at C = 0.4. The curve rises by 30 packets in that
    // time.
    let k = scaled.time_to_origin(30);
    assert_eq!(k, 4316);
    assert_eq!((scaled.rise(k), scaled.rise(1024)), (29, 0));
}

#[test]
fn what_cubic_lost_for_nothing_is_given_back() {
    let rtt = 100 * MILLISECOND;
    let run = |is_spurious: bool| {
        let mut connection = connection("cubic-rfc9438", &Parameters::default(), &[rtt]);
        avoiding_congestion(&mut connection, 0, 100);
        connection.round(0, rtt);
        if is_spurious {
            connection.congested(0, Congestion::Loss);
            connection.undone(0);
        }
        connection.round(0, rtt);
        connection.cwnd_packets(0)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn idle_time_does_not_let_cubic_jump() {
    let rtt = 100 * MILLISECOND;
    let grown = |name: &str, idle: Nanos| {
        let mut connection = connection(name, &Parameters::default(), &[rtt]);
        avoiding_congestion(&mut connection, 0, 100);
        connection.congested(0, Congestion::Loss);
        connection.repaired(0);
        connection.round(0, rtt);
        connection.drain(0, rtt);
        connection.now += idle;
        connection.round(0, rtt);
        connection.cwnd_packets(0)
    };
    for name in ["cubic", "cubic-rfc9438"] {
        let (without, with) = (grown(name, 0), grown(name, 60 * SECOND));
        assert!((with - without).abs() < 0.1, "{name}: {without} and {with}");
    }
}

/// Returns the window at which slow start ends if the round-trip time grows with each round.
fn window_after_growing_delays(slow_start: SlowStart) -> f64 {
    let mut parameters = Parameters::default();
    parameters.cubic.slow_start = slow_start;
    let mut rtt = 100 * MILLISECOND;
    let mut connection = connection("cubic", &parameters, &[rtt]);
    for _ in 0..9 {
        connection.round(0, rtt);
        rtt += rtt / 5;
    }
    connection.cwnd_packets(0)
}

#[test]
fn hystart_ends_slow_start_when_delays_grow() {
    assert_eq!(window_after_growing_delays(SlowStart::UntilLoss), 5120.0);
    let hystart = window_after_growing_delays(SlowStart::HyStart);
    assert!(hystart < 200.0, "{hystart}");
    let plus_plus = window_after_growing_delays(SlowStart::HyStartPlusPlus);
    assert!(plus_plus < 1000.0, "{plus_plus}");
}

/// Returns the window in packets at which slow start ends at a bottleneck that delivers a packet
/// every `gap`, with an empty queue at the start.
fn window_after_slow_start_at_a_bottleneck(name: &str, rtt: Nanos, gap: Nanos) -> f64 {
    let mut connection = connection(name, &Parameters::default(), &[rtt]);
    let mut on_their_way = VecDeque::new();
    let mut last_arrival = 0;
    while connection.windows[0].ssthresh_bytes.is_infinite() && connection.cwnd_packets(0) < 1e4 {
        let free = connection.cwnd_packets(0) as usize - on_their_way.len();
        connection.sent(0, free as u32);
        for _ in 0..free {
            last_arrival = (connection.now + rtt).max(last_arrival + gap);
            on_their_way.push_back((connection.now, last_arrival));
        }
        let (sent_at, arrival) = on_their_way.pop_front().expect("the window is not empty");
        connection.now = arrival;
        connection.acked(0, 1, Some(arrival - sent_at), true);
    }
    connection.windows[0].ssthresh_bytes / f64::from(MSS_BYTES)
}

#[test]
fn a_train_of_acknowledgments_is_measured_from_its_first_one() {
    // The acknowledgments of the initial window of 10 packets arrive within 11 ms. The second round
    // of 20 takes longer than 20.5 ms, half of the round-trip time and of Linux's allowance, so its
    // 19th acknowledgment ends slow start.
    let gap = 1_200 * MICROSECOND;
    let ended = window_after_slow_start_at_a_bottleneck("cubic", 40 * MILLISECOND, gap);
    assert_eq!(ended, 38.0);
}

#[test]
fn the_order_of_the_list_decides_what_the_integers_of_lia_cannot() {
    // Both numerators are 0, so the last in the list is the best.
    let acks_until_growth = |subflow_order| {
        let mut parameters = Parameters::default();
        parameters.oot.subflow_order = subflow_order;
        let mut connection = connection(
            "lia-oot",
            &parameters,
            &[30 * MILLISECOND, 60 * MILLISECOND],
        );
        (0..2).for_each(|subflow| avoiding_congestion(&mut connection, subflow, 10));
        connection.congested(0, Congestion::Loss);
        connection.repaired(0);
        avoiding_congestion(&mut connection, 0, 10);
        (1..).find(|_| {
            connection.sent(0, 1);
            connection.acked(0, 1, Some(30 * MILLISECOND), true);
            connection.cwnd_packets(0) > 10.0
        })
    };
    assert_eq!(acks_until_growth(SubflowOrder::OldestFirst), Some(92));
    assert_eq!(acks_until_growth(SubflowOrder::NewestFirst), Some(23));
}

#[test]
fn the_integers_of_olia_stop_growing_at_large_windows() {
    let rtt = 20 * MILLISECOND;
    let grown = |name, packets| {
        let mut connection = connection(name, &Parameters::default(), &[rtt; 8]);
        (0..8).for_each(|subflow| avoiding_congestion(&mut connection, subflow, packets));
        for _ in 0..100 {
            (0..8).for_each(|subflow| connection.round(subflow, rtt));
        }
        (0..8)
            .map(|subflow| connection.cwnd_packets(subflow))
            .sum::<f64>()
            - f64::from(8 * packets)
    };
    assert_eq!(grown("olia-oot", 16), 0.0);
    assert!(grown("olia", 16) > 8.0);
}

/// A path that queues packets beyond its capacity.
struct QueueingPath {
    packets_per_second: f64,
    base_rtt: Nanos,
}

impl QueueingPath {
    fn queued_packets(&self, window_packets: f64) -> f64 {
        (window_packets - self.packets_per_second * seconds(self.base_rtt)).max(0.0)
    }

    fn rtt(&self, window_packets: f64) -> Nanos {
        let wait_s = self.queued_packets(window_packets) / self.packets_per_second;
        self.base_rtt + (wait_s * SECOND as f64) as Nanos
    }
}

/// Returns the mean number of queued packets on each path, after some rounds.
fn queued_packets(name: &str, paths: &[QueueingPath]) -> Vec<f64> {
    let base_rtts: Vec<Nanos> = paths.iter().map(|path| path.base_rtt).collect();
    let mut connection = connection(name, &Parameters::default(), &base_rtts);
    let mut queued = vec![0.0; paths.len()];
    for round in 0..600 {
        for (subflow, path) in paths.iter().enumerate() {
            let rtt = path.rtt(connection.cwnd_packets(subflow));
            connection.round(subflow, rtt);
            if round >= 300 {
                queued[subflow] += path.queued_packets(connection.cwnd_packets(subflow)) / 300.0;
            }
        }
    }
    queued
}

#[test]
fn wvegas_keeps_ten_packets_queued_at_most_and_few_on_a_slow_path() {
    let path = |packets_per_second| QueueingPath {
        packets_per_second,
        base_rtt: 50 * MILLISECOND,
    };
    for name in ["wvegas", "wvegas-oot"] {
        let alone = queued_packets(name, &[path(1000.0)]);
        assert!((8.0..=12.0).contains(&alone[0]), "{name}: {alone:?}");
        let shared = queued_packets(name, &[path(3000.0), path(1000.0)]);
        assert!(shared[0] > shared[1], "{name}: {shared:?}");
        assert!(
            (5.0..=12.0).contains(&(shared[0] + shared[1])),
            "{name}: {shared:?}"
        );
    }
}

/// A link that a paced sender fills.
struct Link {
    bytes_per_second: f64,
    base_rtt: Nanos,
}

/// A packet in flight.
struct Packet {
    left: Nanos,
    arrives: Nanos,
    /// The delivered bytes when it left, and the time of their delivery.
    delivered: (u64, Nanos),
}

/// A paced sender on a link, and its measurements.
struct Sender {
    connection: Connection,
    link: Link,
    in_flight: VecDeque<Packet>,
    link_free: Nanos,
    next_send: Nanos,
    delivered: (u64, Nanos),
    last_rtt: Nanos,
}

impl Sender {
    fn new(link: Link) -> Self {
        Self {
            connection: connection("bbr", &Parameters::default(), &[link.base_rtt]),
            link,
            in_flight: VecDeque::new(),
            link_free: 0,
            next_send: 0,
            delivered: (0, 0),
            last_rtt: 0,
        }
    }

    /// Runs until `end`. Returns the smallest window on the way, in packets.
    fn run_until(&mut self, end: Nanos) -> f64 {
        let mut least = f64::INFINITY;
        while self.connection.now < end {
            let window = &self.connection.windows[0];
            let has_room = window.cwnd_bytes >= f64::from(window.in_flight_bytes + MSS_BYTES);
            let arrival = self
                .in_flight
                .front()
                .map_or(Nanos::MAX, |packet| packet.arrives);
            if has_room && self.next_send <= arrival {
                self.send();
            } else {
                self.receive();
            }
            least = least.min(self.connection.cwnd_packets(0));
        }
        least
    }

    fn nanos_at(bytes_per_second: f64) -> Nanos {
        (f64::from(MSS_BYTES) / bytes_per_second * SECOND as f64) as Nanos
    }

    fn send(&mut self) {
        let now = self.connection.now.max(self.next_send);
        self.connection.now = now;
        self.link_free = now.max(self.link_free) + Self::nanos_at(self.link.bytes_per_second);
        self.in_flight.push_back(Packet {
            left: now,
            arrives: self.link_free + self.link.base_rtt,
            delivered: self.delivered,
        });
        self.connection.sent(0, 1);
        let (control, context) = self.connection.context(0);
        let rate = control.pacing_rate(&context).expect("BBR paces");
        self.next_send = now + Self::nanos_at(rate);
    }

    fn receive(&mut self) {
        let packet = self.in_flight.pop_front().expect("a window is never empty");
        let now = packet.arrives;
        self.connection.now = now;
        self.connection.windows[0].in_flight_bytes -= MSS_BYTES;
        self.delivered = (self.delivered.0 + u64::from(MSS_BYTES), now);
        self.last_rtt = now - packet.left;
        let (delivered_before_bytes, since) = packet.delivered;
        let bytes = (self.delivered.0 - delivered_before_bytes) as f64;
        self.connection.pass_acked(
            0,
            &Acked {
                bytes: MSS_BYTES,
                lost_bytes: 0,
                rtt: Some(self.last_rtt),
                is_window_limited: true,
                delivery_rate: Some(DeliveryRate {
                    bytes_per_second: bytes / seconds(now - since.max(1)),
                    is_application_limited: false,
                    delivered_before_bytes,
                }),
                delivered_bytes: self.delivered.0,
            },
        );
    }
}

#[test]
fn bbr_fills_a_link_with_little_queue_and_looks_for_the_shortest_round_trip() {
    let bytes_per_second = 1.25e6;
    let mut sender = Sender::new(Link {
        bytes_per_second,
        base_rtt: 40 * MILLISECOND,
    });
    sender.run_until(5 * SECOND);
    let before = sender.delivered.0;
    sender.run_until(9 * SECOND);
    let utilisation = (sender.delivered.0 - before) as f64 / (4.0 * bytes_per_second);
    assert!(utilisation > 0.98, "{utilisation}");
    assert!(sender.last_rtt < 55 * MILLISECOND, "{} ns", sender.last_rtt);
    // When the min RTT is ten seconds old, four packets stay in flight for a while.
    assert_eq!(sender.run_until(12 * SECOND), 4.0);
    assert!(sender.connection.cwnd_packets(0) > 50.0);
}
