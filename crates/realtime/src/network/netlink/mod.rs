//! Requests to the kernel's network tables: links, addresses, neighbours, routes and rules of one
//! namespace (rtnetlink(7)).
//!
//! Many requests go in one send, because a system call for each would make set-up slow. Answers are
//! matched by their sequence numbers.

mod address_watch;
mod connection;
mod request;
mod text;

pub(crate) use address_watch::AddressWatch;
pub(crate) use connection::{Connection, Prepared, error_of, parse, uninterrupted};
pub(crate) use request::{
    Destination, Link, Mac, NearEnd, NewChild, NextHop, Request, Route, Rule, add_address,
    add_bridge, add_child, add_veth, dump_routes, dump_rules, family_of, forget_address,
    forward_frames_to, get_link, look_up, remove_group, remove_queueing, set_neighbour, shape,
};
pub(crate) use text::{RouteRow, route_text, rule_text};
