//! An input as a list of commands with arguments.

/// The rest of an input.
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// Returns the next command, unless the input has ended.
    pub fn command(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns an argument; 0 after the end.
    pub fn byte(&mut self) -> u8 {
        self.command().unwrap_or(0)
    }

    /// Returns an argument below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Returns a distance between sequence numbers: usually short, at times long.
    pub fn distance(&mut self) -> u32 {
        let short = i32::from(self.word() as i16);
        match self.byte() % 8 {
            0 => (short << 16) as u32,
            1..=3 => (short >> 8) as u32,
            _ => short as u32,
        }
    }

    /// Returns at most `count` bytes as they are.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
