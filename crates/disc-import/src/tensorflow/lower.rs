//! Lowers the nodes of a graph, and those of the functions that it calls.
use super::{
    attributes::Attributes,
    control,
    graph::{Body, Edge},
    proto::{FunctionDef, GraphDef, NodeDef},
    region::{Key, Region, Weights},
    table::find,
    types::contents,
};
use crate::{
    emit::Emitter,
    program::{Node, ProgramBuilder, Words},
    sizes::{Item, Sizes},
    source::limits::{DEPTH, NODES},
};
use bytes::Bytes;
use disc_ir::{Code, DType, Diagnostic, Dim, Literal, Symbol, Value};
use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap, HashSet},
};

/// Ops whose function is inlined.
pub(super) const CALLS: &[&str] = &["PartitionedCall", "StatefulPartitionedCall"];
/// Ops that read a weight or an input, not a row of the table.
const SOURCES: &[&str] = &["Const", "Placeholder"];
/// Constants of at most so many elements are part of the program.
const MOST_LITERAL: i64 = 16;
/// As `MOST_LITERAL`, of integers: rules may look at them.
const MOST_INTEGERS: i64 = 4096;

/// The functions of a graph.
pub(super) struct Library<'g>(HashMap<&'g str, &'g FunctionDef>);

impl<'g> Library<'g> {
    fn of(graph: &'g GraphDef) -> Self {
        let functions = graph.library.iter().flat_map(|library| &library.function);
        let named = |function: &'g FunctionDef| Some((&*function.signature.as_ref()?.name, function));
        Self(functions.filter_map(named).collect())
    }

    /// # Errors
    /// E1004: there is no function of this name.
    pub(super) fn find(&self, name: &str) -> Result<(&'g str, &'g FunctionDef), Diagnostic> {
        let missing = || Diagnostic::new(Code::E1004, format!("the graph has no function `{}`", name.escape_debug()));
        self.0.get_key_value(name).map(|(&name, &function)| (name, function)).ok_or_else(missing)
    }
}

/// Counts the nodes that are lowered: those of a function as often as it is called.
#[derive(Default)]
pub(super) struct Count(Cell<usize>);

impl Count {
    /// # Errors
    /// E1002: there are too many.
    pub(super) fn add(&self) -> Result<(), Diagnostic> {
        self.0.set(self.0.get() + 1);
        NODES.check(self.0.get())
    }
}

pub(super) struct Lowering<'g> {
    pub(super) program: ProgramBuilder,
    library: Library<'g>,
    /// The large constants of functions, however often these are called.
    weights: Weights<'g>,
    /// The bytes of constants that repeat their last element.
    repeated: usize,
    lowered: Count,
    words: Words,
    /// The functions that are being inlined, from the outermost.
    calls: Vec<&'g str>,
}

