//! OpenFlow 1.3 as far as outages and counters need it: a connection to a switch, changes of flow
//! entries, barriers, and counters. Sections are those of the OpenFlow Switch Specification 1.3.5.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::LiveError;
use crate::network::netlink::Mac;

/// Section 7.1: the version of each message.
const VERSION: u8 = 0x04;
const HEADER_BYTES: usize = 8;

// Section 7.1: types of messages.
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const FLOW_MOD: u8 = 14;
const MULTIPART_REQUEST: u8 = 18;
const MULTIPART_REPLY: u8 = 19;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;

/// Sections 7.2.1, 7.3.4.1 and 7.3.5: no buffer, any port, any group.
const ANY: u32 = 0xffff_ffff;

// Section 7.3.5: kinds of counters, their sizes, and the flag of a part with more to come.
const TABLES: u16 = 3;
const PORTS: u16 = 4;
const TABLE_BYTES: usize = 24;
const PORT_BYTES: usize = 112;
const MORE: u16 = 1;

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The field by which an entry selects packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The port by which they arrive.
    InPort(u32),
    /// The link-layer address to which they go.
    Destination(Mac),
}

impl Match {
    /// Returns it as in section 7.2.3: a list of one field, padded to 8 bytes.
    fn bytes(self) -> Vec<u8> {
        // Section 7.2.3.7: numbers of the fields.
        let (number, value) = match self {
            Self::InPort(port) => (0_u8, port.to_be_bytes().to_vec()),
            Self::Destination(mac) => (3, mac.to_vec()),
        };
        let length = 4 + 4 + value.len();
        let mut bytes = vec![
            0,
            1,
            0,
            length as u8,
            0x80,
            0,
            number << 1,
            value.len() as u8,
        ];
        bytes.extend(value);
        bytes.resize(length.next_multiple_of(8), 0);
        bytes
    }
}

/// What happens to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Delete,
}

/// An entry of table 0 without instructions, which drops the packets that it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DropRule {
    pub(crate) priority: u16,
    pub(crate) cookie: u64,
    pub(crate) selects: Match,
}

impl DropRule {
    /// Section 7.3.4.1: adds it, or deletes exactly it (`OFPFC_DELETE_STRICT`).
    fn change(&self, change: Change) -> Vec<u8> {
        let command = match change {
            Change::Add => 0,
            Change::Delete => 4,
        };
        let (no_mask, table, no_timeouts) = ([0; 8], 0, [0; 4]);
        let mut body = self.cookie.to_be_bytes().to_vec();
        body.extend(no_mask);
        body.extend([table, command]);
        body.extend(no_timeouts);
        body.extend(self.priority.to_be_bytes());
        // No buffer, any port, any group, no flags, padding.
        body.extend(ANY.to_be_bytes().repeat(3));
        body.extend([0; 4]);
        body.extend(self.selects.bytes());
        body
    }
}

/// The counters of all tables of a switch together (section 7.3.5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableCounters {
    /// Entries now.
    pub(crate) entries: u64,
    /// Packets looked up.
    pub(crate) lookups: u64,
    /// Packets that an entry matched.
    pub(crate) matched: u64,
}

/// The counters of a port (section 7.3.5.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortCounters {
    pub(crate) port: u32,
    pub(crate) received_packets: u64,
    pub(crate) sent_packets: u64,
}

/// A message that arrived.
struct Message {
    kind: u8,
    transaction: u32,
    body: Vec<u8>,
}

/// A connection to a switch.
#[derive(Debug)]
pub(crate) struct Connection {
    switch: String,
    stream: UnixStream,
    last_transaction: u32,
}

