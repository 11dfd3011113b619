//! How a client tells a gateway the destination: the Connect and Error TLVs of the 0-RTT TCP
//! Convert Protocol (RFC 8803).
//!
//! A message is a fixed header (section 6.1) followed by TLVs (section 6.2). The client's message
//! is at the start of its byte stream, the gateway's at the start of the other direction. The
//! client sends the message after the handshake, because the engine sends no data with a SYN; this
//! costs a round trip.
//!
//! A gateway answers with a header alone when it has connected. The RFC lets it add the options of
//! the server's SYN/ACK for clients that asked for options (section 6.2.6). Only the kernel knows
//! these, so a client that asks for options is refused.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::io::Errno;

use crate::applications::traffic::ByteStream;

const VERSION: u8 = 1;
const MAGIC: [u8; 2] = [0x22, 0x63];
/// The unit of lengths.
const WORD_BYTES: usize = 4;
const HEADER_BYTES: usize = WORD_BYTES;
const CONNECT: u8 = 10;
const CONNECT_BYTES: usize = 20;
/// The cookie that a gateway may require. This one does not.
const COOKIE: u8 = 22;
const ERROR: u8 = 30;
/// Type, length and code of an error.
const ERROR_BYTES: usize = 3;
/// The longest message.
const LONGEST_MESSAGE_BYTES: usize = 255 * WORD_BYTES;

/// Why a gateway did not connect (section 6.2.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    UnsupportedVersion,
    Malformed,
    UnsupportedMessage,
    /// Kinds of the TCP options that the client wanted to offer to the server.
    UnsupportedOptions(Vec<u8>),
    NetworkFailure,
    ConnectionReset,
    /// The code of the ICMP message that reported it.
    DestinationUnreachable(u8),
    /// No answer is sent: a message with length 0 is answered by a reset (section 6.1).
    Reset,
}

impl Refusal {
    /// Returns why a server could not be reached, from the kernel's error for an ICMP message (RFC
    /// 792; RFC 4443, section 3.1).
    pub(super) fn of(error: &io::Error, server: IpAddr) -> Self {
        let address_unreachable = if server.is_ipv4() { 1 } else { 3 };
        match Errno::from_io_error(error) {
            Some(Errno::CONNREFUSED | Errno::CONNRESET) => Self::ConnectionReset,
            Some(Errno::NETUNREACH) => Self::DestinationUnreachable(0),
            Some(Errno::HOSTUNREACH) => Self::DestinationUnreachable(address_unreachable),
            _ => Self::NetworkFailure,
        }
    }

    /// Returns the answer to a client that has sent `asked` so far. A message that was not
    /// understood is echoed as far as there is room. `None` if the connection is to be reset.
    pub(super) fn message(&self, asked: &[u8]) -> Option<Vec<u8>> {
        let (code, value) = match self {
            Self::UnsupportedVersion => (0, vec![VERSION]),
            Self::Malformed => (1, echo(asked)),
            Self::UnsupportedMessage => (2, echo(asked)),
            Self::UnsupportedOptions(kinds) => (33, kinds.clone()),
            Self::NetworkFailure => (65, vec![0]),
            Self::ConnectionReset => (96, vec![0]),
            Self::DestinationUnreachable(icmp_code) => (97, vec![*icmp_code]),
            Self::Reset => return None,
        };
        let words = (ERROR_BYTES + value.len()).div_ceil(WORD_BYTES);
        let mut message = header(words * WORD_BYTES);
        message.extend([ERROR, words as u8, code]);
        message.extend(value);
        message.resize(HEADER_BYTES + words * WORD_BYTES, 0);
        Some(message)
    }
}

/// Returns the echo after a zero byte, so that its alignment is kept.
fn echo(asked: &[u8]) -> Vec<u8> {
    let room = LONGEST_MESSAGE_BYTES - HEADER_BYTES - WORD_BYTES;
    let echoed = &asked[..asked.len().min(room)];
    [&[0], echoed].concat()
}

/// Returns a client's message for this destination.
pub(super) fn connect(to: SocketAddr) -> Vec<u8> {
    let mut message = header(CONNECT_BYTES);
    message.extend([CONNECT, (CONNECT_BYTES / WORD_BYTES) as u8]);
    message.extend(to.port().to_be_bytes());
    let address = match to.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    message.extend(address.octets());
    message
}

/// Returns the message of a gateway that has connected.
pub(super) fn connected() -> Vec<u8> {
    header(0)
}

fn header(tlv_bytes: usize) -> Vec<u8> {
    let words = (HEADER_BYTES + tlv_bytes) / WORD_BYTES;
    vec![VERSION, words as u8, MAGIC[0], MAGIC[1]]
}

/// A message that is being received.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Incoming(Vec<u8>);

