//! Handles options after the handshake: mappings, addresses, priorities, ends (RFC 8684, sections
//! 3.3 to 3.7).

use mptcp::seq::DataSeq;
use mptcp::wire::checksum::Sum;
use mptcp::wire::{Capable, DataNumber, Flags, Mapping, MptcpOption, SignalledAddress};

use super::checksums::WrongChecksum;
use super::connection::{Announced, Connection, Ending, FallbackCause, Signal};
use super::options::Told;
use super::subflow::{Role, SubflowEnd};
use super::timeline::EventKind;
use super::{Analysis, Arrival, Side, Teller};

impl Analysis {
    /// Handles all options of a packet except DSS.
    pub(super) fn handle_signals(&mut self, arrival: &Arrival<'_>) {
        let (_, _, by) = self.places_of(arrival);
        for told in &arrival.options.mptcp {
            match told {
                Told::Capable0 {
                    flags,
                    sender_key,
                    receiver_key,
                } => {
                    let keys = (*sender_key, *receiver_key);
                    self.handle_capable_0(by, *flags, keys);
                }
                Told::Option(MptcpOption::Capable(capable)) => {
                    self.handle_capable(by, capable);
                }
                Told::Option(MptcpOption::Join(join)) => self.handle_join(by, join),
                Told::Option(MptcpOption::Dss(_)) => {}
                Told::Option(option) => self.handle_signal(by, option),
            }
        }
    }

    fn handle_signal(&mut self, by: Teller, option: &MptcpOption) {
        let subflow = &mut self.subflows[by.subflow];
        let connection = &mut self.connections[subflow.connection];
        let (kind, text) = match option {
            MptcpOption::AddAddress(address) => {
                let is_proved = is_address_proved(connection, by.from, address);
                if is_proved == Some(false) {
                    let text =
                        format!("the HMAC of address {} is not that of the keys", address.id);
                    connection.note(by, EventKind::Violation, text);
                }
                let port = address
                    .port
                    .map_or(String::new(), |port| format!(", port {port}"));
                // Version 0 has neither echoes nor HMACs.
                let is_echo = address.truncated_hmac.is_none() && connection.version != Some(0);
                if is_echo {
                    for announced in connection.announced_by(!by.from, address.id) {
                        announced.was_echoed = true;
                    }
                } else {
                    connection.announce(Announced {
                        by,
                        id: address.id,
                        address: address.address,
                        port: address.port,
                        is_proved,
                        was_echoed: false,
                        was_withdrawn: false,
                    });
                }
                let echo = if is_echo { "echo of " } else { "" };
                let text = format!("{echo}address {}: {}{port}", address.id, address.address);
                (EventKind::AddAddr, text)
            }
            MptcpOption::RemoveAddress(ids) => {
                for id in ids {
                    for announced in connection.announced_by(by.from, *id) {
                        announced.was_withdrawn = true;
                    }
                }
                let ids: Vec<String> = ids.iter().map(u8::to_string).collect();
                (EventKind::RemoveAddr, format!("address {}", ids.join(", ")))
            }
            MptcpOption::Priority { backup } => {
                subflow.ends[by.from as usize].is_backup = *backup;
                let text = if *backup {
                    "backup"
                } else {
                    "no backup any more"
                };
                (EventKind::MpPrio, text.to_owned())
            }
            MptcpOption::Fail { data_seq } => {
                let stream = &connection.streams[!by.from as usize];
                let position = stream.position(DataNumber::Long(*data_seq));
                connection.failure.get_or_insert(Signal { by, position });
                let place = match position {
                    Some(position) => format!("byte {}", stream.shown(position)),
                    None => format!("number {:016x}", data_seq.0),
                };
                let text = format!("data from {place} on did not arrive as sent");
                (EventKind::MpFail, text)
            }
            MptcpOption::FastClose { .. } => {
                connection.ending.get_or_insert(Ending::FastClose);
                let position = None;
                connection.abort.get_or_insert(Signal { by, position });
                (
                    EventKind::MpFastclose,
                    "the connection is aborted".to_owned(),
                )
            }
            // Reported together with the RST that carries it.
            MptcpOption::Capable(_)
            | MptcpOption::Join(_)
            | MptcpOption::Dss(_)
            | MptcpOption::Reset(_)
            | MptcpOption::Version0(_) => return,
        };
        connection.note(by, kind, text);
    }

    /// Handles the mapping of the payload of a packet.
    pub(super) fn handle_mapping(&mut self, arrival: &Arrival<'_>) {
        let packet = arrival.packet;
        let data = arrival.options.capable().and_then(|capable| match capable {
            Capable::Ack { data, .. } => *data,
            _ => None,
        });
        if let Some(data) = data {
            // The first data of the connection (RFC 8684, section 3.1).
            let (subflow, connection, by) = self.places_of(arrival);
            let stream = &connection.streams[by.from as usize];
            let sender = &mut subflow.ends[by.from as usize];
            sender.map(packet.seq, packet.payload_len, 1, u64::from(data.len), 1);
            if let (Some(checksum), Some(data_seq)) = (data.checksum, stream.number_at(1)) {
                let sum = sum_of(data_seq, 1, data.len, checksum);
                let mapped = WrongChecksum {
                    packet: arrival.stamp.packet,
                    data: stream.shown(1),
                    bytes: u64::from(data.len),
                };
                sender.expect_checksum(packet.seq, 1, sum, mapped);
            }
        } else if let Some(dss) = arrival.options.dss() {
            let (_, connection, by) = self.places_of(arrival);
            connection.has_signalled[by.from as usize] = true;
            if let Some(mapping) = dss.mapping() {
                self.handle_dss_mapping(arrival, mapping, dss.data_fin());
            }
        } else if packet.payload_len > 0 {
            self.go_without_mapping(arrival);
        }
    }

