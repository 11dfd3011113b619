//! Hosts with the userspace stack: one thread each, which runs the engine and the applications on
//! its connections.
//!
//! The userspace stack handles TCP only. The emulator delivers packets to it and takes the packets
//! that it sends. The kernel handles all other traffic of such a host.

pub(crate) mod capabilities;
mod host;
mod session;
mod stream;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use experiment::addressing::{Lookup, port_of_flow};
use experiment::algorithms::Registry;
use experiment::engine_config::{AddressChange, network_views, profile, ways};
use experiment::resolved::{self, Action, Experiment, FirstHop, Stack, Transport};
use experiment::rng::Generator;
use mptcp::endpoint::{Endpoint, NetworkView};
use mptcp::pm::FourTuple;

pub(crate) use host::Host;
use host::{Acceptance, Opening, Outside, OwnFlow, Parts};
pub(crate) use session::Report;
pub(crate) use stream::{EngineStream, Progress};

use crate::applications::traffic::{Part, Role};
use crate::emulator::mailbox::Mailbox;
use crate::{Clock, Hosts, LiveError, sys};

/// Packets that may wait for a host, as many as in the ring of a TUN device.
const INBOX_PACKETS: usize = 10_000;
/// Packets that may wait for the emulator; further ones wait in the engines.
const TO_LINKS_PACKETS: usize = 1000;
/// The longest wait for an answer of a thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message to the thread of a host.
pub(crate) enum Message {
    /// An IP packet that arrived.
    Packet(Arc<[u8]>),
    /// A packet of the host has left it.
    Departed(Awaited),
    /// A task to be done between two packets.
    Order(Box<dyn FnOnce(&mut Host) + Send>),
}

/// A packet on its way to its first link.
pub(crate) struct Outgoing {
    /// Index of the interface in the experiment.
    pub(crate) port: usize,
    /// The bytes as a device would give them, its header first.
    pub(crate) bytes: Vec<u8>,
    /// Identifies the packet when it leaves, if the host waits for its departure.
    pub(crate) awaited: Option<Awaited>,
}

/// A packet that waits in a host for its first link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// As seen from its sender.
    pub(crate) four: FourTuple,
    pub(crate) payload_bytes: u32,
}

/// The mailboxes between the emulator and the hosts with the userspace stack.
#[derive(Clone)]
pub(crate) struct Mailboxes {
    /// By the ids of these hosts.
    pub(crate) inboxes: BTreeMap<String, Arc<Mailbox<Message>>>,
    /// Packets of all these hosts.
    pub(crate) to_links: Arc<Mailbox<Outgoing>>,
    /// Whether super-packets that leave by each interface, by its index in the experiment, arrive
    /// uncut now.
    pub(crate) takes_super_packets: Arc<[AtomicBool]>,
}

impl Mailboxes {
    /// Creates the mailboxes.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn new(experiment: &Experiment) -> io::Result<Self> {
        let inbox = |host: &resolved::Host| {
            let inbox = Mailbox::new(INBOX_PACKETS)?;
            Ok((host.id.clone(), Arc::new(inbox)))
        };
        let ours = own_hosts(experiment).map(|(_, host)| inbox(host));
        Ok(Self {
            inboxes: ours.collect::<io::Result<_>>()?,
            to_links: Arc::new(Mailbox::new(TO_LINKS_PACKETS)?),
            takes_super_packets: experiment
                .interfaces
                .iter()
                .map(|_| AtomicBool::new(false))
                .collect(),
        })
    }
}

/// Returns the hosts with the userspace stack, and their indices in the experiment.
fn own_hosts(experiment: &Experiment) -> impl Iterator<Item = (usize, &resolved::Host)> {
    let hosts = experiment.hosts.iter().enumerate();
    hosts.filter(|(_, host)| host.stack == Stack::Userspace)
}

/// The hosts with the userspace stack, ready to start.
pub(crate) struct PreparedStacks(Vec<(Parts, Arc<Mailbox<Message>>)>);

impl PreparedStacks {
    /// Starts the threads. Time 0 of the clock is that of the flows.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(self, clock: Clock) -> Result<Stacks, LiveError> {
        let hosts = self.0.into_iter();
        let threads = hosts.map(|(parts, inbox)| Thread::start(parts, inbox, clock));
        let threads = threads.collect::<Result<_, _>>()?;
        Ok(Stacks { threads })
    }
}

/// The hosts with the userspace stack. Dropping it ends them.
pub(crate) struct Stacks {
    threads: Vec<Thread>,
}

impl Stacks {
    /// Creates the engine of each host, with its `roles`, which are by the ids of hosts.
    pub(crate) fn prepare(
        experiment: &Experiment,
        seed: u64,
        hosts: &Hosts,
        mailboxes: &Mailboxes,
        mut roles: BTreeMap<String, Vec<Role>>,
        registry: &Registry,
    ) -> PreparedStacks {
        let lookup = Lookup::new(experiment);
        let mut views: Vec<_> = network_views(&lookup).into_iter().map(Some).collect();
        let ours = own_hosts(experiment).map(|(index, host)| {
            let roles = roles.remove(&host.id).unwrap_or_default();
            let view = views[index].take().unwrap_or_default();
            let outside = Outside {
                departures: hosts.departures(&host.id),
                to_links: Arc::clone(&mailboxes.to_links),
                takes_super_packets: Arc::clone(&mailboxes.takes_super_packets),
                feels_links: host.first_hop == FirstHop::Host,
            };
            let parts = parts(&lookup, seed, (index, view), outside, roles, registry);
            (parts, Arc::clone(&mailboxes.inboxes[&host.id]))
        });
        PreparedStacks(ours.collect())
    }

