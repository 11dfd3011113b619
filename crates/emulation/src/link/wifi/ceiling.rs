//! What a station of a Wi-Fi network can carry at most.

use experiment::resolved::{Wifi, WifiRate, WifiStation};
use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::aggregate::subframe_bytes;
use super::phy::{Phy, Rate};

/// The signal is above its mean and this many standard deviations in 2 % of the time.
const DEVIATIONS: i64 = 2;

/// Returns the largest rate of payload in bit/s in one direction of `station` while it has the air
/// for itself. Its packets have `payload_bytes` behind `header_bytes` of IP and transport.
///
/// Transmissions are as long as they may be, and all arrive. Their rate is the fixed one, or else
/// the best of those that half of the frames survive at two standard deviations above the largest
/// mean of the signal.
pub fn most_payload_bps(
    wifi: &Wifi,
    station: &WifiStation,
    payload_bytes: u32,
    header_bytes: u32,
) -> u64 {
    let phy = Phy::new(wifi).of_station(station);
    let ip_bytes = payload_bytes.saturating_add(header_bytes);
    let rates = usable_rates(station, &phy);
    let payload_bps = rates.iter().map(|rate| {
        let (packets, duration) = exchanges(wifi, station, &phy, rate, ip_bytes);
        // Twice the duration, because the mean backoff is half a number of slots.
        let bits = 16 * u128::from(packets) * u128::from(payload_bytes);
        let bps = bits * u128::from(NANOS_PER_SECOND) / u128::from(duration.max(1));
        u64::try_from(bps).unwrap_or(u64::MAX)
    });
    payload_bps.max().unwrap_or(0)
}

fn usable_rates(station: &WifiStation, phy: &Phy) -> Vec<Rate> {
    let rates = phy.rates(station);
    if let WifiRate::Fixed { .. } = station.rate {
        return rates;
    }
    let deviation = i64::try_from(station.snr.sd_mdb).unwrap_or(i64::MAX);
    let means = station.snr.means.iter().map(|point| point.mean_mdb);
    let most_mdb = means
        .max()
        .unwrap_or(0)
        .saturating_add(deviation.saturating_mul(DEVIATIONS));
    let slowest = rates[0];
    let usable = rates.into_iter().filter(|rate| rate.snr50_mdb <= most_mdb);
    usable.chain([slowest]).collect()
}

/// Returns the packets of one access to the channel, and twice its duration with the wait before it.
fn exchanges(
    wifi: &Wifi,
    station: &WifiStation,
    phy: &Phy,
    rate: &Rate,
    ip_bytes: u32,
) -> (u64, Nanos) {
    let access = &station.edca;
    let (mpdus, bytes) = largest_transmission(station, phy, rate, ip_bytes);
    let answer = if mpdus > 1 { rate.block_ack } else { rate.ack };
    let protection = rate.protection(bytes, wifi.rts_bytes).duration();
    let exchange = protection + rate.ppdu(bytes) + phy.sifs + answer;
    // A TXOP is a row of exchanges with SIFS between them.
    let exchanges = ((access.txop_limit_ns + phy.sifs) / (exchange + phy.sifs)).max(1);
    let busy = exchanges * exchange + (exchanges - 1) * phy.sifs;
    let slots_twice = 2 * Nanos::from(access.aifsn) + Nanos::from(access.cw_min);
    let twice = 2 * (phy.sifs + busy) + slots_twice * phy.slot;
    (exchanges * u64::from(mpdus), twice)
}

/// Returns the packets and the bytes of the longest transmission.
fn largest_transmission(
    station: &WifiStation,
    phy: &Phy,
    rate: &Rate,
    ip_bytes: u32,
) -> (u32, u32) {
    let limits = &station.aggregation;
    let longest = match station.edca.txop_limit_ns {
        0 => limits.max_ppdu_ns,
        limit => limits.max_ppdu_ns.min(limit),
    };
    let mpdu = phy.mpdu_bytes(ip_bytes);
    let subframe = subframe_bytes(mpdu);
    let most_bytes = limits.max_bytes.min(rate.most_bytes(longest));
    match limits.max_mpdus.min(most_bytes / subframe) {
        0 | 1 => (1, mpdu),
        mpdus => (mpdus, mpdus * subframe),
    }
}
