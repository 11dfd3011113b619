//! Values derived from the keys of a connection (RFC 8684, sections 3.1, 3.2 and 3.4.1). Version 0
//! computes the same values with SHA-1 instead of SHA-256 (RFC 6824, sections 3.1 and 3.2).

use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::seq::DataSeq;
use crate::wire::{AddressId, Key, Nonce, Token, Version};

/// Returns the token of the host with the key `key`: the first 32 bits of the hash of the key (RFC
/// 8684, section 3.1).
pub fn token(version: Version, key: Key) -> Token {
    with_hash(version, key, |hash| Token::from_be_bytes(leading(hash)))
}

/// Returns the initial DSN of the host with the key `key`: the last 64 bits of the hash of the key
/// (RFC 8684, section 3.1). The first byte of data has the next DSN.
pub fn initial_data_seq(version: Version, key: Key) -> DataSeq {
    with_hash(version, key, |hash| {
        DataSeq(u64::from_be_bytes(trailing(hash)))
    })
}

fn with_hash<T>(version: Version, key: Key, value: impl FnOnce(&[u8]) -> T) -> T {
    let key = key.to_be_bytes();
    match version {
        Version::Zero => value(&Sha1::digest(key)),
        Version::One => value(&Sha256::digest(key)),
    }
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
    /// Returns the first 160 bits of the HMAC of this host in a join with `nonces`, which its third
    /// packet carries (RFC 8684, section 3.2). Version 0 has no further bits. The key of the HMAC
    /// is the local key followed by the remote key; its message is the local nonce followed by the
    /// remote nonce.
    pub fn join_hmac(self, version: Version, nonces: Nonces) -> [u8; 20] {
        let mut message = [0; 8];
        message[..4].copy_from_slice(&nonces.local.to_be_bytes());
        message[4..].copy_from_slice(&nonces.remote.to_be_bytes());
        match version {
            Version::Zero => {
                let mut hmac = Hmac::<Sha1>::new_from_slice(&self.joined()).expect(ANY_LENGTH);
                hmac.update(&message);
                hmac.finalize().into_bytes().into()
            }
            Version::One => leading(&self.hmac(&message)),
        }
    }

    /// Returns the first 160 bits of the HMAC of the peer in a join (RFC 8684, section 3.2).
    /// `nonces` are local and remote from the point of view of this host.
    pub fn peer_join_hmac(self, version: Version, nonces: Nonces) -> [u8; 20] {
        let swapped = Nonces {
            local: nonces.remote,
            remote: nonces.local,
        };
        self.swapped().join_hmac(version, swapped)
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
        let mut hmac = Hmac::<Sha256>::new_from_slice(&self.joined()).expect(ANY_LENGTH);
        hmac.update(message);
        hmac.finalize().into_bytes().into()
    }

    fn joined(self) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.local.to_be_bytes());
        key[8..].copy_from_slice(&self.remote.to_be_bytes());
        key
    }
}

const ANY_LENGTH: &str = "any length will do";

/// Returns the first 64 bits of `hmac`, which the SYN/ACK of a join carries (RFC 8684, section
/// 3.2).
pub fn first_64_bits(hmac: &[u8; 20]) -> u64 {
    u64::from_be_bytes(leading(hmac))
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

    /// The expected values come from another program, `hashlib` and `hmac` of Python.
    #[test]
    fn version_0_uses_sha_1() {
        let ours = Keys {
            local: 0x0102_0304_0506_0708,
            remote: 0x1112_1314_1516_1718,
        };
        let nonces = Nonces {
            local: 0x2122_2324,
            remote: 0x3132_3334,
        };
        assert_eq!(token(Version::Zero, ours.local), 0xdd57_83bc);
        let first = initial_data_seq(Version::Zero, ours.local);
        assert_eq!(first, DataSeq(0x3a95_ed6e_4ebb_4ad5));
        let hmac = ours.join_hmac(Version::Zero, nonces);
        assert_eq!(first_64_bits(&hmac), 0xeadd_d7d4_4fb1_be97);
        assert_eq!(
            hmac[8..],
            [
                0xa6, 0x80, 0xf0, 0xe4, 0xc2, 0xfe, 0x89, 0x6b, 0x33, 0x2c, 0x1a, 0x95
            ]
        );
    }

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
        for version in [Version::Zero, Version::One] {
            let peers = theirs.join_hmac(version, swapped);
            assert_eq!(ours.peer_join_hmac(version, nonces), peers);
            assert_ne!(ours.join_hmac(version, nonces), peers);
        }
        let address = IpAddr::from([10, 0, 0, 1]);
        let hmac = ours.address_hmac(1, address, None);
        assert_eq!(theirs.peer_address_hmac(1, address, None), hmac);
        assert_eq!(ours.address_hmac(1, address, Some(0)), hmac);
    }
}
