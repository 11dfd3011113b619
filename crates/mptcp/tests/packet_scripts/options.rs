//! Converts options as scripts write them to those of a segment.

use std::net::IpAddr;

use mptcp::connection::keys;
use mptcp::seq::DataSeq;
use mptcp::wire::checksum::Sum;
use mptcp::wire::{
    Capable, DataNumber, Dss, InitialMapping, Join, Key, Mapping, MptcpOption, ResetReason,
    SackBlock, SignalledAddress, TcpOptions, Timestamps, Version,
};

use crate::host::address;
use crate::script::{Sender, list, number, words};
use crate::session::{Flow, Session};

/// What `auto` and relative numbers refer to.
pub struct Context<'a> {
    pub session: &'a mut Session,
    pub flow: &'a mut Flow,
    pub sender: Sender,
}

/// The unused words of one option.
struct Fields<'a>(Vec<&'a str>);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<&'a str, String> {
        match self.0.is_empty() {
            true => Err("a word is missing".to_owned()),
            false => Ok(self.0.remove(0)),
        }
    }

    fn has(&mut self, word: &str) -> bool {
        self.take(|candidate| (candidate == word).then_some(()))
            .is_some()
    }

    /// Returns the text after `name=`.
    fn value(&mut self, name: &str) -> Option<&'a str> {
        self.take(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        self.value(name).map(number).transpose()
    }

    fn required<T: std::str::FromStr>(&mut self, name: &str) -> Result<T, String> {
        self.number(name)?.ok_or(format!("{name}= is missing"))
    }

    /// Returns the text in `name[...]`.
    fn bracket(&mut self, name: &str) -> Option<&'a str> {
        self.take(|word| {
            word.strip_prefix(name)?
                .strip_prefix('[')?
                .strip_suffix(']')
        })
    }

    fn take<T>(&mut self, read: impl Fn(&'a str) -> Option<T>) -> Option<T> {
        let (index, value) = self
            .0
            .iter()
            .enumerate()
            .find_map(|(index, word)| Some((index, read(word)?)))?;
        self.0.remove(index);
        Some(value)
    }
}

