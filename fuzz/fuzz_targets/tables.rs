//! Tables of bundles under libFuzzer, which looks for inputs that reach new code.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mptcp_fuzz::tables(bytes));