    fn handle_dss_mapping(&mut self, arrival: &Arrival<'_>, mapping: Mapping, data_fin: bool) {
        let packet = arrival.packet;
        let (subflow, connection, by) = self.places_of(arrival);
        let stream = &mut connection.streams[by.from as usize];
        let Some(data) = stream.position(mapping.data_seq) else {
            connection.note(by, EventKind::Violation, "a mapping outside of any window");
            return;
        };
        let sender = &mut subflow.ends[by.from as usize];
        if mapping.len == 0 {
            // The infinite mapping (RFC 8684, section 3.7).
            sender.map_all_from(packet.seq, mapping.subflow_seq, data);
            let cause = FallbackCause::InfiniteMapping;
            connection.fall_back(by, cause, "an infinite mapping");
            return;
        }
        // DATA_FIN occupies the last number of the mapping (RFC 8684, section 3.3.3).
        let len = u64::from(mapping.len) - u64::from(data_fin);
        if data_fin && stream.finish(data + len) {
            let text = format!("the data ends after {} bytes", stream.shown(data + len));
            connection.ending.get_or_insert(Ending::DataFin);
            connection.note(by, EventKind::DataFin, text);
        }
        if len > 0 {
            let (seq, payload_len) = (packet.seq, packet.payload_len);
            sender.map(seq, payload_len, mapping.subflow_seq, len, data);
        }
        let stream = &connection.streams[by.from as usize];
        if let (Some(checksum), Some(data_seq)) = (mapping.checksum, stream.number_at(data)) {
            let sum = sum_of(data_seq, mapping.subflow_seq, mapping.len, checksum);
            let mapped = WrongChecksum {
                packet: arrival.stamp.packet,
                data: stream.shown(data),
                bytes: len,
            };
            sender.expect_checksum(packet.seq, mapping.subflow_seq, sum, mapped);
        }
    }

    /// Handles payload without a DSS option. It belongs to an earlier mapping, to plain TCP, or to
    /// a connection that falls back (RFC 8684, section 3.7). Data indicates a fallback if its
    /// direction never had a mapping, or if it follows the last mapping of the only subflow because
    /// the answers carried no DSS. Each direction continues on its own. Nothing follows from a packet
    /// of which the option may not have been captured.
    fn go_without_mapping(&mut self, arrival: &Arrival<'_>) {
        let (subflow, connection, by) = self.places_of(arrival);
        let sender = &mut subflow.ends[by.from as usize];
        if sender.needs_no_mappings() || arrival.packet.are_options_cut {
            return;
        }
        if sender.was_mapped() {
            let is_alone = connection.subflows.len() == 1;
            if is_alone && sender.ends_its_mappings_at(arrival.packet.seq) {
                let why = match connection.has_signalled[!by.from as usize] {
                    true => "data without a data sequence signal",
                    false => "data without a data sequence signal, as the peer had sent none",
                };
                connection.fall_back(by, FallbackCause::DataAfterLastMapping, why);
            }
            if connection.fallback.is_some() {
                sender.go_on_after_last_mapping();
            }
            return;
        }
        match subflow.role {
            Role::Plain => sender.map_plainly(arrival.packet.seq),
            Role::Initial if sender.isn().is_some() => {
                let cause = FallbackCause::DataWithoutMapping;
                self.fall_back(by, cause, "data without a data sequence signal");
            }
            _ => {}
        }
    }

    /// Handles FIN and RST.
    pub(super) fn handle_end(&mut self, arrival: &Arrival<'_>) {
        let packet = arrival.packet;
        let is_reset = packet.flags.contains(Flags::RST);
        if !is_reset && !packet.flags.contains(Flags::FIN) {
            return;
        }
        let (subflow, connection, by) = self.places_of(arrival);
        let reason = arrival.options.mptcp.iter().find_map(|told| match told {
            Told::Option(MptcpOption::Reset(reason)) => Some(reason.code),
            _ => None,
        });
        if is_reset {
            let text = match reason {
                Some(code) => format!("reason {code}: {}", super::reset_reason(code)),
                None => "no reason told".to_owned(),
            };
            connection.note(by, EventKind::Reset, text);
        } else {
            subflow.ends[by.from as usize].finish(packet.seq, packet.payload_len);
            connection.note(by, EventKind::Fin, "no more bytes on this subflow");
        }
        if subflow.role == Role::Plain {
            let ending = if is_reset { Ending::Reset } else { Ending::Fin };
            connection.ending.get_or_insert(ending);
        }
        // A reset replaces an earlier FIN.
        let before = subflow.end.as_ref();
        if before.is_none_or(|end| is_reset && end.how == "fin") {
            subflow.end = Some(SubflowEnd {
                at: by.stamp.at,
                how: if is_reset { "reset" } else { "fin" },
                reason,
                by: by.from,
                packet: by.stamp.packet,
            });
        }
    }
}

/// Returns the sum of the pseudo-header of a mapping and its checksum.
fn sum_of(data_seq: DataSeq, subflow_seq: u32, len: u16, checksum: u16) -> Sum {
    let mut sum = Sum::of_mapping(data_seq, subflow_seq, len);
    sum.add_bytes(&checksum.to_be_bytes());
    sum
}

/// Returns whether the HMAC of an announced address is correct (RFC 8684, section 3.4.1). `None` if
/// it cannot be checked.
fn is_address_proved(
    connection: &Connection,
    from: Side,
    address: &SignalledAddress,
) -> Option<bool> {
    let hmac = address.truncated_hmac?;
    let keys = connection.keys_of(from)?;
    Some(keys.address_hmac(address.id, address.address, address.port) == hmac)
}
