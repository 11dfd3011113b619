//! The option list of IPv4 (RFC 791, section 3.1) and TCP (RFC 9293, section 3.1): kind, length,
//! value.

/// End of option list: the bytes after it are padding.
const END: u8 = 0;
/// No operation: one byte of padding between options.
pub(super) const NO_OPERATION: u8 = 1;

/// Iterates over the options of a header. Each item is the kind of an option and the bytes after
/// its length field. Padding is skipped.
///
/// Iteration ends before the first option with an invalid length, because the start of the next
/// option is then unknown.
#[derive(Clone, Debug)]
pub struct OptionsIter<'a> {
    rest: &'a [u8],
    is_malformed: bool,
}

impl<'a> OptionsIter<'a> {
    pub(super) fn new(options: &'a [u8]) -> Self {
        Self {
            rest: options,
            is_malformed: false,
        }
    }

    /// Returns whether iteration ended at an option whose length field is less than 2 or exceeds
    /// the header. The answer is final only after the iterator has returned `None`.
    pub fn is_malformed(&self) -> bool {
        self.is_malformed
    }
}

impl<'a> Iterator for OptionsIter<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut options = self.rest;
        while let [NO_OPERATION, rest @ ..] = options {
            options = rest;
        }
        self.rest = &[];
        if let [] | [END, ..] = options {
            return None;
        }
        let len = options.get(1).copied().map(usize::from);
        let split = len.and_then(|len| options.split_at_checked(len));
        let Some(([kind, _, content @ ..], rest)) = split else {
            self.is_malformed = true;
            return None;
        };
        self.rest = rest;
        Some((*kind, content))
    }
}