impl<'g> Lowering<'g> {
    pub(super) fn new(file: &str, graph: &'g GraphDef) -> Self {
        Self {
            program: ProgramBuilder::new(file, "main"),
            library: Library::of(graph),
            weights: Weights::new(),
            repeated: 0,
            lowered: Count::default(),
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
        self.survey(body, results, &mut missing, &mut HashSet::new(), 0)?;
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
        seen: &mut HashSet<&'g str>,
        depth: usize,
    ) -> Result<(), Diagnostic> {
        DEPTH.check(depth)?;
        for i in body.order(results)? {
            let node = body.node(i)?;
            let op = &*node.op;
            let callees = callees(node).map_err(|error| body.place(i).of(error))?;
            for callee in &callees {
                let (name, function) = self.library.find(callee).map_err(|error| body.place(i).of(error))?;
                if seen.insert(name) {
                    let inner = Body::of_function(function)?;
                    let results = returned(&inner, function)?;
                    self.survey(&inner, &results, missing, seen, depth + 1).map_err(|error| body.place(i).of(error))?;
                }
            }
            if callees.is_empty() && !SOURCES.contains(&op) && find(op).is_none() {
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
        walk(body, arguments, results, |node, place, inputs| self.node(node, place, inputs))
    }

    fn node(&mut self, node: &'g NodeDef, place: Node<'_>, inputs: &[Item]) -> Result<Vec<Item>, Diagnostic> {
        self.lowered.add().map_err(|error| place.of(error))?;
        match &*node.op {
            "Const" => self.constant(node).map(|item| vec![item]).map_err(|error| place.of(error)),
            "Placeholder" => self.placeholder(node).map(|item| vec![item]).map_err(|error| place.of(error)),
            op if CALLS.contains(&op) => self.call(node, inputs).map_err(|error| place.of(error)),
            _ => {
                for callee in callees(node).map_err(|error| place.of(error))? {
                    self.keep_weights(callee).map_err(|error| place.of(error))?;
                }
                let (library, weights, lowered) = (&self.library, &self.weights, &self.lowered);
                let region = Region { library, weights, lowered, depth: self.calls.len() };
                self.program.node(place, |b| region.node(b, node, inputs))
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

    /// A small integer constant is a list of sizes, another small one a part of the program, a
    /// large one a weight, which all calls of its function share.
    fn constant(&mut self, node: &'g NodeDef) -> Result<Item, Diagnostic> {
        let key = (self.calls.last().copied(), &*node.name);
        if let Some(&value) = self.weights.get(&key) {
            return Ok(Item::Tensor(value));
        }
        let (dtype, sizes, bytes) = contents(Attributes::new(node).tensor("value")?, &mut self.repeated)?;
        if let Some(list) = listed(dtype, &sizes, &bytes) {
            return Ok(Item::Sizes(list));
        }
        if is_small(dtype, &sizes) {
            return self.program.literal(Literal::dense(dtype, &*bytes), &sizes).map(Item::Tensor);
        }
        self.weight(key, dtype, &sizes, bytes).map(Item::Tensor)
    }

    /// Adds a large constant. A colon is in no name of a node, so that the name is none of the
    /// graph where the constant is one of a function.
    fn weight(&mut self, key: Key<'g>, dtype: DType, sizes: &[i64], bytes: Bytes) -> Result<Value, Diagnostic> {
        let name = match key {
            (Some(function), node) => format!("{function}:{node}"),
            (None, node) => node.to_owned(),
        };
        self.program.weight(&name, dtype, sizes, bytes)?;
        let value = self.program.weight_value(&name)?;
        self.weights.insert(key, value);
        Ok(value)
    }

    /// Declares the large constants of a function, and of those that it calls, as weights.
    fn keep_weights(&mut self, name: &str) -> Result<(), Diagnostic> {
        let mut open = vec![name.to_owned()];
        let mut seen: HashSet<&str> = HashSet::new();
        while let Some(name) = open.pop() {
            let (name, function) = self.library.find(&name)?;
            if !seen.insert(name) {
                continue;
            }
            for node in &function.node_def {
                open.extend(callees(node)?.into_iter().map(str::to_owned));
                let key = (Some(name), &*node.name);
                if node.op != "Const" || self.weights.contains_key(&key) {
                    continue;
                }
                // Types that disc has not, such as texts of assertions, are no weights.
                let tensor = Attributes::new(node).tensor("value");
                let Ok((dtype, sizes, bytes)) = tensor.and_then(|tensor| contents(tensor, &mut self.repeated)) else { continue };
                if !is_small(dtype, &sizes) {
                    self.weight(key, dtype, &sizes, bytes)?;
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, node: &'g NodeDef, inputs: &[Item]) -> Result<Vec<Item>, Diagnostic> {
        let (name, function) = self.library.find(Attributes::new(node).function("f")?)?;
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
}

/// The functions that a node runs.
fn callees(node: &NodeDef) -> Result<Vec<&str>, Diagnostic> {
    let attrs = Attributes::new(node);
    match &*node.op {
        op if CALLS.contains(&op) => Ok(vec![attrs.function("f")?]),
        op if control::OPS.contains(&op) => control::functions(op).iter().map(|name| attrs.function(name)).collect(),
        _ => Ok(Vec::new()),
    }
}

/// The sizes that a small integer constant is.
fn listed(dtype: DType, sizes: &[i64], bytes: &[u8]) -> Option<Sizes> {
    let literal = Literal::dense(dtype, bytes);
    let count = usize::try_from(sizes.iter().product::<i64>()).ok()?;
    let dims = || (0..count).map(|i| Dim::from(literal.i64_at(i))).collect();
    Sizes::admits(dtype, sizes).then(|| Sizes { dtype, dims: dims(), is_scalar: sizes.is_empty() })
}

/// Returns true for a constant that is part of the program.
fn is_small(dtype: DType, sizes: &[i64]) -> bool {
    sizes.iter().product::<i64>() <= if dtype.is_float() { MOST_LITERAL } else { MOST_INTEGERS }
}

/// The item of a constant that is no weight.
pub(super) fn small_constant(b: &Emitter<'_>, node: &NodeDef) -> Result<Item, Diagnostic> {
    let (dtype, sizes, bytes) = contents(Attributes::new(node).tensor("value")?, &mut 0)?;
    if let Some(list) = listed(dtype, &sizes, &bytes) {
        return Ok(Item::Sizes(list));
    }
    let dims: Vec<Dim> = sizes.iter().map(|&size| Dim::from(size)).collect();
    b.constant(Literal::dense(dtype, &*bytes), &dims).map(Item::Tensor)
}

/// The results of a function, in the order of its signature.
pub(super) fn returned(body: &Body<'_>, function: &FunctionDef) -> Result<Vec<Edge>, Diagnostic> {
    let outputs = function.signature.iter().flat_map(|signature| &signature.output_arg);
    let edge = |name: &String| {
        let missing = || Diagnostic::new(Code::E1004, format!("the function returns no `{}`", name.escape_debug()));
        body.edge(function.ret.get(name).ok_or_else(missing)?)?.ok_or_else(missing)
    };
    outputs.map(|output| edge(&output.name)).collect()
}

/// Lowers the nodes that results need, each after its inputs, and returns the results.
///
/// # Errors
/// Those of `lower`; E1004: an input that its node does not have.
pub(super) fn walk<'g>(
    body: &Body<'g>,
    arguments: &[Item],
    results: &[Edge],
    mut lower: impl FnMut(&'g NodeDef, Node<'g>, &[Item]) -> Result<Vec<Item>, Diagnostic>,
) -> Result<Vec<Item>, Diagnostic> {
    let mut made: HashMap<usize, Vec<Item>> = HashMap::new();
    for i in body.order(results)? {
        let place = body.place(i);
        let inputs = body.inputs(i)?.into_iter().map(|edge| value_of(edge, arguments, &made));
        let inputs = inputs.collect::<Result<Vec<Item>, Diagnostic>>().map_err(|error| place.of(error))?;
        made.insert(i, lower(body.node(i)?, place, &inputs)?);
    }
    results_of(body, results, arguments, &made)
}

/// Finds the values of the results of a body.
///
/// # Errors
/// E1004: a node does not have the result; it is named.
fn results_of(
    body: &Body<'_>,
    results: &[Edge],
    arguments: &[Item],
    made: &HashMap<usize, Vec<Item>>,
) -> Result<Vec<Item>, Diagnostic> {
    let value = |&edge: &Edge| {
        let of_node = |error: Diagnostic| match edge.node() {
            Some(node) => body.place(node).of(error),
            None => error,
        };
        value_of(edge, arguments, made).map_err(of_node)
    };
    results.iter().map(value).collect()
}

fn value_of(edge: Edge, arguments: &[Item], made: &HashMap<usize, Vec<Item>>) -> Result<Item, Diagnostic> {
    let found = match edge {
        Edge::Argument(position) => arguments.get(position),
        Edge::Output { node, port } => made.get(&node).and_then(|items| items.get(port)),
    };
    found.cloned().ok_or_else(|| Diagnostic::new(Code::E1004, "an input names a result that its node does not have"))
}
