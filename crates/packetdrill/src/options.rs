//! Parses `--so_flags`: `name=value` pairs separated by commas.

use std::net::IpAddr;

use mptcp::cc;
use mptcp::pm::{Endpoint, EndpointFlags, Limits};
use mptcp::subflow::SynRetries;
use mptcp::time::{Nanos, SECOND};

const ETHERNET_MTU_BYTES: u16 = 1500;

/// The MTU that every IPv4 link supports, and that holds an IPv6 header with a segment (RFC 791,
/// section 3.1).
const LEAST_MTU_BYTES: u16 = 68;

const ALLOWED: &str = "local, wscale, cc, ecn, timestamps, mtu, endpoint, subflows, add_addr_accepted, close_timeout, syn_retries, syn_linear_timeouts";

/// Parameters of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The addresses of the host. Connections start from the first address of their family.
    pub local: Vec<IpAddr>,
    /// The window scale offered.
    pub window_scale: u8,
    /// The congestion control of new sockets.
    pub congestion_control: String,
    /// Whether connections request ECN and agree to it.
    pub ecn: bool,
    /// Whether connections offer timestamps and accept those of a peer.
    pub timestamps: bool,
    /// The MTU of the device in bytes.
    pub mtu_bytes: u16,
    /// The endpoints, as set by `ip mptcp endpoint`. The first has ID 1.
    pub endpoints: Vec<Endpoint>,
    /// The limits, as set by `ip mptcp limits`.
    pub limits: Limits,
    /// `net.mptcp.close_timeout`.
    pub close_timeout: Nanos,
    /// `net.ipv4.tcp_syn_retries` and `net.ipv4.tcp_syn_linear_timeouts`.
    pub syn_retries: SynRetries,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            local: Vec::new(),
            window_scale: 8,
            congestion_control: "cubic".to_owned(),
            ecn: false,
            timestamps: true,
            mtu_bytes: ETHERNET_MTU_BYTES,
            endpoints: Vec::new(),
            // The defaults of the kernel.
            limits: Limits {
                subflows: 2,
                add_addr_accepted: 0,
            },
            close_timeout: 60 * SECOND,
            syn_retries: SynRetries::default(),
        }
    }
}

impl Options {
    /// Parses the flags.
    ///
    /// # Errors
    /// Fails if a name is unknown or its value is invalid. The message names it and what is
    /// allowed.
    pub fn parse(flags: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for word in flags.split(',').filter(|word| !word.is_empty()) {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{word}: name=value is wanted"))?;
            options.set(name, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = |wanted: &str| format!("{name}={value}: {wanted} is wanted");
        match name {
            "local" => self
                .local
                .push(value.parse().map_err(|_| wrong("an IP address"))?),
            "wscale" => {
                let scale = value.parse().ok().filter(|scale| *scale <= 14);
                self.window_scale = scale.ok_or_else(|| wrong("a number from 0 to 14"))?;
            }
            "mtu" => {
                let mtu = value.parse().ok().filter(|mtu| *mtu >= LEAST_MTU_BYTES);
                self.mtu_bytes =
                    mtu.ok_or_else(|| wrong(&format!("a number from {LEAST_MTU_BYTES} to 65535")))?;
            }
            "endpoint" => self.endpoints.push(endpoint(value).ok_or_else(|| {
                wrong("an IP address with flags of signal, subflow, backup, fullmesh and laminar, as in 192.168.0.2+signal,")
            })?),
            "subflows" => self.limits.subflows = limit(value).ok_or_else(|| wrong(LIMITS))?,
            "add_addr_accepted" => {
                self.limits.add_addr_accepted = limit(value).ok_or_else(|| wrong(LIMITS))?;
            }
            "close_timeout" => {
                let seconds: u32 = value.parse().map_err(|_| wrong("a number of seconds"))?;
                self.close_timeout = u64::from(seconds) * SECOND;
            }
            "syn_retries" => {
                self.syn_retries.count = value.parse().map_err(|_| wrong("a number"))?;
            }
            "syn_linear_timeouts" => {
                self.syn_retries.linear = value.parse().map_err(|_| wrong("a number"))?;
            }
            "timestamps" => {
                self.timestamps = switch(value).ok_or_else(|| wrong("on or off"))?;
            }
            "ecn" => self.ecn = switch(value).ok_or_else(|| wrong("on or off"))?,
            "cc" if cc::by_name(value).is_some() => self.congestion_control = value.to_owned(),
            "cc" => return Err(wrong("the name of a congestion control")),
            _ => {
                return Err(format!("{name} is not known; allowed: {ALLOWED}"));
            }
        }
        Ok(())
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

const LIMITS: &str = "a number from 0 to 64";

/// Parses a limit. Kernels accept at most 8 or, from 7.2 on, 64.
fn limit(value: &str) -> Option<usize> {
    value.parse().ok().filter(|limit| *limit <= 64)
}

fn endpoint(value: &str) -> Option<Endpoint> {
    let mut words = value.split('+');
    let address = words.next()?.parse().ok()?;
    let flag = |name| match name {
        "signal" => Some(EndpointFlags::SIGNAL),
        "subflow" => Some(EndpointFlags::SUBFLOW),
        "backup" => Some(EndpointFlags::BACKUP),
        "fullmesh" => Some(EndpointFlags::FULLMESH),
        "laminar" => Some(EndpointFlags::LAMINAR),
        _ => None,
    };
    let flags: Vec<_> = words.map(flag).collect::<Option<_>>()?;
    let flags = flags
        .into_iter()
        .fold(EndpointFlags::default(), |all, flag| all | flag);
    Some(Endpoint {
        address,
        port: None,
        flags: EndpointFlags::from_bits(flags.bits()).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_wrong_says_what_is_wanted() {
        for (word, wanted) in [
            ("mtu=40", "mtu=40: a number from 68 to 65535 is wanted"),
            (
                "endpoint=192.168.0.2+sign",
                "endpoint=192.168.0.2+sign: an IP address with flags",
            ),
            (
                "endpoint=1.1.1.1+signal+fullmesh",
                "endpoint=1.1.1.1+signal+fullmesh: an IP address",
            ),
            (
                "subflows=65",
                "subflows=65: a number from 0 to 64 is wanted",
            ),
            ("mss=1", "mss is not known; allowed: local"),
        ] {
            let error = Options::parse(word).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }

    #[test]
    fn endpoints_stand_in_their_order() {
        let flags = "endpoint=10.0.0.2+signal,endpoint=fd00::2+subflow+backup,subflows=8";
        let options = Options::parse(flags).unwrap();
        let addresses: Vec<_> = options
            .endpoints
            .iter()
            .map(|one| one.address.to_string())
            .collect();
        assert_eq!(addresses, ["10.0.0.2", "fd00::2"]);
        assert!(
            options.endpoints[1]
                .flags
                .has(EndpointFlags::SUBFLOW | EndpointFlags::BACKUP)
        );
        assert_eq!(options.limits.subflows, 8);
    }
}
