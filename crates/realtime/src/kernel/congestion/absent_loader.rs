//! Stands in for the loader of eBPF objects in a build without it (feature `ebpf`).

use std::path::Path;

/// Why this build registers no controls.
pub(super) const WHY_ABSENT: Option<&str> = Some(
    "this build of mptcplab has no loader for eBPF: install the wheel, or build with the tools that scripts/prepare names",
);

/// A registered control; there is none.
#[derive(Debug)]
pub(super) enum Registration {}

impl Registration {
    pub(super) fn pin(self, _file: &Path) -> Result<(), String> {
        match self {}
    }
}

pub(super) fn detach(_file: &Path) {}

pub(super) fn may_load() -> bool {
    false
}

/// Why a control is not registered.
#[derive(Debug)]
#[allow(
    dead_code,
    reason = "the loader refuses for two reasons, its absence for one"
)]
pub(super) enum Refusal {
    NameTaken,
    Because(String),
}

/// No object is examined, because none can be registered.
pub(super) fn problem_with(_object: &[u8]) -> Option<String> {
    None
}

pub(super) fn register(_object: &[u8], _name: &str) -> Result<Registration, Refusal> {
    Err(Refusal::Because(WHY_ABSENT.unwrap_or_default().to_owned()))
}
