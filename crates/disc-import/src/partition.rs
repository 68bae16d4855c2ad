//! Partitions a graph into clusters that are compiled and nodes that a framework runs.
//!
//! The level of a node is the greatest number of compiled runs before it on a path that leads to
//! it. Compiled nodes of one level are one cluster: two of them are never divided by a framework
//! node on a path, since each such node is a level higher than what it reads. So the clusters and
//! the framework nodes have no cycle, and no partition has fewer clusters: a path with n compiled
//! runs needs n of them. Horizontal neighbours share a cluster without a search.
//!
//! Invariants:
//!
//! - nodes come in program order: a node reads only earlier ones;
//! - each node is in one step, and a step comes after the steps that it reads or has to follow;
//! - the result depends only on the graph; each time that clusters are dropped, it takes a walk
//!   over nodes and edges, with a binary search for each.

/// The one that runs a node: compiled code, or the framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Compiled,
    Framework,
}

/// A node of a graph in program order.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    /// Computing it again costs less than keeping it: a constant, a view, a conversion.
    pub is_cheap: bool,
    /// The graph returns it.
    pub is_result: bool,
    /// Operations of the framework that a compiled kernel saves; 0 for a view.
    pub operations: u32,
    /// Size of its results, at the sizes of the example.
    pub bytes: u64,
    /// Nodes whose results it takes.
    pub reads: Vec<u32>,
    /// Nodes that have to run before it, though it takes nothing of them: random numbers are drawn
    /// in program order, a write follows the reads of what it replaces.
    pub follows: Vec<u32>,
}

/// The least that a cluster has to gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Its time is less than what it saves, by an estimate.
    Cost,
    /// It has so many operations.
    Operations(u32),
}

/// A part of the partitioned graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Framework(u32),
    /// Nodes in program order.
    Cluster(Vec<u32>),
}

/// A node names another one that does not come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotInOrder {
    pub node: u32,
    pub named: u32,
}

/// Partitions a graph into steps, in an order in which they can run.
///
/// A graph without framework nodes is one cluster, whatever it gains.
///
/// # Errors
/// A node that reads or follows itself or a later one.
pub fn partition(nodes: &[Node], threshold: Threshold) -> Result<Vec<Step>, NotInOrder> {
    check_order(nodes)?;
    let mut kinds: Vec<Kind> = nodes.iter().map(|node| node.kind).collect();
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    if !kinds.contains(&Kind::Framework) {
        return Ok(vec![Step::Cluster(indices(nodes).collect())]);
    }
    let users = users(nodes);
    loop {
        let mut levels = levels(nodes, &kinds);
        sink(nodes, &kinds, &mut levels);
        let clusters = clusters(nodes, &kinds, &levels);
        let mut is_stable = true;
        for cluster in &clusters {
            if !gains(nodes, &users, cluster, threshold) {
                is_stable = false;
                for &node in cluster {
                    kinds[node as usize] = Kind::Framework;
                }
            }
        }
        if is_stable {
            return Ok(steps(nodes, &kinds, &levels, clusters));
        }
    }
}

fn check_order(nodes: &[Node]) -> Result<(), NotInOrder> {
    for (node, held) in indices(nodes).zip(nodes) {
        if let Some(&named) = before(held).find(|&&named| named >= node) {
            return Err(NotInOrder { node, named });
        }
    }
    Ok(())
}

#[expect(clippy::cast_possible_truncation, reason = "a graph of 2^32 nodes does not fit in memory")]
fn indices(nodes: &[Node]) -> std::ops::Range<u32> {
    0..nodes.len() as u32
}

fn before(node: &Node) -> impl Iterator<Item = &u32> {
    node.reads.iter().chain(&node.follows)
}

fn levels(nodes: &[Node], kinds: &[Kind]) -> Vec<u32> {
    let mut levels: Vec<u32> = Vec::with_capacity(nodes.len());
    for (node, kind) in nodes.iter().zip(kinds) {
        let after = |&earlier: &u32| {
            let leaves = kinds[earlier as usize] == Kind::Compiled && *kind == Kind::Framework;
            levels[earlier as usize] + u32::from(leaves)
        };
        let level = before(node).map(after).max().unwrap_or(0);
        levels.push(level);
    }
    levels
}