impl Context<'_> {
    /// Parses the options of a segment. `nop` is ignored, because scripts do not check the place of
    /// padding.
    pub fn options(&mut self, texts: &[String]) -> Result<TcpOptions, String> {
        let mut options = TcpOptions::default();
        for text in texts {
            let mut fields = Fields(words(text));
            self.option(&mut fields, &mut options)
                .map_err(|why| format!("{text}: {why}"))?;
            if !fields.0.is_empty() {
                return Err(format!("{text}: {} is not understood", fields.0.join(" ")));
            }
        }
        Ok(options)
    }

    fn option(&mut self, fields: &mut Fields<'_>, options: &mut TcpOptions) -> Result<(), String> {
        match fields.next()? {
            "nop" => {}
            "mss" => options.mss = Some(number(fields.next()?)?),
            "wscale" => options.window_scale = Some(number(fields.next()?)?),
            "sackOK" => options.sack_permitted = true,
            "TS" => options.timestamps = Some(timestamps(fields)?),
            "sack" => self.sack(fields, options)?,
            name => options.mptcp.push(self.mptcp(name, fields)?),
        }
        Ok(())
    }

    /// Parses `sack a:b c:d`.
    fn sack(&self, fields: &mut Fields<'_>, options: &mut TcpOptions) -> Result<(), String> {
        let base = self.flow.base_of(self.sender.other());
        while !fields.0.is_empty() {
            let (start, end) = fields
                .next()?
                .split_once(':')
                .ok_or("a block is start:end")?;
            options.sack.push(SackBlock {
                start: base + number(start)?,
                end: base + number(end)?,
            });
        }
        Ok(())
    }

    fn mptcp(&mut self, name: &str, fields: &mut Fields<'_>) -> Result<MptcpOption, String> {
        Ok(match name {
            "mpcapable" => MptcpOption::Capable(self.capable(fields)?),
            "mp_join_syn" => MptcpOption::Join(self.join_syn(fields)?),
            "mp_join_syn_ack" => MptcpOption::Join(self.join_syn_ack(fields)?),
            "mp_join_ack" => MptcpOption::Join(self.join_ack(fields)?),
            "dss" => MptcpOption::Dss(self.dss(fields)?),
            "add_address" => MptcpOption::AddAddress(Box::new(self.add_address(fields)?)),
            "remove_address" => remove_address(fields)?,
            "mp_prio" => MptcpOption::Priority {
                backup: fields.has("backup"),
            },
            "mp_fail" => MptcpOption::Fail {
                data_seq: self
                    .session
                    .data_seq(self.sender.other(), fields.required("dsn8")?)?,
            },
            "mp_fastclose" => self.fast_close(fields)?,
            "mp_reset" => MptcpOption::Reset(ResetReason {
                flags: flags(fields)?,
                code: number(fields.next()?)?,
            }),
            _ => return Err("the option is not known".to_owned()),
        })
    }

    /// Parses `mpcapable v1 flags[flag_h] nokey`, `key[sender]`, or `key[sender, receiver]
    /// mpcdatalen n`.
    fn capable(&mut self, fields: &mut Fields<'_>) -> Result<Capable, String> {
        let version = number(fields.next()?.trim_start_matches('v'))?;
        let flags = flags(fields)?;
        if fields.has("nokey") {
            return Ok(Capable::Syn { version, flags });
        }
        let names = list(fields.bracket("key").ok_or("nokey or key[] is missing")?);
        let sender_key = self.key(&names[0], self.sender)?;
        let Some(receiver) = names.get(1) else {
            return Ok(Capable::SynAck {
                version,
                flags,
                sender_key,
            });
        };
        let receiver_key = self.key(receiver, self.sender.other())?;
        let data = match fields.has("mpcdatalen") {
            true => Some(self.initial_mapping(number(fields.next()?)?, flags)?),
            false => None,
        };
        Ok(Capable::Ack {
            version,
            flags,
            sender_key,
            receiver_key,
            data,
        })
    }

    fn initial_mapping(&mut self, len: u16, flags: u8) -> Result<InitialMapping, String> {
        self.flow.map(self.sender, 1, u32::from(len), 0);
        let has_checksum = flags & Capable::CHECKSUM_REQUIRED != 0;
        let first = self.session.data_seq(self.sender, 1)?;
        Ok(InitialMapping {
            len,
            checksum: has_checksum.then(|| self.checksum(first, 1, len, 0, len.into())),
        })
    }

    /// Parses a key. `name` is the key of its owner from now on; `name=value` is another one.
    fn key(&mut self, text: &str, owner: Sender) -> Result<Key, String> {
        let (name, given) = match text.split_once('=') {
            Some((name, value)) => (name, Some(number(value)?)),
            None => (text, None),
        };
        let known = given.or(self.session.names.get(name).copied());
        let key = known.map_or_else(|| self.session.key_of(owner), Ok)?;
        self.session.names.insert(name.to_owned(), key);
        Ok(key)
    }

    /// Parses `token=sha256_32(name)`, or a number.
    fn join_syn(&mut self, fields: &mut Fields<'_>) -> Result<Join, String> {
        let token = fields.value("token").ok_or("token= is missing")?;
        let name = token
            .strip_prefix("sha256_32(")
            .and_then(|rest| rest.strip_suffix(')'));
        let token = match name {
            Some(name) => keys::token(
                Version::One,
                *self
                    .session
                    .names
                    .get(name)
                    .ok_or(format!("{name} is no key"))?,
            ),
            None => number(token)?,
        };
        Ok(Join::Syn {
            backup: fields.has("backup"),
            address_id: fields.required("address_id")?,
            token,
            nonce: self.flow.nonces_of(self.sender).local,
        })
    }

    fn join_syn_ack(&mut self, fields: &mut Fields<'_>) -> Result<Join, String> {
        let hmac = self.join_hmac()?;
        Ok(Join::SynAck {
            backup: fields.has("backup"),
            address_id: fields.required("address_id")?,
            truncated_hmac: match fields.value("sender_hmac") {
                Some("auto") => keys::first_64_bits(&hmac),
                other => number(other.unwrap_or_default())?,
            },
            nonce: self.flow.nonces_of(self.sender).local,
        })
    }

    fn join_ack(&mut self, fields: &mut Fields<'_>) -> Result<Join, String> {
        let hmac = self.join_hmac()?;
        Ok(Join::Ack {
            hmac: match fields.value("sender_hmac") {
                Some("auto") => hmac,
                other => [number(other.unwrap_or_default())?; 20],
            },
        })
    }

    fn join_hmac(&self) -> Result<[u8; 20], String> {
        let keys = self.session.keys_of(self.sender)?;
        Ok(keys.join_hmac(Version::One, self.flow.nonces_of(self.sender)))
    }

    /// Parses `dss dack4=n dsn8=n ssn=n dll=n nocs fin`, as far as needed. Without `nocs` a mapping
    /// has its checksum, or that of `cksum=n`.
    fn dss(&mut self, fields: &mut Fields<'_>) -> Result<Dss, String> {
        let data_fin = fields.has("fin");
        let data_ack = self.data_number(fields, "dack", self.sender.other())?;
        let mapping = self.mapping(fields, data_fin)?;
        Ok(Dss::default()
            .with_data_ack(data_ack)
            .with_mapping(mapping)
            .with_data_fin(data_fin))
    }

    fn data_number(
        &self,
        fields: &mut Fields<'_>,
        name: &str,
        owner: Sender,
    ) -> Result<Option<DataNumber>, String> {
        if let Some(nth) = fields.number(&format!("{name}4"))? {
            return Ok(Some(DataNumber::Short(
                self.session.data_seq(owner, nth)?.low(),
            )));
        }
        let nth = fields.number(&format!("{name}8"))?;
        nth.map(|nth| Ok(DataNumber::Long(self.session.data_seq(owner, nth)?)))
            .transpose()
    }

    fn mapping(
        &mut self,
        fields: &mut Fields<'_>,
        data_fin: bool,
    ) -> Result<Option<Mapping>, String> {
        let has_no_checksum = fields.has("nocs");
        let Some(data_seq) = self.data_number(fields, "dsn", self.sender)? else {
            return Ok(None);
        };
        let (subflow_seq, len): (u32, u16) = (fields.required("ssn")?, fields.required("dll")?);
        let full = data_seq.expand(self.session.data_seq(self.sender, 1)?);
        let place = (self.session.nth(self.sender, full) - 1) as u64;
        let data_len = u32::from(len).saturating_sub(u32::from(data_fin));
        self.flow.map(self.sender, subflow_seq, data_len, place);
        let checksum = match (has_no_checksum, fields.number("cksum")?) {
            (true, _) => None,
            (false, Some(given)) => Some(given),
            (false, None) => Some(self.checksum(full, subflow_seq, len, place, data_len)),
        };
        Ok(Some(Mapping {
            data_seq,
            subflow_seq,
            len,
            checksum,
        }))
    }

    /// Returns the checksum of a mapping (RFC 8684, section 3.3.1); that of an infinite mapping is
    /// 0 (section 3.7).
    fn checksum(
        &self,
        number: DataSeq,
        subflow_seq: u32,
        len: u16,
        place: u64,
        data_len: u32,
    ) -> u16 {
        if len == 0 {
            return 0;
        }
        let mut sum = Sum::of_mapping(number, subflow_seq, len);
        sum.add_payload(&self.sender.stream(place, data_len));
        sum.checksum()
    }

    /// Parses `add_address address_id=n addr[name] port=n`, and `hmac=auto` or `addr_echo`.
    fn add_address(&self, fields: &mut Fields<'_>) -> Result<SignalledAddress, String> {
        let id = fields.required("address_id")?;
        let signalled: IpAddr = address(fields.bracket("addr").ok_or("addr[] is missing")?)?;
        let port = fields.number("port")?;
        let truncated_hmac = match fields.value("hmac") {
            Some("auto") => Some(
                self.session
                    .keys_of(self.sender)?
                    .address_hmac(id, signalled, port),
            ),
            Some(given) => Some(number(given)?),
            None if fields.has("addr_echo") => None,
            None => return Err("hmac= or addr_echo is missing".to_owned()),
        };
        Ok(SignalledAddress {
            id,
            address: signalled,
            port,
            truncated_hmac,
        })
    }

    /// Parses `mp_fastclose`, or with a key that is not the receiver's: `mp_fastclose
    /// key[wrong=1]`.
    fn fast_close(&mut self, fields: &mut Fields<'_>) -> Result<MptcpOption, String> {
        let receiver = self.sender.other();
        let receiver_key = match fields.bracket("key") {
            Some(text) => self.key(text, receiver)?,
            None => self.session.key_of(receiver)?,
        };
        Ok(MptcpOption::FastClose { receiver_key })
    }
}

