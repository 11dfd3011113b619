//! What a gateway and its clients say to each other, from any bytes.

use std::net::Ipv4Addr;

use super::convert::{self, Incoming, Refusal};
use crate::applications::traffic::ByteStream;

/// Takes bytes for the message of a client, and for that of a gateway.
pub(crate) fn check_convert(stream: &mut dyn ByteStream) {
    let mut incoming = Incoming::default();
    let refusal = loop {
        match incoming.read(stream) {
            Ok(None) => {
                // What is to come later has come, or there is nothing more.
                if stream.receive(&mut [0; 1]).is_err() {
                    return;
                }
            }
            Ok(Some(message)) => {
                assert_eq!(message.len(), usize::from(message[1]) * 4);
                convert::is_connected(message);
                break convert::destination(message).map(|to| {
                    assert!(!to.ip().is_loopback() && !to.ip().is_multicast());
                    assert!(to.ip() != Ipv4Addr::BROADCAST && !to.ip().is_unspecified());
                    assert_eq!(convert::destination(&convert::connect(to)), Ok(to));
                });
            }
            Err(refusal) => break Err(refusal),
        }
    };
    if let Err(refusal) = refusal {
        check_answer(&refusal, incoming.so_far());
    }
}

/// A refusal is a whole message that is none of a connection.
fn check_answer(refusal: &Refusal, asked: &[u8]) {
    let Some(answer) = refusal.message(asked) else {
        return;
    };
    assert_eq!(answer.len(), usize::from(answer[1]) * 4);
    assert!(!convert::is_connected(&answer));
}
