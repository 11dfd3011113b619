//! A connection as applications see it, whichever stack carries it.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};

/// One end of a connection. Calls never block; they return `WouldBlock` instead.
pub(crate) trait ByteStream {
    /// Sends the first of these bytes. Returns how many were taken.
    ///
    /// # Errors
    /// No byte was taken, or the connection broke.
    fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Reads bytes that have arrived in order. Returns how many, and 0 after the last one.
    ///
    /// # Errors
    /// No bytes have arrived yet, or the connection broke.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Ends the data of this direction.
    ///
    /// # Errors
    /// The connection broke.
    fn shut_down(&mut self) -> io::Result<()>;
}

/// A socket of the kernel.
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

/// The outcome of a call that does not block.
pub(super) enum Progress<T> {
    Done(T),
    MustWait,
}

/// Separates `WouldBlock` from failures. An interrupted call is repeated at the next turn.
pub(super) fn progress<T>(result: io::Result<T>) -> io::Result<Progress<T>> {
    match result {
        Ok(value) => Ok(Progress::Done(value)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Progress::MustWait),
            _ => Err(error),
        },
    }
}