fn timestamps(fields: &mut Fields<'_>) -> Result<Timestamps, String> {
    let mut after = |name: &str| match fields.next()? == name {
        true => number(fields.next()?),
        false => Err(format!("{name} is missing")),
    };
    Ok(Timestamps {
        value: after("val")?,
        echo: after("ecr")?,
    })
}

fn remove_address(fields: &mut Fields<'_>) -> Result<MptcpOption, String> {
    let ids = fields.value("address_id").unwrap_or_default();
    let ids = list(ids.trim_matches(['[', ']']));
    let ids: Result<_, _> = ids.iter().map(|id| number(id)).collect();
    Ok(MptcpOption::RemoveAddress(ids?))
}

/// Parses `flags[flag_a, flag_h]`; flag A is the highest bit.
fn flags(fields: &mut Fields<'_>) -> Result<u8, String> {
    let mut flags = 0;
    for name in list(fields.bracket("flags").unwrap_or_default()) {
        flags |= match name.as_str() {
            "flag_a" => Capable::CHECKSUM_REQUIRED,
            "flag_b" => Capable::EXTENSIBILITY,
            "flag_c" => Capable::NO_JOIN_TO_INITIAL,
            "flag_h" => Capable::HMAC_SHA256,
            "flag_t" => ResetReason::TRANSIENT,
            _ => return Err(format!("{name} is not known")),
        };
    }
    Ok(flags)
}
