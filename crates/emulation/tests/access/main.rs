//! Access networks through their public interface, against published numbers and formulas.

#[allow(dead_code, reason = "shared with the tests of plain links")]
#[path = "../link/driver.rs"]
mod driver;
mod networks;
mod path;

mod cable;
mod cellular;
mod conservation;
mod satellite;
mod wifi;
