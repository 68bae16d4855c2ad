//! Properties of partitions of random graphs, and the number of clusters beside all partitions.
use disc_import::partition::{Kind, Node, NotInOrder, Step, Threshold, partition};
use proptest::prelude::*;

const ALL: Threshold = Threshold::Operations(0);

fn node(kind: Kind, reads: Vec<u32>) -> Node {
    Node { kind, is_cheap: false, is_result: false, operations: 1, bytes: 4096, reads, follows: Vec::new() }
}

/// Random graphs in program order, of at most `most` nodes.
fn graphs(most: usize) -> impl Strategy<Value = Vec<Node>> {
    let one = (any::<bool>(), any::<bool>(), any::<bool>(), 0..3_u32, 0..10_000_u64);
    let row = (one, prop::collection::vec(any::<u32>(), 0..3), prop::collection::vec(any::<u32>(), 0..2));
    prop::collection::vec(row, 0..most).prop_map(|rows| {
        let mut nodes = Vec::new();
        for (i, ((is_compiled, is_cheap, is_result, operations, bytes), reads, follows)) in (0_u32..).zip(rows) {
            let earlier = |picks: Vec<u32>| if i == 0 { Vec::new() } else { picks.into_iter().map(|p| p % i).collect() };
            let kind = if is_compiled { Kind::Compiled } else { Kind::Framework };
            let (reads, follows) = (earlier(reads), earlier(follows));
            nodes.push(Node { kind, is_cheap, is_result, operations, bytes, reads, follows });
        }
        nodes
    })
}

fn assert_runs_in_order(nodes: &[Node], steps: &[Step]) {
    let mut step_of = vec![None; nodes.len()];
    for (place, step) in steps.iter().enumerate() {
        let held = match step {
            Step::Framework(node) => std::slice::from_ref(node),
            Step::Cluster(held) => held.as_slice(),
        };
        assert!(held.is_sorted());
        for &node in held {
            assert_eq!(step_of[node as usize].replace(place), None, "a node is in two steps");
        }
    }
    for (i, node) in nodes.iter().enumerate() {
        let mine = step_of[i].expect("each node is in a step");
        for &earlier in node.reads.iter().chain(&node.follows) {
            let theirs = step_of[earlier as usize].expect("each node is in a step");
            assert!(theirs <= mine, "node {i} runs before {earlier}, which it needs");
        }
    }
}

fn cluster_count(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step, Step::Cluster(_))).count()
}

/// The fewest clusters of all acyclic partitions, by trying all.
fn fewest(nodes: &[Node]) -> usize {
    let compiled: Vec<usize> = (0..nodes.len()).filter(|&i| nodes[i].kind == Kind::Compiled).collect();
    let mut parts = vec![0; compiled.len()];
    let mut best = compiled.len();
    try_all(nodes, &compiled, &mut parts, 0, 0, &mut best);
    best
}

fn try_all(nodes: &[Node], compiled: &[usize], parts: &mut [usize], at: usize, count: usize, best: &mut usize) {
    if count >= *best {
        return;
    }
    if at == compiled.len() {
        if is_acyclic(nodes, compiled, parts) {
            *best = count;
        }
        return;
    }
    for part in 0..=count {
        parts[at] = part;
        try_all(nodes, compiled, parts, at + 1, count.max(part + 1), best);
    }
}

fn is_acyclic(nodes: &[Node], compiled: &[usize], parts: &[usize]) -> bool {
    let place = |i: usize| compiled.iter().position(|&c| c == i).map_or(nodes.len() + i, |c| parts[c]);
    let mut edges: Vec<(usize, usize)> = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        edges.extend(node.reads.iter().chain(&node.follows).map(|&e| (place(e as usize), place(i))).filter(|(a, b)| a != b));
    }
    let mut left: Vec<usize> = (0..2 * nodes.len()).collect();
    loop {
        let before = left.len();
        left.retain(|&to| edges.iter().any(|&(_, b)| b == to));
        edges.retain(|(from, _)| left.contains(from));
        if edges.is_empty() {
            return true;
        }
        if left.len() == before {
            return false;
        }
    }
}

