//! Lets [packetdrill](https://github.com/google/packetdrill) test the engine: a shared object for
//! its `--so_filename`. It needs neither root nor a device. Time passes only as the script
//! requests.
//!
//! - [`host`]: sockets over an [`Endpoint`](mptcp::endpoint::Endpoint), in virtual time;
//! - [`options`]: the flags of `--so_flags`;
//! - `socket_options`: getting and setting socket options;
//! - `tcp_info`: the answer to `TCP_INFO`;
//! - [`turns`]: blocking calls, while another thread runs the script;
//! - [`interface`]: the table of C functions for packetdrill. It holds all unsafe code.

pub mod host;
pub mod interface;
pub mod options;
mod socket_options;
mod tcp_info;
pub mod turns;
