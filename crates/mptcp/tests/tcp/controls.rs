//! All congestion controls on a link with a queue and losses; samples of the delivery rate; pacing.

use mptcp::cc;
use mptcp::subflow::Config;
use mptcp::time::{MILLISECOND, SECOND};

use crate::pair::Pair;
use crate::pair::tcp::{Tcp, pair};
use crate::pair::wire::{Fate, Wire};

const RATE: u64 = 1_250_000;
const BYTES: u32 = 5_000_000;

/// Runs a transfer over 10 Mbit/s and 40 ms with room for 100 packets, in which each thousandth is
/// lost.
fn transfer(name: &str) -> Pair<Tcp> {
    let mut number = 0;
    let lossy = move |_: usize, _: &_| {
        number += 1;
        if number % 1000 == 500 {
            Fate::Lost
        } else {
            Fate::Delivered
        }
    };
    let forward = Wire::new(20 * MILLISECOND)
        .with_rate(RATE, 100)
        .with_fates(lossy);
    let mut pair = pair(Config::default(), [forward, Wire::new(20 * MILLISECOND)]);
    pair.ends[0].use_control(name);
    pair.ends[0].write(BYTES);
    pair.run_while(120 * SECOND, |pair| pair.ends[1].read.len() < BYTES);
    pair
}

#[test]
fn all_carry_a_stream_over_a_lossy_link() {
    for name in cc::names() {
        let pair = transfer(name);
        assert!(pair.ends[1].has_all_of(&pair.ends[0]), "{name}");
        let sender = &pair.ends[0];
        let lost = pair.wires[0]
            .log
            .iter()
            .filter(|sent| sent.fate == Fate::Lost)
            .count() as u64;
        let counters = sender.subflow().counters();
        assert!(
            counters.retransmitted_segments <= lost,
            "{name}: {counters:?}, {lost} lost"
        );
        assert_eq!(counters.timeouts, 0, "{name}");
        // Weighted Vegas yields to its own queue and takes longest.
        assert!(pair.now < 30 * SECOND, "{name} took {} ns", pair.now);
    }
}

#[test]
fn no_sample_of_the_rate_exceeds_the_link() {
    let pair = transfer("reno");
    let payload_rate = RATE as f64 * 1448.0 / 1500.0;
    let samples = &pair.ends[0].cc.rates;
    assert!(samples.len() > 1000);
    let fastest = samples.iter().map(|rate| rate.bytes_per_second);
    let fastest = fastest.fold(0.0, f64::max);
    assert!(
        (0.999..1.001).contains(&(fastest / payload_rate)),
        "{fastest}"
    );
}

#[test]
fn samples_of_a_slow_application_say_so() {
    let link = || Wire::new(20 * MILLISECOND).with_rate(RATE, 100);
    let mut pair = pair(Config::default(), [link(), link()]);
    for _ in 0..100 {
        pair.ends[0].write(5000);
        pair.run_for(50 * MILLISECOND);
    }
    let samples = &pair.ends[0].cc.rates;
    assert!(samples.len() > 50);
    // Segments of the first write were sent before it was known that no more data would follow.
    let mut later = samples.iter().skip(4);
    assert!(later.all(|rate| rate.is_application_limited));
}

#[test]
fn a_paced_sender_sends_no_bursts() {
    let pair = transfer("bbr");
    let sent: Vec<_> = pair.wires[0].data().skip(1000).take(1000).collect();
    let longest = sent
        .chunk_by(|one, other| one.at == other.at)
        .map(<[_]>::len);
    assert_eq!(longest.max(), Some(1));
}

#[test]
fn without_pacing_the_rate_is_what_linux_would_pace_at() {
    let mut pair = pair(
        Config::default(),
        [20, 20].map(|ms| Wire::new(ms * MILLISECOND)),
    );
    pair.ends[0].write(1_000);
    pair.run_for(SECOND);
    let sender = &pair.ends[0];
    let window = &sender.window;
    let srtt_s = window.srtt.expect("measured") as f64 / 1e9;
    let rate = sender.subflow().pacing_rate(window);
    assert_eq!(rate, 2.0 * window.cwnd_bytes / srtt_s);
}