proptest! {
    #[test]
    fn steps_run_in_order(nodes in graphs(60)) {
        for threshold in [ALL, Threshold::Cost, Threshold::Operations(3)] {
            let steps = partition(&nodes, threshold).unwrap();
            assert_runs_in_order(&nodes, &steps);
            prop_assert_eq!(&steps, &partition(&nodes, threshold).unwrap());
        }
    }

    #[test]
    fn no_partition_has_fewer_clusters(nodes in graphs(8)) {
        prop_assert_eq!(cluster_count(&partition(&nodes, ALL).unwrap()), fewest(&nodes));
    }

    #[test]
    fn clusters_reach_the_threshold(nodes in graphs(40)) {
        prop_assume!(nodes.iter().any(|node| node.kind == Kind::Framework));
        for step in partition(&nodes, Threshold::Operations(3)).unwrap() {
            if let Step::Cluster(held) = step {
                prop_assert!(held.iter().map(|&node| nodes[node as usize].operations).sum::<u32>() >= 3);
            }
        }
    }
}

#[test]
fn a_graph_without_framework_nodes_is_never_cut() {
    let nodes = [node(Kind::Compiled, vec![]), node(Kind::Compiled, vec![0])];
    assert_eq!(partition(&nodes, Threshold::Operations(100)), Ok(vec![Step::Cluster(vec![0, 1])]));
}

#[test]
fn neighbours_share_a_cluster() {
    let (c, f) = (Kind::Compiled, Kind::Framework);
    let nodes = [node(c, vec![]), node(f, vec![0]), node(c, vec![]), node(c, vec![1, 2])];
    let steps = partition(&nodes, ALL).unwrap();
    assert_eq!(steps, [Step::Cluster(vec![0, 2]), Step::Framework(1), Step::Cluster(vec![3])]);
}

#[test]
fn a_constant_is_made_where_it_is_read() {
    let (c, f) = (Kind::Compiled, Kind::Framework);
    let mut nodes = [node(c, vec![]), node(c, vec![]), node(f, vec![1]), node(c, vec![0, 2])];
    nodes[0].is_cheap = true;
    let steps = partition(&nodes, ALL).unwrap();
    assert_eq!(steps, [Step::Cluster(vec![1]), Step::Framework(2), Step::Cluster(vec![0, 3])]);
}

#[test]
fn random_numbers_keep_their_order() {
    let (c, f) = (Kind::Compiled, Kind::Framework);
    let mut nodes = [node(c, vec![]), node(f, vec![0]), node(f, vec![])];
    nodes[2].follows = vec![1];
    let steps = partition(&nodes, ALL).unwrap();
    assert_eq!(steps, [Step::Cluster(vec![0]), Step::Framework(1), Step::Framework(2)]);
}

#[test]
fn a_small_cluster_goes_to_the_framework() {
    let (c, f) = (Kind::Compiled, Kind::Framework);
    let nodes = [node(c, vec![]), node(f, vec![0]), node(c, vec![1]), node(c, vec![2]), node(c, vec![3])];
    let steps = partition(&nodes, Threshold::Cost).unwrap();
    assert_eq!(steps, [Step::Framework(0), Step::Framework(1), Step::Cluster(vec![2, 3, 4])]);
}

#[test]
fn ten_thousand_nodes_run_in_order() {
    let nodes: Vec<Node> = (0..10_000_u32)
        .map(|i| {
            let kind = if i % 7 == 0 { Kind::Framework } else { Kind::Compiled };
            node(kind, [1, 2, 9].iter().filter_map(|&back| i.checked_sub(back)).collect())
        })
        .collect();
    let steps = partition(&nodes, Threshold::Cost).unwrap();
    assert_runs_in_order(&nodes, &steps);
}

#[test]
fn a_node_that_reads_a_later_one_is_refused() {
    let nodes = [node(Kind::Compiled, vec![0])];
    assert_eq!(partition(&nodes, ALL), Err(NotInOrder { node: 0, named: 0 }));
}
