//! The controls that a run registers, under names of its own.

use std::collections::BTreeMap;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use experiment::capabilities::Missing;
use experiment::resolved::{Experiment, Transport, UserCode};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::loader::{Refusal, Registration, problem_with, register};
use super::{available, object_of, why_not_registered};
use crate::LiveError;

/// Characters kept of a control's name. With the process and a number it must fit 15 characters.
const PREFIX_BYTES: usize = 5;
/// Attempts to find a free name. Other runs may have taken names, for example processes with the
/// same number in other namespaces.
const ATTEMPTS: usize = 64;

/// A control of a run that the kernel itself lacks, for the run's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ControlRecord {
    /// The name in the description.
    pub name: String,
    /// The name that sockets pass to the kernel.
    pub kernel_name: String,
    /// SHA-256 of the object that the run registered; `None` if the control was already installed.
    pub object_sha256: Option<String>,
}

/// The controls of a run. They end with the run, however it ends.
#[derive(Debug, Default)]
pub struct RunControls {
    records: BTreeMap<String, ControlRecord>,
    /// The kernel keeps the controls as long as these descriptors are open.
    _registrations: Vec<Registration>,
}

impl RunControls {
    /// Returns the problems of users' own objects that flows name.
    pub(crate) fn check(experiment: &Experiment) -> Vec<Missing> {
        let mut missing = Vec::new();
        for flow in &experiment.flows {
            let own = flow.cc.first();
            let own = own.filter(|control| own_file(experiment, &control.name).is_some());
            let problem = own.and_then(|control| match object_named(experiment, &control.name) {
                Ok(object) => object.and_then(|object| problem_with(&object)),
                Err(error) => Some(error.to_string()),
            });
            missing.extend(own.zip(problem).map(|(control, why)| Missing {
                feature: format!("flows.{}.cc: {}", flow.id, control.name),
                why,
            }));
        }
        missing
    }

    /// Registers the controls that flows name and the kernel lacks.
    ///
    /// # Errors
    /// The kernel refuses an object.
    pub fn register(experiment: &Experiment) -> Result<Self, LiveError> {
        let mut controls = Self::default();
        for flow in &experiment.flows {
            let asked = flow.cc.first().filter(|_| flow.transport != Transport::Udp);
            if let Some(control) = asked {
                controls.add(experiment, &control.name)?;
            }
        }
        Ok(controls)
    }

    fn add(&mut self, experiment: &Experiment, name: &str) -> Result<(), LiveError> {
        if self.records.contains_key(name) {
            return Ok(());
        }
        let Some(object) = object_named(experiment, name)? else {
            return Ok(());
        };
        let is_installed = available().iter().any(|there| there == name);
        let record = if is_installed && why_not_registered().is_some() {
            ControlRecord {
                name: name.to_owned(),
                kernel_name: name.to_owned(),
                object_sha256: None,
            }
        } else {
            let (kernel_name, registration) = register_privately(name, &object)?;
            self._registrations.push(registration);
            ControlRecord {
                name: name.to_owned(),
                kernel_name,
                object_sha256: Some(hex(&Sha256::digest(&object))),
            }
        };
        self.records.insert(name.to_owned(), record);
        Ok(())
    }

    /// Returns the experiment with the names that the kernel uses.
    pub fn as_in_kernel(&self, experiment: &Experiment) -> Experiment {
        let mut renamed = experiment.clone();
        let controls = renamed.flows.iter_mut().flat_map(|flow| &mut flow.cc);
        for control in controls {
            if let Some(record) = self.records.get(&control.name) {
                control.name.clone_from(&record.kernel_name);
            }
        }
        renamed
    }

    /// Returns the controls that were registered or found installed, by name.
    pub fn records(&self) -> Vec<ControlRecord> {
        self.records.values().cloned().collect()
    }
}

fn own_file<'a>(experiment: &'a Experiment, name: &str) -> Option<&'a UserCode> {
    experiment.user_code.iter().find(|code| code.file == name)
}

/// Returns the object of a control, mptcplab's or a user's own; `None` if the kernel itself should
/// have the control.
fn object_named(experiment: &Experiment, name: &str) -> Result<Option<Vec<u8>>, LiveError> {
    let Some(own) = own_file(experiment, name) else {
        return Ok(object_of(name).map(<[u8]>::to_vec));
    };
    let object = BASE64_STANDARD.decode(&own.source);
    let object = object.map_err(|error| LiveError::Refused(format!("{name}: {error}")))?;
    Ok(Some(object))
}

/// Registers an object under a name that is not taken.
fn register_privately(name: &str, object: &[u8]) -> Result<(String, Registration), LiveError> {
    for _ in 0..ATTEMPTS {
        let private = private_name(name);
        match register(object, &private) {
            Ok(registration) => return Ok((private, registration)),
            Err(Refusal::NameTaken) => {}
            Err(Refusal::Because(why)) => return Err(LiveError::Failed(format!("{name}: {why}"))),
        }
    }
    let why = format!("{name}: {ATTEMPTS} names for it were taken");
    Err(LiveError::Failed(why))
}

fn private_name(name: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let file = name.rsplit('/').next().unwrap_or(name);
    let plain = file.chars().filter(char::is_ascii_alphanumeric);
    let prefix: String = plain.take(PREFIX_BYTES).collect();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed) % 256;
    // The kernel allows letters, digits, dots and underscores.
    format!("{prefix}_{:x}_{number:x}", process::id())
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
