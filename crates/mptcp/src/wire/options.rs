//! Options as IPv4 (RFC 791, section 3.1) and TCP (RFC 9293, section 3.1) write them: kind, length, content.

/// End of option list: what follows is padding.
const END: u8 = 0;
/// No operation: one byte, between options.
pub(super) const NO_OPERATION: u8 = 1;

/// The options of a header as pairs of kind and content, without paddings. It ends before the first option whose length is
/// impossible, because where the next one would start is not known then.
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

    /// Whether it ended at an option whose length is less than its own two bytes or reaches beyond the header.
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
