//! `kernel_default`: the packet scheduler of mainline Linux since 5.19, as read in 6.12.
//!
//! Chooses the subflow whose queue would be drained first at its pacing rate. Fills that queue
//! beyond the congestion window up to the send buffer. Data is therefore assigned early. If all
//! queues are empty, the first subflow is chosen, however slow it is.

use super::Entry;
use super::per_subflow::PerSubflow;
use super::{Decision, Reason, Scheduler, SubflowView, View};
use crate::algorithm::Description;

/// Name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "kernel_default",
        aliases: &[],
        summary: "Chooses the subflow whose send queue would drain first, and fills that queue",
        source: "Linux since 5.19",
        parameters: &[],
    },
    make: |_| Box::new(KernelDefault::default()),
};

/// Maximum number of bytes that `kernel_default` assigns in one decision (`MPTCP_SEND_BURST_SIZE`):
/// a packet of 64 KiB without the headers of IPv6 and TCP with its longest options.
pub const BURST_BYTES: u64 = (1 << 16) - 20 - 40 - 40 - 8;

/// A backup subflow repeats data only if all busy subflows have more missed intervals than this.
const MISSED_BEFORE_BACKUP: u32 = 1;

/// Returns the time that `queued_bytes` take to leave a queue at `pacing_rate` bytes per second.
/// The time is in seconds times 2^32, rounded down as in the kernel. Returns `None` if
/// `pacing_rate` is 0, because the rate is then unknown.
pub fn linger_q32(queued_bytes: u32, pacing_rate: u64) -> Option<u64> {
    (u64::from(queued_bytes) << 32).checked_div(pacing_rate)
}

/// Returns the average pacing rate of a subflow after a burst, in bytes per second. `average` is
/// the average before the burst, weighted by the `queued_bytes` that preceded it. `pacing_rate` is
/// the current rate, weighted by `burst_bytes`. Both rates are in bytes per second.
pub fn average_pacing(average: u64, queued_bytes: u32, pacing_rate: u64, burst_bytes: u64) -> u64 {
    let queued = u128::from(queued_bytes);
    let sum = u128::from(average) * queued + u128::from(pacing_rate) * u128::from(burst_bytes);
    let bytes = queued + u128::from(burst_bytes);
    u64::try_from(sum.checked_div(bytes).unwrap_or(u128::from(average))).unwrap_or(u64::MAX)
}

/// Returns the index of the available subflow whose unacknowledged data would leave first at its
/// average pacing rate; ties go to the oldest. Backup subflows are considered only if no regular
/// subflow is available.
///
/// `averages` are the average pacing rates in bytes per second, in the order of `subflows`.
/// Subflows with a rate of 0 are skipped. Returns `None` if no subflow remains.
pub fn least_linger(subflows: &[SubflowView], averages: &[u64]) -> Option<usize> {
    let is_regular = |subflow: &SubflowView| subflow.is_available() && !subflow.is_backup;
    let takes_backups = !subflows.iter().any(is_regular);
    let lingers = subflows.iter().zip(averages).enumerate();
    let lingers = lingers.filter_map(|(index, (subflow, &average))| {
        let counts = subflow.is_available() && subflow.is_backup == takes_backups;
        let linger = linger_q32(subflow.unacked_bytes, average).filter(|_| counts)?;
        Some((linger, index))
    });
    lingers.min().map(|(_, index)| index)
}

/// Returns the subflow that repeats data after an expiry of the connection's timer: the first
/// regular subflow with nothing of its own to send or retransmit. If all busy subflows are stuck,
/// an idle backup subflow may be chosen.
fn repeats(subflows: &[SubflowView]) -> Option<usize> {
    let usable = || {
        subflows
            .iter()
            .enumerate()
            .filter(|(_, subflow)| subflow.is_usable)
    };
    let idle = |is_backup: bool| {
        let found = usable()
            .find(|(_, subflow)| subflow.unacked_bytes == 0 && subflow.is_backup == is_backup);
        found.map(|(index, _)| index)
    };
    let mut busy = usable().filter(|(_, subflow)| subflow.unacked_bytes > 0);
    idle(false).or_else(|| {
        let is_stuck = busy.all(|(_, subflow)| subflow.missed_intervals > MISSED_BEFORE_BACKUP);
        idle(true).filter(|_| is_stuck)
    })
}

/// The scheduler `kernel_default`: uses the subflow whose unacknowledged data would leave first at
/// its average pacing rate ([`least_linger`]). Keeps these averages.
#[derive(Clone, Debug, Default)]
pub struct KernelDefault {
    averages: PerSubflow<u64>,
}

impl KernelDefault {
    fn push(&mut self, view: &View<'_>) -> Decision {
        let averages = self.averages.of(view.subflows);
        for (average, subflow) in averages.iter_mut().zip(view.subflows) {
            if *average == 0 {
                *average = subflow.pacing_rate as u64;
            }
        }
        let Some(index) = least_linger(view.subflows, averages) else {
            return Decision::Wait;
        };
        let subflow = &view.subflows[index];
        let burst = burst(view);
        let bytes = burst
            .min(view.head.len)
            .min(u64::from(subflow.buffer_left_bytes()));
        if bytes == 0 {
            return Decision::Wait;
        }
        let (queued, rate) = (subflow.unacked_bytes, subflow.pacing_rate as u64);
        averages[index] = average_pacing(averages[index], queued, rate, burst);
        assign(index, bytes)
    }
}

fn burst(view: &View<'_>) -> u64 {
    match view.reason {
        Reason::NewData => BURST_BYTES.min(view.window_left_bytes()),
        _ => BURST_BYTES,
    }
}

fn repeat(view: &View<'_>) -> Decision {
    repeats(view.subflows).map_or(Decision::Wait, |index| {
        let left = u64::from(view.subflows[index].buffer_left_bytes());
        match view.head.len.min(BURST_BYTES).min(left) {
            0 => Decision::Wait,
            bytes => assign(index, bytes),
        }
    })
}

fn assign(subflow: usize, bytes: u64) -> Decision {
    let bytes = u32::try_from(bytes).expect("a burst is below 64 KiB");
    Decision::Assign { subflow, bytes }
}

impl Scheduler for KernelDefault {
    fn next(&mut self, view: &View<'_>) -> Decision {
        match view.reason {
            Reason::NewData | Reason::Reinject => self.push(view),
            Reason::MetaTimeout => repeat(view),
            Reason::WindowBlocked | Reason::BufferBlocked | Reason::NothingNew => Decision::Wait,
        }
    }
}
