//! The protocol engine of Multipath TCP (RFC 8684), sans-IO.
//!
//! Multipath TCP carries one byte stream in each direction over several TCP connections, its
//! *subflows*. The subflows usually run between different pairs of addresses. To the network, a
//! subflow is an ordinary TCP connection; TCP options tie the subflows of a connection together.
//! The engine leaves three decisions to exchangeable algorithms:
//!
//! | decision | made by |
//! |---|---|
//! | Which subflows exist? | a path manager, [`pm`] |
//! | Which subflow carries the next bytes? | a packet scheduler, [`sched`] |
//! | How much may each subflow have in flight? | a congestion control, [`cc`], for all subflows |
//!
//! The rest is the protocol, which is the same for all algorithms.
//!
//! # Determinism
//! The engine does no I/O, reads no clock, starts no thread and draws no randomness of its own.
//! Packets, time and a random number generator are arguments. The same code runs in the simulator
//! in virtual time and against a kernel in real time. The same calls with the same arguments give
//! the same results.
//!
//! # Modules, from the packet upwards
//! - [`wire`]: packets as bytes and as values, and the options of RFC 8684, section 3.
//! - [`subflow`]: one TCP connection (RFC 9293): handshake, retransmission, recovery, windows. The
//!   layer above supplies the MPTCP options of each segment.
//! - [`connection`]: keys, mappings, joins, addresses, fallback and close (RFC 8684, sections 3.1
//!   to 3.8).
//! - [`failure`]: when a subflow counts as failed, and which data is then reinjected; presets
//!   follow two kernels.
//! - [`endpoint`]: all connections of a host: delivers packets to connections, keeps listeners, and
//!   assigns ports.
//! - [`driver`]: the part that all drivers share: an endpoint with a state for each connection, the
//!   turns of applications, and when a connection is forgotten.
//! - [`seq`], [`payload`], [`time`]: sequence numbers, payload bytes and time.
//!
//! # Driving an endpoint
//! The driver reports each input to an [`endpoint::Endpoint`]. It then polls the endpoint for
//! packets and events until there are none left, and for the time of the next timeout. In this
//! example, two endpoints are 5 ms apart, and one sends a greeting to the other:
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
//!     // Input: packets that have arrived, and timeouts that are due.
//!     while under_way.front().is_some_and(|(at, ..)| *at <= now) {
//!         let (_, to, packet) = under_way.pop_front().unwrap();
//!         hosts[to].handle_packet(now, &packet);
//!     }
//!     for (which, host) in hosts.iter_mut().enumerate() {
//!         if host.poll_timeout().is_some_and(|at| at <= now) {
//!             host.handle_timeout(now);
//!         }
//!         // Output: packets, then events. A command can produce more packets.
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
//!     // Advance the time to the next input.
//!     let timeouts = hosts.iter().filter_map(Endpoint::poll_timeout);
//!     now = timeouts.chain(under_way.front().map(|(at, ..)| *at)).min().expect("something is left");
//!     assert!(now < SECOND);
//! }
//! assert_eq!(received, [b"hello"]);
//! # Ok::<(), mptcp::endpoint::ConnectError>(())
//! ```
//!
//! `docs/internals/rfc8684.md` states for each requirement of RFC 8684 whether the engine meets it.

pub mod algorithm;
pub mod cc;
pub mod connection;
pub mod driver;
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
