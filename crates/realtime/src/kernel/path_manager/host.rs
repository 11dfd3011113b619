//! The thread that manages the paths of one host, in its namespace.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use experiment::time::Nanos;
use mptcp::pm::AddressChanges;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::connections::Connections;
use super::endpoints;
use super::messages::Request;
use super::netlink::{PmEvents, PmSocket};
use super::plan::{HostPlan, Mode};
use super::record::{Note, PathEvent, What};
use crate::network::netlink::AddressWatch;
use crate::{Clock, LiveError, NetworkNamespace};

/// Selects the path manager: 0 is the kernel, 1 a program. Newer kernels also have a setting by
/// name.
const TYPE_SETTING: &str = "/proc/sys/net/mptcp/pm_type";

/// How long an address that is back is left alone, because its routes are restored after it.
const SETTLING_NS: Nanos = 10_000_000;

/// The events of all hosts.
pub(super) type Record = Arc<Mutex<Vec<PathEvent>>>;

/// An order to the thread.
enum Order {
    SetBackup { addresses: Vec<IpAddr>, on: bool },
    Restart(Clock),
    Stop,
}

/// The handle of a host's thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct HostThread {
    host: String,
    orders: Sender<(Order, Sender<()>)>,
    wake: Arc<OwnedFd>,
    is_ready: Receiver<()>,
    thread: Option<JoinHandle<Result<(), LiveError>>>,
}

impl HostThread {
    /// Starts the thread. Call [`Self::wait_until_ready`] before using it.
    pub(super) fn start(
        plan: HostPlan,
        namespace: &Arc<NetworkNamespace>,
        clock: Clock,
        record: Record,
    ) -> Result<Self, LiveError> {
        let host = plan.id.clone();
        let doing = || format!("starting the path manager of host {host}");
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(LiveError::while_(doing()))?);
        let (orders, from_outside) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let namespace = Arc::clone(namespace);
        let woken = Arc::clone(&wake);
        let thread = thread::Builder::new()
            .name(format!("paths of {host}"))
            .spawn(move || {
                namespace.enter()?;
                let mut manager = Manager::new(plan, clock, record, woken, from_outside)?;
                // An error means that the start was given up.
                let _ = ready.send(());
                manager.run()
            })
            .map_err(LiveError::while_(doing()))?;
        Ok(Self {
            host,
            orders,
            wake,
            is_ready,
            thread: Some(thread),
        })
    }

    /// Returns once the thread receives events.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), LiveError> {
        self.is_ready.recv().map_err(|_| self.why_dead())
    }

    /// Gives the subflows from these addresses backup priority, or takes it away.
    pub(super) fn set_backup(&mut self, addresses: Vec<IpAddr>, on: bool) -> Result<(), LiveError> {
        self.order(Order::SetBackup { addresses, on })
    }

    /// Takes times from `clock` from now on.
    pub(super) fn restart(&mut self, clock: Clock) -> Result<(), LiveError> {
        self.order(Order::Restart(clock))
    }

    /// Tells the thread to end, without waiting for it.
    pub(super) fn stop(&self) {
        // If it has died, `finish` returns the reason.
        let _ = self.send(Order::Stop);
    }

    /// Ends the thread. Returns its error, if any.
    pub(super) fn finish(mut self) -> Result<(), LiveError> {
        self.stop();
        self.join()
    }

    /// Sends an order and waits until it is done.
    fn order(&mut self, order: Order) -> Result<(), LiveError> {
        let is_done = self.send(order);
        let is_done = is_done.and_then(|is_done| is_done.recv().ok());
        is_done.ok_or_else(|| self.why_dead())
    }

    /// Sends an order. The receiver gets a message when the order is done.
    fn send(&self, order: Order) -> Option<Receiver<()>> {
        let (done, is_done) = mpsc::channel();
        self.orders.send((order, done)).ok()?;
        // The counter cannot overflow, because the thread resets it.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        Some(is_done)
    }

    fn join(&mut self) -> Result<(), LiveError> {
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(LiveError::Failed(format!(
                "the path manager of host {} panicked",
                self.host
            ))),
        }
    }

    fn why_dead(&mut self) -> LiveError {
        let ended = || {
            LiveError::Failed(format!(
                "the path manager of host {} has ended before its time",
                self.host
            ))
        };
        let ended = ended();
        self.join().err().unwrap_or(ended)
    }
}

impl Drop for HostThread {
    fn drop(&mut self) {
        // Callers that want errors have called `finish`.
        self.stop();
        let _ = self.join();
    }
}

/// The state of the thread.
struct Manager {
    plan: HostPlan,
    clock: Clock,
    record: Record,
    wake: Arc<OwnedFd>,
    orders: Receiver<(Order, Sender<()>)>,
    socket: PmSocket,
    events: PmEvents,
    watch: AddressWatch,
    down: BTreeSet<IpAddr>,
    changes: AddressChanges,
    connections: Connections,
}

