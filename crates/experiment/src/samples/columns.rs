//! The columns of a table in memory.

use rustc_hash::FxHashMap;

/// A table: the names and values of its columns, in order. All columns have the same length.
pub type Table = Vec<(String, Column)>;

/// What a column contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// int64.
    Integers,
    /// float64.
    Floats,
    /// UTF-8. Few words, of which each occurs in many rows.
    Words,
}

/// All values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// int64.
    Integers(Vec<i64>),
    /// float64.
    Floats(Vec<f64>),
    /// Words, each stored once.
    Words {
        /// One index into `words` for each row.
        codes: Vec<i32>,
        /// In the order of first use.
        words: Vec<String>,
    },
}

impl Column {
    /// Returns what the column contains.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Integers(_) => Kind::Integers,
            Self::Floats(_) => Kind::Floats,
            Self::Words { .. } => Kind::Words,
        }
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Words { codes, .. } => codes.len(),
        }
    }
}

/// A column that is being read.
pub(super) enum Growing {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Words(GrowingWords),
}

#[derive(Default)]
pub(super) struct GrowingWords {
    codes: Vec<i32>,
    words: Vec<String>,
    code_of: FxHashMap<String, i32>,
}

impl Growing {
    pub(super) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Integers => Self::Integers(Vec::new()),
            Kind::Floats => Self::Floats(Vec::new()),
            Kind::Words => Self::Words(GrowingWords::default()),
        }
    }

    pub(super) fn finish(self) -> Column {
        match self {
            Self::Integers(values) => Column::Integers(values),
            Self::Floats(values) => Column::Floats(values),
            Self::Words(GrowingWords { codes, words, .. }) => Column::Words { codes, words },
        }
    }
}

impl GrowingWords {
    /// Appends a row.
    pub(super) fn push(&mut self, word: &str) {
        let code = self.code_of.get(word).copied();
        let code = code.unwrap_or_else(|| self.add(word));
        self.codes.push(code);
    }

    fn add(&mut self, word: &str) -> i32 {
        let code = self.words.len() as i32;
        self.words.push(word.to_owned());
        self.code_of.insert(word.to_owned(), code);
        code
    }
}
