//! What events do to the network.

use super::{Interface, LinkDirection, Network};
use crate::resolved::{Action, Direction, InvalidDirection, LinkDownBy};
use crate::sim::event_queue::Deadlines;
use crate::time::Nanos;

impl Network {
    /// Carries out an action that `check` accepts.
    ///
    /// # Errors
    /// A direction that the link model refuses.
    pub(in crate::sim) fn apply(
        &mut self,
        now: Nanos,
        action: &Action,
        deadlines: &mut Deadlines,
    ) -> Result<(), InvalidDirection> {
        match action {
            Action::InterfaceDown { interface } => self.interface(interface).is_up = false,
            Action::InterfaceUp { interface } => self.interface(interface).is_up = true,
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
                self.reconfigure(now, 2 * link, forward, deadlines)?;
                self.reconfigure(now, 2 * link + 1, backward, deadlines)?;
            }
            Action::SetBackup { .. } | Action::Exec { .. } => unreachable!("refused by check"),
        }
        Ok(())
    }

    fn interface(&mut self, id: &str) -> &mut Interface {
        &mut self.interfaces[self.interface_of[id]]
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
                for direction in [2 * link, 2 * link + 1] {
                    let LinkDirection {
                        channel, station, ..
                    } = self.directions[direction];
                    self.carriers[channel].channel.set_up(now, station, up);
                    self.schedule(now, channel, deadlines);
                }
            }
            LinkDownBy::DropRule => self.links[link].has_drop_rule = !up,
            LinkDownBy::PortDown => {
                for end in self.links[link].ends {
                    let interface = &mut self.interfaces[end];
                    interface.port_is_down = !up && interface.is_port;
                }
            }
        }
    }

    fn reconfigure(
        &mut self,
        now: Nanos,
        index: usize,
        direction: &Direction,
        deadlines: &mut Deadlines,
    ) -> Result<(), InvalidDirection> {
        let direction = self.links[index / 2].varied(direction);
        let LinkDirection {
            channel, station, ..
        } = self.directions[index];
        self.carriers[channel]
            .channel
            .reconfigure(now, station, &direction)?;
        self.schedule(now, channel, deadlines);
        Ok(())
    }
}
