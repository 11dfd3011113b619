//! Path managers.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mptcp::pm::{AddressPair, Command, Connection, Event, FourTuple, PathManager, Role};
use netlab::registry::MakePathManager;
use netlab::time::Nanos;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{Class, Object, fields, made, refused};

#[derive(Debug)]
struct Own {
    object: Object,
    has_timeout: bool,
    timeout: Option<Nanos>,
    locals: BTreeSet<IpAddr>,
    subflows: BTreeSet<FourTuple>,
}

pub(super) fn maker(class: Arc<Class>) -> MakePathManager {
    Arc::new(move |connection, _, given| {
        let own = Python::attach(|py| {
            let seen = connection_seen(py, connection).map(|seen| vec![seen]);
            let object = class.object(py, seen, given);
            let mut own = Own {
                has_timeout: object.has(py, "poll_timeout"),
                object,
                timeout: None,
                locals: connection.pairs.iter().map(|pair| pair.local).collect(),
                subflows: BTreeSet::from([connection.initial]),
            };
            own.locals.insert(connection.initial.local.ip());
            own.look_at_timeout(py);
            own
        });
        Box::new(own)
    })
}

impl Own {
    fn look_at_timeout(&mut self, py: Python<'_>) {
        if self.has_timeout {
            let none = || Ok(PyTuple::empty(py));
            let read = |answer: &Bound<'_, PyAny>| {
                let allowed = "None and an instant in nanoseconds";
                let instant = answer.extract::<Option<Nanos>>();
                instant
                    .map_err(|_| refused(format!("the answer is {answer}, allowed are {allowed}")))
            };
            self.timeout = self.object.call(py, "poll_timeout", none, read).flatten();
        }
    }

    fn commands(&self, answer: &Bound<'_, PyAny>) -> PyResult<Vec<Command>> {
        if answer.is_none() {
            return Ok(Vec::new());
        }
        let all = answer.try_iter().map_err(|_| {
            refused(format!(
                "the answer is {answer}, allowed are None and a list of commands"
            ))
        })?;
        all.map(|command| self.command(&command?)).collect()
    }

    fn command(&self, given: &Bound<'_, PyAny>) -> PyResult<Command> {
        Ok(match given.get_type().name()?.to_string().as_str() {
            "Announce" => Command::Announce {
                id: part(given, "id")?,
                address: self.local(given, "address")?,
            },
            "Remove" => Command::Remove {
                id: part(given, "id")?,
                address: self.local(given, "address")?,
            },
            "OpenSubflow" => Command::OpenSubflow {
                local: self.local(given, "local")?,
                local_id: part(given, "local_id")?,
                remote: socket(given, "remote")?,
                backup: part(given, "backup")?,
                via: Vec::new(),
            },
            "CloseSubflow" => Command::CloseSubflow {
                subflow: self.known(given)?,
            },
            "SetBackup" => Command::SetBackup {
                subflow: self.known(given)?,
                backup: part(given, "backup")?,
            },
            _ => {
                let allowed = "Announce, Remove, OpenSubflow, CloseSubflow and SetBackup";
                return Err(refused(format!(
                    "{given} is no command, allowed are {allowed}"
                )));
            }
        })
    }

    /// An address of this host.
    fn local(&self, given: &Bound<'_, PyAny>, name: &str) -> PyResult<IpAddr> {
        let text: String = part(given, name)?;
        let address = text
            .parse()
            .ok()
            .filter(|address| self.locals.contains(address));
        address.ok_or_else(|| {
            let locals: Vec<_> = self.locals.iter().map(IpAddr::to_string).collect();
            refused(format!(
                "{name} is {text}, allowed are this host's {}",
                locals.join(", ")
            ))
        })
    }

    /// A subflow that is there.
    fn known(&self, given: &Bound<'_, PyAny>) -> PyResult<FourTuple> {
        let subflow = given.getattr("subflow")?;
        let four = FourTuple {
            local: socket(&subflow, "local")?,
            remote: socket(&subflow, "remote")?,
        };
        match self.subflows.contains(&four) {
            true => Ok(four),
            false => Err(refused(format!("there is no subflow {subflow}"))),
        }
    }
}

impl PathManager for Own {
    fn handle(&mut self, now: Nanos, event: &Event, commands: &mut Vec<Command>) {
        match event {
            Event::SubflowEstablished { subflow, .. } => _ = self.subflows.insert(*subflow),
            Event::SubflowClosed { subflow } => _ = self.subflows.remove(subflow),
            _ => {}
        }
        Python::attach(|py| {
            let arguments = || PyTuple::new(py, fields!(py, now, event_seen(py, event)?));
            let answer = self
                .object
                .call(py, "handle", arguments, |answer| self.commands(answer));
            commands.extend(answer.into_iter().flatten());
            self.look_at_timeout(py);
        });
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.timeout
    }

