//! Programs on hosts: iperf3, any command as a flow, and programs that events execute.
//!
//! All programs of a run live in one PID namespace, whose init dies with this process, however it
//! ends. All processes in the namespace die with the init. Each program is in the network of its
//! host, and has its own /proc, /sys and /etc/hosts.

mod caller;
mod iperf3;
pub(crate) mod launcher;
mod output;
mod plan;
pub(crate) mod process;
mod sockets;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use experiment::capabilities::Missing;
use experiment::resolved::{Application, Experiment, FlowEnd};
use experiment::time::Nanos;
use serde::Serialize;

use self::iperf3::Documents;
use self::launcher::{Journal, Launcher, Purpose, Record, SharedJournal, locked};
use self::plan::{FlowPrograms, Planner};
use self::sockets::{ForeignSockets, Root};
use crate::applications::traffic::{FlowResult, FlowSocket};
use crate::{Clock, LiveError, NetworkNamespace};

pub use self::caller::Caller;
pub use self::iperf3::{Iperf3Interval, Iperf3Report};
pub(crate) use self::plan::is_program;

/// The folder of long outputs in the directory of the run.
const DIRECTORY: &str = "programs";
/// How long a server may take until it listens.
const SERVER_PATIENCE: Duration = Duration::from_secs(5);

/// The result of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramResult {
    /// Id of the flow that it carried or served.
    pub flow: Option<String>,
    /// Id of the event that executed it.
    pub event: Option<String>,
    /// Id of the host on which it ran.
    pub host: String,
    /// Program and arguments, as started.
    pub argv: Vec<String>,
    /// When it was started.
    pub started_ns: Nanos,
    /// When it ended.
    pub ended_ns: Option<Nanos>,
    /// Its exit status; `None` if a signal ended it.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it ended because of the end of the run.
    pub ended_by_run: bool,
    /// The beginning of its standard output.
    pub stdout: String,
    /// The beginning of its standard error.
    pub stderr: String,
    /// The file in the bundle with the whole of a long standard output.
    pub stdout_file: Option<String>,
    /// The file in the bundle with the whole of a long standard error.
    pub stderr_file: Option<String>,
    /// The measurements of iperf3; only the client has them.
    pub measured: Option<Iperf3Report>,
}

/// The programs of a run. Dropping it ends them all.
pub struct Programs {
    experiment: Experiment,
    namespaces: BTreeMap<String, Arc<NetworkNamespace>>,
    /// Whose rights they have; none means those of this process.
    caller: Option<Arc<Caller>>,
    directory: PathBuf,
    journal: SharedJournal,
    /// `None` until the first program is to start.
    launcher: Option<Launcher>,
    /// Flows that have not been scheduled yet.
    flows: Vec<FlowPrograms>,
    start_of_flow: BTreeMap<usize, Nanos>,
    foreign: Mutex<ForeignSockets>,
    clock: Option<Clock>,
}

impl Programs {
    /// Returns everything about programs that prevents an experiment on this machine.
    pub fn check(experiment: &Experiment) -> Vec<Missing> {
        plan::check(experiment)
    }

