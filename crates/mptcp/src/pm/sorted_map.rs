//! A map for few entries, kept in one allocation. The first entry of a `BTreeMap` allocates room
//! for eleven, which is much for each of many connections.

/// Entries sorted by key.
#[derive(Clone, Debug)]
pub(super) struct SortedMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord + Copy, V> SortedMap<K, V> {
    /// Creates a map with one entry.
    pub(super) fn of(key: K, value: V) -> Self {
        Self(vec![(key, value)])
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by_key(key, |(its_key, _)| *its_key)
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    /// Returns the value of `key`, inserting the result of `value` if there is none.
    pub(super) fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let at = self.find(&key).unwrap_or_else(|at| {
            self.0.reserve_exact(1);
            self.0.insert(at, (key, value()));
            at
        });
        &mut self.0[at].1
    }

    /// Sets the value of `key`.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(at) => self.0[at].1 = value,
            Err(_) => {
                self.get_or_insert_with(key, || value);
            }
        }
    }

    /// Removes the entry of `key`. An empty map holds no allocation.
    pub(super) fn remove(&mut self, key: &K) {
        if let Ok(at) = self.find(key) {
            self.0.remove(at);
        }
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&K, &V) -> bool) {
        self.0.retain(|(key, value)| keeps(key, value));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
