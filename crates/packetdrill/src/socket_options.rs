//! Socket options that the engine supports.

use std::sync::Arc;

use libc::{EBADF, EDOM, EINVAL, ENOPROTOOPT, ENOTCONN, EOPNOTSUPP};
use mptcp::cc;
use mptcp::connection::{Buffer, Connection, Mode};
use mptcp::time::{Nanos, SECOND};

use crate::host::{Errno, Host, Socket, State, Stream, Waiting, error_of};
use crate::tcp_info;

/// Defined since Linux 5.16.
const TCP_IS_MPTCP: i32 = 43;

impl Host {
    /// Returns the value of an option.
    pub fn option(&mut self, descriptor: i32, level: i32, name: i32) -> Result<Vec<u8>, Errno> {
        let number = |value: i32| Ok(value.to_ne_bytes().to_vec());
        let socket = self.sockets.get(&descriptor).ok_or(EBADF)?;
        let id = match &socket.state {
            State::Connected(stream) => Some(stream.id),
            _ => None,
        };
        let connection = id.and_then(|id| self.driver.endpoint.connection(id));
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let closed = connection.and_then(Connection::closed);
                number(closed.map_or(0, error_of))
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                let subflow = connection.and_then(|it| it.subflows().next());
                subflow.map(|it| tcp_info::of(&it).to_vec()).ok_or(ENOTCONN)
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                let subflow = connection.and_then(|it| it.subflows().next());
                let mss = u32::from(socket.mss_bytes(socket.is_ipv4()));
                number(subflow.map_or(mss, |it| it.window.mss_bytes) as i32)
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                number(i32::from(!socket.config.subflow.nagle))
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                Ok(socket.congestion_control.clone().into_bytes())
            }
            (libc::IPPROTO_TCP, TCP_IS_MPTCP) => {
                let mode = connection.map(|it| it.mode());
                number(i32::from(mode == Some(Mode::Multipath)))
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => told_bytes(&socket.config.send_buffer),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => told_bytes(&socket.config.receive_buffer),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
                number(i32::from(socket.config.subflow.keepalive.is_some()))
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                number((socket.keepalive.idle / SECOND) as i32)
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => {
                number((socket.keepalive.interval / SECOND) as i32)
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => number(socket.keepalive.probes as i32),
            _ if socket.config.is_multipath => Err(EOPNOTSUPP),
            _ => Err(ENOPROTOOPT),
        }
    }

    /// Sets an option. Parameters of the engine cannot change once there is a connection.
    pub fn set_option(
        &mut self,
        descriptor: i32,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        let socket = self.of(descriptor)?;
        let number = value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
        match (level, name) {
            // A socket may bind to any address and to a port in use, regardless of these options.
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) | (libc::IPPROTO_IP, libc::IP_FREEBIND) => {
                Ok(())
            }
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => {
                socket.patience[Waiting::ToRead as usize] = duration(value)?;
                Ok(())
            }
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => {
                socket.patience[Waiting::ToWrite as usize] = duration(value)?;
                Ok(())
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = value.get(4..).and_then(<[u8]>::first_chunk);
                let seconds = seconds.map(|bytes| i32::from_ne_bytes(*bytes));
                socket.aborts = number.is_some_and(|on| on != 0) && seconds == Some(0);
                Ok(())
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let name = String::from_utf8_lossy(value)
                    .trim_end_matches('\0')
                    .to_owned();
                socket.must_be_fresh()?;
                cc::by_name(&name).ok_or(libc::ENOENT)?;
                socket.congestion_control = name;
                Ok(())
            }
            _ => self.set_number(descriptor, level, name, number.ok_or(EINVAL)?),
        }
    }

    /// Sets a numeric option: on a connection one that can change while it runs, otherwise a
    /// parameter of the socket.
    fn set_number(
        &mut self,
        descriptor: i32,
        level: i32,
        name: i32,
        value: i32,
    ) -> Result<(), Errno> {
        let socket = self.of(descriptor)?;
        let State::Connected(Stream { id, .. }) = socket.state else {
            return socket.set_parameter(level, name, value);
        };
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                let bytes = u64::from(value.unsigned_abs());
                socket.config.send_buffer = Buffer::Fixed(bytes);
                self.driver
                    .endpoint
                    .command(id, |connection| connection.set_send_buffer(bytes))
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self
                .driver
                .endpoint
                .command(id, |connection| connection.set_nagle(value == 0)),
            _ => return Err(ENOPROTOOPT),
        };
        self.settle();
        Ok(())
    }
}

impl Socket {
    fn must_be_fresh(&self) -> Result<(), Errno> {
        match self.state {
            State::Fresh => Ok(()),
            _ => Err(ENOPROTOOPT),
        }
    }

    fn set_parameter(&mut self, level: i32, name: i32, value: i32) -> Result<(), Errno> {
        let is_listening_mss = matches!(self.state, State::Listening)
            && (level, name) == (libc::IPPROTO_TCP, libc::TCP_MAXSEG);
        if !is_listening_mss {
            self.must_be_fresh()?;
        }
        let bytes = u64::from(value.unsigned_abs());
        let subflow = Arc::make_mut(&mut self.config.subflow);
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                self.config.receive_buffer = Buffer::Fixed(bytes)
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => self.config.send_buffer = Buffer::Fixed(bytes),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => subflow.nagle = value == 0,
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                let asked = u16::try_from(value).map_err(|_| EINVAL)?;
                self.max_segment_bytes = Some(asked);
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
                subflow.keepalive = (value != 0).then_some(self.keepalive);
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => self.keepalive.idle = seconds(value)?,
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => self.keepalive.interval = seconds(value)?,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => {
                self.keepalive.probes = u32::try_from(value).map_err(|_| EINVAL)?;
            }
            (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => {
                subflow.syn_retries.count = u32::try_from(value).map_err(|_| EINVAL)?;
            }
            _ => return Err(ENOPROTOOPT),
        }
        if subflow.keepalive.is_some() {
            subflow.keepalive = Some(self.keepalive);
        }
        Ok(())
    }
}

/// Returns the size of a buffer as Linux reports it: doubled, for the memory beside the payload. A
/// buffer that grows has no fixed size.
fn told_bytes(buffer: &Buffer) -> Result<Vec<u8>, Errno> {
    let Buffer::Fixed(bytes) = buffer else {
        return Err(ENOPROTOOPT);
    };
    let told = i32::try_from(2 * bytes).unwrap_or(i32::MAX);
    Ok(told.to_ne_bytes().to_vec())
}

fn seconds(value: i32) -> Result<Nanos, Errno> {
    let value = u64::try_from(value).ok().filter(|value| *value > 0);
    value.map(|value| value * SECOND).ok_or(EINVAL)
}

/// Parses a `struct timeval`. Zero means no timeout.
fn duration(value: &[u8]) -> Result<Option<Nanos>, Errno> {
    let field = |at: usize| {
        let bytes = value.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| i64::from_ne_bytes(*bytes)).ok_or(EINVAL)
    };
    let [seconds, micros] = [field(0)?, field(8)?].map(u64::try_from);
    let (seconds, micros) = (seconds.map_err(|_| EDOM)?, micros.map_err(|_| EDOM)?);
    let duration = seconds * SECOND + micros * 1000;
    Ok((duration > 0).then_some(duration))
}
