//! Rows of the kernel's tables as text in the form of ip(8).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteScope,
    RouteType,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};

/// The names of devices by their indices.
#[derive(Debug, Default)]
pub(crate) struct DeviceNames(BTreeMap<u32, String>);

impl DeviceNames {
    pub(super) fn add(&mut self, index: u32, name: &str) {
        self.0.insert(index, name.to_owned());
    }

    /// Returns the name, or the index if the name is unknown.
    pub(crate) fn of(&self, index: u32) -> String {
        match self.0.get(&index) {
            Some(name) => name.clone(),
            None => format!("device {index}"),
        }
    }
}

/// Describes a request for an error.
pub(super) fn describe(message: &RouteNetlinkMessage, names: &DeviceNames) -> String {
    use RouteNetlinkMessage as Message;
    match message {
        Message::NewLink(link) | Message::SetLink(link) => {
            format!("setting up {}", link_text(link, names))
        }
        Message::DelLink(link) => format!("removing {}", link_text(link, names)),
        Message::NewAddress(row) => format!("adding {}", address_text(row, names)),
        Message::DelAddress(row) => format!("removing {}", address_text(row, names)),
        Message::NewNeighbour(row) => format!("adding {}", neighbour_text(row, names)),
        Message::NewRoute(row) => format!("adding route {}", route_text(row, names)),
        Message::GetRoute(row) => format!("looking up route {}", route_text(row, names)),
        Message::NewRule(row) => format!("adding rule {}", rule_text(row)),
        Message::GetRule(_) => "listing rules".to_owned(),
        Message::NewQueueDiscipline(row) => {
            let device = names.of(row.header.index as u32);
            format!("removing the queueing discipline of {device}")
        }
        other => format!("{other:?}"),
    }
}

fn link_text(link: &LinkMessage, names: &DeviceNames) -> String {
    let mut text = match link.header.index {
        0 => "link".to_owned(),
        index => format!("link {}", names.of(index)),
    };
    for attribute in &link.attributes {
        let _ = match attribute {
            LinkAttribute::IfName(name) => write!(text, " {name}"),
            LinkAttribute::Mtu(bytes) => write!(text, " mtu {bytes}"),
            LinkAttribute::TxQueueLen(length) => write!(text, " txqueuelen {length}"),
            LinkAttribute::Group(group) => write!(text, " group {group}"),
            LinkAttribute::Controller(bridge) => write!(text, " master {}", names.of(*bridge)),
            LinkAttribute::Address(mac) => write!(text, " address {}", mac_text(mac)),
            _ => Ok(()),
        };
    }
    if link.header.change_mask.contains(LinkFlags::Up) {
        let up = link.header.flags.contains(LinkFlags::Up);
        text += if up { " up" } else { " down" };
    }
    text
}

fn address_text(row: &AddressMessage, names: &DeviceNames) -> String {
    let local = row.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(address.to_string()),
        _ => None,
    });
    let (local, length) = (local.unwrap_or_default(), row.header.prefix_len);
    format!(
        "address {local}/{length} dev {}",
        names.of(row.header.index)
    )
}

fn neighbour_text(row: &NeighbourMessage, names: &DeviceNames) -> String {
    let mut text = "neighbour".to_owned();
    for attribute in &row.attributes {
        let _ = match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => {
                write!(text, " {address}")
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => {
                write!(text, " {address}")
            }
            NeighbourAttribute::LinkLayerAddress(mac) => write!(text, " lladdr {}", mac_text(mac)),
            _ => Ok(()),
        };
    }
    format!("{text} dev {}", names.of(row.header.ifindex))
}

fn mac_text(mac: &[u8]) -> String {
    let bytes: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

/// Formats a rule as `ip rule` does.
pub(crate) fn rule_text(row: &RuleMessage) -> String {
    let mut priority = 0;
    let mut source = "all".to_owned();
    let mut table = u32::from(row.header.table);
    for attribute in &row.attributes {
        match attribute {
            RuleAttribute::Priority(value) => priority = *value,
            RuleAttribute::Source(address) => source = address.to_string(),
            RuleAttribute::Table(value) => table = *value,
            _ => {}
        }
    }
    format!("{priority}: from {source} lookup {}", table_text(table))
}

fn table_text(table: u32) -> String {
    match table {
        253 => "default".to_owned(),
        254 => "main".to_owned(),
        255 => "local".to_owned(),
        _ => table.to_string(),
    }
}

/// A route in the types of this crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteRow {
    pub(crate) destination: Option<IpAddr>,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) device: Option<u32>,
    pub(crate) table: u32,
    source: Option<IpAddr>,
    from: Option<IpAddr>,
    arrived_by: Option<u32>,
    initial_window_segments: Option<u32>,
}

impl RouteRow {
    /// Takes the attributes that this crate uses.
    pub(crate) fn new(row: &RouteMessage) -> Self {
        let mut found = Self {
            table: u32::from(row.header.table),
            ..Self::default()
        };
        for attribute in &row.attributes {
            match attribute {
                RouteAttribute::Destination(address) => found.destination = ip(address),
                RouteAttribute::Gateway(address) => found.gateway = ip(address),
                RouteAttribute::PrefSource(address) => found.source = ip(address),
                RouteAttribute::Source(address) => found.from = ip(address),
                RouteAttribute::Oif(index) => found.device = Some(*index),
                RouteAttribute::Iif(index) => found.arrived_by = Some(*index),
                RouteAttribute::Table(table) => found.table = *table,
                RouteAttribute::Metrics(metrics) => {
                    found.initial_window_segments =
                        metrics.iter().find_map(|metric| match metric {
                            RouteMetric::InitCwnd(segments) => Some(*segments),
                            _ => None,
                        });
                }
                _ => {}
            }
        }
        found
    }

    /// Returns whether it is a route for IPv6 multicast, which the kernel adds for every device.
    pub(crate) fn is_multicast(&self) -> bool {
        self.destination
            .is_some_and(|address| address.is_multicast())
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

/// Formats a route as `ip route show table all` does.
pub(crate) fn route_text(row: &RouteMessage, names: &DeviceNames) -> String {
    let found = RouteRow::new(row);
    let mut text = match row.header.kind {
        RouteType::Unreachable => "unreachable ".to_owned(),
        _ => String::new(),
    };
    text += &destination_text(&row.header, found.destination);
    let mut add = |word: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(text, " {word} {value}");
        }
    };
    add("from", found.from.map(|address| address.to_string()));
    add("iif", found.arrived_by.map(|index| names.of(index)));
    add("via", found.gateway.map(|address| address.to_string()));
    // The kernel shows an unreachable destination as a route by the loopback device.
    let device = found
        .device
        .filter(|_| row.header.kind != RouteType::Unreachable);
    add("dev", device.map(|index| names.of(index)));
    let table = (found.table != 0).then(|| table_text(found.table));
    add("table", table);
    let is_link = row.header.scope == RouteScope::Link && found.device.is_some();
    add("scope", is_link.then(|| "link".to_owned()));
    add("src", found.source.map(|address| address.to_string()));
    let window = found.initial_window_segments;
    add("initcwnd", window.map(|segments| segments.to_string()));
    if row.header.flags.contains(RouteFlags::Onlink) {
        text += " onlink";
    }
    text
}

fn destination_text(header: &RouteHeader, destination: Option<IpAddr>) -> String {
    match (destination, header.destination_prefix_length) {
        (None, _) => "default".to_owned(),
        (Some(address), 32) if address.is_ipv4() => address.to_string(),
        (Some(address), 128) => address.to_string(),
        (Some(address), length) => format!("{address}/{length}"),
    }
}
