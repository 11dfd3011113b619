//! Next hops: fewest hops toward the destination, found when a destination is first used.

use std::collections::VecDeque;

/// An interface as forwarding sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachment {
    pub(super) node: usize,
    /// The interface at the other end of its link.
    pub(super) peer: usize,
}

/// Routes of all nodes that forward.
///
/// At equal distance the interface declared first wins. Routes do not follow failures: nobody tells a router.
pub(super) struct Routes {
    attachments: Vec<Attachment>,
    interfaces_of: Vec<Vec<usize>>,
    forwards: Vec<bool>,
    /// By destination interface: the interface by which each node sends.
    next_hops: Vec<Option<NextHops>>,
}

type NextHops = Box<[Option<u32>]>;

impl Routes {
    /// `forwards` says of each node whether it passes packets on.
    pub(super) fn new(attachments: Vec<Attachment>, forwards: Vec<bool>) -> Self {
        let mut interfaces_of = vec![Vec::new(); forwards.len()];
        for (index, attachment) in attachments.iter().enumerate() {
            interfaces_of[attachment.node].push(index);
        }
        Self {
            next_hops: vec![None; attachments.len()],
            attachments,
            interfaces_of,
            forwards,
        }
    }

    /// The interface by which `node` sends to the interface `destination`; `None` if there is no way.
    pub(super) fn next_hop(&mut self, node: usize, destination: usize) -> Option<usize> {
        if self.next_hops[destination].is_none() {
            self.next_hops[destination] = Some(self.search_from(destination));
        }
        let hop = self.next_hops[destination].as_ref()?[node]?;
        Some(hop as usize)
    }

    /// Breadth first from the destination's link outward, through nodes that forward.
    fn search_from(&self, destination: usize) -> NextHops {
        let mut next_hops = vec![None; self.forwards.len()];
        let mut reached = VecDeque::new();
        let mut reach = |interface: usize, reached: &mut VecDeque<usize>| {
            let node = self.attachments[interface].node;
            if self.forwards[node] && next_hops[node].is_none() {
                next_hops[node] = Some(interface as u32);
                reached.push_back(node);
            }
        };
        reach(self.attachments[destination].peer, &mut reached);
        while let Some(node) = reached.pop_front() {
            for interface in &self.interfaces_of[node] {
                reach(self.attachments[*interface].peer, &mut reached);
            }
        }
        next_hops.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interfaces 2k and 2k + 1 are the ends of link k, between the two nodes given.
    fn routes(links: &[(usize, usize)], forwards: &[bool]) -> Routes {
        let ends = links.iter().enumerate().flat_map(|(link, (a, b))| {
            [
                Attachment {
                    node: *a,
                    peer: 2 * link + 1,
                },
                Attachment {
                    node: *b,
                    peer: 2 * link,
                },
            ]
        });
        Routes::new(ends.collect(), forwards.to_vec())
    }

    #[test]
    fn the_shorter_way_wins_and_the_first_declared_at_a_tie() {
        // Host 0 - router 1; router 1 to 4 by 2 or by 3; router 4 - host 5.
        let links = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)];
        let mut diamond = routes(&links, &[false, true, true, true, true, false]);
        assert_eq!(diamond.next_hop(1, 11), Some(2));
        assert_eq!(diamond.next_hop(4, 0), Some(7));
        let mut with_shortcut = routes(
            &[(0, 1), (1, 2), (2, 4), (1, 4), (4, 5)],
            &[false, true, true, true, true, false],
        );
        assert_eq!(with_shortcut.next_hop(1, 9), Some(6));
    }

    #[test]
    fn hosts_do_not_forward() {
        let mut line = routes(&[(0, 1), (1, 2), (2, 3)], &[true, false, true, false]);
        assert_eq!(line.next_hop(0, 5), None);
        assert_eq!(line.next_hop(2, 5), Some(4));
    }

    #[test]
    fn a_circle_of_routers_leads_out() {
        let mut circle = routes(
            &[(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)],
            &[false, true, true, true, false],
        );
        assert_eq!(circle.next_hop(1, 9), Some(7));
        assert_eq!(circle.next_hop(2, 9), Some(4));
        assert_eq!(circle.next_hop(3, 9), Some(8));
    }
}