impl Incoming {
    /// Reads more of the message, but nothing after it. Returns the message once it is complete.
    ///
    /// # Errors
    /// The bytes are not of this protocol, or the stream has ended.
    pub(super) fn read(&mut self, stream: &mut dyn ByteStream) -> Result<Option<&[u8]>, Refusal> {
        loop {
            let missing = missing_bytes(&self.0)?;
            if missing == 0 {
                return Ok(Some(&self.0));
            }
            let mut buffer = [0; LONGEST_MESSAGE_BYTES];
            match stream.receive(&mut buffer[..missing]) {
                Ok(0) => return Err(Refusal::Malformed),
                Ok(count) => self.0.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(Refusal::Malformed),
            }
        }
    }

    /// Returns the bytes received so far.
    pub(super) fn so_far(&self) -> &[u8] {
        &self.0
    }
}

/// Returns how many bytes the message still needs, as far as is known; 0 when it is complete.
///
/// # Errors
/// The bytes are not of this protocol.
fn missing_bytes(start: &[u8]) -> Result<usize, Refusal> {
    let Some(header) = start.get(..HEADER_BYTES) else {
        return Ok(HEADER_BYTES - start.len());
    };
    if header[2..] != MAGIC {
        return Err(Refusal::Malformed);
    }
    if header[0] != VERSION {
        return Err(Refusal::UnsupportedVersion);
    }
    match usize::from(header[1]) * WORD_BYTES {
        0 => Err(Refusal::Reset),
        bytes => Ok(bytes.saturating_sub(start.len())),
    }
}

/// Returns the destination in a client's complete message.
///
/// # Errors
/// The destination is missing or not allowed (section 6.2.5).
pub(super) fn destination(message: &[u8]) -> Result<SocketAddr, Refusal> {
    let tlvs = tlvs(message)?;
    if tlvs
        .iter()
        .any(|tlv| ![CONNECT, COOKIE].contains(&tlv.kind))
    {
        return Err(Refusal::UnsupportedMessage);
    }
    let connect = tlvs.iter().find(|tlv| tlv.kind == CONNECT);
    let (port, rest) = connect
        .and_then(|tlv| tlv.value.split_first_chunk::<2>())
        .ok_or(Refusal::Malformed)?;
    let (address, options) = rest.split_first_chunk::<16>().ok_or(Refusal::Malformed)?;
    let kinds = option_kinds(options)?;
    if !kinds.is_empty() {
        return Err(Refusal::UnsupportedOptions(kinds));
    }
    let address = IpAddr::from(*address).to_canonical();
    match is_one_host_elsewhere(address) {
        true => Ok(SocketAddr::new(address, u16::from_be_bytes(*port))),
        false => Err(Refusal::Malformed),
    }
}

/// Returns whether a client may connect to this address. Addresses that only the gateway itself
/// reaches are not allowed.
fn is_one_host_elsewhere(address: IpAddr) -> bool {
    let is_here = address.is_loopback() || address.is_unspecified();
    !is_here && !address.is_multicast() && address != Ipv4Addr::BROADCAST
}

/// Returns the kinds in a list of TCP options, each with its length. Padding of zeros is not an
/// option.
fn option_kinds(mut options: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut kinds = Vec::new();
    while let Some(kind) = options.first().filter(|kind| **kind != 0) {
        let len = options.get(1).map_or(0, |len| usize::from(*len));
        options = options
            .get(len..)
            .filter(|_| len >= 2 && *kind != 1)
            .ok_or(Refusal::Malformed)?;
        kinds.push(*kind);
    }
    Ok(kinds)
}

/// Returns whether a gateway's complete message says that it has connected.
pub(super) fn is_connected(message: &[u8]) -> bool {
    let is_good = |tlv: &Tlv<'_>| ![0, ERROR].contains(&tlv.kind);
    tlvs(message).is_ok_and(|tlvs| tlvs.iter().all(is_good))
}

#[derive(Debug)]
struct Tlv<'a> {
    kind: u8,
    value: &'a [u8],
}

