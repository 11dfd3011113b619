//! Validation of access networks: what they carry exists and fits them.

use super::{Declared, ResolvedError, Validity, refuse};
use crate::resolved::{Access, Direction, Link};

impl Declared<'_> {
    /// Checks that an access network carries links that exist.
    pub(super) fn validate_access(&self, place: &str, access: &Access) -> Validity {
        match access {
            Access::Wifi(wifi) => {
                self.media.find(format!("{place}.medium"), &wifi.medium)?;
                let links = self.experiment.links.iter();
                let on_medium = links.filter(|link| link.medium.as_ref() == Some(&wifi.medium));
                let found = wifi.stations.iter().map(|station| &station.link);
                if !found.clone().eq(on_medium.map(|link| &link.id)) {
                    let found = format!("{:?}", found.collect::<Vec<_>>());
                    let allowed = "the links of the medium, in order";
                    return refuse(format!("{place}.stations"), found, allowed);
                }
            }
            Access::Cellular(cellular) => self.validate_alone(place, &cellular.link)?,
            Access::Leo(leo) => self.validate_alone(place, &leo.link)?,
            Access::Cable(cable) => self.validate_alone(place, &cable.link)?,
        }
        let valid = access.validate();
        valid.map_err(|error| ResolvedError::of_direction(place, error))
    }

    /// Checks that a link exists, is on no medium, and has no other access network.
    fn validate_alone(&self, place: &str, link: &str) -> Validity {
        let place = format!("{place}.link");
        let carriers = self.experiment.access.iter();
        if carriers.filter(|access| access.carries(link)).count() > 1 {
            return refuse(place, link, "a link without another access network");
        }
        match &self.experiment.links[self.links.find(&place, link)?].medium {
            Some(medium) => {
                let found = format!("{link} on {medium}");
                refuse(place, found, "a link without a medium")
            }
            None => Ok(()),
        }
    }

    /// Checks a direction of a link that may have an access network.
    pub(super) fn validate_access_direction(
        &self,
        place: &str,
        link: &Link,
        direction: &Direction,
    ) -> Validity {
        let mut access = self.experiment.access.iter();
        let Some(access) = access.find(|access| access.carries(&link.id)) else {
            return Ok(());
        };
        let valid = access.validate_direction(direction);
        valid.map_err(|error| ResolvedError::of_direction(place, error))
    }

    /// Checks that a Wi-Fi network carries a link.
    pub(super) fn validate_wifi_link(&self, place: &str, link: &str) -> Validity {
        let is_wifi = |access: &Access| matches!(access, Access::Wifi(_));
        self.validate_access_link(place, link, is_wifi, "a link on a Wi-Fi medium")
    }

    /// Checks that an access network of the right kind carries a link.
    pub(super) fn validate_access_link(
        &self,
        place: &str,
        link: &str,
        is_right: impl Fn(&Access) -> bool,
        allowed: &str,
    ) -> Validity {
        let place = format!("{place}.link");
        self.links.find(&place, link)?;
        let mut access = self.experiment.access.iter();
        if access.any(|access| is_right(access) && access.carries(link)) {
            return Ok(());
        }
        refuse(place, link, allowed)
    }
}
