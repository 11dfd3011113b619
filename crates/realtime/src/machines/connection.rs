//! A connection to the agent on another machine: requests and answers as lines.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, UdpSocket};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::request::Request;
use crate::LiveError;
use crate::network::device::{Key, Tunnel};

/// The time without a line after which the agent counts as lost. It sends one each second.
const SILENCE: Duration = Duration::from_secs(10);
/// The interval of the lines that tell the agent that this machine is alive.
const BEAT: Duration = Duration::from_secs(1);

/// A machine to which the caller has opened a connection, as a stream of lines.
#[derive(Debug)]
pub struct MachineConnection {
    /// Its name in the experiment.
    pub id: String,
    /// How packets for its hosts reach it.
    pub reach: Reach,
    /// The standard input and output of the agent.
    pub stream: UnixStream,
}

/// How packets for the hosts of a machine reach it.
#[derive(Debug)]
pub enum Reach {
    /// As UDP datagrams to this address.
    Address(IpAddr),
    /// As frames of its network devices, each of which is connected with one of these sockets.
    Devices(Vec<UdpSocket>),
}

impl MachineConnection {
    /// Duplicates the descriptors of the stream, and of the sockets for its network devices if it has
    /// no address.
    ///
    /// # Errors
    /// This process has no such descriptor.
    pub fn duplicate(
        id: String,
        stream: RawFd,
        address: Option<IpAddr>,
        devices: &[RawFd],
    ) -> Result<Self, LiveError> {
        let duplicated = |descriptor: RawFd| {
            let this_process = pidfd_open(getpid(), PidfdFlags::empty())?;
            pidfd_getfd(&this_process, descriptor, PidfdGetfdFlags::empty())
        };
        let duplicated = |descriptor: RawFd| {
            let doing = format!("machines.{id}: duplicating descriptor {descriptor}");
            duplicated(descriptor).map_err(LiveError::while_(doing))
        };
        let reach = match address {
            Some(address) => Reach::Address(address),
            None => {
                let devices = devices
                    .iter()
                    .map(|&one| duplicated(one).map(UdpSocket::from));
                Reach::Devices(devices.collect::<Result<_, _>>()?)
            }
        };
        let stream = duplicated(stream)?.into();
        Ok(Self { id, reach, stream })
    }
}

impl Reach {
    /// Returns the address, if there is one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Devices(_) => None,
        }
    }

    /// Opens the tunnel to a port, or to the network device of this number.
    pub(super) fn tunnel(&self, number: u16, key: Key) -> Result<Tunnel, LiveError> {
        match self {
            Self::Address(address) => {
                let to = SocketAddr::new(*address, number);
                let doing = format!("opening a UDP socket to {to}");
                Tunnel::connected(to, key).map_err(LiveError::while_(doing))
            }
            Self::Devices(sockets) => {
                let doing = format!("opening the tunnel to network device {number}");
                let socket = sockets.get(usize::from(number));
                let socket = socket.ok_or_else(|| io::ErrorKind::NotFound.into());
                let opened = socket
                    .and_then(UdpSocket::try_clone)
                    .and_then(|socket| Tunnel::to_device(socket, key));
                opened.map_err(LiveError::while_(doing))
            }
        }
    }
}

/// The requests to one agent. The agent ends when this is dropped.
pub(super) struct Conversation {
    id: String,
    output: Arc<Mutex<UnixStream>>,
    lines: Receiver<io::Result<String>>,
    /// When the last line was read.
    last_line: Cell<Instant>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Ok(T),
    Error(String),
    Lost(String),
}

impl Conversation {
    /// Starts threads that read the lines and send those that are due each second.
    pub(super) fn start(id: &str, stream: UnixStream) -> io::Result<Self> {
        let input = BufReader::new(stream.try_clone()?);
        let output = Arc::new(Mutex::new(stream));
        let (arriving, lines) = channel();
        thread::Builder::new()
            .name("machine".to_owned())
            .spawn(move || {
                for line in input.lines() {
                    if arriving.send(line).is_err() {
                        break;
                    }
                }
            })?;
        let beating = Arc::downgrade(&output);
        thread::Builder::new()
            .name("machine".to_owned())
            .spawn(move || {
                while let Some(output) = beating.upgrade() {
                    if write_line(&output, "").is_err() {
                        break;
                    }
                    drop(output);
                    thread::sleep(BEAT);
                }
            })?;
        Ok(Self {
            id: id.to_owned(),
            output,
            lines,
            last_line: Cell::new(Instant::now()),
        })
    }

    /// Sends a request. Its answer is to be received before the next one.
    pub(super) fn send(&self, request: &Request) -> Result<(), LiveError> {
        let line = serde_json::to_string(request).map_err(|error| self.failed(error))?;
        // A closed connection has told why, or does so when it is read.
        let _ = write_line(&self.output, &line);
        Ok(())
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// The agent could not do it, or is lost.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> Result<T, LiveError> {
        loop {
            match self.lines.recv_timeout(SILENCE) {
                Ok(line) => {
                    if let Some(answer) = self.answer(line)? {
                        return Ok(answer);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(self.silent()),
                Err(RecvTimeoutError::Disconnected) => return Err(self.failed(GONE)),
            }
        }
    }

    /// Returns the answer if it has arrived.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub(super) fn try_receive<T: DeserializeOwned>(&self) -> Result<Option<T>, LiveError> {
        loop {
            match self.lines.try_recv() {
                Ok(line) => {
                    if let Some(answer) = self.answer(line)? {
                        return Ok(Some(answer));
                    }
                }
                Err(TryRecvError::Empty) if self.last_line.get().elapsed() > SILENCE => {
                    return Err(self.silent());
                }
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => return Err(self.failed(GONE)),
            }
        }
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub(super) fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, LiveError> {
        self.send(request)?;
        self.receive()
    }

    /// Returns the answer in a line; `None` if it is empty.
    fn answer<T: DeserializeOwned>(
        &self,
        line: io::Result<String>,
    ) -> Result<Option<T>, LiveError> {
        let line = line.map_err(|error| self.failed(error))?;
        self.last_line.set(Instant::now());
        if line.trim().is_empty() {
            return Ok(None);
        }
        match serde_json::from_str(&line) {
            Ok(Answer::Ok(answer)) => Ok(Some(answer)),
            Ok(Answer::Error(why) | Answer::Lost(why)) => Err(self.failed(why)),
            Err(error) => Err(self.failed(format!("not an answer of an agent: {error}"))),
        }
    }

    fn silent(&self) -> LiveError {
        self.failed(format!("no answer in {} s", SILENCE.as_secs()))
    }

    /// Returns an error of this machine.
    pub(super) fn failed(&self, why: impl ToString) -> LiveError {
        LiveError::Failed(format!("machines.{}: {}", self.id, why.to_string()))
    }
}

/// Why there is no answer if the connection does not tell.
const GONE: &str = "the connection to its agent ended";

impl Drop for Conversation {
    fn drop(&mut self) {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        // The threads hold further descriptors. An error means that it is closed already.
        let _ = output.shutdown(Shutdown::Both);
    }
}

fn write_line(output: &Mutex<UnixStream>, line: &str) -> io::Result<()> {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(format!("{line}\n").as_bytes())
}
