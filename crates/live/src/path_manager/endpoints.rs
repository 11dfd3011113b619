//! `kernel_endpoints`: the in-kernel path manager gets endpoints and limits at the start, and does the rest by itself.

use std::net::IpAddr;

use super::messages::{Request, flag};
use super::netlink::PmSocket;
use super::plan::KERNEL_LIMIT;
use super::record::{Note, What};
use crate::LiveError;

/// Gives the kernel its limits and endpoints.
///
/// # Errors
/// The kernel refuses one of them.
pub(super) fn set_up(
    socket: &mut PmSocket,
    endpoints: &[(IpAddr, u32)],
) -> Result<Vec<Note>, LiveError> {
    let limit = KERNEL_LIMIT as u32;
    let limits = Request::SetLimits {
        subflows: limit,
        announced: limit,
    };
    let doing = format!("setting the limits of the path manager to {limit}");
    socket.request(&limits).map_err(LiveError::while_(doing))?;
    let mut notes = Vec::new();
    for &(address, flags) in endpoints {
        let doing = format!("giving the path manager the endpoint {address}");
        socket
            .request(&Request::AddEndpoint { address, flags })
            .map_err(LiveError::while_(doing))?;
        notes.push(
            Note::new(What::EndpointAdded)
                .local(address)
                .why(flag_names(flags)),
        );
    }
    Ok(notes)
}

/// As ip-mptcp(8) shows them.
fn flag_names(flags: u32) -> String {
    let names = [(flag::SIGNAL, "signal"), (flag::SUBFLOW, "subflow")];
    let set = names.iter().filter(|(flag, _)| flags & flag != 0);
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    set.join(" ")
}

/// Changes the priority of an address's subflows. The kernel does so only for an endpoint: where there is none, as for the
/// address of an initial subflow, one without flags is added, which opens and announces nothing.
pub(super) fn set_backup(socket: &mut PmSocket, address: IpAddr, on: bool) -> Vec<Note> {
    let note = Note::new(What::PrioritySet).local(address).backup(on);
    let flags = if on { flag::BACKUP } else { 0 };
    // Refused if it is there already.
    let _ = socket.request(&Request::AddEndpoint { address, flags: 0 });
    match socket.request(&Request::SetEndpointFlags { address, flags }) {
        Ok(()) => vec![note],
        Err(error) => {
            let mut refused = note.clone();
            refused.what = What::Refused;
            vec![note, refused.why(error)]
        }
    }
}
