//! `binder`: opens further subflows between the two initial addresses, each on another path that a
//! loose source route prescribes (Boccassi et al., "Binder", 2013; as in the out-of-tree kernel).

use super::Entry;
use crate::algorithm::{Description, External, Parameter, Value};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use super::subflows::Subflows;
use super::{Command, Connection, Event, FourTuple, Nanos, Parameters, PathManager, Role};

/// Its name, parameters and constructor.
pub(super) const ROW: Entry = Entry {
    description: Description {
        name: "binder",
        aliases: &[],
        summary: "Opens a subflow for each list of gateways between the two initial addresses, using loose source routes",
        source: "binder of the out-of-tree kernel; Boccassi et al., 2013",
        parameters: &[Parameter {
            name: "gateways",
            unit: "",
            meaning: "the routers that the packets of each additional subflow pass through, in order",
            computed_default: Some("none, and therefore no additional subflow"),
            value: Value::External(External::Gateways),
        }],
    },
    make: |connection, given| Box::new(Binder::new(connection, given)),
};

/// Maximum number of gateway lists, as in the kernel.
const MOST_LISTS: usize = 10;

/// Maximum number of hops in a list, as in the kernel. The options of an IPv4 header could hold two
/// more.
const MOST_HOPS: usize = 6;

/// Lists of routers for `binder`: the packets of each further subflow pass the routers of one list,
/// in order.
///
/// The text form is `10.0.0.1,10.0.0.2-10.0.1.1`: lists are separated by `-`, the hops of a list by
/// `,`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gateways(Vec<Vec<Ipv4Addr>>);

impl Gateways {
    /// Returns the lists in the order in which they are assigned to subflows.
    pub fn lists(&self) -> &[Vec<Ipv4Addr>] {
        &self.0
    }
}

/// Reasons why a text cannot be parsed as [`Gateways`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidGateways {
    /// There are more than 10 lists. The value is the number of lists.
    TooManyLists(usize),
    /// A list has more than 6 hops. The values are the number of the list, counted from 1, and its
    /// number of hops.
    TooManyHops(usize, usize),
    /// A hop is not an IPv4 address. The value is its text.
    NoAddress(String),
}

impl fmt::Display for InvalidGateways {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyLists(count) => {
                write!(
                    formatter,
                    "{count} lists of gateways, at most {MOST_LISTS} are possible"
                )
            }
            Self::TooManyHops(list, count) => write!(
                formatter,
                "{count} hops in list {list} of gateways, at most {MOST_HOPS} are possible"
            ),
            Self::NoAddress(hop) => write!(
                formatter,
                "gateway '{hop}' is no IPv4 address; expected lists as in 10.0.0.1,10.0.0.2-10.0.1.1"
            ),
        }
    }
}

impl std::error::Error for InvalidGateways {}

impl FromStr for Gateways {
    type Err = InvalidGateways;

    fn from_str(text: &str) -> Result<Self, InvalidGateways> {
        let lists: Vec<&str> = text.split('-').collect();
        if lists.len() > MOST_LISTS {
            return Err(InvalidGateways::TooManyLists(lists.len()));
        }
        let lists = lists.iter().enumerate();
        let lists = lists.map(|(index, list)| hops_of(index + 1, list));
        lists.collect::<Result<_, _>>().map(Self)
    }
}

fn hops_of(number: usize, list: &str) -> Result<Vec<Ipv4Addr>, InvalidGateways> {
    let address = |hop: &str| {
        let parsed = hop.trim().parse();
        parsed.map_err(|_| InvalidGateways::NoAddress(hop.to_owned()))
    };
    let hops: Vec<Ipv4Addr> = list.split(',').map(address).collect::<Result<_, _>>()?;
    if hops.len() > MOST_HOPS {
        return Err(InvalidGateways::TooManyHops(number, hops.len()));
    }
    Ok(hops)
}

/// Returns the length in bytes of a loose source route option (RFC 791, section 3.1) that names
/// `hops` routers and the destination: type, length, pointer, addresses.
pub fn source_route_len(hops: usize) -> usize {
    3 + 4 * (hops + 1)
}

/// The path manager `binder`: opens a subflow for each gateway list when the connection is
/// established.
///
/// Only the opener opens subflows. Address changes are ignored, and closed subflows are not
/// reopened. Over IPv6, which has no loose source route, no subflows are opened.
#[derive(Clone, Debug)]
pub struct Binder {
    role: Role,
    initial: FourTuple,
    gateways: Gateways,
    subflows: Subflows,
}

impl Binder {
    /// Creates the policy for the new connection `connection`. Uses only `gateways` of
    /// `parameters`.
    pub fn new(connection: &Connection, parameters: &Parameters) -> Self {
        Self {
            role: connection.role,
            initial: connection.initial,
            gateways: parameters.gateways.clone(),
            subflows: Subflows::new(connection),
        }
    }

    fn open_all(&self, commands: &mut Vec<Command>) {
        let local = self.initial.local.ip();
        if self.role == Role::Acceptor || !matches!(local, IpAddr::V4(_)) {
            return;
        }
        let lists = self.gateways.lists().iter();
        commands.extend(lists.map(|via| Command::OpenSubflow {
            local,
            local_id: 0,
            remote: self.initial.remote,
            backup: self.subflows.is_backup(local),
            via: via.clone(),
        }));
    }
}

impl PathManager for Binder {
    fn handle(&mut self, _now: Nanos, event: &Event, commands: &mut Vec<Command>) {
        self.subflows.handle(event, commands);
        if *event == Event::Established {
            self.open_all(commands);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Side, connection};
    use super::*;

    fn side(role: Role, gateways: &str) -> Side {
        let parameters = Parameters {
            gateways: gateways.parse().expect("valid gateways"),
            ..Parameters::default()
        };
        Side::new(Box::new(Binder::new(&connection(role, 2), &parameters)))
    }

    #[test]
    fn each_list_is_the_way_of_one_subflow() {
        let commands = side(Role::Opener, "10.0.0.1,10.0.0.2-10.0.1.1").handle(Event::Established);
        let ways = commands.iter().map(|command| match command {
            Command::OpenSubflow { via, .. } => via.as_slice(),
            other => panic!("found {other:?}"),
        });
        let [first, second, third] =
            [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 1, 1]].map(Ipv4Addr::from);
        assert_eq!(ways.collect::<Vec<_>>(), [&[first, second][..], &[third]]);
    }

    #[test]
    fn the_acceptor_opens_nothing_and_nothing_is_opened_twice() {
        assert_eq!(
            side(Role::Acceptor, "10.0.0.1").handle(Event::Established),
            []
        );
        let mut side = side(Role::Opener, "10.0.0.1");
        side.handle(Event::Established);
        let pair = connection(Role::Opener, 2).initial.pair();
        assert_eq!(side.handle(Event::OpenFailed { pair }), []);
        assert_eq!(side.wait(), None);
    }

    #[test]
    fn lists_have_limits_and_hops_are_addresses() {
        let refused = |text: &str| text.parse::<Gateways>().expect_err("refused").to_string();
        let many = |count: usize, separator: &str| vec!["10.0.0.1"; count].join(separator);
        assert!(many(10, "-").parse::<Gateways>().is_ok());
        assert!(many(6, ",").parse::<Gateways>().is_ok());
        assert!(refused(&many(11, "-")).contains("11 lists"));
        assert!(refused(&format!("10.0.0.1-{}", many(7, ","))).contains("7 hops in list 2"));
        assert!(refused("10.0.0.1,").contains("gateway ''"));
        assert!(refused("fd00::1").contains("'fd00::1' is no IPv4 address"));
    }
}
