//! A connection as applications see it, whoever's stack carries it.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};

/// One end of a connection. No call waits: what cannot be done now is `WouldBlock`.
pub(crate) trait ByteStream {
    /// Hands over the first of these bytes; how many were taken.
    ///
    /// # Errors
    /// None were, or the connection broke.
    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Takes bytes that have arrived in order; how many, and 0 after the last one.
    ///
    /// # Errors
    /// There are none yet, or the connection broke.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Nothing more will be sent.
    ///
    /// # Errors
    /// The connection broke.
    fn shut_down(&mut self) -> io::Result<()>;
}

/// The kernel's.
impl<S: AsFd> ByteStream for S {
    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        Ok(sendmsg(&*self, parts, &mut nothing, SendFlags::NOSIGNAL)?)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (_, count) = recv(&*self, buffer, RecvFlags::empty())?;
        Ok(count)
    }

    fn shut_down(&mut self) -> io::Result<()> {
        Ok(shutdown(&*self, Shutdown::Write)?)
    }
}

/// What a call that does not wait brought.
pub(super) enum Progress<T> {
    Done(T),
    MustWait,
}

/// Tells "not now" from failures. An interrupted call is repeated at the next turn.
pub(super) fn progress<T>(result: io::Result<T>) -> io::Result<Progress<T>> {
    match result {
        Ok(value) => Ok(Progress::Done(value)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Progress::MustWait),
            _ => Err(error),
        },
    }
}
