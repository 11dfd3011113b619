//! Negotiation of MPTCP and of each further subflow (RFC 8684, sections 3.1 and 3.2).

use super::input::is_dss;
use super::keys::{self, Keys, Nonces};
use super::lifecycle::{Confirmation, LifecycleEvent, Phase};
use super::{Connection, Event, Mode, join_of};
use crate::pm::{self, Role};
use crate::subflow::Arrival;
use crate::time::Nanos;
use crate::wire::{Capable, Flags, Join as JoinOption, MptcpOption, ResetReason, Segment, Version};

impl Connection {
    /// Handles the version and flags in the MP_CAPABLE of a SYN. If they are not supported, the
    /// connection becomes plain TCP.
    pub(super) fn handle_syn(&mut self, syn: &Segment) {
        let asked = capable_of(syn).and_then(|capable| match (self.session.version, capable) {
            (Version::One, Capable::Syn { version, flags }) if version >= 1 => Some((flags, None)),
            // The SYN of version 0 carries the key (RFC 6824, section 3.1).
            (
                Version::Zero,
                Capable::SynAck {
                    version: 0,
                    flags,
                    sender_key,
                },
            ) => Some((flags, Some(sender_key))),
            _ => None,
        });
        match asked.filter(|(flags, _)| is_understood(*flags)) {
            Some((flags, key)) if self.config.is_multipath => {
                self.adopt_capable_flags(flags);
                if let Some(key) = key {
                    self.session.set_remote_key(key);
                }
            }
            _ => self.session.mode = Mode::Plain,
        }
    }

    /// Takes over the peer's flags. If either host requires checksums, both use them (RFC 8684,
    /// section 3.1).
    fn adopt_capable_flags(&mut self, flags: u8) {
        self.session.uses_checksums |= flags & Capable::CHECKSUM_REQUIRED != 0;
        self.session.may_join_initial &= flags & Capable::NO_JOIN_TO_INITIAL == 0;
    }

    pub(super) fn shake_hands(
        &mut self,
        now: Nanos,
        subflow: usize,
        segment: &Segment,
        arrival: Arrival,
    ) {
        match (self.subflows[subflow].is_initial, self.session.role) {
            (true, Role::Opener) if arrival.established => self.agree_as_opener(segment),
            (true, Role::Opener) => {}
            (true, Role::Acceptor) => self.agree_as_acceptor(now, segment, arrival),
            (false, _) => self.shake_hands_of_join(now, subflow, segment, arrival),
        }
    }

    fn shake_hands_of_join(
        &mut self,
        now: Nanos,
        subflow: usize,
        segment: &Segment,
        arrival: Arrival,
    ) {
        match *self.subflows[subflow].life {
            Phase::Opening { nonces, .. } if arrival.established => {
                self.check_join_syn_ack(now, subflow, segment, nonces);
            }
            Phase::Confirming(_) if !segment.flags.contains(Flags::SYN) => {
                self.finish_join(now, subflow);
            }
            Phase::Accepting { nonces, .. } if arrival.established => {
                self.check_join_ack(now, subflow, segment, nonces);
            }
            // The peer repeats the third packet, because the fourth was lost.
            Phase::Active(_) | Phase::Retiring(_) | Phase::Retired { .. }
                if matches!(join_of(segment), Some(JoinOption::Ack { .. })) =>
            {
                self.subflows[subflow].tcp.send_ack();
            }
            _ => {}
        }
    }

    fn agree_as_opener(&mut self, segment: &Segment) {
        let agreed = match capable_of(segment) {
            Some(Capable::SynAck {
                version,
                flags,
                sender_key,
            }) if self.session.mode == Mode::Negotiating
                && self.session.has_version(version)
                && is_understood(flags) =>
            {
                Some((flags, sender_key))
            }
            _ => None,
        };
        match agreed {
            Some((flags, key)) => {
                self.adopt_capable_flags(flags);
                self.session.set_remote_key(key);
                self.session.mode = Mode::Multipath;
                self.reserve_options();
            }
            None => self.start_plain(),
        }
        self.report_connected();
    }

    fn report_connected(&mut self) {
        self.is_connected = true;
        let mode = self.session.mode;
        self.events.push_back(Event::Connected { mode });
    }

    fn agree_as_acceptor(&mut self, now: Nanos, segment: &Segment, arrival: Arrival) {
        match self.session.mode {
            Mode::Plain if arrival.established => self.start_plain(),
            Mode::Negotiating if self.subflows[0].life.established_at().is_some() => {
                self.learn_key(segment);
            }
            _ => return,
        }
        let mode = self.session.mode;
        if mode != Mode::Negotiating {
            self.report_connected();
        }
        if mode == Mode::Multipath {
            self.established_at = Some(now);
            self.start_subflows_if_due(now);
        }
    }

