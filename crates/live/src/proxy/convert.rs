//! How a client tells a gateway where to connect to: the Connect and Error TLVs of the 0-RTT TCP Convert Protocol (RFC 8803).
//!
//! A message is a fixed header (section 6.1), then TLVs (section 6.2). The client's stands at the start of its stream, the gateway's
//! at the start of the other one. We send it once the connection stands, as our engine sends no data with a SYN: that costs a round
//! trip. A gateway whose connection stands answers with a header alone, as the options of the server's SYN/ACK, which the RFC has
//! there, are known to the kernel only.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use crate::traffic::ByteStream;

const VERSION: u8 = 1;
const MAGIC: [u8; 2] = [0x22, 0x63];
/// Lengths are in these units.
const WORD_BYTES: usize = 4;
const HEADER_BYTES: usize = WORD_BYTES;
const CONNECT: u8 = 10;
const CONNECT_BYTES: usize = 20;
const ERROR: u8 = 30;
/// The most that a message can have.
const LONGEST_MESSAGE_BYTES: usize = 255 * WORD_BYTES;

/// Why a gateway did not connect (section 6.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ErrorCode {
    UnsupportedVersion = 0,
    Malformed = 1,
    UnsupportedMessage = 2,
    NotAuthorized = 32,
    NetworkFailure = 65,
    ConnectionReset = 96,
    DestinationUnreachable = 97,
}

/// What a client asks for.
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

/// What a gateway says whose connection stands.
pub(super) fn connected() -> Vec<u8> {
    header(0)
}

/// What a gateway says that could not do as asked.
pub(super) fn refused(code: ErrorCode) -> Vec<u8> {
    let mut message = header(WORD_BYTES);
    message.extend([ERROR, 1, code as u8, 0]);
    message
}

fn header(tlv_bytes: usize) -> Vec<u8> {
    let words = (HEADER_BYTES + tlv_bytes) / WORD_BYTES;
    vec![VERSION, words as u8, MAGIC[0], MAGIC[1]]
}

/// A message that is arriving.
#[derive(Debug, Default)]
pub(super) struct Incoming(Vec<u8>);

impl Incoming {
    /// Reads on, and nothing behind it; the message once it is whole.
    ///
    /// # Errors
    /// It is none of this protocol, or its stream has ended.
    pub(super) fn read(&mut self, stream: &mut dyn ByteStream) -> Result<Option<&[u8]>, ErrorCode> {
        loop {
            let missing = missing_bytes(&self.0)?;
            if missing == 0 {
                return Ok(Some(&self.0));
            }
            let mut buffer = [0; LONGEST_MESSAGE_BYTES];
            match stream.receive(&mut buffer[..missing]) {
                Ok(0) => return Err(ErrorCode::Malformed),
                Ok(count) => self.0.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(ErrorCode::Malformed),
            }
        }
    }
}

/// How many bytes of the message are still missing, as far as its start tells; 0 when it is whole.
///
/// # Errors
/// It is none of this protocol.
fn missing_bytes(start: &[u8]) -> Result<usize, ErrorCode> {
    let Some(header) = start.get(..HEADER_BYTES) else {
        return Ok(HEADER_BYTES - start.len());
    };
    if header[2..] != MAGIC {
        return Err(ErrorCode::Malformed);
    }
    if header[0] != VERSION {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let bytes = usize::from(header[1]) * WORD_BYTES;
    match bytes < HEADER_BYTES {
        true => Err(ErrorCode::Malformed),
        false => Ok(bytes.saturating_sub(start.len())),
    }
}

/// Where a whole message of a client wants to go.
///
/// # Errors
/// It says nothing of that, or something that makes no sense.
pub(super) fn destination(message: &[u8]) -> Result<SocketAddr, ErrorCode> {
    let (kind, value) = first_tlv(message)?.ok_or(ErrorCode::Malformed)?;
    if kind != CONNECT {
        return Err(ErrorCode::UnsupportedMessage);
    }
    let (port, address) = value
        .split_first_chunk::<2>()
        .and_then(|(port, rest)| Some((port, rest.first_chunk::<16>()?)))
        .ok_or(ErrorCode::Malformed)?;
    let address = IpAddr::from(*address).to_canonical();
    Ok(SocketAddr::new(address, u16::from_be_bytes(*port)))
}

/// Whether a whole message of a gateway says that its connection stands.
pub(super) fn is_connected(message: &[u8]) -> bool {
    matches!(first_tlv(message), Ok(first) if first.is_none_or(|(kind, _)| kind != ERROR))
}

/// Type and value of the first TLV behind the header, if there is one.
fn first_tlv(message: &[u8]) -> Result<Option<(u8, &[u8])>, ErrorCode> {
    let Some(&[kind, words]) = message
        .get(HEADER_BYTES..)
        .and_then(|tlvs| tlvs.first_chunk::<2>())
    else {
        return Ok(None);
    };
    let tlv = HEADER_BYTES..HEADER_BYTES + usize::from(words) * WORD_BYTES;
    let value = message.get(tlv).and_then(|tlv| tlv.get(2..));
    Ok(Some((kind, value.ok_or(ErrorCode::Malformed)?)))
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
        }
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
        assert_eq!(missing_bytes(&with(2, 0x47)), Err(ErrorCode::Malformed));
        assert_eq!(
            missing_bytes(&with(0, 2)),
            Err(ErrorCode::UnsupportedVersion)
        );
        assert_eq!(missing_bytes(&with(1, 0)), Err(ErrorCode::Malformed));
        assert_eq!(destination(&with(4, 1)), Err(ErrorCode::UnsupportedMessage));
        assert_eq!(destination(&with(5, 6)), Err(ErrorCode::Malformed));
        assert_eq!(destination(&with(5, 1)), Err(ErrorCode::Malformed));
        assert_eq!(
            destination(&message[..HEADER_BYTES]),
            Err(ErrorCode::Malformed)
        );
    }

    #[test]
    fn answers_say_whether_there_is_a_connection() {
        assert!(is_connected(&connected()));
        assert!(!is_connected(&refused(ErrorCode::ConnectionReset)));
        // The options of a SYN/ACK, which other gateways tell.
        assert!(is_connected(&[1, 2, 0x22, 0x63, 20, 1, 0, 0]));
    }
}
