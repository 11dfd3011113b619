//! Hosts with our own stack: a thread each, in which the protocol engine and the applications on its connections live.
//!
//! Only TCP is theirs. The emulator gives them what arrives for them, and takes what they send; everything else of such a host is the
//! kernel's, as on any other.

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

use mptcp::endpoint::{Endpoint, NetworkView};
use mptcp::pm::FourTuple;
use netlab::flows::port_of_flow;
use netlab::lookup::Lookup;
use netlab::registry::Registry;
use netlab::resolved::{self, Action, Experiment, FirstHop, Stack, Transport};
use netlab::rng::Generator;
use netlab::stack::{AddressChange, network_views, profile, ways};

pub(crate) use host::Host;
use host::{Acceptance, Opening, Outside, OwnFlow, Parts};
pub(crate) use session::Told;
pub(crate) use stream::{EngineStream, Progress};

use crate::mailbox::Mailbox;
use crate::traffic::{Part, Role};
use crate::{Clock, Hosts, LiveError, sys};

/// Packets that wait for a host, as in the ring of a TUN device.
const INBOX_PACKETS: usize = 10_000;
/// Packets that wait for the emulator; more wait in the engines.
const TO_LINKS_PACKETS: usize = 1000;
/// The longest that an answer of a thread is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the thread of a host is sent.
pub(crate) enum Message {
    /// An IP packet that arrived.
    Packet(Arc<[u8]>),
    /// One that was sent has left the host.
    Departed(Awaited),
    /// Something to be done between two packets.
    Order(Box<dyn FnOnce(&mut Host) + Send>),
}

/// A packet on its way to its first link.
pub(crate) struct Outgoing {
    /// Place of the interface among the experiment's.
    pub(crate) port: usize,
    /// As a device would give it: header first.
    pub(crate) bytes: Vec<u8>,
    /// What it is to a host that wants to know when it has left.
    pub(crate) awaited: Option<Awaited>,
}

/// A packet that waits in a host before its first link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// Seen from its sender.
    pub(crate) four: FourTuple,
    pub(crate) payload_bytes: u32,
}

/// What lies between the emulator and the hosts with our own stack.
#[derive(Clone)]
pub(crate) struct Mailboxes {
    /// By the ids of these hosts.
    pub(crate) inboxes: BTreeMap<String, Arc<Mailbox<Message>>>,
    /// What all of them send.
    pub(crate) to_links: Arc<Mailbox<Outgoing>>,
    /// By the places of interfaces among the experiment's: whether super-packets that leave there now arrive uncut.
    pub(crate) takes_super_packets: Arc<[AtomicBool]>,
}

impl Mailboxes {
    /// # Errors
    /// There are no descriptors left.
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

/// Those with our own stack, and their places among the experiment's.
fn own_hosts(experiment: &Experiment) -> impl Iterator<Item = (usize, &resolved::Host)> {
    let hosts = experiment.hosts.iter().enumerate();
    hosts.filter(|(_, host)| host.stack == Stack::Userspace)
}

/// The hosts with our own stack, ready to begin.
pub(crate) struct PreparedStacks(Vec<(Parts, Arc<Mailbox<Message>>)>);

impl PreparedStacks {
    /// Lets them begin: the 0 of the clock is the flows' 0.
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

/// The hosts with our own stack. Dropping it ends them.
pub(crate) struct Stacks {
    threads: Vec<Thread>,
}

impl Stacks {
    /// Makes the engine of each, with what `roles` have for it to do, by the ids of hosts.
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

    /// What their connections say of themselves, and what happened to paths since the last call.
    ///
    /// # Errors
    /// A thread has died.
    pub(crate) fn tell(&self) -> Result<Vec<Told>, LiveError> {
        self.threads.iter().map(|one| one.ask(Host::tell)).collect()
    }

    /// Tells a host of an action that concerns its addresses.
    ///
    /// # Errors
    /// Its thread has died.
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

    /// Ends them; their connections are no more.
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
                // Without the privilege it is one thread among others.
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

    /// Lets the thread answer a question.
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
        // One that is stuck is left behind: it ends with the process.
        if let (Ok(()), Some(thread)) = (&told, self.thread.take()) {
            let _ = thread.join();
        }
        told
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Nobody is left who could be told.
            let _ = self.end();
        }
    }
}

/// Who reads an inbox. Nobody waits for an answer after it is gone.
struct Reader(Arc<Mailbox<Message>>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.close();
    }
}