    /// Learns the peer's key from the third packet, or from the first data if the third packet was
    /// lost. In version 0, the key is known from the SYN, and the first data carries only a DSS.
    fn learn_key(&mut self, segment: &Segment) {
        let is_known = self.session.remote.is_some();
        match capable_of(segment) {
            Some(Capable::Ack { version, flags, .. })
                if !self.session.has_version(version) || !is_understood(flags) =>
            {
                self.start_plain();
            }
            Some(Capable::Ack {
                sender_key,
                receiver_key,
                ..
            }) => {
                if !is_known {
                    self.session.set_remote_key(sender_key);
                }
                let said = Keys {
                    local: receiver_key,
                    remote: sender_key,
                };
                // A peer that did not receive the SYN/ACK does not know the local key.
                match self.session.keys() == Some(said) {
                    true => self.start_multipath(),
                    false => self.subflows[0].reset(ResetReason::MPTCP_ERROR),
                }
            }
            _ if is_known && segment.options.mptcp.iter().any(is_dss) => self.start_multipath(),
            _ if segment.options.mptcp.is_empty() => self.start_plain(),
            _ => {}
        }
    }

    fn start_multipath(&mut self) {
        self.session.mode = Mode::Multipath;
        self.session.is_fully_established = true;
        self.reserve_options();
    }

    fn check_join_syn_ack(
        &mut self,
        now: Nanos,
        subflow: usize,
        segment: &Segment,
        nonces: Nonces,
    ) {
        let Some(keys) = self.session.keys() else {
            return;
        };
        let version = self.session.version;
        let context = &mut self.subflows[subflow];
        if let Some(JoinOption::SynAck {
            backup,
            address_id,
            truncated_hmac,
            nonce,
        }) = join_of(segment)
        {
            let nonces = Nonces {
                remote: nonce,
                ..nonces
            };
            if keys::first_64_bits(&keys.peer_join_hmac(version, nonces)) == truncated_hmac {
                let wait = context.tcp.rto();
                let event = LifecycleEvent::SynAckVerified(Confirmation {
                    established_at: now,
                    nonces,
                    repeat_at: now + wait,
                    wait,
                });
                context.life.apply(event);
                context.is_backup_remote = backup;
                context.remote_id = address_id;
                return;
            }
        }
        self.counters.get_or_insert_default().refused_joins += 1;
        context.reset(ResetReason::MPTCP_ERROR);
    }

    fn check_join_ack(&mut self, now: Nanos, subflow: usize, segment: &Segment, nonces: Nonces) {
        let Some(keys) = self.session.keys() else {
            return;
        };
        let expected = keys.peer_join_hmac(self.session.version, nonces);
        match join_of(segment) {
            Some(JoinOption::Ack { hmac }) if hmac == expected => {
                // The fourth packet. The opener may send only after it (RFC 8684, section 3.2).
                self.subflows[subflow].tcp.send_ack();
                self.finish_join(now, subflow);
            }
            _ => {
                self.counters.get_or_insert_default().refused_joins += 1;
                self.subflows[subflow].reset(ResetReason::MPTCP_ERROR);
            }
        }
    }

    fn finish_join(&mut self, now: Nanos, subflow: usize) {
        let context = &mut self.subflows[subflow];
        context
            .life
            .apply(LifecycleEvent::JoinCompleted { at: now });
        self.abandoned_at = None;
        let event = pm::Event::SubflowEstablished {
            subflow: context.four,
            local_id: context.local_id,
            remote_id: context.remote_id,
        };
        self.events.push_back(Event::SubflowEstablished {
            id: context.id,
            four: context.four,
        });
        if self.session.fins.local_to_send().is_some() {
            context.queue_data_fin();
            // The peer is alive, and nothing was lost on this subflow yet.
            self.fin_timer = None;
        }
        self.manage(now, &event);
    }

    /// Records that the peer has proved that it knows the keys (RFC 8684, section 3.1).
    pub(super) fn record_fully_established(&mut self, now: Nanos) {
        if !self.session.is_fully_established {
            self.session.is_fully_established = true;
            self.established_at = Some(now);
            self.start_subflows_if_due(now);
        }
    }
}

/// Returns whether the flags of an MP_CAPABLE are supported. It is ignored if flag B is set or if
/// the flags do not name the only algorithm (RFC 8684, section 3.1).
fn is_understood(flags: u8) -> bool {
    flags & Capable::EXTENSIBILITY == 0 && flags & Capable::HMAC_SHA256 != 0
}

fn capable_of(segment: &Segment) -> Option<Capable> {
    segment
        .options
        .mptcp
        .iter()
        .find_map(|option| match option {
            MptcpOption::Capable(capable) => Some(*capable),
            _ => None,
        })
}
