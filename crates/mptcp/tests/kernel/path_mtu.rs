//! Linux as a router that reports the MTU, and as the receiver of data that is sent again in
//! shorter segments.

use crate::judge::{Judge, Opener, Trial};
use crate::path::Family;

#[test]
#[ignore = "needs root"]
fn what_a_router_does_not_take_goes_again_in_shorter_segments() {
    for (family, kernel_checksums) in [(Family::V4, false), (Family::V6, true)] {
        let mut judge = Judge::new(Trial {
            family,
            paths: 2,
            upload: 2_000_000,
            router_mtu_bytes: Some(1280),
            kernel_checksums,
            ..Trial::new(Opener::Engine)
        });
        judge.run_until(|judge| has_acked(judge, 200_000));
        // In addition to the headers, a packet has timestamps and a DSS.
        let headers = if family == Family::V4 { 40 } else { 60 };
        for subflow in judge.state().unwrap().subflows() {
            let least = 1280 - headers - 12 - 28;
            let bytes = subflow.window.mss_bytes;
            assert!((least..1280 - headers).contains(&bytes), "{bytes}");
            assert_eq!(subflow.counters.timeouts, 0);
        }
        judge.run_to_the_end();
        judge.assert_no_trouble_but(&[]);
    }
}

/// Returns whether the kernel has acknowledged `bytes` bytes on both paths.
fn has_acked(judge: &Judge, bytes: u64) -> bool {
    let subflows = judge.state().into_iter().flat_map(|it| it.subflows());
    subflows
        .filter(|it| it.counters.acked_bytes >= bytes)
        .count()
        == 2
}