    /// Starts the servers and waits until they listen. `namespace` returns the namespace of a host;
    /// `directory` is that of the run. Programs
    /// have the rights of `caller`, without one those of this process.
    ///
    /// # Errors
    /// A program is missing or does not start, or the system refuses a namespace.
    pub fn prepare<'a>(
        experiment: &Experiment,
        seed: u64,
        namespace: impl Fn(&str) -> Option<&'a Arc<NetworkNamespace>>,
        directory: &Path,
        caller: Option<Caller>,
    ) -> Result<Self, LiveError> {
        let hosts = experiment.hosts.iter();
        let namespaces = hosts
            .filter_map(|host| Some((host.id.clone(), Arc::clone(namespace(&host.id)?))))
            .collect();
        let mut programs = Self {
            experiment: experiment.clone(),
            namespaces,
            caller: caller.map(Arc::new),
            directory: directory.join(DIRECTORY),
            journal: SharedJournal::default(),
            launcher: None,
            flows: Vec::new(),
            start_of_flow: BTreeMap::new(),
            foreign: Mutex::default(),
            clock: None,
        };
        let flows = programs.planner().flows(seed)?;
        let starts = flows.iter().map(|flow| (flow.flow, flow.start_ns));
        programs.start_of_flow = starts.collect();
        programs.start_servers(&flows)?;
        programs.flows = flows;
        Ok(programs)
    }

    fn planner(&self) -> Planner<'_> {
        Planner::new(&self.experiment, &self.namespaces, self.caller.as_ref())
    }

    fn launcher(&mut self) -> Result<&Launcher, LiveError> {
        if self.launcher.is_none() {
            let launcher = Launcher::start(self.directory.clone(), Arc::clone(&self.journal))?;
            if let Some(clock) = self.clock {
                launcher.begin(clock, Vec::new());
            }
            self.launcher = Some(launcher);
        }
        Ok(self.launcher.as_ref().expect("it was just made"))
    }

    fn start_servers(&mut self, flows: &[FlowPrograms]) -> Result<(), LiveError> {
        let mut awaited = Vec::new();
        for FlowPrograms { flow, server, .. } in flows {
            // Creates the PID namespace now, because that takes time.
            let launcher = self.launcher()?;
            if let Some((order, role, port)) = server {
                let purpose = Purpose::Server(*flow);
                let record = launcher.execute(order.clone(), purpose, Some(*role))?;
                awaited.push((record, *port));
            }
        }
        let since = Instant::now();
        for (record, port) in awaited {
            self.await_server(record, port, since)?;
        }
        Ok(())
    }

    fn await_server(&self, record: usize, port: u16, since: Instant) -> Result<(), LiveError> {
        loop {
            let journal = locked(&self.journal);
            let server = &journal.records[record];
            let what = || format!("{} on {}", server.argv.join(" "), server.host);
            if listens(server.pid, port) {
                return Ok(());
            }
            if server.end.is_some() {
                let said = server.stdout.text() + &server.stderr.text();
                let said = said.trim();
                return Err(LiveError::Failed(format!("{} has ended: {said}", what())));
            }
            if since.elapsed() > SERVER_PATIENCE {
                let why = format!("{} does not listen at port {port}", what());
                return Err(LiveError::Failed(why));
            }
            drop(journal);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets the flows start when they are due by this clock.
    pub fn start(&mut self, clock: Clock) {
        self.clock = Some(clock);
        let flows = std::mem::take(&mut self.flows);
        if let Some(launcher) = &self.launcher {
            launcher.begin(clock, flows);
        }
    }

    /// Runs a program on a host for the event with id `event`.
    ///
    /// # Errors
    /// The host or program does not exist, or the system refuses.
    pub fn execute(&mut self, host: &str, argv: &[String], event: &str) -> Result<(), LiveError> {
        let order = self.planner().order(host, argv.to_vec())?;
        let purpose = Purpose::Event(event.to_owned());
        self.launcher()?.execute(order, purpose, None).map(drop)
    }

    /// Returns the current connections of the flows' programs. Drop them immediately after use,
    /// because they keep connections open.
    pub fn sockets(&self, now: Nanos) -> Vec<FlowSocket> {
        let journal = locked(&self.journal);
        let alive = journal.records.iter().filter(|record| record.end.is_none());
        let roots: Vec<_> = alive
            .filter_map(|record| {
                Some(Root {
                    pid: record.pid,
                    role: record.role?,
                })
            })
            .collect();
        drop(journal);
        let foreign = self.foreign.lock();
        let mut foreign = foreign.unwrap_or_else(PoisonError::into_inner);
        foreign.get(now, &roots)
    }

    /// Returns whether all flows of programs have ended or failed; `None` if there are none.
    pub fn flows_are_done(&self) -> Option<bool> {
        if self.start_of_flow.is_empty() {
            return None;
        }
        let journal = locked(&self.journal);
        let is_over = |flow: &usize| {
            let client = journal.client_of(*flow);
            let has_ended = client.is_some_and(|client| client.end.is_some());
            has_ended || journal.failures.iter().any(|(failed, _)| failed == flow)
        };
        Some(self.start_of_flow.keys().all(is_over))
    }

    /// Ends all programs with all their children: asks them first and kills them after a second.
    ///
    /// # Errors
    /// An output could not be written.
    pub fn stop(&mut self) -> Result<(), LiveError> {
        if let Some(launcher) = &mut self.launcher {
            launcher.stop()?;
        }
        match locked(&self.journal).trouble.take() {
            Some(trouble) => Err(LiveError::Failed(trouble)),
            None => Ok(()),
        }
    }

    /// Returns the results of the flows, in the experiment's order; `None` for flows without a
    /// program. Bytes come from iperf3. For other programs they are 0 here, because only the
    /// sockets count them.
    pub fn flows(&self) -> Vec<Option<FlowResult>> {
        let flows = 0..self.experiment.flows.len();
        flows.map(|flow| self.flow(flow)).collect()
    }

    fn flow(&self, flow: usize) -> Option<FlowResult> {
        let planned = *self.start_of_flow.get(&flow)?;
        let journal = locked(&self.journal);
        let client = journal.client_of(flow);
        let documents = self.documents(&journal, flow);
        let report = documents.as_ref().and_then(Documents::report);
        let failure = journal.failures.iter().find(|(failed, _)| *failed == flow);
        let error = failure
            .map(|(_, why)| why.clone())
            .or_else(|| documents.and_then(|documents| documents.error()))
            .or_else(|| client.and_then(Record::failure));
        let end = client.and_then(|client| client.end);
        let has_finished = |end: &launcher::End| !end.was_asked && error.is_none();
        Some(FlowResult {
            start_ns: client.map_or(planned, |client| client.started_ns),
            established_ns: None,
            end_ns: end.filter(has_finished).map(|end| end.at_ns),
            bytes: report.and_then(|report| report.bytes_received).unwrap_or(0),
            error,
        })
    }

    /// Returns the output of iperf3 at both ends.
    fn documents(&self, journal: &Journal, flow: usize) -> Option<Documents> {
        let described = &self.experiment.flows[flow];
        if !matches!(described.app, Application::Iperf3 { .. }) {
            return None;
        }
        let client = journal.client_of(flow)?;
        let server = journal.server_of(flow)?;
        let whole = |record: &Record| record.stdout.whole().unwrap_or_default();
        let opened_by: FlowEnd = described.opened_by;
        Some(Documents::parse(&whole(client), &whole(server), opened_by))
    }

    /// Returns the results of all programs, in the order in which they were started.
    pub fn results(&self) -> Vec<ProgramResult> {
        let journal = locked(&self.journal);
        let records = journal.records.iter();
        records
            .map(|record| self.result(&journal, record))
            .collect()
    }

    fn result(&self, journal: &Journal, record: &Record) -> ProgramResult {
        let flow = match record.purpose {
            Purpose::Server(flow) | Purpose::Flow(flow) => Some(flow),
            Purpose::Event(_) => None,
        };
        let measured = match record.purpose {
            Purpose::Flow(flow) => self.documents(journal, flow),
            _ => None,
        };
        let file = |name: Option<String>| name.map(|name| format!("{DIRECTORY}/{name}"));
        ProgramResult {
            flow: flow.map(|flow| self.experiment.flows[flow].id.clone()),
            event: match &record.purpose {
                Purpose::Event(event) => Some(event.clone()),
                _ => None,
            },
            host: record.host.clone(),
            argv: record.argv.clone(),
            started_ns: record.started_ns,
            ended_ns: record.end.map(|end| end.at_ns),
            exit_status: record.end.and_then(|end| end.status.code()),
            signal: record.end.and_then(|end| end.status.signal()),
            ended_by_run: record.end.is_none_or(|end| end.was_asked),
            stdout: record.stdout.text(),
            stderr: record.stderr.text(),
            stdout_file: file(record.stdout.file_name()),
            stderr_file: file(record.stderr.file_name()),
            measured: measured.and_then(|documents| documents.report()),
        }
    }
}

impl Journal {
    fn client_of(&self, flow: usize) -> Option<&Record> {
        let mut records = self.records.iter();
        records.find(|record| record.purpose == Purpose::Flow(flow))
    }

    fn server_of(&self, flow: usize) -> Option<&Record> {
        let mut records = self.records.iter();
        records.find(|record| record.purpose == Purpose::Server(flow))
    }
}

impl Record {
    /// Returns why it failed; `None` if it succeeded or the run ended it.
    fn failure(&self) -> Option<String> {
        let end = self
            .end
            .filter(|end| !end.was_asked && !end.status.success())?;
        let said = self.stderr.text();
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(": {line}")).unwrap_or_default();
        Some(format!("{} ended with {}{last}", self.argv[0], end.status))
    }
}

