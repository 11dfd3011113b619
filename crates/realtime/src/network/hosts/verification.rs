//! Verifies that the network that was built is the described one.

mod echo;
mod knock;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use experiment::resolved::{Experiment, Flow, Path};
use experiment::time::Nanos;
use netlink_packet_route::RouteNetlinkMessage;

use super::Hosts;
use super::addresses::Family;
use super::routing::Way;
use crate::LiveError;
use crate::network::netlink::{Request, RouteRow, look_up};

/// A route lookup at one place, and the answer that the description expects.
struct Question {
    path: String,
    source: IpAddr,
    destination: IpAddr,
    /// The device by which the packet arrived; `None` at its source.
    arrived_by: Option<u32>,
    device: u32,
    table: u32,
}

impl Hosts {
    /// Verifies every path of every flow in both directions. First, each host and router on the
    /// path must send the packets out by the described interface. Then an echo over UDP must come
    /// back along every path, in no less and not much more than the described time. The emulator
    /// runs meanwhile and is restarted afterwards. The time over a real link is not described; it
    /// is returned, by the ids of the links.
    ///
    /// Paths with an interface that is down at the start are left out.
    ///
    /// # Errors
    /// Names the first path that is not as described, what was expected, and what was found.
    pub fn verify(
        &mut self,
        experiment: &Experiment,
    ) -> Result<BTreeMap<String, Nanos>, LiveError> {
        self.verify_beside(experiment, || Ok(false))
    }

    /// Verifies the part of the network that is here: the routes of its places, and the paths that
    /// begin at its hosts. Answers the echoes of other machines as long as `is_asked` returns true,
    /// which is called once this part has been verified.
    ///
    /// # Errors
    /// As [`Self::verify`], and those of `is_asked`.
    pub(crate) fn verify_beside(
        &mut self,
        experiment: &Experiment,
        is_asked: impl FnMut() -> Result<bool, LiveError>,
    ) -> Result<BTreeMap<String, Nanos>, LiveError> {
        self.verify_routes(experiment)?;
        echo::verify(self, experiment, is_asked)
    }

    /// Verifies the routes only, the first half of [`Self::verify`]. Needs no emulator.
    ///
    /// # Errors
    /// As [`Self::verify`].
    pub fn verify_routes(&mut self, experiment: &Experiment) -> Result<(), LiveError> {
        for (place, questions) in self.questions(experiment) {
            let requests: Vec<Request> = questions.iter().map(Question::request).collect();
            let place = self.places.get_mut(&place).expect("asked of places here");
            let answers = place.connection.ask(&requests)?;
            for (question, answer) in questions.iter().zip(answers) {
                let found = match answer {
                    Ok(RouteNetlinkMessage::NewRoute(row)) => {
                        let row = RouteRow::new(&row);
                        if (row.device, row.table) == (Some(question.device), question.table) {
                            continue;
                        }
                        let device = row.device.map(|device| place.connection.names().of(device));
                        format!("{} by table {}", device.unwrap_or_default(), row.table)
                    }
                    Ok(other) => format!("{other:?}"),
                    Err(why) => format!("no route ({why})"),
                };
                return Err(LiveError::Verification(format!(
                    "{}: at {}, packets from {} to {} should leave by {} by table {}, found {found}",
                    question.path,
                    place.id,
                    question.source,
                    question.destination,
                    place.connection.names().of(question.device),
                    question.table
                )));
            }
        }
        Ok(())
    }

    /// Returns whether this program builds the place of an interface.
    fn is_here(&self, port: usize) -> bool {
        self.places.contains_key(&self.layout.ports[port].place)
    }

    /// Returns one lookup for each place that is here and each pair of addresses.
    fn questions(&self, experiment: &Experiment) -> BTreeMap<usize, Vec<Question>> {
        let mut asked = BTreeSet::new();
        let mut questions: BTreeMap<usize, Vec<Question>> = BTreeMap::new();
        for (flow, path) in self.usable_paths(experiment) {
            for way in Way::both(&self.layout, flow, path) {
                for family in Family::BOTH {
                    let addresses = (
                        self.address(way.source, family),
                        self.address(way.destination, family),
                    );
                    let (Some(source), Some(destination)) = addresses else {
                        continue;
                    };
                    let mut arrived_by = None;
                    for (port, arrival) in way.steps(&self.layout) {
                        let place = self.layout.ports[port].place;
                        if self.is_here(port) && asked.insert((place, source, destination)) {
                            questions.entry(place).or_default().push(Question {
                                path: name_of(flow, path),
                                source,
                                destination,
                                arrived_by,
                                device: self.device_index(port),
                                table: self.places[&place].routes.by_source[&source].number,
                            });
                        }
                        let is_here = self.is_here(arrival);
                        arrived_by = is_here.then(|| self.device_index(arrival));
                    }
                }
            }
        }
        questions
    }

    /// Returns the paths on which every interface is up.
    fn usable_paths<'a>(
        &'a self,
        experiment: &'a Experiment,
    ) -> impl Iterator<Item = (&'a Flow, &'a Path)> {
        let flows = experiment.flows.iter().filter(|flow| flow.from != flow.to);
        let paths = flows.flat_map(|flow| flow.paths.iter().map(move |path| (flow, path)));
        paths.filter(|(_, path)| {
            let mut links = path.hops.iter().map(|hop| self.layout.link_of[&hop.link]);
            links.all(|link| {
                self.layout.ends[link]
                    .iter()
                    .all(|&end| self.condition(end).is_usable())
            })
        })
    }

    fn address(&self, port: usize, family: Family) -> Option<IpAddr> {
        self.layout.ports[port].address(family)
    }
}

impl Question {
    fn request(&self) -> Request {
        look_up(self.source, self.destination, self.arrived_by)
    }
}

/// Returns the name of a path in errors.
fn name_of(flow: &Flow, path: &Path) -> String {
    format!("flow {}, path {} - {}", flow.id, path.local, path.remote)
}