/// Moves cheap nodes to the clusters that read them, where that puts no more bytes over the border.
fn sink(nodes: &[Node], kinds: &[Kind], levels: &mut [u32]) {
    // The least level of what reads or follows a node; 0 if a framework node does.
    let mut needed = vec![u32::MAX; nodes.len()];
    for (i, node) in nodes.iter().enumerate().rev() {
        let is_free = node.is_cheap && !node.is_result && kinds[i] == Kind::Compiled;
        let taken: u64 = node.reads.iter().map(|&read| nodes[read as usize].bytes).sum();
        if is_free && needed[i] != u32::MAX && needed[i] > levels[i] && taken <= node.bytes {
            levels[i] = needed[i];
        }
        let level = if kinds[i] == Kind::Compiled { levels[i] } else { 0 };
        for &earlier in before(node) {
            let earlier = &mut needed[earlier as usize];
            *earlier = level.min(*earlier);
        }
    }
}

/// The compiled nodes of each level; none is empty.
fn clusters(nodes: &[Node], kinds: &[Kind], levels: &[u32]) -> Vec<Vec<u32>> {
    let count = levels.iter().max().map_or(0, |&level| level as usize + 1);
    let mut clusters = vec![Vec::new(); count];
    for node in indices(nodes).filter(|&node| kinds[node as usize] == Kind::Compiled) {
        clusters[levels[node as usize] as usize].push(node);
    }
    clusters.retain(|cluster| !cluster.is_empty());
    clusters
}

fn users(nodes: &[Node]) -> Vec<Vec<u32>> {
    let mut users = vec![Vec::new(); nodes.len()];
    for (user, node) in indices(nodes).zip(nodes) {
        for &read in &node.reads {
            users[read as usize].push(user);
        }
    }
    users
}

/// Nanoseconds of an operation of the framework beyond its work.
const OPERATION: u64 = 2000;
/// Nanoseconds of a call of compiled code, and of a tensor that it takes or gives.
const CALL: u64 = 1300;
const TAKEN: u64 = 60;
const GIVEN: u64 = 600;
/// Bytes that memory moves in a nanosecond.
const BANDWIDTH: u64 = 10;

/// Returns true if a cluster is worth its calls.
fn gains(nodes: &[Node], users: &[Vec<u32>], cluster: &[u32], threshold: Threshold) -> bool {
    let operations: u32 = cluster.iter().map(|&node| nodes[node as usize].operations).sum();
    if let Threshold::Operations(fewest) = threshold {
        return operations >= fewest;
    }
    let within = |node: u32| cluster.binary_search(&node).is_ok();
    let (mut given, mut kept) = (0, 0);
    for &node in cluster {
        let held = &nodes[node as usize];
        if held.is_result || users[node as usize].iter().any(|&user| !within(user)) {
            given += 1;
        } else {
            kept += held.bytes;
        }
    }
    let mut taken: Vec<u32> =
        cluster.iter().flat_map(|&node| &nodes[node as usize].reads).copied().filter(|&read| !within(read)).collect();
    taken.sort_unstable();
    taken.dedup();
    // A value that is not stored is not read either.
    let saved = u64::from(operations) * OPERATION + 2 * kept / BANDWIDTH;
    operations > 1 && saved > CALL + TAKEN * taken.len() as u64 + GIVEN * given
}

/// Framework nodes of a level run before its cluster, in program order.
fn steps(nodes: &[Node], kinds: &[Kind], levels: &[u32], clusters: Vec<Vec<u32>>) -> Vec<Step> {
    let mut steps: Vec<(u32, bool, Step)> = indices(nodes)
        .filter(|&node| kinds[node as usize] == Kind::Framework)
        .map(|node| (levels[node as usize], false, Step::Framework(node)))
        .collect();
    steps.extend(clusters.into_iter().map(|cluster| (levels[cluster[0] as usize], true, Step::Cluster(cluster))));
    steps.sort_by_key(|&(level, is_cluster, _)| (level, is_cluster));
    steps.into_iter().map(|(_, _, step)| step).collect()
}