impl Manager {
    fn new(
        plan: HostPlan,
        clock: Clock,
        record: Record,
        wake: Arc<OwnedFd>,
        orders: Receiver<(Order, Sender<()>)>,
    ) -> Result<Self, LiveError> {
        let mut socket = PmSocket::open()?;
        let events = socket.events()?;
        let added = match &plan.mode {
            Mode::Policies => {
                select(1)?;
                Vec::new()
            }
            Mode::Endpoints(list, limits) => {
                select(0)?;
                endpoints::set_up(&mut socket, list, *limits)?
            }
        };
        let watch = AddressWatch::open()?;
        let addresses = plan.all_addresses();
        let down: BTreeSet<IpAddr> = addresses.filter(|one| !watch.is_up(*one)).collect();
        let changes = AddressChanges::new(plan.delay_ns, down.clone());
        let connections = Connections::new(plan.clone(), clock);
        let manager = Self {
            plan,
            clock,
            record,
            wake,
            orders,
            socket,
            events,
            watch,
            down,
            changes,
            connections,
        };
        manager.record_now(added);
        Ok(manager)
    }

    fn run(&mut self) -> Result<(), LiveError> {
        loop {
            self.wait()?;
            let is_last = self.handle_orders();
            self.handle_events()?;
            self.handle_addresses()?;
            self.work_off();
            if is_last {
                return Ok(());
            }
        }
    }

    /// Waits until something arrives or is due.
    fn wait(&self) -> Result<(), LiveError> {
        let timeouts = [self.changes.poll_timeout(), self.connections.poll_timeout()];
        let until = timeouts.into_iter().flatten().min();
        let until = until.map(|at| {
            let wait = self.clock.until(at);
            Timespec {
                tv_sec: wait.as_secs() as i64,
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        let mut sources = [
            PollFd::new(&self.wake, PollFlags::IN),
            PollFd::from_borrowed_fd(self.events.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.watch.as_fd(), PollFlags::IN),
        ];
        match poll(&mut sources, until.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(LiveError::while_("waiting for events of paths")(error)),
        }
    }

    /// Carries out the orders. Returns whether the last one was to stop.
    fn handle_orders(&mut self) -> bool {
        // Resets the counter.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        while let Ok((order, done)) = self.orders.try_recv() {
            let is_last = matches!(order, Order::Stop);
            self.handle_order(order);
            // The caller may have stopped waiting.
            let _ = done.send(());
            if is_last {
                return true;
            }
        }
        false
    }

    fn handle_order(&mut self, order: Order) {
        match order {
            Order::SetBackup { addresses, on } => {
                for address in addresses {
                    self.set_backup(address, on);
                }
            }
            Order::Restart(clock) => {
                self.clock = clock;
                self.connections.restart(clock);
                self.changes = AddressChanges::new(self.plan.delay_ns, self.down.clone());
            }
            Order::Stop => {}
        }
    }

    fn set_backup(&mut self, address: IpAddr, on: bool) {
        let now = self.clock.now();
        match self.plan.mode {
            Mode::Policies => {
                let socket = &mut self.socket;
                let mut kernel = |request: &Request| socket.request(request);
                self.connections.set_backup(now, address, on, &mut kernel);
                self.record_connections();
            }
            // An unused address needs no endpoint.
            Mode::Endpoints(..) if !self.plan.uses(address) => {}
            Mode::Endpoints(..) => {
                let note = endpoints::set_backup(&mut self.socket, address, on);
                self.record_now(note);
            }
        }
    }

    fn handle_events(&mut self) -> Result<(), LiveError> {
        let received = self.events.receive()?;
        if received.are_incomplete {
            self.record_now([Note::new(What::EventsLost)]);
        }
        for notification in &received.notifications {
            let now = self.clock.now();
            let socket = &mut self.socket;
            let mut kernel = |request: &Request| socket.request(request);
            let down = self.changes.down();
            self.connections
                .notified(now, notification, down, &mut kernel);
            self.record_connections();
        }
        Ok(())
    }

    fn handle_addresses(&mut self) -> Result<(), LiveError> {
        self.watch.update()?;
        let now = self.clock.now();
        for address in self.plan.all_addresses().collect::<Vec<_>>() {
            let up = self.watch.is_up(address);
            let has_changed = if up {
                self.down.remove(&address)
            } else {
                self.down.insert(address)
            };
            if has_changed {
                let settled = now.saturating_add(if up { SETTLING_NS } else { 0 });
                self.changes.observe(settled, address, up);
                let what = if up {
                    What::AddressUp
                } else {
                    What::AddressDown
                };
                self.record_now([Note::new(what).local(address)]);
            }
        }
        Ok(())
    }

    /// Does what is due.
    fn work_off(&mut self) {
        let now = self.clock.now();
        let socket = &mut self.socket;
        let mut kernel = |request: &Request| socket.request(request);
        for (address, up) in self.changes.take(now) {
            self.connections
                .address_changed(now, address, up, &mut kernel);
        }
        self.connections.handle_timeout(now, &mut kernel);
        self.record_connections();
    }

    fn record_connections(&mut self) {
        let notes = self.connections.take_notes();
        self.record(notes);
    }

    fn record_now(&self, notes: impl IntoIterator<Item = Note>) {
        let now = self.clock.now();
        self.record(notes.into_iter().map(|note| (now, note)));
    }

    fn record(&self, notes: impl IntoIterator<Item = (Nanos, Note)>) {
        let events = notes.into_iter();
        let events = events.map(|(time_ns, note)| note.at(time_ns, &self.plan.id));
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.extend(events);
    }
}

fn select(manager: u8) -> Result<(), LiveError> {
    fs::write(TYPE_SETTING, manager.to_string()).map_err(LiveError::while_(format!(
        "writing {manager} to {TYPE_SETTING}"
    )))
}
