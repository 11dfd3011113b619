//! What `--so_flags` says: words `name=value` with commas between.

use std::net::IpAddr;

use mptcp::cc;

/// Parameters of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Its addresses: the first of a family is where connections of that family start.
    pub local: Vec<IpAddr>,
    /// The window scale that is offered.
    pub window_scale: u8,
    /// Congestion control of new sockets.
    pub congestion_control: String,
    /// Whether connections ask for ECN, and agree to it.
    pub ecn: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            local: Vec::new(),
            window_scale: 8,
            congestion_control: "cubic".to_owned(),
            ecn: false,
        }
    }
}

impl Options {
    /// Reads the flags.
    ///
    /// # Errors
    /// A word is not known, or its value is none: the message says which, and what is allowed.
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
            "ecn" => self.ecn = switch(value).ok_or_else(|| wrong("on or off"))?,
            "cc" if cc::by_name(value).is_some() => self.congestion_control = value.to_owned(),
            "cc" => return Err(wrong("the name of a congestion control")),
            _ => {
                let allowed = "local, wscale, cc, ecn";
                return Err(format!("{name} is not known; allowed: {allowed}"));
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
