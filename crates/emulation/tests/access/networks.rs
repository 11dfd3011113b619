//! Access networks in their resolved form, for tests and, by its path, for benchmarks.

use experiment::resolved::{
    AccessCategory, Aggregation, ApFifo, ApFq, ApQueue, BentPipe, BusyNeighbours, Cable, Cellular,
    DurationQuantile, Edca, Fade, Gaps, Harq, HopDirection, Leo, LossInTime, NrLeg, Rrc, Signal,
    Snr, SnrPoint, Stall, Step, UplinkRequests, Wifi, WifiBand, WifiRate, WifiStandard,
    WifiStation,
};
use experiment::time::{NANOS_PER_SECOND as SECOND, Nanos};

const MILLISECOND: Nanos = SECOND / 1000;

/// LTE as the defaults have it, without fading, neighbours and handovers.
pub fn lte() -> Cellular {
    Cellular {
        link: "lte".to_owned(),
        uplink: HopDirection::Forward,
        tti_ns: MILLISECOND,
        harq: Harq {
            first_error_ppm: 100_000,
            repeat_error_ppm: 20_000,
            round_trip_ns: 8 * MILLISECOND,
            tries: 4,
            rlc_ns: 50 * MILLISECOND,
        },
        requests: UplinkRequests {
            period_ns: 10 * MILLISECOND,
            grant_ns: 8 * MILLISECOND,
        },
        rrc: Rrc {
            drx_after_ns: 100 * MILLISECOND,
            drx_cycle_ns: 320 * MILLISECOND,
            inactivity_ns: 10_500 * MILLISECOND,
            paging_cycle_ns: 1280 * MILLISECOND,
            promotion_ns: 260 * MILLISECOND,
        },
        signal: steady(),
        neighbours: BusyNeighbours {
            mean_ppm: 0,
            busy_ns: SECOND,
        },
        handovers: None,
        nr_leg: None,
    }
}

/// 5G with a core of 4G: the times of NR, and the cycle of LTE.
pub fn nsa() -> Cellular {
    let mut cell = lte();
    cell.tti_ns = MILLISECOND / 2;
    cell.harq.round_trip_ns = 4 * MILLISECOND;
    (cell.requests.period_ns, cell.requests.grant_ns) = (5 * MILLISECOND, 4 * MILLISECOND);
    cell.nr_leg = Some(NrLeg {
        gaps: Gaps {
            interval_ns: 7500 * MILLISECOND,
            gap_median_ns: 60 * MILLISECOND,
            gap_sd_ppm: 700_000,
        },
        rate_without_ppm: 330_000,
    });
    cell
}

/// 5G alone.
pub fn sa() -> Cellular {
    let mut cell = nsa();
    cell.nr_leg = None;
    cell.rrc.drx_cycle_ns = 80 * MILLISECOND;
    cell.rrc.promotion_ns = 341 * MILLISECOND;
    cell
}

/// LTE whose blocks are all decoded at once.
pub fn clear() -> Cellular {
    let mut cell = lte();
    cell.harq.first_error_ppm = 0;
    cell
}

pub fn steady() -> Signal {
    Signal {
        median_mdb: 5000,
        fast_sd_mdb: 0,
        fast_ns: 100 * MILLISECOND,
        slow_sd_mdb: 0,
        slow_ns: 10 * SECOND,
    }
}

