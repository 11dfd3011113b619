//! Validation of real links: they join devices of machines, and nothing in them is emulated.

use super::{Declared, Validity, refuse};
use crate::resolved::{Direction, HopDirection, Interface, Link, Loss};

impl Declared<'_> {
    /// Checks that the ends of a real link have devices, and that no others have.
    pub(super) fn validate_devices(&self, place: &str, link: &Link) -> Validity {
        let mut ends = Vec::with_capacity(2);
        for end in [&link.a, &link.b] {
            let interface = &self.experiment.interfaces[self.interfaces.find(place, end)?];
            self.validate_device(link, interface)?;
            ends.push((
                self.experiment.machine_of(&interface.node),
                interface.device.as_ref().map(|device| &device.name),
            ));
        }
        if link.real && ends[0] == ends[1] {
            let found = format!("{} at both ends", ends[0].1.map_or("", String::as_str));
            return refuse(format!("{place}.real"), found, "two devices");
        }
        if link.real && link.medium.is_some() {
            let found = format!(
                "a real link on medium {}",
                link.medium.as_deref().unwrap_or("")
            );
            return refuse(
                format!("{place}.medium"),
                found,
                "a real link without a medium",
            );
        }
        let carriers = &mut self.experiment.access.iter();
        if link.real && carriers.any(|access| access.carries(&link.id)) {
            let found = "a real link with an access network";
            return refuse(place, found, "a real link without one");
        }
        for side in HopDirection::BOTH {
            if link.real && shapes(link.direction(side)) {
                let place = format!("{place}.{}", side.name());
                let allowed = "no rate, delay, jitter, loss or trace on a real link";
                return refuse(place, "a direction that is emulated", allowed);
            }
        }
        Ok(())
    }

    fn validate_device(&self, link: &Link, interface: &Interface) -> Validity {
        let place = format!("interfaces.{}.device", interface.id);
        let is_at_host = self.hosts.indices.contains_key(interface.node.as_str());
        match &interface.device {
            Some(device) if !link.real => refuse(place, &device.name, "none: the link is not real"),
            Some(_) if !is_at_host => refuse(place, &interface.node, "a host"),
            None if link.real => refuse(place, "none", "a device: the link is real"),
            _ => Ok(()),
        }
    }

    /// Checks that a link is emulated.
    pub(super) fn validate_emulated(&self, place: impl ToString, link: &str) -> Validity {
        let place = place.to_string();
        let link = &self.experiment.links[self.links.find(&place, link)?];
        match link.real {
            true => refuse(
                place,
                format!("the real link {}", link.id),
                "an emulated link",
            ),
            false => Ok(()),
        }
    }
}

fn shapes(direction: &Direction) -> bool {
    direction.rate_bps.is_some()
        || direction.delay_ns > 0
        || direction.jitter_ns > 0
        || direction.loss != Loss::None {}
        || direction.trace.is_some()
}
