//! The protocol engine of Multipath TCP (RFC 8684), sans-IO.
//!
//! Multipath TCP carries one stream each way over several TCP connections, its *subflows*, each between another pair of
//! addresses. To a network a subflow is TCP; what makes them one connection stands in TCP options. Three questions follow, and
//! the engine leaves each to an algorithm that can be exchanged:
//!
//! | question | answered by |
//! |---|---|
//! | Which subflows are there? | a path manager, [`pm`] |
//! | Which of them carries the next bytes? | a packet scheduler, [`sched`] |
//! | How much may each have in flight? | a congestion control, [`cc`], one for all subflows of a connection |
//!
//! Everything else is the protocol, and the same for all algorithms.
//!
//! # What it does not do
//! It does no input or output, reads no clock, owns no thread and draws no randomness of its own: packets, time and a generator
//! are arguments. The same code runs in the simulator, in virtual time, and against a kernel, in real time; with the same
//! arguments in the same order it does the same.
//!
//! # From the wire upwards
//! - [`wire`]: packets as bytes and as values; the options of RFC 8684, section 3.
//! - [`subflow`]: one TCP connection (RFC 9293): handshake, retransmission, recovery, windows. It asks what is above for the
//!   options of each segment.
//! - [`connection`]: keys, mappings, joins, addresses, fallback and close (RFC 8684, sections 3.1 to 3.8).
//! - [`failure`]: when a subflow counts as failed, and what is sent again elsewhere: the presets of two kernels.
//! - [`endpoint`]: all connections of a host: which one a packet belongs to, who listens, which ports are free.
//! - [`seq`], [`payload`], [`time`]: what all of them count in.
//!
//! # How it is driven
//! Whoever drives an [`endpoint::Endpoint`] tells it what happened, then takes out what comes of it: packets until there are no
//! more, events likewise, and the instant of the next timeout. Here two of them are 5 ms apart, and one sends a greeting:
//!
//! ```
//! use std::collections::VecDeque;
//! use std::net::{IpAddr, SocketAddr};
//! use std::sync::Arc;
//!
//! use mptcp::connection::{Algorithms, Config, Event};
//! use mptcp::endpoint::{Endpoint, NetworkView, Profile};
//! use mptcp::payload::Payload;
//! use mptcp::pm::{self, AddressPair};
//! use mptcp::time::{MILLISECOND, Nanos, SECOND};
//! use mptcp::wire::Packet;
//! use mptcp::{cc, sched};
//! use rand_core::SeedableRng;
//! use rand_xoshiro::Xoshiro256PlusPlus;
//!
//! fn profile() -> Profile {
//!     Profile {
//!         config: Arc::new(Config::default()),
//!         algorithms: Box::new(|connection| Algorithms {
//!             congestion_control: cc::by_name("lia").unwrap()(&Default::default()),
//!             scheduler: sched::by_name("min_rtt").unwrap()(&Default::default()),
//!             path_manager: pm::by_name("full_mesh").unwrap()(connection, &Default::default()),
//!         }),
//!     }
//! }
//!
//! fn host(local: IpAddr, remote: IpAddr, seed: u64) -> Endpoint {
//!     let network = NetworkView { pairs: [AddressPair { local, remote }].into(), ..Default::default() };
//!     Endpoint::new(network, Box::new(Xoshiro256PlusPlus::seed_from_u64(seed)))
//! }
//!
//! let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
//! let mut hosts = [host(here, there, 1), host(there, here, 2)];
//! hosts[1].listen(80, profile());
//! let to = SocketAddr::new(there, 80);
//! let client = hosts[0].connect(0, SocketAddr::new(here, 0), to, &profile())?;
//!
//! let mut now: Nanos = 0;
//! let mut under_way: VecDeque<(Nanos, usize, Packet)> = VecDeque::new();
//! let mut received = Vec::new();
//! while received.is_empty() {
//!     // What happened: packets that arrived, and what is due.
//!     while under_way.front().is_some_and(|(at, ..)| *at <= now) {
//!         let (_, to, packet) = under_way.pop_front().unwrap();
//!         hosts[to].handle_packet(now, &packet);
//!     }
//!     for (which, host) in hosts.iter_mut().enumerate() {
//!         if host.poll_timeout().is_some_and(|at| at <= now) {
//!             host.handle_timeout(now);
//!         }
//!         // What comes of it: packets, then events, whose commands can make more packets.
//!         loop {
//!             while let Some(packet) = host.poll_transmit(now) {
//!                 under_way.push_back((now + 5 * MILLISECOND, 1 - which, packet));
//!             }
//!             match host.poll_event() {
//!                 Some((id, Event::Connected { .. })) if id == client && which == 0 => {
//!                     host.command(id, |connection| connection.send(&Payload::literal(*b"hello")));
//!                 }
//!                 Some((id, Event::Readable)) => {
//!                     let read = host.command(id, |connection| connection.recv()).flatten();
//!                     received.extend(read.map(|payload| payload.to_vec()));
//!                 }
//!                 Some(_) => {}
//!                 None => break,
//!             }
//!         }
//!     }
//!     // When something happens next.
//!     let timeouts = hosts.iter().filter_map(Endpoint::poll_timeout);
//!     now = timeouts.chain(under_way.front().map(|(at, ..)| *at)).min().expect("something is left");
//!     assert!(now < SECOND);
//! }
//! assert_eq!(received, [b"hello"]);
//! # Ok::<(), mptcp::endpoint::ConnectError>(())
//! ```
//!
//! What of RFC 8684 is done, and what is not, stands in `docs/engine.md`, requirement by requirement.

pub mod cc;
pub mod connection;
pub mod endpoint;
pub mod failure;
pub mod payload;
pub mod pm;
mod queue;
pub mod sched;
pub mod seq;
pub mod subflow;
pub mod time;
pub mod timer_wheel;
pub mod wire;
