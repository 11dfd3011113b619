//! Shortest routes between forwarding nodes, as next hops. They are computed for each destination
//! when first needed.

use std::collections::{HashMap, HashSet, VecDeque};

use experiment::next_hop::{Choice, Chooser, FiveTuple};
use experiment::resolved::Experiment;
use rustc_hash::FxHashMap;

/// The nodes between hosts, and their next hops towards each other. Hosts do not forward.
pub(crate) struct Forwarding {
    /// How each node chooses. A node without a rule takes the first of equal next hops.
    choosers: Vec<Option<Chooser>>,
    /// Link directions from each node to other nodes, in the order of the links.
    leaving: Vec<Vec<u32>>,
    /// The node at the end of each link direction, if it forwards.
    node_behind: Vec<Option<usize>>,
    /// Next hops of all nodes, by destination.
    towards: FxHashMap<usize, Vec<NextHops>>,
}

/// The first links of all shortest routes from a node to a destination.
#[derive(Clone)]
struct NextHops {
    directions: Vec<u32>,
    /// The largest number of choices on any one route from the farthest nodes to this one.
    ways_before: usize,
}

impl Forwarding {
    /// Returns the nodes of a valid experiment, with their rules in the run with `seed`.
    pub(crate) fn new(experiment: &Experiment, seed: u64) -> Self {
        let nodes = experiment.nodes.iter().enumerate();
        let node_of: HashMap<_, _> = nodes.map(|(index, node)| (&node.id, index)).collect();
        let interfaces = experiment.interfaces.iter();
        let node_at: HashMap<_, _> = interfaces
            .map(|interface| (&interface.id, node_of.get(&interface.node).copied()))
            .collect();
        let links = experiment.links.iter();
        let node_behind: Vec<_> = links
            .flat_map(|link| [node_at[&link.b], node_at[&link.a]])
            .collect();
        let mut leaving = vec![Vec::new(); experiment.nodes.len()];
        for direction in 0..node_behind.len() {
            if let (Some(from), Some(_)) = (node_behind[direction ^ 1], node_behind[direction]) {
                leaving[from].push(direction as u32);
            }
        }
        let nodes = experiment.nodes.iter();
        let chooser = |rule, id: &String| Chooser::new(rule, id, seed);
        Self {
            choosers: nodes
                .map(|node| node.next_hop.map(|rule| chooser(rule, &node.id)))
                .collect(),
            leaving,
            node_behind,
            towards: FxHashMap::default(),
        }
    }

    /// Returns whether any route leads from the first of `ends` to the last.
    pub(crate) fn leads(&mut self, ends: [u32; 2]) -> bool {
        let [Some(start), Some(goal)] = self.nodes_between(ends) else {
            return false;
        };
        start == goal || !self.towards(goal)[start].directions.is_empty()
    }

    /// Returns the link directions that a packet takes: the two of `ends`, and between them those
    /// that routers choose.
    pub(super) fn way(&mut self, ends: [u32; 2], tuple: &FiveTuple) -> Option<Vec<u32>> {
        let [Some(start), Some(goal)] = self.nodes_between(ends) else {
            return None;
        };
        self.towards(goal);
        let towards = &self.towards[&goal];
        let mut way = vec![ends[0]];
        let mut node = start;
        while node != goal {
            let next = &towards[node];
            let choice = Choice {
                next_hops: next.directions.len(),
                ways_before: next.ways_before,
            };
            let chosen = match &self.choosers[node] {
                Some(chooser) if choice.next_hops > 1 => chooser.choose(tuple, choice),
                _ => 0,
            };
            let direction = *next.directions.get(chosen)?;
            way.push(direction);
            node = self.node_behind[direction as usize]?;
        }
        way.push(ends[1]);
        Some(way)
    }

    /// Returns the nodes after the first direction and before the last.
    fn nodes_between(&self, [first, last]: [u32; 2]) -> [Option<usize>; 2] {
        [first, last ^ 1].map(|direction| self.node_behind[direction as usize])
    }

    fn towards(&mut self, goal: usize) -> &[NextHops] {
        if !self.towards.contains_key(&goal) {
            let next_hops = self.shortest_ways(goal);
            self.towards.insert(goal, next_hops);
        }
        &self.towards[&goal]
    }

    fn shortest_ways(&self, goal: usize) -> Vec<NextHops> {
        let none = NextHops {
            directions: Vec::new(),
            ways_before: 1,
        };
        let mut next_hops = vec![none; self.leaving.len()];
        let (nearest_first, distances) = self.distances(goal);
        for &node in &nearest_first {
            let is_nearer = |direction: &&u32| {
                let behind = self.node_behind[**direction as usize];
                behind.is_some_and(|behind| distances[behind] + 1 == distances[node])
            };
            let leaving = self.leaving[node].iter();
            next_hops[node].directions = leaving.filter(is_nearer).copied().collect();
        }
        for &node in nearest_first.iter().rev() {
            let NextHops {
                directions,
                ways_before,
            } = next_hops[node].clone();
            let ways = ways_before.saturating_mul(directions.len().max(1));
            let behind: HashSet<_> = directions
                .iter()
                .filter_map(|direction| self.node_behind[*direction as usize])
                .collect();
            for behind in behind {
                next_hops[behind].ways_before = next_hops[behind].ways_before.max(ways);
            }
        }
        next_hops
    }

    /// Returns all nodes that reach `goal`, the nearest first, and the distance of each node in
    /// links.
    fn distances(&self, goal: usize) -> (Vec<usize>, Vec<usize>) {
        // Links lead both ways, so every node reached from the goal also reaches it.
        const UNREACHED: usize = usize::MAX / 2;
        let mut distances = vec![UNREACHED; self.leaving.len()];
        distances[goal] = 0;
        let mut order = Vec::new();
        let mut waiting = VecDeque::from([goal]);
        while let Some(node) = waiting.pop_front() {
            order.push(node);
            for direction in &self.leaving[node] {
                if let Some(behind) = self.node_behind[*direction as usize]
                    && distances[behind] == UNREACHED
                {
                    distances[behind] = distances[node] + 1;
                    waiting.push_back(behind);
                }
            }
        }
        (order, distances)
    }
}
