//! `kernel_endpoints`: the in-kernel path manager gets endpoints and limits at the start and then
//! works by itself.

use std::net::{IpAddr, SocketAddr};

use mptcp::pm::{Endpoint, EndpointFlags, Limits};

use super::messages::Request;
use super::netlink::PmSocket;
use super::record::{Note, What};
use crate::LiveError;

/// Sets the kernel's limits and endpoints.
///
/// # Errors
/// The kernel refuses one of them.
pub(super) fn set_up(
    socket: &mut PmSocket,
    endpoints: &[Endpoint],
    limits: Limits,
) -> Result<Vec<Note>, LiveError> {
    let (subflows, announced) = (limits.subflows as u32, limits.add_addr_accepted as u32);
    let request = Request::SetLimits {
        subflows,
        announced,
    };
    let doing = format!("setting the limits of the path manager to {subflows} and {announced}");
    socket.request(&request).map_err(LiveError::while_(doing))?;
    let mut notes = Vec::new();
    for endpoint in endpoints {
        let Endpoint {
            address,
            port,
            flags,
        } = *endpoint;
        let flags = flags.bits();
        let request = Request::AddEndpoint {
            address,
            port,
            flags,
        };
        let doing = format!("giving the path manager the endpoint {address}");
        socket.request(&request).map_err(LiveError::while_(doing))?;
        let names: Vec<_> = EndpointFlags::names_of(flags).collect();
        notes.push(
            Note::new(What::EndpointAdded)
                .local(SocketAddr::new(address, port.unwrap_or(0)))
                .why(names.join(" ")),
        );
    }
    Ok(notes)
}

/// Changes the priority of an address's subflows. The kernel does so only for an endpoint. Where
/// there is none, as for the address of an initial subflow, an endpoint without flags is added,
/// which opens and announces nothing.
pub(super) fn set_backup(socket: &mut PmSocket, address: IpAddr, on: bool) -> Vec<Note> {
    let note = Note::new(What::PrioritySet).local(address).backup(on);
    let flags = if on { EndpointFlags::BACKUP.bits() } else { 0 };
    // Refused if the endpoint exists already.
    let _ = socket.request(&Request::AddEndpoint {
        address,
        port: None,
        flags: 0,
    });
    match socket.request(&Request::SetEndpointFlags { address, flags }) {
        Ok(()) => vec![note],
        Err(error) => {
            let mut refused = note.clone();
            refused.what = What::Refused;
            vec![note, refused.why(error)]
        }
    }
}
