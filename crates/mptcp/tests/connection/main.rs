//! Two endpoints over paths in virtual time: what users and peers see of a connection.

#[path = "../world/mod.rs"]
mod world;

mod aborts;
mod random_worlds;
mod transfer;
