//! Congestion controls that mainline lacks, as eBPF: those of `bpf/`, and users' own objects.

mod installation;
#[cfg_attr(feature = "ebpf", path = "loader.rs")]
#[cfg_attr(not(feature = "ebpf"), path = "absent_loader.rs")]
mod loader;
mod of_run;

use std::fs;
use std::sync::LazyLock;

pub use installation::{Installation, State, install, list, remove};
pub use of_run::{ControlRecord, RunControls};

/// The objects of mptcplab, by the names of their controls.
const SHIPPED: [(&str, &[u8]); 6] = [
    (
        "lia",
        include_bytes!("../../../../../bpf/objects/lia.bpf.o"),
    ),
    (
        "olia",
        include_bytes!("../../../../../bpf/objects/olia.bpf.o"),
    ),
    (
        "balia",
        include_bytes!("../../../../../bpf/objects/balia.bpf.o"),
    ),
    (
        "wvegas",
        include_bytes!("../../../../../bpf/objects/wvegas.bpf.o"),
    ),
    (
        "ewtcp",
        include_bytes!("../../../../../bpf/objects/ewtcp.bpf.o"),
    ),
    (
        "semicoupled",
        include_bytes!("../../../../../bpf/objects/semicoupled.bpf.o"),
    ),
];

/// Returns the names of mptcplab's controls.
pub(crate) fn shipped() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

fn object_of(name: &str) -> Option<&'static [u8]> {
    let found = SHIPPED.iter().find(|(its_name, _)| *its_name == name);
    found.map(|(_, object)| *object)
}

/// Returns the congestion controls that sockets can use now.
pub fn available() -> Vec<String> {
    let listed = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

/// Returns why no control can be registered here; `None` if one can.
pub(crate) fn why_not_registered() -> Option<&'static str> {
    if loader::WHY_ABSENT.is_some() {
        return loader::WHY_ABSENT;
    }
    if !*TAKES_CONTROLS {
        return Some(
            "this kernel takes no congestion controls in eBPF: it needs Linux 6.4 or newer with BTF",
        );
    }
    (!loader::may_load()).then_some(
        "to register it needs root: use `sudo mptcplab run ..`, or once `sudo mptcplab cc install`",
    )
}

/// Whether the kernel's type information has what the objects use. It is megabytes long and never
/// changes, so it is read once.
static TAKES_CONTROLS: LazyLock<bool> = LazyLock::new(|| {
    has_types(&[
        "bpf_struct_ops_tcp_congestion_ops",
        "bpf_iter_num_new",
        "bpf_rdonly_cast",
    ])
});

/// Returns the kinds of operations that programs in eBPF can implement, as in `tcp_congestion_ops`.
pub fn struct_ops() -> &'static [String] {
    &STRUCT_OPS
}

/// Read once, as [`TAKES_CONTROLS`].
static STRUCT_OPS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let types = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let names = types.split(|byte| *byte == 0);
    let names = names.filter_map(|name| std::str::from_utf8(name).ok());
    let names = names.filter_map(|name| name.strip_prefix("bpf_struct_ops_"));
    let mut found: Vec<String> = names
        .filter(|name| name.ends_with("_ops"))
        .map(str::to_owned)
        .collect();
    found.sort();
    found
});

/// Returns whether the kernel's type information has all these names.
pub(crate) fn has_types(names: &[&str]) -> bool {
    let types = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    names.iter().all(|name| {
        let entry = [b"\0", name.as_bytes(), b"\0"].concat();
        types.windows(entry.len()).any(|window| window == entry)
    })
}
