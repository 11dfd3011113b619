//! Watches by rtnetlink which addresses of a namespace are usable: assigned, on a device that is
//! up.
//!
//! A device without carrier counts as up, as for the out-of-tree path manager. No host notices a
//! cut in the network.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::connection::{error_of, parse, uninterrupted};
use crate::LiveError;

/// `RTNLGRP_LINK`, `RTNLGRP_IPV4_IFADDR`, `RTNLGRP_IPV6_IFADDR`.
const GROUPS: [u32; 3] = [1, 5, 9];

/// The addresses of a namespace, kept up to date.
#[derive(Debug)]
pub(crate) struct AddressWatch {
    socket: Socket,
    devices_up: BTreeSet<u32>,
    addresses: BTreeMap<IpAddr, BTreeSet<u32>>,
}

impl AddressWatch {
    /// Watches the namespace of the calling thread.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn open() -> Result<Self, LiveError> {
        Self::begin().map_err(LiveError::while_("watching addresses"))
    }

    fn begin() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        let mut watch = Self {
            socket,
            devices_up: BTreeSet::new(),
            addresses: BTreeMap::new(),
        };
        watch.read_all()?;
        Ok(watch)
    }

    /// Reads all devices and addresses anew.
    fn read_all(&mut self) -> io::Result<()> {
        self.socket.set_non_blocking(false)?;
        self.devices_up.clear();
        self.addresses.clear();
        self.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        self.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        self.socket.set_non_blocking(true)
    }

    fn dump(&mut self, question: RouteNetlinkMessage) -> io::Result<()> {
        let mut message = NetlinkMessage::from(question);
        message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let kernel = SocketAddr::new(0, 0);
        uninterrupted(|| self.socket.send_to(&bytes, &kernel, 0))?;
        while !self.read_one()? {}
        Ok(())
    }

    /// Reads one datagram. Returns whether it ended a dump.
    fn read_one(&mut self) -> io::Result<bool> {
        let (bytes, _) = uninterrupted(|| self.socket.recv_from_full())?;
        let mut is_done = false;
        for (_, payload) in parse::<RouteNetlinkMessage>(&bytes).map_err(io::Error::other)? {
            match payload {
                NetlinkPayload::InnerMessage(message) => self.take(&message),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(error_of(&error));
                }
                NetlinkPayload::Done(_) => is_done = true,
                _ => {}
            }
        }
        Ok(is_done)
    }

    fn take(&mut self, message: &RouteNetlinkMessage) {
        match message {
            RouteNetlinkMessage::NewLink(link) if link.header.flags.contains(LinkFlags::Up) => {
                self.devices_up.insert(link.header.index);
            }
            RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) => {
                self.devices_up.remove(&link.header.index);
            }
            RouteNetlinkMessage::NewAddress(row) => {
                if let Some(address) = address_of(row) {
                    let devices = self.addresses.entry(address).or_default();
                    devices.insert(row.header.index);
                }
            }
            RouteNetlinkMessage::DelAddress(row) => {
                if let Some(devices) =
                    address_of(row).and_then(|address| self.addresses.get_mut(&address))
                {
                    devices.remove(&row.header.index);
                }
            }
            _ => {}
        }
    }

    /// Processes all messages that have arrived.
    ///
    /// # Errors
    /// The socket fails.
    pub(crate) fn update(&mut self) -> Result<(), LiveError> {
        loop {
            match self.read_one() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Messages were lost, so everything is read anew.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self
                    .read_all()
                    .map_err(LiveError::while_("reading addresses anew"))?,
                Err(error) => return Err(LiveError::while_("watching addresses")(error)),
            }
        }
    }

    /// Returns whether an address is usable.
    pub(crate) fn is_up(&self, address: IpAddr) -> bool {
        let devices = self.addresses.get(&address);
        devices.is_some_and(|devices| !devices.is_disjoint(&self.devices_up))
    }

    /// Returns the addresses of a device in ascending order, or none if it is down.
    pub(crate) fn addresses_of(&self, device: u32) -> impl Iterator<Item = IpAddr> {
        let is_up = self.devices_up.contains(&device);
        let all = self.addresses.iter();
        let here = all.filter(move |(_, devices)| is_up && devices.contains(&device));
        here.map(|(address, _)| *address)
    }
}

impl AsFd for AddressWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the host's own address; for a point-to-point device that is `Local`.
fn address_of(row: &AddressMessage) -> Option<IpAddr> {
    let attributes = row.attributes.iter();
    let local = attributes.clone().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let plain = attributes.clone().find_map(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    local.or(plain)
}
