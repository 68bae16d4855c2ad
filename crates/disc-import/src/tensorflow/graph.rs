//! Gives a graph, or the body of a function, in an order in which nodes come after their inputs.
use super::proto::{FunctionDef, GraphDef, NodeDef};
use crate::program::Node;
use disc_ir::{Code, Diagnostic};
use std::collections::HashMap;

/// The nodes of a graph or of a function, by name.
pub(super) struct Body<'g> {
    pub(super) nodes: &'g [NodeDef],
    by_name: HashMap<&'g str, usize>,
    /// The arguments of a function; `None` for a graph.
    arguments: Option<Vec<&'g str>>,
}

/// The origin of an input of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// An argument of the function, by position.
    Argument(usize),
    Output {
        node: usize,
        port: usize,
    },
}

/// Ops with several results that are named apart, as bodies of functions name them.
const RESULTS: &[(&str, &[&str])] = &[
    ("FusedBatchNorm", &["y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"]),
    ("FusedBatchNormV2", &["y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"]),
    ("FusedBatchNormV3", &["y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"]),
    ("TopK", &["values", "indices"]),
    ("TopKV2", &["values", "indices"]),
    ("SoftmaxCrossEntropyWithLogits", &["loss", "backprop"]),
    ("SparseSoftmaxCrossEntropyWithLogits", &["loss", "backprop"]),
];

impl<'g> Body<'g> {
    /// # Errors
    /// E1004: two nodes of one name.
    pub(super) fn of_graph(graph: &'g GraphDef) -> Result<Self, Diagnostic> {
        Self::new(&graph.node, None)
    }

    /// # Errors
    /// E1004: two nodes of one name.
    pub(super) fn of_function(function: &'g FunctionDef) -> Result<Self, Diagnostic> {
        let arguments = function.signature.iter().flat_map(|signature| &signature.input_arg);
        Self::new(&function.node_def, Some(arguments.map(|argument| &*argument.name).collect()))
    }

    fn new(nodes: &'g [NodeDef], arguments: Option<Vec<&'g str>>) -> Result<Self, Diagnostic> {
        let mut by_name = HashMap::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            if by_name.insert(&*node.name, i).is_some() {
                return Err(place(i, node).of(Diagnostic::new(Code::E1004, "another node has this name")));
            }
        }
        Ok(Self { nodes, by_name, arguments })
    }

    /// Finds what a data input names; `None` for a control input, which has no value.
    ///
    /// # Errors
    /// E1004: there is no such node or result.
    pub(super) fn edge(&self, text: &str) -> Result<Option<Edge>, Diagnostic> {
        if text.starts_with('^') {
            return Ok(None);
        }
        let wrong = |why: &str| Diagnostic::new(Code::E1004, format!("the input `{}` {why}", text.escape_debug()));
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        if let Some(position) = self.arguments.iter().flatten().position(|&argument| argument == name)
            && rest.is_empty()
        {
            return Ok(Some(Edge::Argument(position)));
        }
        let &node = self.by_name.get(name).ok_or_else(|| wrong("names no node"))?;
        let number = |text: &str| text.parse::<usize>().map_err(|_| wrong("has no number of a result"));
        let port = match (&self.arguments, &rest[..]) {
            (_, []) => 0,
            (None, [port]) => number(port)?,
            (Some(_), [result, port]) => {
                let op = &self.node(node)?.op;
                let named = RESULTS.iter().find(|(known, _)| known == op).map(|(_, names)| *names);
                let first = named.map_or(Some(0), |names| names.iter().position(|name| name == result));
                let first = first.ok_or_else(|| wrong("names no result"))?;
                first.checked_add(number(port)?).ok_or_else(|| wrong("has no number of a result"))?
            }
            _ => return Err(wrong("has another number of parts than 1 to 3")),
        };
        Ok(Some(Edge::Output { node, port }))
    }

    /// Returns the data inputs of a node.
    ///
    /// # Errors
    /// As [`Body::edge`].
    pub(super) fn inputs(&self, node: usize) -> Result<Vec<Edge>, Diagnostic> {
        let edges = self.node(node)?.input.iter().filter_map(|text| self.edge(text).transpose());
        edges.collect::<Result<_, _>>().map_err(|error| self.place(node).of(error))
    }

    pub(super) fn node(&self, node: usize) -> Result<&'g NodeDef, Diagnostic> {
        self.nodes.get(node).ok_or_else(|| Diagnostic::new(Code::E1004, format!("there is no node {node}")))
    }

    pub(super) fn place(&self, node: usize) -> Node<'g> {
        let number = u32::try_from(node).unwrap_or(u32::MAX);
        self.nodes.get(node).map_or(Node { number, name: "", op: "" }, |found| place(node, found))
    }

    /// Returns the nodes that these results need, each after its inputs.
    ///
    /// # Errors
    /// E1004: a cycle, or an input that is not there.
    pub(super) fn order(&self, results: &[Edge]) -> Result<Vec<usize>, Diagnostic> {
        // A node that is not in the map is new.
        let mut is_done: HashMap<usize, bool> = HashMap::new();
        let mut order = Vec::new();
        let needed = |edges: Vec<Edge>| edges.into_iter().filter_map(Edge::node).collect::<Vec<usize>>();
        let mut stack: Vec<(usize, bool)> = needed(results.to_vec()).into_iter().rev().map(|node| (node, false)).collect();
        while let Some((node, is_after)) = stack.pop() {
            match (is_done.get(&node), is_after) {
                (Some(false), true) => {
                    is_done.insert(node, true);
                    order.push(node);
                }
                (None, _) => {
                    is_done.insert(node, false);
                    stack.push((node, true));
                    for input in needed(self.inputs(node)?).into_iter().rev() {
                        if is_done.get(&input) == Some(&false) {
                            return Err(self.place(node).of(Diagnostic::new(Code::E1004, "the node depends on its own result")));
                        }
                        stack.push((input, false));
                    }
                }
                _ => {}
            }
        }
        Ok(order)
    }
}

impl Edge {
    pub(super) fn node(self) -> Option<usize> {
        match self {
            Edge::Argument(_) => None,
            Edge::Output { node, .. } => Some(node),
        }
    }
}

fn place(i: usize, node: &NodeDef) -> Node<'_> {
    Node { number: u32::try_from(i).unwrap_or(u32::MAX), name: &node.name, op: &node.op }
}
