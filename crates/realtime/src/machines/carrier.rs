//! Carries packets between the devices of a machine's hosts and the emulator elsewhere.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use crate::network::device::Tunnel;
use crate::{Device, LiveError, sys};

/// Devices and tunnels that are handled in one pass.
const EVENTS_PER_PASS: usize = 64;
/// Packets read from one before the others get their turn.
const PACKETS_PER_TURN: usize = 64;
/// The largest packet with its headers.
const LARGEST_READ_BYTES: usize = (1 << 16) + 64;
/// Identifies the descriptor that ends the thread among those of the cables.
const STOP: u64 = u64::MAX;

/// A device, and the tunnel to its end at the emulator.
struct Cable {
    device: Device,
    tunnel: Arc<Tunnel>,
}

/// The thread that carries packets. It ends when this is dropped.
pub(super) struct Carrier {
    thread: Option<JoinHandle<()>>,
    stop: OwnedFd,
    tunnels: Vec<Arc<Tunnel>>,
}

impl Carrier {
    /// Starts to carry packets.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn start(cables: Vec<(Device, Tunnel)>) -> Result<Self, LiveError> {
        let cables = cables.into_iter().map(|(device, tunnel)| Cable {
            device,
            tunnel: Arc::new(tunnel),
        });
        let cables: Vec<_> = cables.collect();
        let tunnels = cables.iter().map(|cable| Arc::clone(&cable.tunnel));
        let tunnels = tunnels.collect();
        let made = || {
            // Only whole packets fit into the tunnel.
            for cable in &cables {
                cable.device.set_super_packets(false)?;
            }
            let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let epoll = watch(&cables, &stop)?;
            Ok((stop, epoll))
        };
        let (stop, epoll) =
            made().map_err(LiveError::while_::<io::Error>("watching the devices"))?;
        let thread = thread::Builder::new().name("carrier".to_owned());
        let thread = thread.spawn(move || {
            // Without the privilege the thread has ordinary priority.
            let _ = sys::run_before_ordinary_threads();
            carry(&epoll, &cables);
        });
        Ok(Self {
            thread: Some(thread.map_err(LiveError::while_("starting the thread for packets"))?),
            stop,
            tunnels,
        })
    }

    /// Returns the numbers of packets that did not arrive here, and of all that were sent.
    pub(super) fn losses(&self) -> (u64, u64) {
        let each = self.tunnels.iter().map(|tunnel| tunnel.losses());
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // Fails only if the thread has been told already.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // There is no caller left to tell of a panic.
            let _ = thread.join();
        }
    }
}

/// Watches the device of cable k under the number 2 k, and its tunnel under 2 k + 1.
fn watch(cables: &[Cable], stop: &OwnedFd) -> Result<OwnedFd, Errno> {
    let watched = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let named = epoll::EventData::new_u64;
    epoll::add(&watched, stop, named(STOP), epoll::EventFlags::IN)?;
    for (index, cable) in cables.iter().enumerate() {
        let number = 2 * index as u64;
        epoll::add(
            &watched,
            &cable.device,
            named(number),
            epoll::EventFlags::IN,
        )?;
        epoll::add(
            &watched,
            &cable.tunnel,
            named(number + 1),
            epoll::EventFlags::IN,
        )?;
    }
    Ok(watched)
}

/// Carries packets until it is stopped. A device or tunnel that fails is noticed by the end of the
/// run at the latest, because its packets are missing.
fn carry(epoll: &OwnedFd, cables: &[Cable]) {
    let mut events = Vec::with_capacity(EVENTS_PER_PASS);
    let mut buffer = vec![0; LARGEST_READ_BYTES];
    loop {
        events.clear();
        match epoll::wait(epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        for event in &events {
            match event.data.u64() {
                STOP => return,
                number => cables[number as usize / 2].carry(number % 2 == 1, &mut buffer),
            }
        }
    }
}

impl Cable {
    /// Carries the packets that have arrived, up to a limit.
    fn carry(&self, from_tunnel: bool, buffer: &mut [u8]) {
        for _ in 0..PACKETS_PER_TURN {
            let read = match from_tunnel {
                true => self.tunnel.read(buffer),
                false => self.device.read(buffer),
            };
            let bytes = match read {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            // A device that is down takes nothing, as described.
            let _ = match from_tunnel {
                true => self.device.write(&buffer[..bytes]),
                false => self.tunnel.write(&buffer[..bytes]),
            };
        }
    }
}
