//! A netlink socket that sends requests in batches.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    DefaultNla, ErrorMessage, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla, NlasIterator,
    Parseable,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::net::netdevice::name_to_index;

use super::request::Request;
use super::text::{DeviceNames, describe};
use crate::LiveError;

/// Requests in one send. Their errors, at most 1 kB each, fit into the receive buffer.
const BATCH: usize = 128;

/// Lookups in one send. The kernel takes one or two pages of the receive buffer for each answer.
const LOOKUPS: usize = 16;

/// Size of the receive buffer. The parts of a dump that the kernel sends are at most half as long.
const RECEIVE_BYTES: usize = 64 * 1024;

/// The attribute of an error with a text for people (`NLMSGERR_ATTR_MSG`).
const ERROR_TEXT: u16 = 1;

/// The kernel's answer to a request, or its error.
pub(crate) type Answer = Result<RouteNetlinkMessage, io::Error>;

/// Why the kernel refuses a request.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) errno: Errno,
    /// The same with the kernel's text.
    pub(crate) error: io::Error,
}

/// A request that is ready to be sent by one system call.
pub(crate) struct Prepared {
    socket: Socket,
    bytes: Vec<u8>,
}

impl Prepared {
    /// Prepares a request to the tables of the namespace that the calling thread is in.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub(crate) fn new(owner: &str, request: &Request) -> Result<Self, LiveError> {
        let mut bytes = Vec::new();
        append(&mut bytes, request, 1, 0);
        Ok(Self {
            socket: Connection::open(owner)?.socket,
            bytes,
        })
    }

    /// Sends the request without waiting for the answer.
    pub(crate) fn send(&self) {
        let _ = rustix::net::send(self, &self.bytes, SendFlags::empty());
    }
}

impl AsFd for Prepared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Appends a request with a sequence number, in the form in which the kernel reads it.
fn append(bytes: &mut Vec<u8>, request: &Request, sequence: u32, more_flags: u16) {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | request.flags | more_flags;
    header.sequence_number = sequence;
    let payload = NetlinkPayload::from(request.message.clone());
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let at = bytes.len();
    bytes.resize(at + message.buffer_len().next_multiple_of(4), 0);
    message.serialize(&mut bytes[at..]);
}

/// A connection to the tables of one namespace.
pub(crate) struct Connection {
    socket: Socket,
    /// Name of the host or node that has the tables, for errors.
    owner: String,
    names: DeviceNames,
    last_sequence: u32,
    buffer: Vec<u8>,
}

/// A message of the kernel: the number of the request and the payload.
type Incoming = (u32, NetlinkPayload<RouteNetlinkMessage>);

