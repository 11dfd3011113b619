//! Congestion controls as the engine drives them: what holds whatever happens, where they settle, and how they get
//! there.

mod connection;
mod dynamics;
mod equilibria;
#[path = "../world/promises.rs"]
mod promises;
mod properties;