/// Returns the error for a missing program, with a remedy.
fn missing(host: &str, program: &str) -> LiveError {
    LiveError::Machine {
        what: format!("{host}: there is no program {program} here"),
        remedy: plan::remedy(program),
    }
}

/// Returns whether a socket in a process's network listens at a TCP port.
pub(crate) fn listens(pid: u32, port: u16) -> bool {
    const LISTENING: &str = "0A";
    count_sockets(pid, |[local, _, state]| {
        local.ends_with(&ending(port)) && state == LISTENING
    }) > 0
}

/// Returns how many sockets in a process's network are connected to a TCP port.
pub(crate) fn connections_to(pid: u32, port: u16) -> usize {
    const ESTABLISHED: &str = "01";
    count_sockets(pid, |[_, remote, state]| {
        remote.ends_with(&ending(port)) && state == ESTABLISHED
    })
}

fn ending(port: u16) -> String {
    format!(":{port:04X}")
}

/// Returns how many sockets in a process's network are wanted, by local and remote address and
/// state (proc(5), /proc/net/tcp).
fn count_sockets(pid: u32, is_wanted: impl Fn([&str; 3]) -> bool) -> usize {
    let tables = ["tcp", "tcp6"].map(|table| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let lines = text.lines().filter(|line| {
            let words: Vec<&str> = line.split_whitespace().skip(1).take(3).collect();
            <[&str; 3]>::try_from(words).is_ok_and(&is_wanted)
        });
        lines.count()
    });
    tables.into_iter().sum()
}
