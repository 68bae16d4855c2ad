//! Gives a row what it lowers: the inputs and attributes of a node.
use super::attributes::Attributes;
use crate::{
    compose::Composition,
    emit::Emitter,
    sizes::{Arithmetic, Item, Sizes},
};
use disc_ir::{Code, Diagnostic, Dim, OpKind, Value};

pub(super) type Items = Result<Vec<Item>, Diagnostic>;

/// The lowering of an op.
#[derive(Clone, Copy)]
pub(super) enum Lower {
    /// The element-wise op, on inputs that broadcast.
    Map(OpKind),
    /// As `Map`; of two lists of sizes, the list of the results.
    Sized(Arithmetic, OpKind),
    /// A comparison by its direction.
    Compare(Arithmetic, &'static str),
    Row(fn(&Row<'_, '_>) -> Items),
}

/// One node that is lowered.
pub(super) struct Row<'r, 'f> {
    pub(super) b: &'r Emitter<'f>,
    pub(super) inputs: &'r [Item],
    pub(super) attrs: &'r Attributes<'r>,
}

impl<'r, 'f> Row<'r, 'f> {
    fn input(&self, i: usize) -> Result<&Item, Diagnostic> {
        let missing = || Diagnostic::new(Code::E1004, format!("expected at least {} inputs, got {}", i + 1, self.inputs.len()));
        self.inputs.get(i).ok_or_else(missing)
    }

    /// The sizes of an input that is kept as such.
    pub(super) fn list(&self, i: usize) -> Option<&Sizes> {
        self.inputs.get(i)?.sizes()
    }

    /// The size of an input of one element, which shapes depend on.
    pub(super) fn size(&self, i: usize) -> Result<Dim, Diagnostic> {
        match &self.sizes(i)?.dims[..] {
            [size] => Ok(size.clone()),
            dims => Err(Diagnostic::new(Code::E1004, format!("expected input {i} to be one number, got {}", dims.len()))),
        }
    }

    /// The row without its `first` first and `last` last inputs.
    pub(super) fn without(&self, first: usize, last: usize) -> Row<'r, 'f> {
        let inputs = self.inputs.get(first..self.inputs.len().saturating_sub(last)).unwrap_or_default();
        Row { b: self.b, inputs, attrs: self.attrs }
    }

    /// The tensor of an input.
    pub(super) fn tensor(&self, i: usize) -> Result<Value, Diagnostic> {
        self.input(i)?.tensor(self.b)
    }

    /// The tensors of all inputs.
    pub(super) fn tensors(&self) -> Result<Vec<Value>, Diagnostic> {
        self.inputs.iter().map(|input| input.tensor(self.b)).collect()
    }

    /// An input that shapes depend on.
    ///
    /// # Errors
    /// E1006: it is computed from data.
    pub(super) fn sizes(&self, i: usize) -> Result<&Sizes, Diagnostic> {
        let message = || format!("input {i} decides about sizes, and is computed from elements of a tensor");
        self.input(i)?.sizes().ok_or_else(|| Diagnostic::new(Code::E1006, message()))
    }

    /// The numbers of an input that must be known, such as axes.
    pub(super) fn numbers(&self, i: usize) -> Result<Vec<i64>, Diagnostic> {
        let message = || format!("input {i} has to be a constant");
        self.sizes(i)?.numbers().ok_or_else(|| Diagnostic::new(Code::E1006, message()))
    }

    /// The number of an input of one element that must be known.
    pub(super) fn number(&self, i: usize) -> Result<i64, Diagnostic> {
        let message = || format!("input {i} has to be one constant number");
        self.sizes(i)?.number().ok_or_else(|| Diagnostic::new(Code::E1006, message()))
    }

    /// All inputs as lists of sizes, if they are.
    pub(super) fn all_sizes(&self) -> Option<Vec<&Sizes>> {
        self.inputs.iter().map(Item::sizes).collect()
    }

    /// Emits a composition; returns its first result.
    pub(super) fn compose(&self, composition: impl Composition) -> Result<Value, Diagnostic> {
        let values = composition.emit(self.b)?;
        values.first().copied().ok_or_else(|| Diagnostic::new(Code::E1004, "a composition without a result"))
    }

    /// Lowers the node.
    pub(super) fn lower(&self, how: Lower) -> Items {
        match how {
            Lower::Row(row) => row(self),
            Lower::Map(kind) => one(self.b.map(kind, &self.tensors()?)?),
            Lower::Sized(arithmetic, kind) => match self.arithmetic(arithmetic) {
                Some(sizes) => Ok(vec![Item::Sizes(sizes)]),
                None => one(self.b.map(kind, &self.tensors()?)?),
            },
            Lower::Compare(arithmetic, direction) => {
                self.attrs.ignore(&["incompatible_shape_error"]);
                match self.arithmetic(arithmetic) {
                    Some(sizes) => Ok(vec![Item::Sizes(sizes)]),
                    None => one(self.b.compare(direction, self.tensor(0)?, self.tensor(1)?)?),
                }
            }
        }
    }

    /// The result on lists of sizes; `None` if an input is none, or the result is none.
    pub(super) fn arithmetic(&self, arithmetic: Arithmetic) -> Option<Sizes> {
        match &self.all_sizes()?[..] {
            [x, y] => arithmetic.apply(self.b, x, y),
            _ => None,
        }
    }

    /// The axis of a number that counts from the end if it is negative.
    ///
    /// # Errors
    /// E0206: no axis of a tensor of this rank.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize, Diagnostic> {
        let from_start = if axis < 0 { axis + rank as i64 } else { axis };
        let found = usize::try_from(from_start).ok().filter(|&axis| axis < rank);
        found.ok_or_else(|| Diagnostic::new(Code::E0206, format!("axis {axis} is out of range of a tensor of rank {rank}")))
    }

    /// The distinct axes of numbers, in order.
    pub(super) fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>, Diagnostic> {
        let mut axes = axes.iter().map(|&axis| self.axis(axis, rank)).collect::<Result<Vec<usize>, Diagnostic>>()?;
        axes.sort_unstable();
        axes.dedup();
        Ok(axes)
    }
}

/// The result of a row of one tensor.
pub(super) fn one(value: Value) -> Items {
    Ok(vec![Item::Tensor(value)])
}

/// The result of a row of sizes.
pub(super) fn sizes(sizes: Sizes) -> Items {
    Ok(vec![Item::Sizes(sizes)])
}

/// Returns axes as attributes of compositions have them.
pub(super) fn ints(axes: &[usize]) -> Vec<i64> {
    axes.iter().map(|&axis| axis as i64).collect()
}