    fn handle_timeout(&mut self, now: Nanos, commands: &mut Vec<Command>) {
        if self.timeout.is_none_or(|at| at > now) {
            return;
        }
        Python::attach(|py| {
            let arguments = || PyTuple::new(py, [now]);
            let answer = self.object.call(py, "handle_timeout", arguments, |answer| {
                self.commands(answer)
            });
            commands.extend(answer.into_iter().flatten());
            self.look_at_timeout(py);
        });
        if self.timeout.is_some_and(|at| at <= now) {
            self.timeout = None;
            self.object.note(
                "poll_timeout",
                "names after handle_timeout an instant that has passed",
            );
        }
    }
}

fn part<'a, 'py, T: FromPyObjectOwned<'py>>(
    given: &'a Bound<'py, PyAny>,
    name: &str,
) -> PyResult<T> {
    let value = given.getattr(name)?;
    value.extract().map_err(|_| {
        refused(format!(
            "{name} of {given} is of the wrong type or out of range"
        ))
    })
}

fn socket(given: &Bound<'_, PyAny>, name: &str) -> PyResult<SocketAddr> {
    let value = given.getattr(name)?;
    let (address, port): (String, u16) = value.extract().map_err(|_| wrong_socket(name, &value))?;
    let address: IpAddr = address.parse().map_err(|_| wrong_socket(name, &value))?;
    Ok(SocketAddr::new(address, port))
}

fn wrong_socket(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    refused(format!(
        "{name} is {value}, allowed is an address with a port, as in ('10.1.1.1', 5001)"
    ))
}

fn socket_seen(socket: SocketAddr) -> (String, u16) {
    (socket.ip().to_string(), socket.port())
}

fn four_seen<'py>(py: Python<'py>, four: FourTuple) -> PyResult<Bound<'py, PyAny>> {
    made(
        py,
        "FourTuple",
        fields!(py, socket_seen(four.local), socket_seen(four.remote)),
    )
}

fn pair_seen<'py>(py: Python<'py>, pair: AddressPair) -> PyResult<Bound<'py, PyAny>> {
    made(
        py,
        "AddressPair",
        fields!(py, pair.local.to_string(), pair.remote.to_string()),
    )
}

fn connection_seen<'py>(py: Python<'py>, connection: &Connection) -> PyResult<Bound<'py, PyAny>> {
    let texts =
        |addresses: &BTreeSet<IpAddr>| addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>();
    let role = match connection.role {
        Role::Opener => "opener",
        Role::Acceptor => "acceptor",
    };
    let pairs = connection.pairs.iter().map(|pair| pair_seen(py, *pair));
    let fields = fields!(
        py,
        role,
        four_seen(py, connection.initial)?,
        PyTuple::new(py, pairs.collect::<PyResult<Vec<_>>>()?)?,
        PyTuple::new(py, texts(&connection.down))?,
        PyTuple::new(py, texts(&connection.backup))?,
    );
    made(py, "Connection", fields)
}

fn event_seen<'py>(py: Python<'py>, event: &Event) -> PyResult<Bound<'py, PyAny>> {
    let (class, fields) = match event {
        Event::Established => ("Established", Vec::new()),
        Event::AddressUp(local) => ("AddressUp", fields!(py, local.to_string())),
        Event::AddressDown(local) => ("AddressDown", fields!(py, local.to_string())),
        Event::Backup { local, on } => ("Backup", fields!(py, local.to_string(), *on)),
        Event::Announced { id, address, port } => {
            ("Announced", fields!(py, *id, address.to_string(), *port))
        }
        Event::Removed { id } => ("Removed", fields!(py, *id)),
        Event::SubflowEstablished {
            subflow,
            local_id,
            remote_id,
        } => (
            "SubflowEstablished",
            fields!(py, four_seen(py, *subflow)?, *local_id, *remote_id),
        ),
        Event::SubflowClosed { subflow } => {
            ("SubflowClosed", fields!(py, four_seen(py, *subflow)?))
        }
        Event::Unfit { pair } => ("Unfit", fields!(py, pair_seen(py, *pair)?)),
        Event::OpenFailed { pair } => ("OpenFailed", fields!(py, pair_seen(py, *pair)?)),
    };
    made(py, class, fields)
}
