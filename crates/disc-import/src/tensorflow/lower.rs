//! Lowers the nodes of a graph, and those of the functions that it calls.
use super::{
    attributes::Attributes,
    graph::{Body, Edge},
    proto::{FunctionDef, GraphDef, NodeDef},
    row::Row,
    table::find,
    types::contents,
};
use crate::{
    program::{Node, ProgramBuilder, Words},
    sizes::{Item, Sizes},
    source::limits::DEPTH,
};
use disc_ir::{Code, Diagnostic, Dim, Literal, Symbol};
use std::collections::{BTreeMap, HashMap};

/// Ops whose function is inlined.
const CALLS: &[&str] = &["PartitionedCall", "StatefulPartitionedCall"];
/// Ops that read a weight or an input, not a row of the table.
const SOURCES: &[&str] = &["Const", "Placeholder"];
/// Constants of at most so many elements are part of the program.
const MOST_LITERAL: i64 = 16;
/// As `MOST_LITERAL`, of integers: rules may look at them.
const MOST_INTEGERS: i64 = 4096;

pub(super) struct Lowering<'g> {
    pub(super) program: ProgramBuilder,
    library: HashMap<&'g str, &'g FunctionDef>,
    words: Words,
    /// The functions that are being inlined, from the outermost.
    calls: Vec<&'g str>,
}

impl<'g> Lowering<'g> {
    pub(super) fn new(file: &str, graph: &'g GraphDef) -> Self {
        let functions = graph.library.iter().flat_map(|library| &library.function);
        let named = |function: &'g FunctionDef| Some((&*function.signature.as_ref()?.name, function));
        Self {
            program: ProgramBuilder::new(file, "main"),
            library: functions.filter_map(named).collect(),
            words: Words::default(),
            calls: Vec::new(),
        }
    }

    /// Checks that every op that results need has a row.
    ///
    /// # Errors
    /// E1003: all ops that lack, with the first node of each. E1004: a cycle, or a wrong input.
    pub(super) fn check(&self, body: &Body<'g>, results: &[Edge]) -> Result<(), Diagnostic> {
        let mut missing: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        let mut seen: Vec<&str> = Vec::new();
        self.survey(body, results, &mut missing, &mut seen)?;
        if missing.is_empty() {
            return Ok(());
        }
        let listed = missing.iter().map(|(op, (count, node))| match count {
            1 => format!("`{op}` (node `{node}`)"),
            _ => format!("`{op}` ({count} nodes, the first `{node}`)"),
        });
        let message = format!("ops that disc does not have: {}", listed.collect::<Vec<_>>().join(", "));
        Err(Diagnostic::new(Code::E1003, message))
    }

