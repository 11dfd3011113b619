//! The requests that this crate sends, in its own types.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use experiment::resolved::ChildKind;
use netlink_packet_core::{DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    BridgeStpState, InfoBridge, InfoData, InfoIpVlan, InfoKind, InfoMacVlan, InfoVeth, IpVlanMode,
    LinkAttribute, LinkFlags, LinkInfo, LinkMessage, MacVlanMode,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric,
    RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::network::first_hop::Shaping;

// Constants of include/uapi/linux/pkt_sched.h and rtnetlink.h.
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_STAB_BASE: u16 = 1;
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// A link-layer address.
pub(crate) type Mac = [u8; 6];

/// A request and its flags.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(super) flags: u16,
    pub(super) message: RouteNetlinkMessage,
}

impl Request {
    fn new(flags: u16, message: RouteNetlinkMessage) -> Self {
        Self { flags, message }
    }
}

pub(crate) fn family_of(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

// ---- links ----

/// Changes of a device. Attributes that are not set stay as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    message: LinkMessage,
}

impl Link {
    /// Starts a change of the device with this index.
    pub(crate) fn new(index: u32) -> Self {
        let mut message = LinkMessage::default();
        message.header.index = index;
        Self { message }
    }

    fn with(mut self, attribute: LinkAttribute) -> Self {
        self.message.attributes.push(attribute);
        self
    }

    pub(crate) fn mtu_bytes(self, mtu: u32) -> Self {
        self.with(LinkAttribute::Mtu(mtu))
    }

    pub(crate) fn queue_packets(self, length: u32) -> Self {
        self.with(LinkAttribute::TxQueueLen(length))
    }

    /// Sets how many TCP segments may leave as one packet, to be cut after the queueing discipline.
    pub(crate) fn joined_segments(self, most: u32) -> Self {
        self.with(LinkAttribute::GsoMaxSegs(most))
    }

    pub(crate) fn group(self, group: u32) -> Self {
        self.with(LinkAttribute::Group(group))
    }

    pub(crate) fn mac(self, mac: Mac) -> Self {
        self.with(LinkAttribute::Address(mac.to_vec()))
    }

    /// Makes it a port of a bridge.
    pub(crate) fn bridge(self, bridge: u32) -> Self {
        self.with(LinkAttribute::Controller(bridge))
    }

    pub(crate) fn up(mut self, up: bool) -> Self {
        self.message.header.change_mask = LinkFlags::Up;
        self.message.header.flags.set(LinkFlags::Up, up);
        self
    }

    pub(crate) fn request(self) -> Request {
        Request::new(0, RouteNetlinkMessage::SetLink(self.message))
    }
}

/// Adds a bridge that forwards from the start and runs no protocol of its own.
pub(crate) fn add_bridge(name: &str, mac: Mac) -> Request {
    let settings = vec![
        InfoBridge::StpState(BridgeStpState::Disabled),
        InfoBridge::MulticastSnooping(false),
    ];
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Address(mac.to_vec()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Bridge),
            LinkInfo::Data(InfoData::Bridge(settings)),
        ]),
    ];
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    Request::new(flags, RouteNetlinkMessage::NewLink(message))
}

/// The end of a virtual Ethernet pair that is in another namespace.
pub(crate) struct NearEnd<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: BorrowedFd<'a>,
    /// Its link-layer address; `None`: the kernel draws one.
    pub(crate) mac: Option<Mac>,
    /// Whether it uses ARP and Neighbour Discovery. Otherwise it addresses all its frames to
    /// itself.
    pub(crate) asks_for_neighbours: bool,
}

/// Adds a pair of virtual Ethernet devices: the far end here, the near end in its namespace.
pub(crate) fn add_veth(far_name: &str, near: &NearEnd<'_>) -> Request {
    let mut peer = LinkMessage::default();
    peer.header.change_mask = LinkFlags::Noarp;
    let no_arp = !near.asks_for_neighbours;
    peer.header.flags.set(LinkFlags::Noarp, no_arp);
    peer.attributes = vec![
        LinkAttribute::IfName(near.name.to_owned()),
        LinkAttribute::NetNsFd(near.namespace.as_raw_fd()),
    ];
    let mac = near.mac.map(|mac| LinkAttribute::Address(mac.to_vec()));
    peer.attributes.extend(mac);
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(far_name.to_owned()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]),
    ];
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    Request::new(flags, RouteNetlinkMessage::NewLink(message))
}

/// A child of a device, in another namespace than its parent.
pub(crate) struct NewChild<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: ChildKind,
    /// The index of its parent.
    pub(crate) parent: u32,
    pub(crate) namespace: BorrowedFd<'a>,
}

