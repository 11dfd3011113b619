//! The kernel's counters of a namespace, under the names of nstat(8): `TcpRetransSegs`,
//! `MPTcpExtMPJoinSynRx`.

use std::collections::BTreeMap;
use std::fs;

use crate::LiveError;

/// The groups of transport protocols.
const GROUPS: [&str; 4] = ["Tcp", "Udp", "TcpExt", "MPTcpExt"];

/// `/proc/self` would name the namespace of the process's first thread.
const FILES: [&str; 2] = [
    "/proc/thread-self/net/snmp",
    "/proc/thread-self/net/netstat",
];

/// Reads the counters of the calling thread's namespace.
///
/// # Errors
/// They cannot be read.
pub(super) fn read(owner: &str) -> Result<BTreeMap<String, u64>, LiveError> {
    let mut counters = BTreeMap::new();
    for file in FILES {
        let doing = format!("{owner}: reading {file}");
        let text = fs::read_to_string(file).map_err(LiveError::while_(doing))?;
        counters.extend(parse(&text));
    }
    Ok(counters)
}

/// Parses pairs of lines: `Tcp: RtoAlgorithm RtoMin ..` and `Tcp: 1 200 ..`. Negative values are
/// not counters and are left out.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<&str> = text.lines().collect();
    let mut counters = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let (Some((group, names)), Some((_, values))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        if !GROUPS.contains(&group) {
            continue;
        }
        let columns = names.split_whitespace().zip(values.split_whitespace());
        counters.extend(
            columns
                .filter_map(|(name, value)| Some((format!("{group}{name}"), value.parse().ok()?))),
        );
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn names_are_those_of_nstat_and_what_is_no_counter_is_left_out() {
        let text = "Tcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 7\nIpExt: InOctets\nIpExt: 9\nMPTcpExt: MPJoinSynRx\nMPTcpExt: 3\n";
        let found = parse(text);
        assert_eq!(found["TcpRetransSegs"], 7);
        assert_eq!(found["MPTcpExtMPJoinSynRx"], 3);
        assert_eq!(found.len(), 3);
    }
}