/// A dish as the defaults have it.
pub fn leo(link: &str) -> Leo {
    let quantile = |below_ppm, duration_ns| DurationQuantile {
        below_ppm,
        duration_ns,
    };
    Leo {
        link: link.to_owned(),
        uplink: HopDirection::Forward,
        slot_ns: 15 * SECOND,
        phase_ns: Some(12 * SECOND),
        bent_pipe: BentPipe {
            mean_ns: 20 * MILLISECOND,
            sd_ns: 3 * MILLISECOND,
            min_ns: 10_200_000,
            max_ns: 35 * MILLISECOND,
        },
        step: Step {
            sd_ppm: 270_000,
            correlation_ppm: 500_000,
        },
        fade: Fade {
            sd_ppm: 145_000,
            correlation_ns: SECOND,
        },
        uplink_frame_ns: 4 * MILLISECOND,
        stall: Stall {
            probability_ppm: 500_000,
            min_ns: 20 * MILLISECOND,
            max_ns: 150 * MILLISECOND,
        },
        loss: LossInTime {
            interval_ns: 560 * MILLISECOND,
            durations: vec![
                quantile(0, 10_000),
                quantile(500_000, 49_000),
                quantile(900_000, 113_000),
                quantile(950_000, 1_500_000),
                quantile(990_000, 7_500_000),
                quantile(1_000_000, SECOND),
            ],
        },
    }
}

/// A cable modem as the defaults have it.
pub fn cable(link: &str) -> Cable {
    Cable {
        link: link.to_owned(),
        uplink: HopDirection::Forward,
        requests: UplinkRequests {
            period_ns: 2 * MILLISECOND,
            grant_ns: 4 * MILLISECOND,
        },
    }
}

/// The access parameters of best effort in each standard.
fn edca(standard: WifiStandard) -> Edca {
    Edca {
        aifsn: if standard.has_qos() { 3 } else { 2 },
        cw_min: if standard == WifiStandard::B { 31 } else { 15 },
        cw_max: 1023,
        txop_limit_ns: 0,
    }
}

pub fn fixed(mcs: u32) -> WifiRate {
    WifiRate::Fixed { mcs }
}

/// The usual queue of Linux for each station.
pub fn fair_queue() -> ApQueue {
    ApQueue::Fq(ApFq {
        quantum_ns: 300_000,
        aql_low_ns: 5_000_000,
        aql_high_ns: 12_000_000,
        aql_threshold_ns: 24_000_000,
    })
}

/// The queue of Linux before 4.11 with the driver of ath9k.
pub fn one_queue() -> ApQueue {
    ApQueue::Fifo(ApFifo {
        limit_packets: 1000,
        driver_packets: 123,
    })
}

/// A network of stations with the same good signal, each at its rate.
pub fn network(standard: WifiStandard, rates: &[WifiRate]) -> Wifi {
    Wifi {
        medium: "air".to_owned(),
        standard,
        band: standard.bands()[standard.bands().len() - 1],
        rts_bytes: None,
        retry_limit: 10,
        edca: [edca(standard); 4],
        ap_queue: fair_queue(),
        stations: rates
            .iter()
            .enumerate()
            .map(|(index, rate)| station(index, standard, *rate))
            .collect(),
        neighbours: Vec::new(),
    }
}

/// A network at 2.4 GHz whose stations have these standards and rates.
pub fn mixed_network(standard: WifiStandard, stations: &[(WifiStandard, WifiRate)]) -> Wifi {
    let of = |(index, (standard, rate)): (usize, &(WifiStandard, WifiRate))| {
        station(index, *standard, *rate)
    };
    let mut wifi = network(standard, &[]);
    wifi.band = WifiBand::Ghz2;
    wifi.stations = stations.iter().enumerate().map(of).collect();
    wifi
}

fn station(index: usize, standard: WifiStandard, rate: WifiRate) -> WifiStation {
    WifiStation {
        link: format!("station{index}"),
        uplink: HopDirection::Forward,
        standard,
        width_mhz: 20,
        guard_interval_ns: 800,
        streams: 1,
        aggregation: Aggregation {
            max_mpdus: if standard.has_qos() { 64 } else { 1 },
            max_bytes: 65_535,
            max_ppdu_ns: 5_484_000,
        },
        access_category: AccessCategory::BestEffort,
        edca: edca(standard),
        rate,
        snr: Snr {
            means: vec![SnrPoint {
                at_ns: 0,
                mean_mdb: 60_000,
            }],
            sd_mdb: 0,
            correlation_ns: 200_000_000,
        },
        power_save_after_ns: None,
        scan: None,
    }
}