/// Adds a child of a device of this namespace. Children of one parent reach each other.
pub(crate) fn add_child(child: &NewChild<'_>) -> Request {
    let (kind, data) = match child.kind {
        ChildKind::Macvlan => (
            InfoKind::MacVlan,
            InfoData::MacVlan(vec![InfoMacVlan::Mode(MacVlanMode::Bridge)]),
        ),
        ChildKind::Ipvlan => (
            InfoKind::IpVlan,
            InfoData::IpVlan(vec![InfoIpVlan::Mode(IpVlanMode::L2)]),
        ),
    };
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(child.name.to_owned()),
        LinkAttribute::Link(child.parent),
        LinkAttribute::NetNsFd(child.namespace.as_raw_fd()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind), LinkInfo::Data(data)]),
    ];
    let flags = NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
    Request::new(flags, RouteNetlinkMessage::NewLink(message))
}

/// Asks for a device by its name.
pub(crate) fn get_link(name: &str) -> Request {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
    Request::new(0, RouteNetlinkMessage::GetLink(message))
}

/// Removes the queueing discipline before a device. A TUN device takes or drops packets at once.
pub(crate) fn remove_queueing(index: u32) -> Request {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message.header.parent = TcHandle::ROOT;
    message.attributes = vec![TcAttribute::Kind("noqueue".to_owned())];
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    Request::new(flags, RouteNetlinkMessage::NewQueueDiscipline(message))
}

/// Limits the rate at which packets leave a device, one after the other, by a token bucket
/// (tc-tbf(8)).
pub(crate) fn shape(index: u32, shaping: &Shaping) -> Request {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    message.header.parent = TcHandle::ROOT;
    let bytes_per_second = shaping.rate_bps / 8;
    let options = [
        (TCA_TBF_PARMS, token_bucket(shaping, bytes_per_second)),
        (TCA_TBF_RATE64, bytes_per_second.to_ne_bytes().to_vec()),
        (TCA_TBF_BURST, shaping.burst_bytes.to_ne_bytes().to_vec()),
    ];
    let options = options.map(|(kind, value)| TcOption::Other(DefaultNla::new(kind, value)));
    message.attributes = vec![
        TcAttribute::Kind("tbf".to_owned()),
        TcAttribute::Stab(size_table(shaping.overhead_bytes)),
        TcAttribute::Options(options.to_vec()),
    ];
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    Request::new(flags, RouteNetlinkMessage::NewQueueDiscipline(message))
}

/// Returns `struct tc_tbf_qopt`: a rate, no peak rate, and the bytes that may wait.
fn token_bucket(shaping: &Shaping, bytes_per_second: u64) -> Vec<u8> {
    // Above 4 GB/s the kernel uses the attribute of 64 bits.
    let rate = u32::try_from(bytes_per_second).unwrap_or(u32::MAX);
    let mut bytes = vec![0; 36];
    bytes[1] = TC_LINKLAYER_ETHERNET;
    bytes[8..12].copy_from_slice(&rate.to_ne_bytes());
    bytes[24..28].copy_from_slice(&shaping.limit_bytes.to_ne_bytes());
    bytes
}

/// Returns the attribute with `struct tc_sizespec`: the bytes counted in addition to those of a
/// packet.
fn size_table(overhead_bytes: i32) -> Vec<u8> {
    const LEN: usize = 28;
    let mut bytes = vec![0; LEN];
    bytes[..2].copy_from_slice(&(LEN as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&TCA_STAB_BASE.to_ne_bytes());
    bytes[8..12].copy_from_slice(&overhead_bytes.to_ne_bytes());
    bytes
}

/// Removes all devices of a group at once.
pub(crate) fn remove_group(group: u32) -> Request {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::Group(group)];
    Request::new(0, RouteNetlinkMessage::DelLink(message))
}

// ---- addresses ----

fn address_message(index: u32, address: IpAddr, prefix_length: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family_of(address);
    message.header.prefix_len = prefix_length;
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
    ];
    message
}

/// Adds an address to a device. It is usable at once, without detection of duplicates.
pub(crate) fn add_address(index: u32, address: IpAddr, prefix_length: u8) -> Request {
    let mut message = address_message(index, address, prefix_length);
    if address.is_ipv6() {
        message.header.flags = AddressHeaderFlags::Nodad;
        let flags = AddressFlags::Nodad;
        message.attributes.push(AddressAttribute::Flags(flags));
    }
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    Request::new(flags, RouteNetlinkMessage::NewAddress(message))
}

/// Removes an address from a device.
pub(crate) fn forget_address(index: u32, address: IpAddr, prefix_length: u8) -> Request {
    let message = address_message(index, address, prefix_length);
    Request::new(0, RouteNetlinkMessage::DelAddress(message))
}

// ---- neighbours ----

/// Sets permanently to which link-layer address frames for an address go.
pub(crate) fn set_neighbour(index: u32, address: IpAddr, mac: Mac) -> Request {
    let mut message = NeighbourMessage::default();
    message.header.family = family_of(address);
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::from(address)),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    Request::new(flags, RouteNetlinkMessage::NewNeighbour(message))
}

/// Sets permanently by which port a bridge reaches a link-layer address.
pub(crate) fn forward_frames_to(port: u32, mac: Mac) -> Request {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Bridge;
    message.header.ifindex = port;
    // NUD_NOARP: the entry does not age.
    message.header.state = NeighbourState::Noarp;
    message.header.flags = NeighbourFlags::Controller;
    message.attributes = vec![NeighbourAttribute::LinkLayerAddress(mac.to_vec())];
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    Request::new(flags, RouteNetlinkMessage::NewNeighbour(message))
}

