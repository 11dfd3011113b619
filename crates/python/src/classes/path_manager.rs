//! Path managers written in Python.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use experiment::algorithms::MakePathManager;
use experiment::time::Nanos;
use mptcp::pm::{AddressPair, Command, Connection, Event, FourTuple, PathManager, Role};
use pyo3::prelude::*;

use super::{Class, Object};

#[derive(Debug)]
struct Own {
    object: Object,
    timeout: Option<Nanos>,
}

pub(crate) fn maker(class: Arc<Class>) -> MakePathManager {
    Arc::new(move |connection, _, given| {
        let object = Object::new(&class, given, seen(connection));
        Box::new(Own {
            object,
            timeout: None,
        })
    })
}

/// The answer of an adapter: commands and the next timeout. A command has a kind, an address ID,
/// both ends, and whether it is backup.
type Answer = (Vec<(String, u8, Socket, Socket, bool)>, Option<Nanos>);
type Socket = (IpAddr, u16);

impl Own {
    fn ask<T>(&mut self, hook: &str, now: Nanos, event: T, commands: &mut Vec<Command>)
    where
        T: for<'py> IntoPyObject<'py>,
    {
        let answer: Option<Answer> = self.object.call("commands", hook, (hook, now, event));
        let (asked, timeout) = answer.unwrap_or_default();
        self.timeout = timeout;
        commands.extend(asked.into_iter().map(|(kind, id, local, remote, backup)| {
            let subflow = FourTuple {
                local: local.into(),
                remote: remote.into(),
            };
            let address = local.0;
            match kind.as_str() {
                "Announce" => Command::Announce {
                    id,
                    address,
                    port: Some(local.1).filter(|&port| port != 0),
                },
                "Remove" => Command::Remove { id, address },
                "CloseSubflow" => Command::CloseSubflow { subflow },
                "SetBackup" => Command::SetBackup { subflow, backup },
                _ => {
                    let (local, local_id, remote) = (address, id, subflow.remote);
                    Command::OpenSubflow {
                        local,
                        local_id,
                        remote,
                        backup,
                        via: Vec::new(),
                    }
                }
            }
        }));
    }
}

impl PathManager for Own {
    fn handle(&mut self, now: Nanos, event: &Event, commands: &mut Vec<Command>) {
        let given = Python::attach(|py| told(py, event));
        match given {
            Ok(given) => self.ask("handle", now, given, commands),
            Err(error) => Python::attach(|py| self.object.class.record(py, "handle", &error)),
        }
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.timeout
    }

    fn handle_timeout(&mut self, now: Nanos, commands: &mut Vec<Command>) {
        if self.timeout.is_some_and(|at| at <= now) {
            self.ask("handle_timeout", now, (), commands);
        }
    }
}

fn socket(one: SocketAddr) -> (String, u16) {
    (one.ip().to_string(), one.port())
}

fn four(one: &FourTuple) -> ((String, u16), (String, u16)) {
    (socket(one.local), socket(one.remote))
}

fn pair(one: &AddressPair) -> (String, String) {
    (one.local.to_string(), one.remote.to_string())
}

/// Returns the fields of `mptcplab.hooks.Connection`, in order.
fn seen(it: &Connection) -> impl for<'py> IntoPyObject<'py, Error: Into<PyErr>> + use<> {
    let role = match it.role {
        Role::Opener => "opener",
        Role::Acceptor => "acceptor",
    };
    let pairs: Vec<_> = it.pairs.iter().map(pair).collect();
    let [down, backup] =
        [&it.down, &it.backup].map(|all| all.iter().map(IpAddr::to_string).collect::<Vec<_>>());
    (role, four(&it.initial), pairs, down, backup)
}

/// Returns the class of an event in `mptcplab.hooks` and its fields.
fn told(py: Python<'_>, event: &Event) -> PyResult<(&'static str, Py<PyAny>)> {
    macro_rules! event {
        ($class:literal $(, $field:expr)*) => {
            ($class, ($($field,)*).into_pyobject(py)?.into_any().unbind())
        };
    }
    Ok(match event {
        Event::Established => event!("Established"),
        Event::AddressUp(local) => event!("AddressUp", local.to_string()),
        Event::AddressDown(local) => event!("AddressDown", local.to_string()),
        Event::Backup { local, on } => event!("Backup", local.to_string(), *on),
        Event::Announced { id, address, port } => {
            event!("Announced", *id, address.to_string(), *port)
        }
        Event::Removed { id } => event!("Removed", *id),
        Event::SubflowEstablished {
            subflow,
            local_id,
            remote_id,
        } => {
            event!("SubflowEstablished", four(subflow), *local_id, *remote_id)
        }
        Event::SubflowClosed { subflow } => event!("SubflowClosed", four(subflow)),
        Event::Unfit { pair: it } => event!("Unfit", pair(it)),
        Event::Progress => event!("Progress"),
        Event::OpenFailed { pair: it } => event!("OpenFailed", pair(it)),
    })
}
