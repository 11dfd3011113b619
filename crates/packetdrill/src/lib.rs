//! The engine as the stack that [packetdrill](https://github.com/google/packetdrill) tests: a shared object for its
//! `--so_filename`, which needs neither root nor a device, and in which time passes only as the script asks for it.
//!
//! - [`host`]: sockets over an [`Endpoint`](mptcp::endpoint::Endpoint), in virtual time, as programs see them;
//! - [`options`]: what `--so_flags` says;
//! - `socket_options`: what sockets can be told and asked;
//! - `tcp_info`: the answer to `TCP_INFO`;
//! - [`turns`]: calls that block, while another thread runs the script;
//! - [`interface`]: the table of C functions that packetdrill is given. All unsafe code is there.

pub mod host;
pub mod interface;
pub mod options;
mod socket_options;
mod tcp_info;
pub mod turns;
