//! Lowers the bodies of functions within a node: those that loops and branches run, and functions
//! that these call.
use super::{
    attributes::Attributes,
    control,
    graph::Body,
    lower::{CALLS, Count, Library, returned, small_constant, walk},
    proto::NodeDef,
    row::Row,
    table::find,
};
use crate::{emit::Emitter, program::Node, sizes::Item, source::limits::DEPTH};
use disc_ir::{Code, Diagnostic, Dim, Value};
use std::collections::HashMap;

/// A constant: its function, none for the graph itself, and its node.
pub(super) type Key<'g> = (Option<&'g str>, &'g str);

/// Large constants: values of the graph, also those of bodies.
pub(super) type Weights<'g> = HashMap<Key<'g>, Value>;

/// The parts of the graph that the bodies of functions need.
pub(super) struct Region<'r, 'g> {
    pub(super) library: &'r Library<'g>,
    pub(super) weights: &'r Weights<'g>,
    pub(super) lowered: &'r Count,
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
        match items.iter().filter_map(Item::sizes).flat_map(|sizes| &sizes.dims).find_map(Dim::defect) {
            Some(defect) => Err(Diagnostic::new(Code::E1006, format!("a size that the node computes: {defect}"))),
            None => Ok(items),
        }
    }

    /// Lowers the body of a function.
    ///
    /// # Errors
    /// The first node that cannot be lowered.
    pub(super) fn function(&self, b: &Emitter<'_>, name: &str, arguments: &[Item]) -> Result<Vec<Item>, Diagnostic> {
        let inner = Region { depth: self.depth + 1, ..*self };
        DEPTH.check(inner.depth)?;
        let (name, function) = self.library.find(name)?;
        let body = Body::of_function(function)?;
        let results = returned(&body, function)?;
        walk(&body, arguments, &results, |node, place, inputs| inner.item(b, name, node, place, inputs))
    }

    fn item(
        &self,
        b: &Emitter<'_>,
        function: &'g str,
        node: &'g NodeDef,
        place: Node<'_>,
        inputs: &[Item],
    ) -> Result<Vec<Item>, Diagnostic> {
        self.lowered.add().map_err(|error| place.of(error))?;
        if node.op != "Const" {
            return self.node(b, node, inputs).map_err(|error| place.of(error));
        }
        if let Some(&value) = self.weights.get(&(Some(function), &*node.name)) {
            return Ok(vec![Item::Tensor(value)]);
        }
        small_constant(b, node).map(|item| vec![item]).map_err(|error| place.of(error))
    }
}
