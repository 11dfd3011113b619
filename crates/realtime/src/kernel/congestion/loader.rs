//! Loads an eBPF object with a congestion control and registers it with the kernel.

use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::btf::{Btf, types};
use libbpf_rs::query::BtfInfoIter;
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapType, ObjectBuilder, OpenObject, PrintLevel, set_print,
};

/// Why this build has no loader: it has one.
pub(super) const WHY_ABSENT: Option<&str> = None;

/// The kernel's structure of a control, and the length of the name in it with the final zero.
const CONTROL: &str = "tcp_congestion_ops";
const NAME_BYTES: usize = 16;
/// The registration lasts as long as a descriptor or file of it (`BPF_F_LINK`), whatever the object
/// says.
const LASTS_AS_LINK: u32 = 1 << 13;
/// The verifier's last lines, which have the reason of a refusal.
const TOLD_LINES: usize = 12;

/// The error for a file without a control.
const NO_CONTROL: &str = "it has to hold exactly one congestion control: a `struct tcp_congestion_ops` in section .struct_ops.link, with type information (clang -g)";

/// A registered control. The kernel keeps it as long as this descriptor or a file of it exists.
#[derive(Debug)]
pub(super) struct Registration(Link);

impl Registration {
    /// Keeps the registration in a file of bpffs after the process has ended.
    ///
    /// # Errors
    /// The text says why the kernel refuses.
    pub(super) fn pin(mut self, file: &Path) -> Result<(), String> {
        let pinned = self.0.pin(file);
        pinned.map_err(|error| error.to_string())
    }
}

/// Ends the registration that a file of bpffs keeps, even if other descriptors hold it. Kernels
/// before Linux 6.9 cannot do this; there only the file holds it.
pub(super) fn detach(file: &Path) {
    let _ = Link::open(file).and_then(|link| link.detach());
}

/// Returns whether this process may register controls. Only root outside of user namespaces may
/// list type information; that of the kernel always exists.
pub(super) fn may_load() -> bool {
    BtfInfoIter::default().next().is_some()
}

/// Why a control is not registered.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The kernel has a control of that name.
    NameTaken,
    /// Any other reason, as text.
    Because(String),
}

/// Returns why a file is not an object with a control; `None` if it is one. Does not call the
/// kernel.
pub(super) fn problem_with(object: &[u8]) -> Option<String> {
    let told = Told::begin();
    opened(object, "name", &told).err()
}

/// Registers the only control of an object under `name`, which must fit the kernel's field. Sockets
/// that use the control keep it beyond the end of the registration.
pub(super) fn register(object: &[u8], name: &str) -> Result<Registration, Refusal> {
    let told = Told::begin();
    let open = opened(object, name, &told).map_err(Refusal::Because)?;
    let refused = |error: &libbpf_rs::Error| {
        Refusal::Because(format!("the kernel refuses it: {}", told.after(error)))
    };
    let mut loaded = open.load().map_err(|error| refused(&error))?;
    let mut maps = loaded.maps_mut();
    let control = maps.find(|map| map.map_type() == MapType::StructOps);
    let mut control = control.ok_or_else(|| Refusal::Because(NO_CONTROL.to_owned()))?;
    let attached = control.attach_struct_ops();
    attached
        .map(Registration)
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Refusal::NameTaken,
            _ => refused(&error),
        })
}

/// Opens an object and sets the name of its control, ready to be loaded.
fn opened(object: &[u8], name: &str, told: &Told) -> Result<OpenObject, String> {
    let open = ObjectBuilder::default().open_memory(object);
    let mut open = open.map_err(|error| format!("it is no eBPF object: {}", told.after(&error)))?;
    rename(&mut open, object, name).ok_or(NO_CONTROL)?;
    Ok(open)
}

/// Renames the control and ties its registration to the link. `None` if there is not exactly one
/// control.
fn rename(open: &mut OpenObject, object: &[u8], name: &str) -> Option<()> {
    let place = place_of_name(object)?;
    let mut maps = open.maps_mut();
    let mut controls = maps
        .by_ref()
        .filter(|map| map.map_type() == MapType::StructOps);
    let (Some(mut control), None) = (controls.next(), controls.next()) else {
        return None;
    };
    control
        .set_map_flags(control.map_flags() | LASTS_AS_LINK)
        .ok()?;
    let field = control.initial_value_mut()?.get_mut(place)?;
    field.fill(0);
    field
        .get_mut(..name.len())?
        .copy_from_slice(name.as_bytes());
    Some(())
}

/// Returns where the object's own declaration of a control has the name.
fn place_of_name(object: &[u8]) -> Option<Range<usize>> {
    let types = Btf::from_raw("control", object).ok()??;
    let control = types.type_by_name::<types::Struct<'_>>(CONTROL)?;
    let name = control
        .iter()
        .find(|member| member.name.is_some_and(|name| name == "name"))?;
    let types::MemberAttr::Normal { offset: bits } = name.attr else {
        return None;
    };
    let start = usize::try_from(bits / 8).ok()?;
    Some(start..start + NAME_BYTES)
}

/// Collects the messages of libbpf for one thread at a time, because libbpf has one output for all.
struct Told {
    _alone: MutexGuard<'static, ()>,
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static LINES: Mutex<String> = Mutex::new(String::new());

impl Told {
    fn begin() -> Self {
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        LINES.lock().unwrap_or_else(PoisonError::into_inner).clear();
        set_print(Some((PrintLevel::Warn, |_, text| {
            LINES
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_str(&text);
        })));
        Self { _alone: guard }
    }

    /// Returns an error and the last messages before it, in one line.
    fn after(&self, error: &libbpf_rs::Error) -> String {
        let first = format!("{error:#}");
        let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<_> = lines.lines().filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(TOLD_LINES)..];
        [&[first.as_str()], last].concat().join("; ")
    }
}
