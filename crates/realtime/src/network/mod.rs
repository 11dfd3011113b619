//! The network of a run: namespaces with their devices, hosts, addresses and routes, set up by
//! netlink.

pub mod device;
pub mod first_hop;
pub mod hosts;
pub mod namespace;
pub mod netlink;
pub mod offload;
pub mod user_namespace;