    /// Returns the reports of all connections, and the path events since the last call.
    ///
    /// # Errors
    /// A thread has died.
    pub(crate) fn report(&self) -> Result<Vec<Report>, LiveError> {
        self.threads
            .iter()
            .map(|one| one.ask(Host::report))
            .collect()
    }

    /// Carries out an action on the addresses of a host; other actions are ignored.
    ///
    /// # Errors
    /// The thread of the host has died.
    pub(crate) fn apply(&self, experiment: &Experiment, action: &Action) -> Result<(), LiveError> {
        let Some(change) = AddressChange::of(experiment, action) else {
            return Ok(());
        };
        let host = &experiment.interfaces[change.interface].node;
        match self.threads.iter().find(|one| one.host == *host) {
            Some(thread) => thread.ask(move |host| host.change(&change)),
            None => Ok(()),
        }
    }

    /// Ends the threads, and their connections with them.
    ///
    /// # Errors
    /// A thread had died.
    pub(crate) fn stop(&mut self) -> Result<(), LiveError> {
        self.threads.drain(..).try_for_each(|mut one| one.end())
    }
}

fn parts(
    lookup: &Lookup<'_>,
    seed: u64,
    (index, view): (usize, NetworkView),
    outside: Outside,
    roles: Vec<Role>,
    registry: &Registry,
) -> Parts {
    let experiment = lookup.experiment;
    let host = &experiment.hosts[index];
    let unusable = view.down.clone();
    let rng = Generator::new(seed, &format!("host/{}", host.id)).into_bits();
    let mut endpoint = Endpoint::new(view, Box::new(rng));
    let mut openings = Vec::new();
    let mut acceptances = BTreeMap::new();
    for role in roles {
        let flow = &experiment.flows[role.flow];
        let port = port_of_flow(role.flow).expect("the traffic was planned with it");
        let profile = profile(lookup, flow, role.side, seed, registry);
        let own = Arc::new(OwnFlow {
            flow: role.flow,
            id: flow.id.clone(),
            end: role.end,
            is_mptcp: flow.transport == Transport::Mptcp && host.mptcp,
        });
        match role.part {
            Part::Opens(connections) => openings.push(Opening {
                own,
                openings: connections,
                profile,
                ways: ways(lookup, flow, port),
            }),
            Part::Accepts { make_end, journal } => {
                endpoint.listen(port, profile);
                let acceptance = Acceptance {
                    own,
                    make_end,
                    journal,
                };
                acceptances.insert(port, acceptance);
            }
        }
    }
    Parts {
        id: host.id.clone(),
        index,
        endpoint,
        openings,
        acceptances,
        outside,
        unusable,
    }
}

struct Thread {
    host: String,
    inbox: Arc<Mailbox<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    fn start(parts: Parts, inbox: Arc<Mailbox<Message>>, clock: Clock) -> Result<Self, LiveError> {
        let host = parts.id.clone();
        let reader = Reader(Arc::clone(&inbox));
        let thread = thread::Builder::new()
            .name(format!("stack of {host}"))
            .spawn(move || {
                // Without the privilege the thread has ordinary priority.
                let _ = sys::run_before_ordinary_threads();
                let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
                Host::new(parts, clock).run(&reader.0);
            });
        let doing = format!("starting the stack of host {host}");
        let thread = thread.map_err(LiveError::while_(doing))?;
        Ok(Self {
            host,
            inbox,
            thread: Some(thread),
        })
    }

    /// Runs a closure in the thread and returns its answer.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Host) -> T + Send + 'static,
    ) -> Result<T, LiveError> {
        let (answer, answered) = channel();
        let order = Box::new(move |host: &mut Host| drop(answer.send(question(host))));
        // A thread that has ended drops the order, and the answer with it.
        self.inbox.put_always(Message::Order(order));
        answered.recv_timeout(PATIENCE).map_err(|error| {
            let why = match error {
                RecvTimeoutError::Timeout => "has not answered for 10 s",
                RecvTimeoutError::Disconnected => "ended: its thread panicked",
            };
            LiveError::Failed(format!("the stack of host {} {why}", self.host))
        })
    }

    fn end(&mut self) -> Result<(), LiveError> {
        let told = self.ask(|host| host.is_over = true);
        // A thread that does not answer is left behind and ends with the process.
        if let (Ok(()), Some(thread)) = (&told, self.thread.take()) {
            let _ = thread.join();
        }
        told
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // There is no caller left to tell of an error.
            let _ = self.end();
        }
    }
}

/// The reader of an inbox. Dropping it closes the inbox, after which no sender waits for an answer.
struct Reader(Arc<Mailbox<Message>>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.close();
    }
}