/// Returns the TLVs of a complete message. None may occur twice (section 6.2.1).
fn tlvs(message: &[u8]) -> Result<Vec<Tlv<'_>>, Refusal> {
    let mut rest = &message[HEADER_BYTES..];
    let mut tlvs = Vec::new();
    let mut kinds = BTreeSet::new();
    while let Some(&[kind, words]) = rest.first_chunk::<2>() {
        let (tlv, behind) = rest
            .split_at_checked(usize::from(words) * WORD_BYTES)
            .filter(|(tlv, _)| !tlv.is_empty() && kinds.insert(kind))
            .ok_or(Refusal::Malformed)?;
        let value = &tlv[2..];
        tlvs.push(Tlv { kind, value });
        rest = behind;
    }
    Ok(tlvs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_understood() {
        for to in ["192.0.2.7:80", "[2001:db8::7]:65535"] {
            let to: SocketAddr = to.parse().unwrap();
            let message = connect(to);
            assert_eq!(message.len(), 24);
            for known in 0..HEADER_BYTES {
                assert_eq!(missing_bytes(&message[..known]), Ok(HEADER_BYTES - known));
            }
            assert_eq!(missing_bytes(&message[..7]), Ok(17));
            assert_eq!(missing_bytes(&message), Ok(0));
            assert_eq!(destination(&message), Ok(to));
            let cookie = [COOKIE, 2, 0, 0, 1, 2, 3, 4];
            assert_eq!(destination(&with_behind(&message, &cookie)), Ok(to));
        }
    }

    fn with_behind(message: &[u8], tlv: &[u8]) -> Vec<u8> {
        let mut longer = [message, tlv].concat();
        longer[1] = (longer.len() / WORD_BYTES) as u8;
        longer
    }

    #[test]
    fn bytes_of_a_connect_message_are_those_of_the_rfc() {
        let message = connect("192.0.2.7:80".parse().unwrap());
        let expected = [
            1, 6, 0x22, 0x63, 10, 5, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7,
        ];
        assert_eq!(message, expected);
    }

    #[test]
    fn what_is_none_is_refused() {
        let message = connect("192.0.2.7:80".parse().unwrap());
        let with = |place: usize, byte: u8| {
            let mut other = message.clone();
            other[place] = byte;
            other
        };
        assert_eq!(missing_bytes(&with(2, 0x47)), Err(Refusal::Malformed));
        assert_eq!(missing_bytes(&with(0, 2)), Err(Refusal::UnsupportedVersion));
        assert_eq!(missing_bytes(&with(1, 0)), Err(Refusal::Reset));
        assert_eq!(destination(&with(4, 1)), Err(Refusal::UnsupportedMessage));
        assert_eq!(destination(&with(5, 6)), Err(Refusal::Malformed));
        assert_eq!(destination(&with(5, 1)), Err(Refusal::Malformed));
        assert_eq!(destination(&with(5, 0)), Err(Refusal::Malformed));
        assert_eq!(
            destination(&message[..HEADER_BYTES]),
            Err(Refusal::Malformed)
        );
        let twice = with_behind(&message, &message[HEADER_BYTES..]);
        assert_eq!(destination(&twice), Err(Refusal::Malformed));
    }

    #[test]
    fn nobody_is_led_to_the_gateway_itself_or_to_many() {
        for to in [
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ] {
            let message = connect(SocketAddr::new(to.parse().unwrap(), 80));
            assert_eq!(destination(&message), Err(Refusal::Malformed), "{to}");
        }
    }

    #[test]
    fn options_for_the_server_are_refused_by_their_kinds() {
        let base = connect("192.0.2.7:80".parse().unwrap());
        let with = |options: &[u8]| {
            let mut message = with_behind(&base, options);
            message[5] += (options.len() / WORD_BYTES) as u8;
            destination(&message)
        };
        let fast_open_and_mptcp = [34, 2, 30, 4, 0, 0, 0, 0];
        let kinds = Refusal::UnsupportedOptions(vec![34, 30]);
        assert_eq!(with(&fast_open_and_mptcp), Err(kinds));
        assert_eq!(with(&[30, 5, 0, 0]), Err(Refusal::Malformed));
        assert_eq!(with(&[1, 2, 0, 0]), Err(Refusal::Malformed));
    }

    #[test]
    fn refusals_say_what_the_rfc_wants_with_them() {
        let asked = connect("192.0.2.7:80".parse().unwrap());
        let echoed = [&[1, 8, 0x22, 0x63, 30, 7, 1, 0], asked.as_slice()].concat();
        assert_eq!(Refusal::Malformed.message(&asked), Some(echoed));
        assert_eq!(Refusal::Reset.message(&asked), None);
        let message = |refusal: Refusal| refusal.message(&asked).unwrap().split_off(HEADER_BYTES);
        assert_eq!(message(Refusal::UnsupportedVersion), [30, 1, 0, VERSION]);
        let kinds = Refusal::UnsupportedOptions(vec![34, 30]);
        assert_eq!(message(kinds), [30, 2, 33, 34, 30, 0, 0, 0]);
        assert_eq!(message(Refusal::DestinationUnreachable(3)), [30, 1, 97, 3]);
        let longest = Refusal::Malformed
            .message(&[0; LONGEST_MESSAGE_BYTES])
            .unwrap();
        assert_eq!((longest.len(), longest[1]), (LONGEST_MESSAGE_BYTES, 255));
    }

    #[test]
    fn answers_say_whether_there_is_a_connection() {
        assert!(is_connected(&connected()));
        assert!(!is_connected(
            &Refusal::ConnectionReset.message(&[]).unwrap()
        ));
        // The options of a SYN/ACK, which other gateways send.
        assert!(is_connected(&[1, 2, 0x22, 0x63, 20, 1, 0, 0]));
        assert!(!is_connected(&[1, 2, 0x22, 0x63, 0, 1, 0, 0]));
    }
}
