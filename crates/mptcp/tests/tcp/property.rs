//! Whatever a network does short of changing bytes, every byte stream arrives whole, in order and
//! once, and both hosts close.

use mptcp::subflow::{CloseReason, Config, RtoConfig, RtoEstimator, Segmentation};
use mptcp::time::{MILLISECOND, Nanos, SECOND};
use proptest::prelude::*;

use crate::pair::tcp::pair;
use crate::pair::wire::{Fate, Wire};

/// Faults in percent.
#[derive(Clone, Debug)]
struct Weather {
    lost: u32,
    late: u32,
    doubled: u32,
    marked: u32,
    delay: Nanos,
    rate: Option<u64>,
    seed: u64,
}

fn weather() -> impl Strategy<Value = Weather> {
    let percent = (0..25u32, 0..25u32, 0..10u32, 0..10u32);
    let rate = prop_oneof![Just(None), (50_000..2_000_000u64).prop_map(Some)];
    (percent, 0..60u64, rate, any::<u64>()).prop_map(|(percent, delay_ms, rate, seed)| Weather {
        lost: percent.0,
        late: percent.1,
        doubled: percent.2,
        marked: percent.3,
        delay: delay_ms * MILLISECOND,
        rate,
        seed,
    })
}

fn config() -> impl Strategy<Value = Config> {
    let features: [_; 6] = std::array::from_fn(|_| any::<bool>());
    let scale = proptest::option::of(0..15u8);
    (features, scale, 100..1460u16, any::<bool>()).prop_map(|(features, scale, mss, is_rfc)| {
        let estimator = if is_rfc {
            RtoEstimator::Rfc6298
        } else {
            RtoEstimator::Linux
        };
        Config {
            timestamps: features[0],
            sack: features[1],
            ecn: features[2],
            rack: features[3],
            nagle: features[4],
            segmentation: if features[5] {
                Segmentation::Offload
            } else {
                Segmentation::InSocketBuffers
            },
            window_scale: scale,
            mss_bytes: mss,
            syn_retries: mptcp::subflow::SynRetries {
                count: 30,
                linear: 4,
            },
            retries: 30,
            rto: RtoConfig {
                estimator,
                max: 2 * SECOND,
                ..RtoConfig::default()
            },
            ..Config::default()
        }
    })
}

/// Returns the upper half of the next number of a linear congruential generator (Knuth, MMIX).
fn draw(state: &mut u64) -> u32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 32) as u32
}

fn wire(weather: &Weather, direction: u64) -> Wire {
    let mut state = weather.seed ^ direction;
    let Weather {
        lost,
        late,
        doubled,
        marked,
        ..
    } = *weather;
    let mut wire = Wire::new(weather.delay).with_fates(move |_, _| match draw(&mut state) % 100 {
        percent if percent < lost => Fate::Lost,
        percent if percent < lost + late => {
            Fate::Late(u64::from(draw(&mut state) % 100) * MILLISECOND)
        }
        percent if percent < lost + late + doubled => Fate::Doubled,
        percent if percent < lost + late + doubled + marked => Fate::Marked,
        _ => Fate::Delivered,
    });
    if let Some(rate) = weather.rate {
        wire = wire.with_rate(rate, 20);
    }
    wire
}

proptest! {
    #[test]
    fn streams_arrive_whole_and_both_sides_end(
        weather in weather(),
        config in config(),
        written in (0..200_000u32, 0..100_000u32),
        buffer in prop_oneof![2_000..20_000u64, Just(1 << 20)],
    ) {
        let unit_fits = buffer.ilog2() as u8;
        let window_scale = config.window_scale.map(|shift| shift.min(unit_fits));
        let config = Config { time_wait: 300 * SECOND, window_scale, ..config };
        let mut pair = pair(config, [wire(&weather, 1), wire(&weather, 2)]);
        pair.ends.iter_mut().for_each(|end| end.buffer = buffer);
        pair.ends[0].write(written.0);
        let hour = 3_600 * SECOND;
        pair.run_while(hour, |pair| pair.ends[1].state().is_none());
        pair.ends[1].write(written.1);
        pair.run_while(hour, |pair| pair.ends[0].state() == Some(mptcp::subflow::State::SynSent));
        pair.ends.iter_mut().for_each(|end| end.close());
        pair.run_while(4 * hour, |pair| pair.ends.iter().any(|end| end.closed().is_none()));
        for (end, other) in [(0, 1), (1, 0)] {
            prop_assert_eq!(pair.ends[end].closed(), Some(CloseReason::Finished));
            prop_assert!(pair.ends[end].has_all_of(&pair.ends[other]));
            prop_assert_eq!(pair.ends[end].subflow().out_of_order_bytes(), 0);
        }
    }
}