impl Connection {
    /// Connects to the socket of a switch and negotiates the version (section 6.3.1).
    ///
    /// # Errors
    /// The switch does not listen, or does not have OpenFlow 1.3.
    pub(crate) fn open(switch: &str, socket: &Path) -> Result<Self, LiveError> {
        let open = || {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let stream = open().map_err(LiveError::while_::<io::Error>(format!(
            "{switch}: connecting to {}",
            socket.display()
        )))?;
        let mut connection = Self {
            switch: switch.to_owned(),
            stream,
            last_transaction: 0,
        };
        connection.send(HELLO, &[])?;
        loop {
            match connection.receive()?.kind {
                HELLO => return Ok(connection),
                ERROR => return Err(connection.failure("it does not have OpenFlow 1.3")),
                _ => {}
            }
        }
    }

    /// Sends changes of entries and a barrier. Returns the barrier, to be awaited.
    ///
    /// # Errors
    /// The switch does not take them.
    pub(crate) fn begin(&mut self, change: Change, rules: &[DropRule]) -> Result<u32, LiveError> {
        for rule in rules {
            self.send(FLOW_MOD, &rule.change(change))?;
        }
        self.send(BARRIER_REQUEST, &[])
    }

    /// Waits until the switch has done everything before the barrier (section 7.3.8).
    ///
    /// # Errors
    /// The switch refused a change, or does not answer.
    pub(crate) fn await_barrier(&mut self, barrier: u32) -> Result<(), LiveError> {
        self.answer(BARRIER_REPLY, barrier).map(drop)
    }

    /// Returns the counters of its tables.
    ///
    /// # Errors
    /// The switch does not answer.
    pub(crate) fn tables(&mut self) -> Result<TableCounters, LiveError> {
        let request = self.ask_for(TABLES, &[])?;
        let mut sum = TableCounters::default();
        for table in self.counters(request)?.chunks_exact(TABLE_BYTES) {
            sum.entries += u64::from(u32_at(table, 4));
            sum.lookups += u64_at(table, 8);
            sum.matched += u64_at(table, 16);
        }
        Ok(sum)
    }

    /// Returns the counters of its ports.
    ///
    /// # Errors
    /// The switch does not answer.
    pub(crate) fn ports(&mut self) -> Result<Vec<PortCounters>, LiveError> {
        let mut any_port = ANY.to_be_bytes().to_vec();
        any_port.extend([0; 4]);
        let request = self.ask_for(PORTS, &any_port)?;
        let counters = self.counters(request)?;
        let ports = counters.chunks_exact(PORT_BYTES).map(|port| PortCounters {
            port: u32_at(port, 0),
            received_packets: u64_at(port, 8),
            sent_packets: u64_at(port, 16),
        });
        Ok(ports.collect())
    }

    fn ask_for(&mut self, counters: u16, body: &[u8]) -> Result<u32, LiveError> {
        let mut request = counters.to_be_bytes().to_vec();
        request.extend([0; 6]);
        request.extend(body);
        self.send(MULTIPART_REQUEST, &request)
    }

    /// Returns all parts of an answer (section 7.3.5).
    fn counters(&mut self, request: u32) -> Result<Vec<u8>, LiveError> {
        let mut whole = Vec::new();
        loop {
            let part = self.answer(MULTIPART_REPLY, request)?;
            let Some((head, counters)) = part.split_at_checked(HEADER_BYTES) else {
                return Err(self.failure("an answer is too short"));
            };
            whole.extend(counters);
            if u16::from_be_bytes([head[2], head[3]]) & MORE == 0 {
                return Ok(whole);
            }
        }
    }

    /// Returns the answer to a request. Reports of the switch before it are passed over.
    fn answer(&mut self, kind: u8, request: u32) -> Result<Vec<u8>, LiveError> {
        loop {
            let message = self.receive()?;
            match message.kind {
                // Section 7.4.4: type and code of the error.
                ERROR => {
                    let [kind, code] = [0, 2].map(|at| message.body.get(at..at + 2));
                    let what = format!("it refused a request: error {kind:?}, code {code:?}");
                    return Err(self.failure(&what));
                }
                ECHO_REQUEST => {
                    self.send_as(message.transaction, ECHO_REPLY, &message.body)?;
                }
                found if found == kind && message.transaction == request => {
                    return Ok(message.body);
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, kind: u8, body: &[u8]) -> Result<u32, LiveError> {
        self.last_transaction += 1;
        let transaction = self.last_transaction;
        self.send_as(transaction, kind, body)?;
        Ok(transaction)
    }

    fn send_as(&mut self, transaction: u32, kind: u8, body: &[u8]) -> Result<(), LiveError> {
        let length = (HEADER_BYTES + body.len()) as u16;
        let mut message = vec![VERSION, kind];
        message.extend(length.to_be_bytes());
        message.extend(transaction.to_be_bytes());
        message.extend(body);
        let sent = self.stream.write_all(&message);
        sent.map_err(|error| self.failure(&format!("sending to it: {error}")))
    }

    fn receive(&mut self) -> Result<Message, LiveError> {
        let mut header = [0; HEADER_BYTES];
        let mut read = || {
            self.stream.read_exact(&mut header)?;
            let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let length = length.checked_sub(HEADER_BYTES);
            let mut body = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
            self.stream.read_exact(&mut body)?;
            Ok(body)
        };
        let body = read();
        let body = body.map_err(|error: io::Error| {
            self.failure(&format!("waiting for its answer: {error}"))
        })?;
        Ok(Message {
            kind: header[1],
            transaction: u32_at(&header, 4),
            body,
        })
    }

    fn failure(&self, what: &str) -> LiveError {
        LiveError::Failed(format!("switch {}: {what}", self.switch))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_padded_to_eight_bytes_and_its_length_leaves_the_padding_out() {
        let port = Match::InPort(0x0102_0304).bytes();
        assert_eq!(port, [0, 1, 0, 12, 0x80, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0]);
        let mac = Match::Destination([2, 0, 0, 0, 0, 9]).bytes();
        assert_eq!(mac, [0, 1, 0, 14, 0x80, 0, 6, 6, 2, 0, 0, 0, 0, 9, 0, 0]);
    }

    #[test]
    #[ignore = "needs root"]
    fn open_vswitch_understands_the_rules_and_is_understood() {
        use std::process::Command;

        use crate::applications::programs::launcher::{Launcher, SharedJournal};
        use crate::switches::daemons::Daemons;
        use crate::switches::plan::Switch;

        let directory = tempfile::tempdir().unwrap();
        let namespace = std::sync::Arc::new(crate::NetworkNamespace::new().unwrap());
        let launcher = Launcher::start(directory.path().to_owned(), SharedJournal::default());
        let launcher = std::sync::Arc::new(launcher.unwrap());
        let daemons = Daemons::start(&namespace, directory.path().to_owned(), launcher).unwrap();
        let switch = Switch {
            name: "one".to_owned(),
            bridge: "s1".to_owned(),
            datapath_id: "000000000000002a".to_owned(),
            ports: Vec::new(),
        };
        daemons
            .create_bridges(std::slice::from_ref(&switch))
            .unwrap();
        let socket = daemons.socket(&switch);
        let ofctl = |command: &str| {
            let target = format!("unix:{}", socket.display());
            let output = Command::new("ovs-ofctl")
                .args(["-O", "OpenFlow13", command, &target])
                .output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert!(ofctl("show").contains("dpid:000000000000002a"));
        let mut connection = Connection::open("one", &socket).unwrap();
        let selections = [Match::InPort(7), Match::Destination([2, 0, 0, 0, 0, 9])];
        let rules = selections.map(|selects| DropRule {
            priority: 65_535,
            cookie: 0x6d70,
            selects,
        });
        let barrier = connection.begin(Change::Add, &rules).unwrap();
        connection.await_barrier(barrier).unwrap();
        let entries = ofctl("dump-flows");
        for part in [
            "cookie=0x6d70",
            "priority=65535,in_port=7 actions=drop",
            "dl_dst=02:00:00:00:00:09 actions=drop",
        ] {
            assert!(entries.contains(part), "{part} in {entries}");
        }
        assert_eq!(connection.tables().unwrap().entries, 2);
        assert_eq!(connection.ports().unwrap().len(), 1);
        let barrier = connection.begin(Change::Delete, &rules[..1]).unwrap();
        connection.await_barrier(barrier).unwrap();
        let entries = ofctl("dump-flows");
        assert!(
            !entries.contains("in_port=7") && entries.contains("dl_dst"),
            "{entries}"
        );
    }

    #[test]
    fn a_change_of_an_entry_has_the_fixed_part_of_the_specification() {
        let rule = DropRule {
            priority: 7,
            cookie: 9,
            selects: Match::InPort(1),
        };
        let [add, delete] = [Change::Add, Change::Delete].map(|change| rule.change(change));
        assert_eq!(add.len(), 40 + 16);
        assert_eq!((add[17], delete[17]), (0, 4));
        assert_eq!(add[22..24], [0, 7]);
    }
}
