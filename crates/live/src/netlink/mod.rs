//! Talking to the kernel's network tables: links, addresses, neighbours, routes and rules of one namespace (rtnetlink(7)).
//!
//! A call into the kernel per request is what makes set-up slow; here many requests go in one send, and answers are matched by their sequence numbers.

mod address_watch;
mod connection;
mod request;
mod text;

pub(crate) use address_watch::AddressWatch;
pub(crate) use connection::{Connection, error_of, parse, uninterrupted};
pub(crate) use request::{
    Destination, Link, Mac, NearEnd, NextHop, Request, Route, Rule, add_address, add_bridge,
    add_veth, dump_routes, dump_rules, family_of, forget_address, forward_frames_to, look_up,
    remove_group, remove_queueing, set_neighbour, shape,
};
pub(crate) use text::{RouteRow, route_text, rule_text};
