//! Values derived from the keys of a connection (RFC 8684, sections 3.1, 3.2 and 3.4.1).

use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::seq::DataSeq;
use crate::wire::{AddressId, Key, Nonce, Token};

/// Returns the token of the host with the key `key`: the first 32 bits of the SHA-256 hash of the
/// key (RFC 8684, section 3.1).
pub fn token(key: Key) -> Token {
    let hash = Sha256::digest(key.to_be_bytes());
    Token::from_be_bytes(leading(&hash))
}

/// Returns the initial DSN of the host with the key `key`: the last 64 bits of the SHA-256 hash of
/// the key (RFC 8684, section 3.1). The first byte of data has the next DSN.
pub fn initial_data_seq(key: Key) -> DataSeq {
    let hash = Sha256::digest(key.to_be_bytes());
    DataSeq(u64::from_be_bytes(trailing(&hash)))
}

/// The keys of both hosts of a connection (RFC 8684, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The key of this host.
    pub local: Key,
    /// The key of the peer.
    pub remote: Key,
}

/// The nonces of both hosts in a join (RFC 8684, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonces {
    /// The nonce of this host.
    pub local: Nonce,
    /// The nonce of the peer.
    pub remote: Nonce,
}

impl Keys {
    /// Returns the HMAC that this host sends in a join with `nonces` (RFC 8684, section 3.2). Its
    /// key is the local key followed by the remote key; its message is the local nonce followed by
    /// the remote nonce.
    pub fn join_hmac(self, nonces: Nonces) -> [u8; 32] {
        let mut message = [0; 8];
        message[..4].copy_from_slice(&nonces.local.to_be_bytes());
        message[4..].copy_from_slice(&nonces.remote.to_be_bytes());
        self.hmac(&message)
    }

    /// Returns the HMAC that the peer sends in a join (RFC 8684, section 3.2). `nonces` are local
    /// and remote from the point of view of this host.
    pub fn peer_join_hmac(self, nonces: Nonces) -> [u8; 32] {
        let swapped = Nonces {
            local: nonces.remote,
            remote: nonces.local,
        };
        self.swapped().join_hmac(swapped)
    }

    /// Returns the truncated HMAC with which this host announces `address` with the address ID `id`
    /// and `port`: the last 64 bits of the HMAC (RFC 8684, section 3.4.1). If `port` is `None`, the
    /// HMAC is computed with port 0.
    pub fn address_hmac(self, id: AddressId, address: IpAddr, port: Option<u16>) -> u64 {
        let mut message = vec![id];
        match address {
            IpAddr::V4(address) => message.extend(address.octets()),
            IpAddr::V6(address) => message.extend(address.octets()),
        }
        message.extend(port.unwrap_or(0).to_be_bytes());
        u64::from_be_bytes(trailing(&self.hmac(&message)))
    }

    /// Returns the truncated HMAC with which the peer announces `address` with the address ID `id`
    /// and `port` (RFC 8684, section 3.4.1).
    pub fn peer_address_hmac(self, id: AddressId, address: IpAddr, port: Option<u16>) -> u64 {
        self.swapped().address_hmac(id, address, port)
    }

    fn swapped(self) -> Self {
        Self {
            local: self.remote,
            remote: self.local,
        }
    }

    fn hmac(self, message: &[u8]) -> [u8; 32] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.local.to_be_bytes());
        key[8..].copy_from_slice(&self.remote.to_be_bytes());
        let mut hmac = Hmac::<Sha256>::new_from_slice(&key).expect("any length will do");
        hmac.update(message);
        hmac.finalize().into_bytes().into()
    }
}

/// Returns the first 64 bits of `hmac`, which the SYN/ACK of a join carries (RFC 8684, section
/// 3.2).
pub fn first_64_bits(hmac: &[u8; 32]) -> u64 {
    u64::from_be_bytes(leading(hmac))
}

/// Returns the first 160 bits of `hmac`, which the third packet of a join carries (RFC 8684,
/// section 3.2).
pub fn first_160_bits(hmac: &[u8; 32]) -> [u8; 20] {
    leading(hmac)
}

fn leading<const N: usize>(hash: &[u8]) -> [u8; N] {
    hash[..N].try_into().expect("the hash is longer")
}

fn trailing<const N: usize>(hash: &[u8]) -> [u8; N] {
    hash[hash.len() - N..]
        .try_into()
        .expect("the hash is longer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_works_out_what_the_other_sends() {
        let ours = Keys {
            local: 1,
            remote: 2,
        };
        let nonces = Nonces {
            local: 3,
            remote: 4,
        };
        let theirs = ours.swapped();
        let swapped = Nonces {
            local: 4,
            remote: 3,
        };
        assert_eq!(ours.peer_join_hmac(nonces), theirs.join_hmac(swapped));
        assert_ne!(ours.join_hmac(nonces), theirs.join_hmac(swapped));
        let address = IpAddr::from([10, 0, 0, 1]);
        let hmac = ours.address_hmac(1, address, None);
        assert_eq!(theirs.peer_address_hmac(1, address, None), hmac);
        assert_eq!(ours.address_hmac(1, address, Some(0)), hmac);
    }
}