impl Connection {
    /// Opens a connection in the namespace of the calling thread. It stays in that namespace.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub(crate) fn open(owner: &str) -> Result<Self, LiveError> {
        let socket = Self::socket().map_err(LiveError::while_(format!(
            "{owner}: opening a netlink socket"
        )))?;
        Ok(Self {
            socket,
            owner: owner.to_owned(),
            names: DeviceNames::default(),
            last_sequence: 0,
            buffer: vec![0; RECEIVE_BYTES],
        })
    }

    fn socket() -> io::Result<Socket> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        socket.set_netlink_get_strict_chk(true)?;
        Ok(socket)
    }

    /// Returns the kernel's index of a device.
    ///
    /// # Errors
    /// No device has that name.
    pub(crate) fn index_of(&mut self, device: &str) -> Result<u32, LiveError> {
        let doing = format!("{}: looking for device {device}", self.owner);
        let index = name_to_index(&self.socket, device).map_err(LiveError::while_(doing))?;
        self.names.add(index, device);
        Ok(index)
    }

    /// Returns the names of the devices that were looked up.
    pub(crate) fn names(&self) -> &DeviceNames {
        &self.names
    }

    /// Carries out requests in order. All are tried, even after one failed.
    ///
    /// # Errors
    /// Names the first request that the kernel refused, and why.
    pub(crate) fn commit(&mut self, requests: &[Request]) -> Result<(), LiveError> {
        let mut refused = None;
        for batch in requests.chunks(BATCH) {
            let failure = self.commit_batch(batch)?;
            refused = refused.or(failure);
        }
        match refused {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Requests an acknowledgment for the last request only; errors are reported for every request.
    fn commit_batch(&mut self, batch: &[Request]) -> Result<Option<LiveError>, LiveError> {
        let flags = |position| {
            if position + 1 == batch.len() {
                NLM_F_ACK
            } else {
                0
            }
        };
        let first = self.send(batch, flags)?;
        let last = self.last_sequence;
        let mut refused: Option<LiveError> = None;
        loop {
            for (sequence, payload) in self.receive()? {
                let NetlinkPayload::Error(error) = payload else {
                    continue;
                };
                if sequence < first {
                    continue;
                }
                if error.code.is_some() && refused.is_none() {
                    let request = &batch[(sequence - first) as usize];
                    refused = Some(self.refusal(request, &error));
                }
                if sequence == last {
                    return Ok(refused);
                }
            }
        }
    }

    /// Sends lookups and returns one answer for each, in the order of the requests. A refused
    /// request is an answer.
    ///
    /// # Errors
    /// The connection fails.
    pub(crate) fn ask(&mut self, requests: &[Request]) -> Result<Vec<Answer>, LiveError> {
        let mut answers = Vec::with_capacity(requests.len());
        for batch in requests.chunks(LOOKUPS) {
            let first = self.send(batch, |_| 0)?;
            let mut batch_answers: Vec<Option<Answer>> = batch.iter().map(|_| None).collect();
            while batch_answers.iter().any(Option::is_none) {
                for (sequence, payload) in self.receive()? {
                    let answer = match payload {
                        NetlinkPayload::InnerMessage(message) => Ok(message),
                        NetlinkPayload::Error(error) => Err(error_of(&error)),
                        _ => continue,
                    };
                    if let Some(index) = sequence.checked_sub(first) {
                        batch_answers[index as usize].get_or_insert(answer);
                    }
                }
            }
            answers.extend(batch_answers.into_iter().flatten());
        }
        Ok(answers)
    }

    /// Sends a request and returns the answer, or `None` for an acknowledgment. A refusal is an
    /// answer, too.
    ///
    /// # Errors
    /// The connection fails.
    pub(crate) fn ask_one(
        &mut self,
        request: &Request,
    ) -> Result<Result<Option<RouteNetlinkMessage>, Refusal>, LiveError> {
        let asked = self.send(std::slice::from_ref(request), |_| 0)?;
        loop {
            for (sequence, payload) in self.receive()? {
                match payload {
                    _ if sequence != asked => {}
                    NetlinkPayload::InnerMessage(message) => return Ok(Ok(Some(message))),
                    NetlinkPayload::Error(error) => {
                        let refusal = error.code.map(|code| Refusal {
                            errno: Errno::from_raw_os_error(code.get().abs()),
                            error: error_of(&error),
                        });
                        return Ok(refusal.map_or(Ok(None), Err));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Reads a whole table.
    ///
    /// # Errors
    /// The kernel refuses, or the connection fails.
    pub(crate) fn dump(
        &mut self,
        request: &Request,
    ) -> Result<Vec<RouteNetlinkMessage>, LiveError> {
        let asked = self.send(std::slice::from_ref(request), |_| NLM_F_DUMP)?;
        let mut rows = Vec::new();
        loop {
            for (sequence, payload) in self.receive()? {
                match payload {
                    _ if sequence != asked => {}
                    NetlinkPayload::InnerMessage(row) => rows.push(row),
                    NetlinkPayload::Done(_) => return Ok(rows),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(self.refusal(request, &error));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Sends requests and returns the sequence number of the first.
    fn send(
        &mut self,
        batch: &[Request],
        more_flags: impl Fn(usize) -> u16,
    ) -> Result<u32, LiveError> {
        let first = self.last_sequence + 1;
        let mut bytes = Vec::with_capacity(128 * batch.len());
        for (position, request) in batch.iter().enumerate() {
            self.last_sequence += 1;
            append(
                &mut bytes,
                request,
                self.last_sequence,
                more_flags(position),
            );
        }
        let doing = || format!("{}: sending netlink requests", self.owner);
        let sent = uninterrupted(|| self.socket.send(&bytes, 0));
        sent.map_err(|error| LiveError::while_(doing())(error))?;
        Ok(first)
    }

    fn receive(&mut self) -> Result<Vec<Incoming>, LiveError> {
        let doing = || format!("{}: reading netlink answers", self.owner);
        let length = uninterrupted(|| self.socket.recv(&mut &mut self.buffer[..], 0))
            .map_err(|error| LiveError::while_(doing())(error))?;
        parse(&self.buffer[..length])
            .map_err(|why| LiveError::while_(doing())(io::Error::other(why)))
    }

    fn refusal(&self, request: &Request, error: &ErrorMessage) -> LiveError {
        let doing = format!(
            "{}: {}",
            self.owner,
            describe(&request.message, &self.names)
        );
        LiveError::while_(doing)(error_of(error))
    }
}

/// Repeats a system call that a signal interrupted. Python's signal handlers do so.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

pub(crate) fn parse<I: NetlinkDeserializable>(
    mut bytes: &[u8],
) -> Result<Vec<(u32, NetlinkPayload<I>)>, String> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let length = NetlinkBuffer::new_checked(bytes)
            .map_err(|why| why.to_string())?
            .length() as usize;
        let message = NetlinkMessage::deserialize(bytes).map_err(|why| why.to_string())?;
        messages.push((message.header.sequence_number, message.payload));
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(messages)
}

/// Returns the error with the kernel's text, if it has one.
pub(crate) fn error_of(error: &ErrorMessage) -> io::Error {
    let plain = error.to_io();
    // After the code come the header of the request and then attributes.
    let attributes = error.header.get(16..).unwrap_or_default();
    let text = NlasIterator::new(attributes)
        .filter_map(Result::ok)
        .filter_map(|nla| DefaultNla::parse(&nla).ok())
        .find(|nla| nla.kind() == ERROR_TEXT)
        .map(|nla| {
            let mut text = vec![0; nla.value_len()];
            nla.emit_value(&mut text);
            String::from_utf8_lossy(&text)
                .trim_end_matches('\0')
                .to_owned()
        });
    match text {
        Some(text) if !text.is_empty() => io::Error::new(plain.kind(), format!("{plain}: {text}")),
        _ => plain,
    }
}
