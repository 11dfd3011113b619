//! A selection of cells in which every two compatible values meet.

use std::collections::BTreeSet;

/// Values of a cell, one of each dimension, by their indices.
pub type Values<const N: usize> = [usize; N];

/// Two values, each with its dimension.
type Pair = [(usize, usize); 2];

/// Returns, by a greedy choice, few of `cells` that contain every pair of values of any cell.
pub fn pairwise<const N: usize>(cells: &[Values<N>]) -> Vec<Values<N>> {
    let mut missing: BTreeSet<Pair> = cells.iter().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let news = |cell: &&Values<N>| pairs(cell).filter(|pair| missing.contains(pair)).count();
        // The first of equals.
        let best = cells
            .iter()
            .rev()
            .max_by_key(news)
            .expect("there are cells");
        chosen.push(*best);
        pairs(best).for_each(|pair| {
            missing.remove(&pair);
        });
    }
    chosen
}

fn pairs<const N: usize>(cell: &Values<N>) -> impl Iterator<Item = Pair> + use<'_, N> {
    let both = (0..N).flat_map(|second| (0..second).map(move |first| (first, second)));
    both.map(|(first, second)| [(first, cell[first]), (second, cell[second])])
}
