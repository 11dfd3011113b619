//! Incoming connections: listeners, handshakes with and without kept state, and established
//! connections that wait for [`Endpoint::accept`].

use std::collections::{BTreeSet, VecDeque};

use super::syn_cookies::{self, Choice, Recalled, SynCookies};
use super::{ConnectionId, Endpoint, Profile};
use crate::connection::Connection;
use crate::pm::{FourTuple, Role};
use crate::seq::SeqNr;
use crate::time::Nanos;
use crate::wire::{Flags, MptcpOptions, Packet, Segment, Version};

/// A port on which the endpoint accepts connections.
pub(super) struct Listener {
    profile: Profile,
    pub(super) half_open: BTreeSet<ConnectionId>,
    /// Until when the third packet of a handshake with a cookie may arrive.
    cookies_until: Nanos,
    pub(super) ready: VecDeque<ConnectionId>,
}

impl Listener {
    /// Returns whether [`Config::backlog`](crate::connection::Config::backlog) connections wait to
    /// be accepted.
    fn is_full(&self) -> bool {
        self.ready.len() >= self.profile.config.backlog
    }
}

impl Endpoint {
    /// Starts to accept connections on `port` at all local addresses. Each is created with
    /// `profile`.
    ///
    /// If the endpoint already listens on the port, only the profile is replaced. Connections that
    /// wait for [`Endpoint::accept`] stay.
    pub fn listen(&mut self, port: u16, profile: Profile) {
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.profile = profile;
            return;
        }
        let listener = Listener {
            profile,
            half_open: BTreeSet::new(),
            cookies_until: 0,
            ready: VecDeque::new(),
        };
        self.listeners.insert(port, listener);
    }

    /// Stops accepting connections on `port`. Further SYNs are answered with resets. Connections
    /// that [`Endpoint::accept`] has not returned yet are aborted, as in Linux.
    pub fn stop_listening(&mut self, port: u16) {
        let Some(listener) = self.listeners.remove(&port) else {
            return;
        };
        for id in listener.half_open.into_iter().chain(listener.ready) {
            self.command(id, Connection::abort);
        }
    }

    /// Removes the connection that has waited longest from the established connections of the
    /// listener on `port`, and returns its ID. Returns `None` if none waits.
    pub fn accept(&mut self, port: u16) -> Option<ConnectionId> {
        let id = self.listeners.get_mut(&port)?.ready.pop_front()?;
        self.connections.get_mut(&id)?.accepted_at = None;
        Some(id)
    }

    /// Returns whether [`Endpoint::accept`] would return a connection for `port`.
    pub fn has_acceptable(&self, port: u16) -> bool {
        let listener = self.listeners.get(&port);
        listener.is_some_and(|listener| !listener.ready.is_empty())
    }

    /// Returns whether the connection `id` was opened by a peer through a listener and
    /// [`Endpoint::accept`] has not returned it yet.
    pub(crate) fn awaits_accept(&self, id: ConnectionId) -> bool {
        let slot = self.connections.get(&id);
        slot.is_some_and(|slot| slot.accepted_at.is_some())
    }

    /// Processes a SYN to a listening port. Starts a connection, or answers with a SYN cookie if
    /// too many handshakes are open, or drops the SYN if the backlog is full.
    pub(super) fn open_passively(&mut self, now: Nanos, four: FourTuple, syn: &Segment) {
        let port = four.local.port();
        let listener = &self.listeners[&port];
        // Dropping the SYN loses no connection, because the peer retransmits it.
        if listener.is_full() {
            return;
        }
        if listener.half_open.len() >= listener.profile.config.max_half_open {
            self.answer_by_cookie(now, four, syn);
            return;
        }
        let version = listener.profile.config.version;
        let choice = self.choose(version);
        let profile = &self.listeners[&port].profile;
        let connection = self.answer(now, four, syn, choice, profile);
        self.add_half_open(connection, four);
    }

    /// Creates a connection from `syn`, a SYN that the caller has held back, and returns its ID.
    /// The port of `syn` need not be listening. The connection is not returned by
    /// [`Endpoint::accept`].
    ///
    /// Returns `None` if `syn` is not a SYN, or if a connection between its addresses and ports
    /// exists already.
    pub fn accept_syn(
        &mut self,
        now: Nanos,
        syn: &Packet,
        profile: &Profile,
    ) -> Option<ConnectionId> {
        let four = FourTuple::of_receiver(syn);
        let flags = syn.segment.flags;
        let is_syn = flags.contains(Flags::SYN) && !flags.contains(Flags::ACK);
        if !is_syn || self.by_ends.contains_key(&four.into()) {
            return None;
        }
        let choice = self.choose(profile.config.version);
        let connection = self.answer(now, four, &syn.segment, choice, profile);
        Some(self.add(connection, four, None))
    }

    fn choose(&mut self, version: Version) -> Choice {
        Choice {
            key: self.free_key(version),
            iss: SeqNr(self.rng.next_u32()),
        }
    }

    fn add_half_open(&mut self, connection: Connection, four: FourTuple) -> ConnectionId {
        let port = four.local.port();
        let id = self.add(connection, four, Some(port));
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.half_open.insert(id);
        }
        id
    }

    /// Creates the connection that answers `syn`.
    fn answer(
        &self,
        now: Nanos,
        four: FourTuple,
        syn: &Segment,
        choice: Choice,
        profile: &Profile,
    ) -> Connection {
        let seen = self.seen_by(Role::Acceptor, four);
        let (config, algorithms) = (profile.config.clone(), (profile.algorithms)(&seen));
        Connection::accept(now, config, algorithms, four, syn, choice.key, choice.iss)
    }

    /// Sends a SYN/ACK with a cookie and keeps no state. The key follows from the cookie and cannot
    /// be drawn again, so if its token is in use, the answer is plain TCP (RFC 8684, section 3.1).
    fn answer_by_cookie(&mut self, now: Nanos, four: FourTuple, syn: &Segment) {
        let Some(listener) = self.listeners.get_mut(&four.local.port()) else {
            return;
        };
        listener.cookies_until = now + syn_cookies::LIFETIME;
        let version = listener.profile.config.version;
        let has_timestamps = listener.profile.config.subflow.timestamps;
        let mut syn = syn_cookies::memorable(syn, has_timestamps);
        let cookies = self
            .syn_cookies
            .get_or_insert_with(|| SynCookies::new(self.rng.as_mut()));
        let choice = cookies.choose(now, four, &syn);
        // The first data of version 0 does not repeat the keys, so a lost third packet would leave
        // the connection without them.
        if version == Version::Zero || self.has_token(version, choice.key) {
            syn.options.mptcp = MptcpOptions::new();
        }
        let profile = &self.listeners[&four.local.port()].profile;
        let mut connection = self.answer(now, four, &syn, choice, profile);
        if let Some(mut packet) = connection.poll_transmit(now) {
            if let Some(ours) = &mut packet.segment.options.timestamps {
                ours.value = syn_cookies::timestamp(ours.value, &syn);
            }
            self.replies.push_back(packet);
        }
    }

    /// Tries to continue a handshake whose SYN was answered with a cookie. Creates the connection
    /// from `packet`, the third packet of the handshake or the first data. Returns false if
    /// `packet` belongs to no such handshake.
    ///
    /// If the backlog is full, the packet is dropped. The first data of the peer then creates the
    /// connection.
    pub(super) fn resume_handshake(
        &mut self,
        now: Nanos,
        four: FourTuple,
        packet: &Packet,
    ) -> bool {
        let segment = &packet.segment;
        let port = four.local.port();
        let listener = self.listeners.get(&port);
        let is_awaited = listener.is_some_and(|listener| now <= listener.cookies_until);
        let continues = segment.flags.contains(Flags::ACK)
            && !segment.flags.contains(Flags::SYN)
            && !segment.flags.contains(Flags::RST);
        let Some(cookies) = self
            .syn_cookies
            .as_ref()
            .filter(|_| is_awaited && continues)
        else {
            return false;
        };
        let (syn, mut choice) = match cookies.recall(now, four, segment) {
            Some(Recalled::Handshake(syn, choice)) => (syn, choice),
            Some(Recalled::WithoutKeys) => return true,
            None => return false,
        };
        if self.listeners[&port].is_full() {
            return true;
        }
        let version = self.listeners[&port].profile.config.version;
        if self.has_token(version, choice.key) {
            // MPTCP was negotiated with this key before another connection drew the same token.
            if !syn.options.mptcp.is_empty() {
                return false;
            }
            choice.key = self.free_key(version);
        }
        let profile = &self.listeners[&port].profile;
        let mut connection = self.answer(now, four, &syn, choice, profile);
        connection.assume_answered(now);
        let id = self.add_half_open(connection, four);
        self.with(id, |connection, _| connection.handle_packet(now, packet));
        true
    }
}
