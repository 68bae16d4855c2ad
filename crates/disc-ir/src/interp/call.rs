//! Holds one op that is being executed: its operands, attributes, and the sizes of its results.
use super::{
    Tensor,
    machine::{Symbols, Val, evaluate},
    memory::Buffer,
};
use crate::{
    attr::Attr,
    diag::{Code, Diagnostic},
    dim::{Dim, Symbol},
    graph::{Block, Function, InstData},
    literal::Literal,
    types::{DType, Type},
};
use std::rc::Rc;

pub(super) struct Call<'a> {
    pub(super) function: &'a Function,
    pub(super) data: &'a InstData,
    pub(super) args: Vec<Val>,
    /// The sizes of each result.
    pub(super) shapes: Vec<Vec<i64>>,
    pub(super) symbols: Rc<Symbols>,
}

impl<'a> Call<'a> {
    /// The operand at `index`, as a tensor.
    pub(super) fn tensor(&self, index: usize) -> Result<&Tensor, Diagnostic> {
        match self.args.get(index) {
            Some(Val::Tensor(tensor)) => Ok(tensor),
            _ => Err(self.malformed(format!("operand {index} must be a tensor or a vector"))),
        }
    }

    pub(super) fn tensors(&self, indices: std::ops::Range<usize>) -> Result<Vec<&Tensor>, Diagnostic> {
        indices.map(|i| self.tensor(i)).collect()
    }

    pub(super) fn buffer(&self, index: usize) -> Result<&Buffer, Diagnostic> {
        match self.args.get(index) {
            Some(Val::Buffer(buffer)) => Ok(buffer),
            _ => Err(self.malformed(format!("operand {index} must be a buffer"))),
        }
    }

    /// The operand at `index`, as one integer.
    pub(super) fn int_operand(&self, index: usize) -> Result<i64, Diagnostic> {
        let tensor = self.tensor(index)?;
        match tensor.len() {
            1 => Ok(tensor.at(0).as_int() as i64),
            n => Err(self.malformed(format!("operand {index} has {n} elements, expected a scalar"))),
        }
    }

    pub(super) fn region(&self, index: usize) -> Result<Block, Diagnostic> {
        self.data.regions.get(index).copied().ok_or_else(|| self.malformed(format!("region {index} is missing")))
    }

    /// The sizes of the first result.
    pub(super) fn shape(&self) -> Vec<i64> {
        self.shapes[0].clone()
    }

