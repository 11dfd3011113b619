//! What a result depends on of the machine: kernel, processor, clock, load.

use std::collections::BTreeMap;
use std::fs;
use std::thread::available_parallelism;

use realtime::kernel::congestion;
use realtime::kernel::path_manager::Abilities;
use rustix::system::{sysinfo, uname};
use serde_json::{Value, json};

/// Indices of columns of /proc/stat (proc_stat(5)), after the word cpu.
const IDLE: usize = 3;
const IOWAIT: usize = 4;
const STEAL: usize = 7;

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

const SYSCTLS: &str = "/proc/sys/net/mptcp";

/// Returns the machine as in the environment of a bundle, its load, and what its kernel offers.
pub fn machine(load: &Load) -> Value {
    let name = uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let memory = sysinfo();
    json!({
        "kernel": format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.version())),
        "release": text(name.release()),
        "machine": {
            "architecture": text(name.machine()),
            "cpu": cpu_model(),
            "cpus": available_parallelism().ok().map(std::num::NonZero::get),
            "memory_bytes": u64::from(memory.mem_unit).saturating_mul(memory.totalram),
            "clock": fs::read_to_string(CLOCK).ok().map(|name| name.trim().to_owned()),
            "load": load.report(),
            "path_manager": Abilities::here(),
            "sysctls": sysctls(),
            "congestion_controls": congestion::available(),
            "struct_ops": congestion::struct_ops(),
        },
    })
}

/// Returns the settings of Multipath TCP by name.
fn sysctls() -> BTreeMap<String, String> {
    let files = fs::read_dir(SYSCTLS).into_iter().flatten().flatten();
    let read = files.filter_map(|file| {
        let value = fs::read_to_string(file.path()).ok()?;
        Some((
            file.file_name().into_string().ok()?,
            value.trim().to_owned(),
        ))
    });
    read.collect()
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Time of all processors since the start of the machine, in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTimes {
    total: u64,
    idle: u64,
    stolen: u64,
}

impl CpuTimes {
    fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let ticks = first.split_whitespace().skip(1);
        let ticks: Vec<u64> = ticks.filter_map(|word| word.parse().ok()).collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or_default();
        Self {
            // The later columns, times of guests, are included in these.
            total: ticks.iter().take(STEAL + 1).sum(),
            idle: at(IDLE) + at(IOWAIT),
            stolen: at(STEAL),
        }
    }

    /// Returns the fractions of the time since `earlier` that were idle and stolen.
    fn since(self, earlier: Self) -> (f64, f64) {
        let fraction = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let ticks = fraction(self.total, earlier.total).max(1.0);
        (
            fraction(self.idle, earlier.idle) / ticks,
            fraction(self.stolen, earlier.stolen) / ticks,
        )
    }
}

/// The load of the machine since the start of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    begin: CpuTimes,
    last: CpuTimes,
    /// The idle fraction of the second in which it was smallest.
    least_idle: Option<f64>,
}

impl Load {
    /// Begins a measurement.
    pub fn begin() -> Self {
        let now = CpuTimes::now();
        Self {
            begin: now,
            last: now,
            least_idle: None,
        }
    }

    /// Ends an interval, and begins the next.
    pub fn sample(&mut self) {
        let now = CpuTimes::now();
        let (idle, _) = now.since(self.last);
        // The first interval is shorter than the others.
        if self.last.total > self.begin.total {
            self.least_idle = Some(self.least_idle.map_or(idle, |least| least.min(idle)));
        }
        self.last = now;
    }

    /// Returns the fraction of the time that was used and that was stolen by other virtual machines,
    /// and the smallest idle fraction of a second.
    fn report(&self) -> Value {
        let (idle, stolen) = CpuTimes::now().since(self.begin);
        json!({"used": 1.0 - idle - stolen, "stolen": stolen, "least_idle": self.least_idle})
    }
}
