//! Partitions a graph of a front end, which describes each node by a tuple.
use crate::errors::{Failure, guarded};
use disc_import::partition::{Kind, Node, Step, Threshold};
use pyo3::prelude::*;

/// `(compiled, cheap, result, operations, bytes, reads, follows)` of a node.
type Row = (bool, bool, bool, u32, u64, Vec<u32>, Vec<u32>);

/// Partitions a graph in program order into steps: `(True, nodes)` for a cluster, `(False, [node])`
/// for a node of the framework. `fewest` operations make a cluster; without it, an estimate of time
/// decides.
#[pyfunction]
#[pyo3(signature = (rows, fewest = None))]
pub(crate) fn partition(rows: Vec<Row>, fewest: Option<u32>) -> PyResult<Vec<(bool, Vec<u32>)>> {
    let nodes: Vec<Node> = rows.into_iter().map(node).collect();
    let threshold = fewest.map_or(Threshold::Cost, Threshold::Operations);
    guarded(|| match disc_import::partition::partition(&nodes, threshold) {
        Ok(steps) => Ok(steps.into_iter().map(pair).collect()),
        Err(wrong) => {
            let message = format!("partition: node {} names node {}, which does not come before it", wrong.node, wrong.named);
            Err(Failure::argument(message).into())
        }
    })
}

fn node((is_compiled, is_cheap, is_result, operations, bytes, reads, follows): Row) -> Node {
    let kind = if is_compiled { Kind::Compiled } else { Kind::Framework };
    Node { kind, is_cheap, is_result, operations, bytes, reads, follows }
}

fn pair(step: Step) -> (bool, Vec<u32>) {
    match step {
        Step::Framework(node) => (false, vec![node]),
        Step::Cluster(nodes) => (true, nodes),
    }
}
