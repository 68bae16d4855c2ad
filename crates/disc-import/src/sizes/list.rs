//! Represents a scalar or a vector of sizes.
use crate::emit::Emitter;
use disc_ir::{Code, DType, Diagnostic, Dim, Literal, Value};

/// Integers that are dim expressions: a scalar or a vector. Truth values are 0 or 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    pub dtype: DType,
    pub dims: Vec<Dim>,
    /// A scalar has one dim.
    pub is_scalar: bool,
}

impl Sizes {
    /// The most elements that are kept apart from tensors.
    pub const MOST: usize = 64;

    pub fn scalar(dtype: DType, dim: impl Into<Dim>) -> Self {
        Self { dtype, dims: vec![dim.into()], is_scalar: true }
    }

    pub fn vector(dtype: DType, dims: Vec<Dim>) -> Self {
        Self { dtype, dims, is_scalar: false }
    }

    /// Returns true for a tensor of this type and these sizes that is kept as sizes.
    pub fn admits(dtype: DType, sizes: &[i64]) -> bool {
        let is_small = sizes.len() <= 1 && sizes.iter().all(|&size| size <= Self::MOST as i64);
        is_small && matches!(dtype, DType::I32 | DType::I64 | DType::I1)
    }

    /// The size of the only axis; `None` for a scalar.
    pub fn len(&self) -> Option<usize> {
        (!self.is_scalar).then_some(self.dims.len())
    }

    /// Returns true for a vector without elements.
    pub fn is_empty(&self) -> bool {
        self.dims.is_empty()
    }

    /// Returns all numbers, if they are known.
    pub fn numbers(&self) -> Option<Vec<i64>> {
        self.dims.iter().map(Dim::as_const).collect()
    }

    /// Returns the number of a scalar, or of a vector of one element.
    pub fn number(&self) -> Option<i64> {
        match &self.dims[..] {
            [dim] => dim.as_const(),
            _ => None,
        }
    }

    /// Returns the same numbers as another type; `None` if the type is none of sizes, or does not
    /// hold a number.
    pub fn cast(&self, dtype: DType) -> Option<Self> {
        let fits = matches!(dtype, DType::I32 | DType::I64) && self.dims.iter().all(|dim| Self::holds(dtype, dim));
        fits.then(|| Self { dtype, ..self.clone() })
    }

    /// Returns true unless a dim is a number that the type wraps. Open sizes are taken to fit:
    /// memory bounds them.
    pub fn holds(dtype: DType, dim: &Dim) -> bool {
        dtype != DType::I32 || dim.as_const().is_none_or(|number| i32::try_from(number).is_ok())
    }

    /// Emits the tensor: a constant if all numbers are known.
    ///
    /// # Errors
    /// A size that cannot be represented.
    pub fn tensor(&self, b: &Emitter<'_>) -> Result<Value, Diagnostic> {
        let shape: Vec<Dim> = self.len().into_iter().map(|len| Dim::from(len as i64)).collect();
        if let Some(numbers) = self.numbers() {
            return b.constant(Literal::from_i64s(self.dtype, &numbers), &shape);
        }
        let scalars = self.dims.iter().map(|dim| b.lift(dim, self.dtype));
        let scalars = scalars.collect::<Result<Vec<Value>, Diagnostic>>()?;
        match &scalars[..] {
            [scalar] if self.is_scalar => Ok(*scalar),
            _ => {
                let rows = scalars.iter().map(|&scalar| b.reshape(scalar, &[Dim::constant(1)]));
                b.concatenate(&rows.collect::<Result<Vec<Value>, Diagnostic>>()?, 0)
            }
        }
    }

    /// Returns the elements `start..end` in steps of `stride`, which may be negative.
    ///
    /// # Errors
    /// A stride of 0, or positions outside of the list.
    pub fn slice(&self, start: i64, end: i64, stride: i64) -> Result<Self, Diagnostic> {
        let wrong = || Diagnostic::new(Code::E1004, format!("the slice {start}:{end}:{stride} of {} sizes", self.dims.len()));
        if stride == 0 {
            return Err(wrong());
        }
        let (mut at, mut dims) = (start, Vec::new());
        while if stride > 0 { at < end } else { at > end } {
            let position = usize::try_from(at).map_err(|_| wrong())?;
            dims.push(self.dims.get(position).ok_or_else(wrong)?.clone());
            at = at.checked_add(stride).ok_or_else(wrong)?;
        }
        Ok(Self { dims, ..self.clone() })
    }
}
