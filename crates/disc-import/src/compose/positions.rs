//! Computes the positions along an axis of an image that the cells of a resized one read.
use crate::emit::Emitter;
use disc_ir::{DType, Diagnostic, Dim, Value};

words! {
    /// The position of cell `i` along an axis, of steps of `1 / scale`: `(i + 0.5) * step - 0.5`;
    /// `i * step`; `(i + 0.5) * step`; or with the first and the last cells of both images in one
    /// place.
    Coordinates { HalfPixel = "half_pixel", Asymmetric = "asymmetric", Centers = "centers", AlignCorners = "align_corners" }
}

/// An axis that is resized.
pub(super) struct Axis<'a> {
    pub(super) axis: usize,
    pub(super) size: Dim,
    /// The size of the result.
    pub(super) out: &'a Dim,
    pub(super) scale: Option<f64>,
    /// Factors that are exact, whatever the scale is.
    pub(super) exact: &'a [i64],
    pub(super) coordinates: Coordinates,
}

impl Axis<'_> {
    pub(super) fn shape_of_result(&self, b: &Emitter<'_>, x: Value) -> Vec<Dim> {
        let mut shape = b.shape(x);
        shape[self.axis] = self.out.clone();
        shape
    }

    pub(super) fn positions(&self, b: &Emitter<'_>, dtype: DType) -> Result<Value, Diagnostic> {
        let cell = b.iota(std::slice::from_ref(self.out), 0, dtype)?;
        match self.coordinates {
            Coordinates::HalfPixel => b.sub(b.mul(b.add(cell, 0.5)?, self.step(b, dtype)?)?, 0.5),
            Coordinates::Asymmetric => b.mul(cell, self.step(b, dtype)?),
            Coordinates::Centers => b.mul(b.add(cell, 0.5)?, self.step(b, dtype)?),
            Coordinates::AlignCorners => {
                let spans = b.maximum(b.lift(self.out - 1, dtype)?, 1.0)?;
                let many = b.compare("GT", b.lift(self.out, DType::I64)?, b.lift(1, DType::I64)?)?;
                b.mul(cell, b.select(many, b.div(b.lift(&self.size - 1, dtype)?, spans)?, b.lift(0, dtype)?)?)
            }
        }
    }

    /// Cells of the image for each cell of the result.
    fn step(&self, b: &Emitter<'_>, dtype: DType) -> Result<Value, Diagnostic> {
        let Some(scale) = self.scale.filter(|&scale| scale > 0.0) else {
            return b.div(b.lift(&self.size, dtype)?, b.lift(self.out, dtype)?);
        };
        let mut step = b.lift(1.0 / scale, dtype)?;
        for &factor in self.exact {
            // So many cells come of a scale between this and the next integer, where there are few.
            let exact = factor as f64;
            if exact < scale && scale < exact + 1.0 {
                let is_so = b.compare("EQ", b.lift(self.out, DType::I64)?, b.lift(&self.size * factor, DType::I64)?)?;
                step = b.select(is_so, b.lift(1.0 / exact, dtype)?, step)?;
            }
        }
        Ok(step)
    }
}
