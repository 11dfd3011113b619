//! Two endpoints over paths in virtual time: what users and peers see of a connection.

#[path = "../world/mod.rs"]
mod world;

mod addresses;
mod aggregation;
mod application;
mod closing;
mod failing_paths;
mod fallback;
mod handshakes;
mod hostile_peers;
mod icmp;
mod joins;
mod middleboxes;
mod random_worlds;
mod reinjection;
mod starts;
mod syn_floods;
mod throughput_grid;
mod version_0;
mod windows;
mod wraps;
