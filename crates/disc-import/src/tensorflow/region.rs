//! Lowers the bodies of functions within a node: those that loops and branches run, and functions
//! that these call.
use super::{
    attributes::Attributes,
    control,
    graph::Body,
    lower::{CALLS, Library, returned, small_constant, value_of},
    proto::NodeDef,
    row::Row,
    table::find,
};
use crate::{emit::Emitter, program::Node, sizes::Item, source::limits::DEPTH};
use disc_ir::{Code, Diagnostic, Value};
use std::collections::HashMap;

/// Large constants of the bodies, by function and node: values of the graph.
pub(super) type Weights<'g> = HashMap<(&'g str, &'g str), Value>;

/// The parts of the graph that bodies need.
pub(super) struct Region<'r, 'g> {
    pub(super) library: &'r Library<'g>,
    pub(super) weights: &'r Weights<'g>,
    /// The functions within each other.
    pub(super) depth: usize,
}

impl<'g> Region<'_, 'g> {
    /// Lowers a node that is neither an input nor a constant.
    ///
    /// # Errors
    /// As its row.
    pub(super) fn node(&self, b: &Emitter<'_>, node: &'g NodeDef, inputs: &[Item]) -> Result<Vec<Item>, Diagnostic> {
        let attrs = Attributes::new(node);
        let row = Row { b, inputs, attrs: &attrs };
        let items = match &*node.op {
            op if CALLS.contains(&op) => self.function(b, attrs.function("f")?, inputs)?,
            op if control::OPS.contains(&op) => control::lower(self, &row, op)?,
            op => row.lower(find(op).ok_or_else(|| Diagnostic::new(Code::E1003, "disc does not have the op"))?)?,
        };
        attrs.finish()?;
        Ok(items)
    }

    /// Lowers the body of a function.
    ///
    /// # Errors
    /// The first node that cannot be lowered.
    pub(super) fn function(&self, b: &Emitter<'_>, name: &str, arguments: &[Item]) -> Result<Vec<Item>, Diagnostic> {
        let inner = Region { library: self.library, weights: self.weights, depth: self.depth + 1 };
        DEPTH.check(inner.depth)?;
        let (name, function) = self.library.find(name)?;
        let body = Body::of_function(function)?;
        let results = returned(&body, function)?;
        let mut made: HashMap<usize, Vec<Item>> = HashMap::new();
        for i in body.order(&results)? {
            let (node, place) = (body.node(i)?, body.place(i));
            let inputs = body.inputs(i)?.into_iter().map(|edge| value_of(edge, arguments, &made));
            let inputs = inputs.collect::<Result<Vec<Item>, Diagnostic>>().map_err(|error| place.of(error))?;
            made.insert(i, inner.item(b, name, node, place, &inputs)?);
        }
        results.iter().map(|&edge| value_of(edge, arguments, &made)).collect()
    }

    fn item(
        &self,
        b: &Emitter<'_>,
        function: &'g str,
        node: &'g NodeDef,
        place: Node<'_>,
        inputs: &[Item],
    ) -> Result<Vec<Item>, Diagnostic> {
        if node.op != "Const" {
            return self.node(b, node, inputs).map_err(|error| place.of(error));
        }
        if let Some(&value) = self.weights.get(&(function, &*node.name)) {
            return Ok(vec![Item::Tensor(value)]);
        }
        small_constant(b, node).map(|item| vec![item]).map_err(|error| place.of(error))
    }
}