    fn survey(
        &self,
        body: &Body<'g>,
        results: &[Edge],
        missing: &mut BTreeMap<&'g str, (usize, &'g str)>,
        seen: &mut Vec<&'g str>,
    ) -> Result<(), Diagnostic> {
        for i in body.order(results)? {
            let node = body.node(i)?;
            let op = &*node.op;
            if CALLS.contains(&op) {
                let (name, function) = self.callee(node).map_err(|error| body.place(i).of(error))?;
                if !seen.contains(&name) {
                    seen.push(name);
                    let inner = Body::of_function(function)?;
                    self.survey(&inner, &returned(&inner, function)?, missing, seen)?;
                }
            } else if !SOURCES.contains(&op) && find(op).is_none() {
                missing.entry(op).or_insert((0, &node.name)).0 += 1;
            }
        }
        Ok(())
    }

    /// Lowers what `results` need and returns them.
    ///
    /// # Errors
    /// The first node that cannot be lowered.
    pub(super) fn lower(&mut self, body: &Body<'g>, arguments: &[Item], results: &[Edge]) -> Result<Vec<Item>, Diagnostic> {
        let mut made: HashMap<usize, Vec<Item>> = HashMap::new();
        for i in body.order(results)? {
            let place = body.place(i);
            let inputs = body.inputs(i)?.into_iter().map(|edge| value_of(edge, arguments, &made));
            let inputs = inputs.collect::<Result<Vec<Item>, Diagnostic>>().map_err(|error| place.of(error))?;
            let items = self.node(body.node(i)?, place, &inputs)?;
            made.insert(i, items);
        }
        results.iter().map(|&edge| value_of(edge, arguments, &made)).collect()
    }

    fn node(&mut self, node: &'g NodeDef, place: Node<'_>, inputs: &[Item]) -> Result<Vec<Item>, Diagnostic> {
        match &*node.op {
            "Const" => self.constant(node).map(|item| vec![item]).map_err(|error| place.of(error)),
            "Placeholder" => self.placeholder(node).map(|item| vec![item]).map_err(|error| place.of(error)),
            op if CALLS.contains(&op) => self.call(node, inputs).map_err(|error| place.of(error)),
            op => {
                let how = find(op).ok_or_else(|| place.of(Diagnostic::new(Code::E1003, "disc does not have the op")))?;
                self.program.node(place, |b| {
                    let attrs = Attributes::new(node);
                    let items = Row { b, inputs, attrs: &attrs }.lower(how)?;
                    attrs.finish()?;
                    Ok(items)
                })
            }
        }
    }

    fn placeholder(&mut self, node: &NodeDef) -> Result<Item, Diagnostic> {
        let attrs = Attributes::new(node);
        let (dtype, shape) = (attrs.dtype("dtype")?, attrs.shape("shape")?);
        if shape.unknown_rank {
            let error = Diagnostic::new(Code::E1006, "the input has no rank");
            return Err(error.help("give the function an input signature with a rank"));
        }
        let mut open = |axis: usize| Dim::symbol(Symbol::new(self.words.word(&format!("{}_{axis}", node.name))));
        let dims = shape.dim.iter().enumerate().map(|(axis, dim)| if dim.size < 0 { open(axis) } else { Dim::from(dim.size) });
        let dims = dims.collect();
        self.program.input(&node.name, dtype, dims).map(Item::Tensor)
    }

    /// A small integer constant is a list of sizes, another small one a part of the program, a large
    /// one a weight.
    fn constant(&mut self, node: &NodeDef) -> Result<Item, Diagnostic> {
        let attrs = Attributes::new(node);
        let (dtype, sizes, bytes) = contents(attrs.tensor("value")?)?;
        let count: i64 = sizes.iter().product();
        let literal = Literal::dense(dtype, &*bytes);
        if Sizes::admits(dtype, &sizes) {
            let dims = (0..count as usize).map(|i| Dim::from(literal.i64_at(i))).collect();
            return Ok(Item::Sizes(Sizes { dtype, dims, is_scalar: sizes.is_empty() }));
        }
        if count <= if dtype.is_float() { MOST_LITERAL } else { MOST_INTEGERS } {
            return self.program.literal(literal, &sizes).map(Item::Tensor);
        }
        let name = [&self.calls[..], &[&*node.name]].concat().join("/");
        self.program.weight(&name, dtype, &sizes, bytes)?;
        self.program.weight_value(&name).map(Item::Tensor)
    }

    fn call(&mut self, node: &'g NodeDef, inputs: &[Item]) -> Result<Vec<Item>, Diagnostic> {
        let (name, function) = self.callee(node)?;
        if self.calls.contains(&name) {
            return Err(Diagnostic::new(Code::E1004, format!("the function `{name}` calls itself")));
        }
        self.calls.push(name);
        DEPTH.check(self.calls.len())?;
        let body = Body::of_function(function)?;
        let results = returned(&body, function)?;
        let items = self.lower(&body, inputs, &results);
        self.calls.pop();
        items
    }

    fn callee(&self, node: &'g NodeDef) -> Result<(&'g str, &'g FunctionDef), Diagnostic> {
        let name = Attributes::new(node).function("f")?;
        let function = self.library.get(name);
        let missing = || Diagnostic::new(Code::E1004, format!("the graph has no function `{}`", name.escape_debug()));
        function.map(|&function| (name, function)).ok_or_else(missing)
    }
}

/// The results of a function, in the order of its signature.
fn returned(body: &Body<'_>, function: &FunctionDef) -> Result<Vec<Edge>, Diagnostic> {
    let outputs = function.signature.iter().flat_map(|signature| &signature.output_arg);
    let edge = |name: &String| {
        let missing = || Diagnostic::new(Code::E1004, format!("the function returns no `{}`", name.escape_debug()));
        body.edge(function.ret.get(name).ok_or_else(missing)?)?.ok_or_else(missing)
    };
    outputs.map(|output| edge(&output.name)).collect()
}

fn value_of(edge: Edge, arguments: &[Item], made: &HashMap<usize, Vec<Item>>) -> Result<Item, Diagnostic> {
    let found = match edge {
        Edge::Argument(position) => arguments.get(position),
        Edge::Output { node, port } => made.get(&node).and_then(|items| items.get(port)),
    };
    found.cloned().ok_or_else(|| Diagnostic::new(Code::E1004, "an input names a result that its node does not have"))
}