    pub(super) fn result_type(&self, index: usize) -> &'a Type {
        self.function.ty(self.data.results[index])
    }

    /// The element type of the first result.
    pub(super) fn dtype(&self) -> DType {
        self.result_type(0).dtype()
    }

    pub(super) fn attr(&self, name: &str) -> Option<&'a Attr> {
        let position = self.data.kind.def().attr_position(name)?;
        self.data.attrs.get(position)?.as_ref()
    }

    /// Returns true if an optional attribute is present.
    pub(super) fn has(&self, name: &str) -> bool {
        self.attr(name).is_some()
    }

    /// Returns an integer; `default` if it is absent.
    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        if let Some(Attr::Int(value)) = self.attr(name) { *value } else { default }
    }

    pub(super) fn bool(&self, name: &str, default: bool) -> bool {
        if let Some(Attr::Bool(value)) = self.attr(name) { *value } else { default }
    }

    pub(super) fn word(&self, name: &str) -> &'static str {
        if let Some(Attr::Enum(word)) = self.attr(name) { word } else { "" }
    }

    pub(super) fn ints(&self, name: &str) -> &'a [i64] {
        if let Some(Attr::Ints(values)) = self.attr(name) { values } else { &[] }
    }

    /// Returns a list of integers; `count` times `default` if it is absent.
    pub(super) fn ints_or(&self, name: &str, default: i64, count: usize) -> Vec<i64> {
        if self.ints(name).is_empty() { vec![default; count] } else { self.ints(name).to_vec() }
    }

    /// A list of axes.
    pub(super) fn axes(&self, name: &str) -> Vec<usize> {
        self.ints(name).iter().map(|&axis| axis as usize).collect()
    }

    pub(super) fn axis(&self, name: &str) -> usize {
        self.int(name, 0) as usize
    }

    /// The name that an attribute holds.
    pub(super) fn symbol(&self, name: &str) -> Result<&'a str, Diagnostic> {
        match self.attr(name) {
            Some(Attr::Symbol(symbol)) => Ok(symbol),
            _ => Err(self.malformed(format!("attribute `{name}` is missing"))),
        }
    }

    pub(super) fn attr_dtype(&self, name: &str) -> Result<DType, Diagnostic> {
        match self.attr(name) {
            Some(Attr::DType(dtype)) => Ok(*dtype),
            _ => Err(self.malformed(format!("no type `{name}`"))),
        }
    }

    pub(super) fn string(&self, name: &str) -> Option<&'a str> {
        if let Some(Attr::Str(text)) = self.attr(name) { Some(text) } else { None }
    }

    pub(super) fn literal(&self, name: &str) -> Result<&'a Literal, Diagnostic> {
        match self.attr(name) {
            Some(Attr::Literal(literal)) => Ok(literal),
            _ => Err(self.malformed(format!("attribute `{name}` is missing"))),
        }
    }

    /// The value of a dim.
    pub(super) fn dim(&self, name: &str) -> Result<i64, Diagnostic> {
        match self.attr(name) {
            Some(Attr::Dim(dim)) => evaluate(dim, &self.symbols),
            _ => Err(self.malformed(format!("attribute `{name}` is missing"))),
        }
    }

    /// The dim that the op binds.
    pub(super) fn bound_symbol(&self) -> Option<&'a Symbol> {
        match self.attr("dim") {
            Some(Attr::Dim(dim)) => dim.as_symbol(),
            _ => None,
        }
    }

    /// The dims of a list that the op binds.
    pub(super) fn bound_symbols(&self) -> impl Iterator<Item = &'a Symbol> {
        let dims: &[Dim] = if let Some(Attr::Dims(dims)) = self.attr("dims") { dims } else { &[] };
        dims.iter().filter_map(Dim::as_symbol)
    }

    /// Returns the values of a list of dims; none if it is absent.
    pub(super) fn dims(&self, name: &str) -> Result<Vec<i64>, Diagnostic> {
        match self.attr(name) {
            Some(Attr::Dims(dims)) => dims.iter().map(|dim| evaluate(dim, &self.symbols)).collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// Like [`Call::dims`], with `count` zeros if the list is absent.
    pub(super) fn dims_or_zeros(&self, name: &str, count: usize) -> Result<Vec<i64>, Diagnostic> {
        let dims = self.dims(name)?;
        Ok(if dims.is_empty() { vec![0; count] } else { dims })
    }

    /// The sizes of a value of type `ty`: the lanes of a vector, unless there is one.
    pub(super) fn dims_of(&self, ty: &Type) -> Result<Vec<i64>, Diagnostic> {
        match ty {
            Type::Tensor(t) | Type::Buffer { tensor: t, .. } => t.dims.iter().map(|dim| evaluate(dim, &self.symbols)).collect(),
            Type::Vector { lanes: 1, .. } => Ok(Vec::new()),
            Type::Vector { lanes, .. } => Ok(vec![i64::from(*lanes)]),
        }
    }

    /// The op breaks a rule that the verifier checks.
    pub(super) fn malformed(&self, message: String) -> Diagnostic {
        Diagnostic::new(Code::E0211, message).in_op(self.data.kind.name())
    }

    /// The program fails.
    pub(super) fn failure(&self, code: Code, message: String) -> Diagnostic {
        Diagnostic::new(code, message).in_op(self.data.kind.name())
    }
}
