//! The kernel's settings of a namespace: those of the description, and those that would otherwise
//! depend on the machine.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::{fs, io};

use experiment::capabilities::Missing;
use experiment::resolved::{FailedAfter, Host};
use rustix::fs::{Mode, OFlags};
use rustix::io::{pread, pwrite};

use super::addresses::PlaceKind;
use crate::LiveError;

/// A name as sysctl(8) writes it, and a value.
pub(super) type Setting = (&'static str, String);

/// Smallest and initial receive and send buffers, with mainline's defaults. The description sets
/// the largest.
const RECEIVE_BUFFER_BYTES: (u64, u64) = (4096, 131_072);
const SEND_BUFFER_BYTES: (u64, u64) = (4096, 16_384);

const A_DAY_MS: &str = "86400000";

/// Settings that are not written, but belong to the record of a run.
const RECORDED: [&str; 12] = [
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_rto_min_us",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_limit_output_bytes",
];

/// More bytes than any of these values has.
const LONGEST_VALUE_BYTES: usize = 512;

/// The folder whose settings are all recorded.
const MPTCP: &str = "net.mptcp";

/// Returns the settings that a place gets before its devices are created, because devices copy the
/// defaults.
pub(super) fn settings_for(kind: PlaceKind, host: Option<&Host>) -> Vec<Setting> {
    if !kind.is_routed() {
        // A switch has no addresses and does not report multicast memberships to its neighbours.
        return fixed(&[
            ("net.ipv6.conf.all.disable_ipv6", "1"),
            ("net.ipv6.conf.default.disable_ipv6", "1"),
        ]);
    }
    let forwards = if kind == PlaceKind::Router { "1" } else { "0" };
    let mut settings = fixed(&[
        // These come first, because the kernel changes other settings with them.
        ("net.ipv4.ip_forward", forwards),
        ("net.ipv6.conf.all.forwarding", forwards),
        // A packet may arrive by another interface than the answer leaves by.
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        // On a subnet with several interfaces, each answers for its own address only.
        ("net.ipv4.conf.all.arp_ignore", "1"),
        ("net.ipv4.conf.all.arp_announce", "2"),
        // The description alone determines paths.
        ("net.ipv4.conf.all.accept_redirects", "0"),
        ("net.ipv4.conf.default.accept_redirects", "0"),
        ("net.ipv4.conf.all.send_redirects", "0"),
        ("net.ipv4.conf.default.send_redirects", "0"),
        ("net.ipv6.conf.all.accept_redirects", "0"),
        ("net.ipv6.conf.default.accept_redirects", "0"),
        // Suppresses packets that belong to no flow: router solicitations, link-local addresses,
        // detection of duplicate addresses.
        ("net.ipv6.conf.all.disable_ipv6", "0"),
        ("net.ipv6.conf.default.disable_ipv6", "0"),
        ("net.ipv6.conf.default.accept_ra", "0"),
        ("net.ipv6.conf.default.autoconf", "0"),
        ("net.ipv6.conf.default.router_solicitations", "0"),
        ("net.ipv6.conf.default.accept_dad", "0"),
        ("net.ipv6.conf.default.addr_gen_mode", "1"),
        // Multicast memberships are reported only once: the report that the kernel repeats within a
        // second comes up to a day later.
        (
            "net.ipv6.conf.default.mldv1_unsolicited_report_interval",
            A_DAY_MS,
        ),
        (
            "net.ipv6.conf.default.mldv2_unsolicited_report_interval",
            A_DAY_MS,
        ),
        // IPv4 addresses stay when an interface goes down. This keeps IPv6 addresses too.
        ("net.ipv6.conf.all.keep_addr_on_down", "1"),
    ]);
    settings.extend(host.into_iter().flat_map(of_host));
    settings
}

fn fixed(settings: &[(&'static str, &str)]) -> Vec<Setting> {
    let settings = settings.iter();
    settings
        .map(|&(name, value)| (name, value.to_owned()))
        .collect()
}

/// Returns the settings for a host's TCP and MPTCP.
fn of_host(host: &Host) -> Vec<Setting> {
    let flag = |on: bool| u8::from(on).to_string();
    let mut settings = vec![
        ("net.mptcp.enabled", flag(host.mptcp)),
        ("net.mptcp.checksum_enabled", flag(host.checksum)),
        (
            "net.ipv4.tcp_rmem",
            buffers(RECEIVE_BUFFER_BYTES, host.rcvbuf_bytes),
        ),
        (
            "net.ipv4.tcp_wmem",
            buffers(SEND_BUFFER_BYTES, host.sndbuf_bytes),
        ),
        // A connection must not start with metrics that the kernel learnt from an earlier one.
        ("net.ipv4.tcp_no_metrics_save", flag(true)),
    ];
    let known = recent(host).into_iter().filter(Recent::is_known);
    settings.extend(known.map(|one| (one.setting, one.value.to_string())));
    let behaviour = host.behaviour();
    // The kernel's value stays otherwise, because mainline cannot do what the out-of-tree kernel
    // did instead.
    if behaviour.failed_after == FailedAfter::Stale {
        let intervals = behaviour.stale_intervals.to_string();
        settings.push(("net.mptcp.stale_loss_cnt", intervals));
    }
    settings
}

/// A setting that older kernels lack. They behave as its default says.
struct Recent {
    setting: &'static str,
    field: &'static str,
    value: u32,
    default: u32,
}

impl Recent {
    fn is_known(&self) -> bool {
        path_of(self.setting).exists()
    }
}

fn recent(host: &Host) -> [Recent; 2] {
    [
        Recent {
            setting: "net.mptcp.syn_retrans_before_tcp_fallback",
            field: "syn_retries",
            value: host.syn_retries,
            default: 3,
        },
        Recent {
            setting: "net.ipv4.tcp_syn_linear_timeouts",
            field: "syn_linear_timeouts",
            value: host.syn_linear_timeouts,
            default: 4,
        },
    ]
}

/// Returns the settings of a host that this kernel lacks.
pub(super) fn missing(host: &Host) -> impl Iterator<Item = Missing> {
    let wanted = recent(host).into_iter();
    let lacking = wanted.filter(|one| one.value != one.default && !one.is_known());
    lacking.map(|one| Missing {
        feature: format!("hosts.{}.{}: {}", host.id, one.field, one.value),
        why: format!(
            "this kernel has no setting {}: leave it at {}, or use a newer one",
            one.setting, one.default
        ),
    })
}

/// Formats the three numbers of `tcp_rmem` and `tcp_wmem`.
fn buffers((smallest, initial): (u64, u64), largest: u64) -> String {
    format!(
        "{} {} {largest}",
        smallest.min(largest),
        initial.min(largest)
    )
}

/// Writes settings in the namespace of the calling thread.
///
/// # Errors
/// The kernel does not have a setting, does not let it be changed, or stores another value.
pub(super) fn write(owner: &str, settings: &[Setting]) -> Result<(), LiveError> {
    for (name, value) in settings {
        write_one(owner, name, value)?;
    }
    Ok(())
}

fn write_one(owner: &str, name: &str, value: &str) -> Result<(), LiveError> {
    let written = || {
        let file = open(name, OFlags::RDWR)?;
        if read_value(&file)? == value {
            return Ok(());
        }
        pwrite(&file, value.as_bytes(), 0)?;
        match read_value(&file)? {
            found if found == value => Ok(()),
            found => Err(io::Error::other(format!("the kernel made it {found}"))),
        }
    };
    written().map_err(|why| LiveError::while_(format!("{owner}: setting {name} = {value}"))(why))
}

/// Returns the settings in effect in the namespace of the calling thread: all that were written
/// and, for a host, those that the record needs besides.
///
/// # Errors
/// A setting that was written can no longer be read.
pub(super) fn in_effect(
    owner: &str,
    written: &[Setting],
    is_host: bool,
) -> Result<BTreeMap<String, String>, LiveError> {
    let mut found = BTreeMap::new();
    for (name, _) in written {
        let doing = format!("{owner}: reading {name}");
        let value = value_of(name).map_err(LiveError::while_(doing))?;
        found.insert((*name).to_owned(), value);
    }
    if is_host {
        let others = RECORDED.iter().map(|name| (*name).to_owned());
        for name in others.chain(all_of(MPTCP)) {
            // Kernels differ in the settings they have.
            if let Ok(value) = value_of(&name) {
                found.insert(name, value);
            }
        }
    }
    Ok(found)
}

fn all_of(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(path_of(folder)).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.map(|name| format!("{folder}.{name}")).collect()
}

fn path_of(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

fn open(name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        path_of(name),
        flags | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

fn value_of(name: &str) -> io::Result<String> {
    read_value(&open(name, OFlags::RDONLY)?)
}

/// Reads a value in one line with single spaces; the kernel separates numbers by tabulators.
fn read_value(file: &OwnedFd) -> io::Result<String> {
    let mut text = [0; LONGEST_VALUE_BYTES];
    let length = pread(file, &mut text, 0)?;
    let text = String::from_utf8_lossy(&text[..length]);
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
