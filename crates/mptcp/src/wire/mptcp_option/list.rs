//! The list of MPTCP options of one segment.

use std::ops::{Deref, DerefMut};

use arrayvec::ArrayVec;

use super::{MptcpOption, OptionError};

/// The maximum number of MPTCP options in a segment.
const CAPACITY: usize = 3;

/// The MPTCP options of one segment, in the order in which they are sent. Dereferences to a slice.
///
/// Almost every segment has exactly one option, a DSS, which is stored inline. Several options are
/// stored on the heap, so that a segment stays small.
#[derive(Clone, Debug, Default)]
pub struct MptcpOptions(Place);

#[derive(Clone, Debug, Default)]
enum Place {
    #[default]
    Nowhere,
    Here(MptcpOption),
    Elsewhere(Box<ArrayVec<MptcpOption, CAPACITY>>),
}

impl MptcpOptions {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `option` to the list.
    ///
    /// # Panics
    /// Panics if the list already contains three options.
    pub fn push(&mut self, option: MptcpOption) {
        self.try_push(option).expect("at most three options");
    }

    /// Appends `option` to the list if there is room for it.
    ///
    /// # Errors
    /// Returns [`OptionError::Surplus`] if the list already contains three options.
    #[inline]
    pub fn try_push(&mut self, option: MptcpOption) -> Result<(), OptionError> {
        if let Place::Nowhere = self.0 {
            self.0 = Place::Here(option);
            return Ok(());
        }
        self.push_elsewhere(option)
    }

    fn push_elsewhere(&mut self, option: MptcpOption) -> Result<(), OptionError> {
        let mut options = match std::mem::take(&mut self.0) {
            Place::Elsewhere(options) => options,
            Place::Here(first) => Box::new([first].into_iter().collect()),
            Place::Nowhere => Box::default(),
        };
        let pushed = options.try_push(option);
        self.0 = Place::Elsewhere(options);
        pushed.map_err(|_| OptionError::Surplus)
    }
}

impl Deref for MptcpOptions {
    type Target = [MptcpOption];

    #[inline]
    fn deref(&self) -> &[MptcpOption] {
        match &self.0 {
            Place::Nowhere => &[],
            Place::Here(option) => std::slice::from_ref(option),
            Place::Elsewhere(options) => options,
        }
    }
}

impl DerefMut for MptcpOptions {
    fn deref_mut(&mut self) -> &mut [MptcpOption] {
        match &mut self.0 {
            Place::Nowhere => &mut [],
            Place::Here(option) => std::slice::from_mut(option),
            Place::Elsewhere(options) => options,
        }
    }
}

/// Lists with the same options are equal, wherever the options are stored.
impl PartialEq for MptcpOptions {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for MptcpOptions {}

impl Extend<MptcpOption> for MptcpOptions {
    fn extend<I: IntoIterator<Item = MptcpOption>>(&mut self, options: I) {
        options.into_iter().for_each(|option| self.push(option));
    }
}

impl FromIterator<MptcpOption> for MptcpOptions {
    fn from_iter<I: IntoIterator<Item = MptcpOption>>(options: I) -> Self {
        let mut all = Self::new();
        all.extend(options);
        all
    }
}

impl<'a> IntoIterator for &'a MptcpOptions {
    type Item = &'a MptcpOption;
    type IntoIter = std::slice::Iter<'a, MptcpOption>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut MptcpOptions {
    type Item = &'a mut MptcpOption;
    type IntoIter = std::slice::IterMut<'a, MptcpOption>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