// ---- routes and rules ----

/// The destination of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// One address.
    Address(IpAddr),
    /// All destinations of this family that no other route of the table has.
    AnyElse(AddressFamily),
}

/// The next hop of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    /// The device by which they leave.
    pub(crate) device: u32,
    /// The node that forwards them; `None` if the destination is on the device's link.
    pub(crate) gateway: Option<IpAddr>,
}

/// A route of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) destination: Destination,
    pub(crate) table: u32,
    /// `None`: the destination is unreachable.
    pub(crate) next_hop: Option<NextHop>,
    /// The source address for programs that bind none.
    pub(crate) source: Option<IpAddr>,
    /// Initial congestion window of connections by this route.
    pub(crate) initial_window_segments: Option<u32>,
}

impl Route {
    /// Returns the request that adds the route or replaces the one with the same destination.
    pub(crate) fn request(&self) -> Request {
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        Request::new(flags, RouteNetlinkMessage::NewRoute(self.message()))
    }

    fn message(&self) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header = self.header();
        let attributes = &mut message.attributes;
        attributes.push(RouteAttribute::Table(self.table));
        if let Destination::Address(address) = self.destination {
            attributes.push(RouteAttribute::Destination(address.into()));
        }
        if let Some(next_hop) = self.next_hop {
            attributes.push(RouteAttribute::Oif(next_hop.device));
            let gateway = next_hop.gateway.map(RouteAddress::from);
            attributes.extend(gateway.map(RouteAttribute::Gateway));
        }
        let source = self.source.map(RouteAddress::from);
        attributes.extend(source.map(RouteAttribute::PrefSource));
        if let Some(segments) = self.initial_window_segments {
            let metrics = vec![RouteMetric::InitCwnd(segments)];
            attributes.push(RouteAttribute::Metrics(metrics));
        }
        message
    }

    fn header(&self) -> RouteHeader {
        let mut header = RouteHeader {
            protocol: RouteProtocol::Static,
            // Numbers above 255 fit only into the attribute.
            table: u8::try_from(self.table).unwrap_or(0),
            ..RouteHeader::default()
        };
        (header.address_family, header.destination_prefix_length) = match self.destination {
            Destination::Address(address) => (family_of(address), bits(address)),
            Destination::AnyElse(family) => (family, 0),
        };
        (header.kind, header.scope) = match self.next_hop {
            None => (RouteType::Unreachable, RouteScope::Universe),
            Some(NextHop { gateway: None, .. }) => (RouteType::Unicast, RouteScope::Link),
            Some(_) => (RouteType::Unicast, RouteScope::Universe),
        };
        if self
            .next_hop
            .is_some_and(|next_hop| next_hop.gateway.is_some())
        {
            // Whatever the other tables say, the gateway is on the link.
            header.flags = RouteFlags::Onlink;
        }
        header
    }
}

/// A rule that selects the table by which packets with a source address are routed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) source: IpAddr,
    pub(crate) table: u32,
    pub(crate) priority: u32,
}

impl Rule {
    /// Returns the request that adds the rule.
    pub(crate) fn request(&self) -> Request {
        let mut message = RuleMessage::default();
        message.header.family = family_of(self.source);
        message.header.src_len = bits(self.source);
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::Source(self.source),
            RuleAttribute::Table(self.table),
            RuleAttribute::Priority(self.priority),
            RuleAttribute::Protocol(RouteProtocol::Static),
        ];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        Request::new(flags, RouteNetlinkMessage::NewRule(message))
    }
}

/// Looks up the route of a packet from `source` to `destination` that starts here or, with
/// `arrived_by`, arrived by that device.
pub(crate) fn look_up(source: IpAddr, destination: IpAddr, arrived_by: Option<u32>) -> Request {
    let mut message = RouteMessage::default();
    message.header.address_family = family_of(source);
    message.header.source_prefix_length = bits(source);
    message.header.destination_prefix_length = bits(destination);
    // For IPv6 the kernel refuses `LookupTable`, but returns the table anyway.
    message.header.flags = match source {
        IpAddr::V4(_) => RouteFlags::LookupTable | RouteFlags::FibMatch,
        IpAddr::V6(_) => RouteFlags::FibMatch,
    };
    message.attributes = vec![
        RouteAttribute::Destination(destination.into()),
        RouteAttribute::Source(source.into()),
    ];
    message
        .attributes
        .extend(arrived_by.map(RouteAttribute::Iif));
    Request::new(0, RouteNetlinkMessage::GetRoute(message))
}

/// Requests all routes of a family.
pub(crate) fn dump_routes(family: AddressFamily) -> Request {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    Request::new(0, RouteNetlinkMessage::GetRoute(message))
}

/// Requests all rules of a family.
pub(crate) fn dump_rules(family: AddressFamily) -> Request {
    let mut message = RuleMessage::default();
    message.header.family = family;
    Request::new(0, RouteNetlinkMessage::GetRule(message))
}
