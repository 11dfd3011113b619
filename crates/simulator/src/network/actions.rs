//! The effects of events on the network.

use experiment::resolved::{Action, Hop, InvalidDirection, LinkDownBy};
use experiment::time::Nanos;

use super::{Interface, Network, Passage};
use crate::event_queue::Deadlines;

impl Network {
    /// Executes an action that `check` accepts.
    ///
    /// # Errors
    /// Fails if the link model refuses a direction.
    pub(crate) fn apply(
        &mut self,
        now: Nanos,
        action: &Action,
        deadlines: &mut Deadlines,
    ) -> Result<(), InvalidDirection> {
        match action {
            Action::InterfaceDown { interface } => self.set_interface_up(interface, false),
            Action::InterfaceUp { interface } => self.set_interface_up(interface, true),
            Action::AddressAdd { interface } => self.interface(interface).has_address = true,
            Action::AddressRemove { interface } => self.interface(interface).has_address = false,
            Action::LinkDown { link, by } => {
                self.set_link_up(now, self.link_of[link], *by, false, deadlines)
            }
            Action::LinkUp { link, by } => {
                self.set_link_up(now, self.link_of[link], *by, true, deadlines)
            }
            Action::SetLink {
                link,
                forward,
                backward,
            } => {
                let link = self.link_of[link];
                self.links.reconfigure(now, link, forward, backward)?;
                self.schedule_link(now, link, deadlines);
            }
            Action::Handover { link, .. }
            | Action::Roam { link, .. }
            | Action::SetSignal { link, .. } => {
                let link = self.link_of[link];
                self.links.disturb(now, link, action);
                self.schedule_link(now, link, deadlines);
            }
            Action::Reroute {
                flow,
                path,
                there,
                back,
                ..
            } => self.reroute((self.flow_of[flow], *path as usize), [there, back]),
            // It only makes hosts send less there.
            Action::SetBackup { .. } => {}
            // The reroutes that follow from it are actions of their own.
            Action::SetRecovery { .. } => {}
            Action::Exec { .. } => unreachable!("refused by check"),
        }
        Ok(())
    }

    fn interface(&mut self, id: &str) -> &mut Interface {
        &mut self.interfaces[self.interface_of[id]]
    }

    fn set_interface_up(&mut self, id: &str, up: bool) {
        self.interface(id).is_up = up;
        self.update_passage(self.interface_of[id]);
    }

    fn update_passage(&mut self, interface: usize) {
        let Interface {
            is_up,
            port_is_down,
            ..
        } = self.interfaces[interface];
        self.passages[interface] = match is_up && !port_is_down {
            true => self.middleboxes.passage(interface),
            false => Passage::Down,
        };
        let outgoing = self.interfaces[interface].outgoing;
        self.update_plain(outgoing);
        self.update_plain(outgoing ^ 1);
    }

    fn set_link_up(
        &mut self,
        now: Nanos,
        link: usize,
        by: LinkDownBy,
        up: bool,
        deadlines: &mut Deadlines,
    ) {
        match by {
            LinkDownBy::Cut => {
                self.links.set_up(now, link, up);
                self.schedule_link(now, link, deadlines);
            }
            LinkDownBy::DropRule => {
                self.links.set_drop_rule(link, !up);
                self.update_plain(2 * link);
                self.update_plain(2 * link + 1);
            }
            LinkDownBy::PortDown => {
                for end in self.ends[link].map(|end| end as usize) {
                    let interface = &mut self.interfaces[end];
                    interface.port_is_down = !up && interface.is_port;
                    self.update_passage(end);
                }
            }
        }
    }

    /// Sends packets of a path, named by the indices of its flow and of the path, over other links.
    fn reroute(&mut self, path: (usize, usize), both: [&[Hop]; 2]) {
        let [there, back] = both.map(|hops| self.directions(hops));
        let (ends, interfaces) = (&self.ends, &self.interfaces);
        let node_before = |direction: u32| {
            let from = ends[direction as usize / 2][direction as usize % 2];
            interfaces[from as usize].node
        };
        for route in self.routes_of_path.get(&path).into_iter().flatten() {
            self.routes.reroute(*route, &there, node_before);
            self.routes.reroute(route.reversed(), &back, node_before);
        }
    }

    fn schedule_link(&mut self, now: Nanos, link: usize, deadlines: &mut Deadlines) {
        for direction in [2 * link, 2 * link + 1] {
            self.schedule(now, self.links.channel_of(direction), deadlines);
            if let Some(place) = self.host_queues.place(direction) {
                self.schedule_host_queue(now, place, deadlines);
            }
        }
    }
}
