//! Carries out events on interfaces and addresses.

use experiment::resolved::{Action, Direction, LinkDownBy};

use super::Hosts;
use super::addresses::PlaceKind;
use super::place::Condition;
use crate::LiveError;
use crate::network::first_hop::Shaping;

impl Hosts {
    /// Carries out an action on interfaces and addresses. Actions that change only a link are left
    /// to the emulator.
    ///
    /// The kernel forgets routes when an interface goes down or loses its address. They are
    /// restored together with the interface or address.
    ///
    /// # Errors
    /// The system refuses.
    pub fn apply(&mut self, action: &Action) -> Result<(), LiveError> {
        match action {
            Action::InterfaceDown { interface } => {
                self.change(interface, |port| port.is_up = false)
            }
            Action::InterfaceUp { interface } => self.change(interface, |port| port.is_up = true),
            Action::AddressRemove { interface } => {
                self.change(interface, |port| port.has_address = false)
            }
            Action::AddressAdd { interface } => {
                self.change(interface, |port| port.has_address = true)
            }
            Action::LinkDown {
                link,
                by: LinkDownBy::PortDown,
            } => self.set_ports_down(link, true),
            Action::LinkUp {
                link,
                by: LinkDownBy::PortDown,
            } => self.set_ports_down(link, false),
            Action::SetLink {
                link,
                forward,
                backward,
            } => self.reshape(link, [forward, backward]),
            _ => Ok(()),
        }
    }

    /// Updates the shaping at hosts that hold packets back for this link.
    fn reshape(&mut self, link: &str, both: [&Direction; 2]) -> Result<(), LiveError> {
        let ends = self.layout.ends[self.layout.link_of[link]];
        for (port, direction) in ends.into_iter().zip(both) {
            let described = &self.layout.ports[port];
            if described.feels_link
                && let Some(place) = self.places.get_mut(&described.place)
            {
                let shaping = Shaping::before(direction, described.layer, described.mtu_bytes);
                place.reshape(port, shaping)?;
            }
        }
        Ok(())
    }

    /// Returns whether an interface, named by its index in the experiment, is up now.
    pub fn is_up(&self, interface: usize) -> bool {
        self.condition(interface).carries()
    }

    pub(super) fn condition(&self, port: usize) -> Condition {
        match self.places.get(&self.layout.ports[port].place) {
            Some(place) => place.ports[&port].condition,
            None => self.elsewhere[&port],
        }
    }

    fn change(
        &mut self,
        interface: &str,
        change: impl FnOnce(&mut Condition),
    ) -> Result<(), LiveError> {
        self.change_port(self.layout.port_of[interface], change)
    }

    fn change_port(
        &mut self,
        port: usize,
        change: impl FnOnce(&mut Condition),
    ) -> Result<(), LiveError> {
        match self.places.get_mut(&self.layout.ports[port].place) {
            Some(place) => return place.change(port, change),
            // The other machine carries out the same action.
            None => {
                if let Some(condition) = self.elsewhere.get_mut(&port) {
                    change(condition);
                }
            }
        }
        Ok(())
    }

    /// Sets the interfaces of a link at nodes other than hosts; interfaces at hosts keep their
    /// state.
    fn set_ports_down(&mut self, link: &str, down: bool) -> Result<(), LiveError> {
        for port in self.layout.ends[self.layout.link_of[link]] {
            if self.layout.kind_at(port) != PlaceKind::Host {
                self.change_port(port, |state| state.port_is_down = down)?;
            }
        }
        Ok(())
    }
}
