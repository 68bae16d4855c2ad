//! Lowers resizing of images, whose features are the last axis.
use super::super::row::{Items, Lower, Row, one};
use crate::compose::{Coordinates, ResizeLinear, ResizeNearest, Rounding};
use disc_ir::{Code, DType, Diagnostic, Dim, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] =
    &[("ResizeBilinear", Lower::Row(linear)), ("ResizeNearestNeighbor", Lower::Row(nearest))];

/// The positions of cells that the attributes choose.
fn coordinates(row: &Row<'_, '_>) -> Result<Coordinates, Diagnostic> {
    match (row.attrs.bool("align_corners", false)?, row.attrs.bool("half_pixel_centers", false)?) {
        (true, true) => Err(Diagnostic::new(Code::E1004, "`align_corners` and `half_pixel_centers` exclude one another")),
        (true, false) => Ok(Coordinates::AlignCorners),
        (false, true) => Ok(Coordinates::HalfPixel),
        (false, false) => Ok(Coordinates::Asymmetric),
    }
}

/// Resizes an image of NCHW that `x` becomes, and moves the features back.
fn resized(row: &Row<'_, '_>, dtype: Option<DType>, resize: impl FnOnce(Value, Vec<Dim>) -> Result<Value, Diagnostic>) -> Items {
    let (b, x, sizes) = (row.b, row.tensor(0)?, row.sizes(1)?);
    if b.rank(x) != 4 || sizes.dims.len() != 2 {
        return Err(Diagnostic::new(Code::E1004, "expected an image of 4 axes and 2 sizes"));
    }
    let x = dtype.map_or(Ok(x), |dtype| b.convert(x, dtype))?;
    let image = b.transpose(x, &[0, 3, 1, 2])?;
    one(b.transpose(resize(image, sizes.dims.clone())?, &[0, 2, 3, 1])?)
}

/// The result is of f32 whatever the image is.
fn linear(row: &Row<'_, '_>) -> Items {
    let coordinates = coordinates(row)?;
    resized(row, Some(DType::F32), |x, sizes| {
        let scales = vec![None; sizes.len()];
        row.compose(ResizeLinear { x, scales, sizes, coordinates, exact: None })
    })
}

fn nearest(row: &Row<'_, '_>) -> Items {
    // With centers of half a pixel the position `(i + 0.5) * step` is rounded down, with aligned
    // corners a half goes up.
    let (coordinates, rounding) = match coordinates(row)? {
        Coordinates::HalfPixel => (Coordinates::Centers, Rounding::Floor),
        Coordinates::AlignCorners => (Coordinates::AlignCorners, Rounding::HalfUp),
        other => (other, Rounding::Floor),
    };
    resized(row, None, |x, sizes| {
        let scales = vec![None; sizes.len()];
        row.compose(ResizeNearest { x, scales, sizes, coordinates, rounding, exact: None })
    })
}
