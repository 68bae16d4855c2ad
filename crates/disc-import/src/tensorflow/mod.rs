//! Imports TensorFlow's graphs: `GraphDef`s whose variables are frozen to constants.
//!
//! [`read`] takes the bytes of a graph. Its inputs are the placeholders, its outputs are named, or
//! are all results that no node reads. Functions of the library are inlined. Control inputs order
//! effects, which a frozen graph does not have: nodes that only they reach, such as assertions, are
//! left out.
mod attributes;
mod control;
mod graph;
mod lower;
mod messages;
mod proto;
mod region;
mod row;
mod rows;
mod table;
mod types;

pub use table::docs;

use crate::{program::Imported, source::wire::begins_with};
use bytes::Bytes;
use disc_ir::{Code, Diagnostic};
use graph::{Body, Edge};
use lower::Lowering;
use prost::Message;
use proto::GraphDef;
use std::collections::HashSet;

/// Ops without results that matter to a caller.
const SINKS: &[&str] = &["NoOp", "Assert"];

/// A result of a graph that callers get: the name for callers, and the result of a node, `node` or
/// `node:number`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub name: String,
    pub result: String,
}

/// Imports a frozen graph. `file` is named in lines; without `outputs`, all results that no node
/// reads are outputs.
///
/// # Errors
/// E1001: no graph; E1002: a limit; E1003: ops that disc does not have, all of them; E1004: a node
/// that contradicts itself; E1005: a constant of a wrong size; E1006: sizes that are data.
pub fn read(file: &str, bytes: Bytes, outputs: &[Output]) -> Result<Imported, Vec<Diagnostic>> {
    let graph = decoded(bytes).map_err(|error| vec![error])?;
    import(file, &graph, outputs).map_err(|error| vec![error]).and_then(|(lowering, outputs)| lowering.program.finish(&outputs))
}

/// Returns true for the first bytes of a graph: a node of a name and an op.
pub fn begins_as_graph(bytes: &[u8]) -> bool {
    begins_with(bytes, 1, &[1, 2])
}

type Outputs = Vec<(String, disc_ir::Value)>;

fn import<'g>(file: &str, graph: &'g GraphDef, outputs: &[Output]) -> Result<(Lowering<'g>, Outputs), Diagnostic> {
    let body = Body::of_graph(graph)?;
    let outputs = if outputs.is_empty() { unread(&body)? } else { outputs.to_vec() };
    let edge = |Output { result, .. }: &Output| {
        let missing = || Diagnostic::new(Code::E1001, format!("the graph has no result `{}`", result.escape_debug()));
        body.edge(result).map_err(|_| missing())?.ok_or_else(missing)
    };
    let results = outputs.iter().map(edge).collect::<Result<Vec<Edge>, Diagnostic>>()?;
    let mut lowering = Lowering::new(file, graph);
    // All inputs, in the order of the file, whether a result needs them or not.
    let inputs = body.nodes.iter().enumerate().filter(|(_, node)| node.op == "Placeholder");
    let inputs: Vec<Edge> = inputs.map(|(node, _)| Edge::Output { node, port: 0 }).collect();
    let all = [&inputs[..], &results].concat();
    lowering.check(&body, &all)?;
    let items = lowering.lower(&body, &[], &all)?;
    let mut values = Outputs::new();
    for (Output { name, .. }, item) in outputs.into_iter().zip(items.iter().skip(inputs.len())) {
        let value = lowering.program.value(|b| item.tensor(b))?;
        values.push((name, value));
    }
    Ok((lowering, values))
}

fn decoded(bytes: Bytes) -> Result<GraphDef, Diagnostic> {
    messages::check(&bytes)?;
    GraphDef::decode(bytes).map_err(|error| Diagnostic::new(Code::E1001, format!("this is no graph of TensorFlow: {error}")))
}

/// The first results of the nodes that no node reads: those that depend on an input, if there are
/// any. Freezing leaves constants over.
fn unread(body: &Body<'_>) -> Result<Vec<Output>, Diagnostic> {
    let (mut read, mut of_inputs) = (HashSet::new(), HashSet::new());
    let all: Vec<Edge> = (0..body.nodes.len()).map(|node| Edge::Output { node, port: 0 }).collect();
    for i in body.order(&all)? {
        let mut depends = body.node(i)?.op == "Placeholder";
        for edge in body.inputs(i)? {
            if let Edge::Output { node, .. } = edge {
                read.insert(node);
                depends |= of_inputs.contains(&node);
            }
        }
        if depends {
            of_inputs.insert(i);
        }
    }
    let is_result = |i: usize, op: &str| !read.contains(&i) && !["Placeholder", "Const"].contains(&op) && !SINKS.contains(&op);
    let results = body.nodes.iter().enumerate().filter(|(i, node)| is_result(*i, &node.op));
    let (computed, fixed): (Vec<_>, Vec<_>) = results.partition(|(i, _)| of_inputs.contains(i));
    let outputs = if computed.is_empty() { fixed } else { computed };
    if outputs.is_empty() {
        return Err(Diagnostic::new(Code::E1001, "the graph computes nothing"));
    }
    let output = |node: &proto::NodeDef| Output { name: node.name.clone(), result: node.name.clone() };
    Ok(outputs.into_iter().map(|(_, node)| output(node)).collect())
}
