//! Packet scripts: what the RFCs (9293, 8684 and related ones) require of handshakes, options,
//! fallback and close, packet by packet.
//!
//! Each file `*.pkt` is a conversation with one host in packetdrill's language (Cardwell et al.,
//! USENIX ATC 2013) with the MPTCP options of multipath-tcp/packetdrill. A line has a time and one
//! of these: a system call, a packet that arrives (`<`), a packet that must be sent (`>`), or an
//! ICMP error. Time is virtual and exact; `+0~+0.5` allows a range. A line must expect every packet
//! that the stack sends. Payloads are not written: both sides send a byte stream, and every byte is
//! checked.

mod display;
mod host;
mod interpreter;
mod options;
mod run;
mod script;
mod session;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packet_scripts")
}

fn run_script(name: &str) {
    let text = fs::read_to_string(directory().join(format!("{name}.pkt"))).expect("a script");
    if let Err(why) = run::run(&text) {
        panic!("{name}.pkt, {why}");
    }
}

macro_rules! scripts {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run_script(stringify!($name));
            }
        )*

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

scripts! {
    add_addr_active
    add_addr_ours
    add_addr_port
    add_addr_port_ours
    add_addr_without_echo
    add_addr_wrong_hmac
    break_before_make
    close_last_subflow
    close_listener
    close_subflow
    data_ack_beyond
    data_ack_left_out
    data_fin_backs_off
    data_fin_before_data
    data_fin_checksum
    data_fin_lost
    data_fin_ours
    data_fin_received
    data_fin_two_subflows
    data_fin_wrong_checksum
    data_twice
    data_window
    data_window_late_segment
    dss_checksum_missing
    dss_checksum_over_segments
    dss_checksum_unwanted
    dss_long_numbers
    dss_mapping_over_segments
    dss_short_numbers
    duplicates_with_options
    fallback_at_first_data_active
    fallback_at_first_data_passive
    fallback_at_syn_ack
    fallback_at_third_packet
    fastclose_ack
    fastclose_ours
    fastclose_rst
    fastclose_wrong_key
    handshake_active
    handshake_active_many_data
    handshake_checksum_active
    handshake_checksum_ours
    handshake_checksum_passive
    handshake_flag_b
    handshake_flag_b_of_third_packet
    handshake_flag_b_of_syn_ack
    handshake_passive
    handshake_syn_retries
    handshake_version_0
    handshake_version_2
    handshake_version_of_syn_ack
    handshake_without_algorithm
    handshake_without_algorithm_of_syn_ack
    handshake_wrong_receiver_key
    infinite_mapping_one_subflow
    infinite_mapping_two_subflows
    join_active
    join_active_flag_c
    join_active_no_option
    join_active_third_packet_lost
    join_active_wrong_hmac
    join_after_fallback
    join_before_established
    join_passive
    join_passive_backup
    join_passive_flag_c
    join_passive_no_option
    join_passive_unknown_token
    join_passive_wrong_hmac
    join_syn_twice
    join_without_data_ack
    mapping_contradicts
    mapping_late
    mapping_missing
    mapping_missing_window
    mp_fail_not_contiguous
    mp_fail_ours
    mp_fail_out_of_order
    mp_fail_received
    mp_fail_repeated
    mp_fail_two_subflows
    mp_prio
    mp_prio_ours
    options_of_unacceptable_segments
    remove_addr
    remove_addr_alive
    remove_addr_ours
    remove_addr_several
    reset_one_subflow
    signals_in_a_row
    subflow_fin
    tcp_ack_validation
    tcp_delayed_ack
    tcp_delayed_ack_on_data
    tcp_fast_retransmit
    tcp_fin_lost
    tcp_half_close
    tcp_limited_transmit
    tcp_limited_transmit_sack
    tcp_mss
    tcp_new_reno
    tcp_no_connection
    tcp_refused
    tcp_reset_in_syn_received
    tcp_rst_validation
    tcp_rto_back_off
    tcp_sack_blocks
    tcp_sack_overtaken
    tcp_silly_window
    tcp_simultaneous_close
    tcp_simultaneous_open
    tcp_syn_ack_retries
    tcp_syn_unreachable
    tcp_syn_validation
    tcp_timestamps
    tcp_too_big
    tcp_window_probe
    tcp_wrong_ack_of_syn
    tcp_wrong_ack_of_syn_ack
    tcp_zero_window_ours
    third_packet_lost_active
    third_packet_lost_passive
    third_packet_lost_reordered
}

#[test]
fn every_script_is_run() {
    let files = fs::read_dir(directory()).expect("the directory of scripts");
    let paths = files.map(|file| file.expect("an entry").path());
    let scripts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "pkt"));
    let stems: BTreeSet<_> = scripts
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    let names: BTreeSet<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(stems, names);
}
