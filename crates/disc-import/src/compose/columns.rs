//! Declares im2col and its inverse, over NCHW images.
use super::{
    Composed,
    windows::{elements_at, offsets},
};
use crate::emit::Emitter;
use disc_ir::{Code, Diagnostic, Dim, Value, ops::DTypeClass};

composition! {
    /// The windows of each image as columns: `[N, C * window, count]`. The image is padded by
    /// zeros.
    ///
    /// (C1) `x` is `[N, C, ..]`, or one image `[C, ..]`, with as many spatial axes as `kernel` has
    /// entries.
    /// (C2) Each list has one entry per spatial axis.
    ImageToColumns = "image_to_columns"(x: one(DTypeClass::ANY)) {
            kernel: Vec<i64>, strides: Vec<i64>, padding: Vec<i64>, dilations: Vec<i64>
        } -> (y) in image_to_columns;
}

fn image_to_columns(b: &Emitter<'_>, ImageToColumns { x, kernel, strides, padding, dilations }: ImageToColumns) -> Composed {
    let patches = Patches::new(kernel, strides, padding, dilations)?;
    let n = patches.kernel.len();
    let is_single = b.rank(x) == n + 1;
    let x = if is_single { b.unsqueeze(x, &[0])? } else { x };
    let sizes = b.shape(x);
    let [batch, features, image @ ..] = &sizes[..] else { return Err(too_few(sizes.len())) };
    if image.len() != n {
        return Err(too_few(sizes.len()));
    }
    let counts = patches.counts(image);
    let edges: Vec<Dim> = [0, 0].iter().chain(&patches.padding).map(|&padding| Dim::constant(padding)).collect();
    let x = b.pad(x, b.lift(0, b.dtype(x))?, &edges, &edges)?;
    let parts: Vec<Value> = offsets(&patches.kernel)?
        .iter()
        .map(|offset| b.unsqueeze(elements_at(b, x, 2, offset, (&patches.strides, &patches.dilations, &counts))?, &[2]))
        .collect::<Result<_, _>>()?;
    let depth = features * patches.elements();
    let y = b.reshape(b.concatenate(&parts, 2)?, &[batch.clone(), depth, Dim::product(counts.iter().cloned())])?;
    Ok(vec![if is_single { b.squeeze(y, &[0])? } else { y }])
}

composition! {
    /// The inverse of `image_to_columns`: every column is a window that is added to its position in
    /// the image, whose spatial sizes are `sizes`.
    ///
    /// (C1) `x` is `[N, C * window, count]`, or one image without the first axis.
    /// (C2) Each list has one entry per spatial axis.
    ColumnsToImage = "columns_to_image"(x: one(DTypeClass::ANY)) {
            sizes: Vec<Dim>, kernel: Vec<i64>, strides: Vec<i64>, padding: Vec<i64>, dilations: Vec<i64>
        } -> (y) in columns_to_image;
}

fn columns_to_image(b: &Emitter<'_>, given: ColumnsToImage) -> Composed {
    let ColumnsToImage { x, sizes, kernel, strides, padding, dilations } = given;
    let patches = Patches::new(kernel, strides, padding, dilations)?;
    let n = patches.kernel.len();
    let is_single = b.rank(x) == 2;
    let x = if is_single { b.unsqueeze(x, &[0])? } else { x };
    let own = b.shape(x);
    let ([batch, depth, _], true) = (&own[..], sizes.len() == n) else { return Err(too_few(own.len())) };
    let counts = patches.counts(&sizes);
    let features = depth.floor_div(&patches.elements());
    let kernel: Vec<Dim> = patches.kernel.iter().map(|&size| Dim::constant(size)).collect();
    let x = b.reshape(x, &[vec![batch.clone(), features], kernel, counts.clone()].concat())?;
    let mut total: Option<Value> = None;
    for offset in offsets(&patches.kernel)? {
        let mut part = x;
        for (i, &at) in offset.iter().enumerate() {
            part = b.slice(part, 2 + i, &Dim::constant(at), &Dim::constant(at + 1), 1)?;
        }
        let part = b.squeeze(part, &(2..2 + n).collect::<Vec<_>>())?;
        let part = patches.spread(b, part, &offset, &sizes, &counts)?;
        total = Some(total.map_or(Ok(part), |total| b.add(total, part))?);
    }
    let Some(mut total) = total else { return Err(Diagnostic::new(Code::E0202, "(C2) the window has no elements")) };
    for (i, (size, &padding)) in sizes.iter().zip(&patches.padding).enumerate() {
        let start = Dim::constant(padding);
        total = b.slice(total, 2 + i, &start, &(&start + size), 1)?;
    }
    Ok(vec![if is_single { b.squeeze(total, &[0])? } else { total }])
}

fn too_few(rank: usize) -> Diagnostic {
    Diagnostic::new(Code::E0207, format!("(C1) `x` has {rank} axes, which do not fit the window"))
}

/// The windows over the spatial axes of an image, axes 2 and on.
struct Patches {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    padding: Vec<i64>,
    dilations: Vec<i64>,
}

impl Patches {
    fn new(kernel: Vec<i64>, strides: Vec<i64>, padding: Vec<i64>, dilations: Vec<i64>) -> Result<Self, Diagnostic> {
        let n = kernel.len();
        match [strides.len(), padding.len(), dilations.len()].into_iter().find(|&length| length != n) {
            Some(length) => Err(Diagnostic::new(Code::E0202, format!("(C2) a list has {length} entries, expected {n}"))),
            None => Ok(Self { kernel, strides, padding, dilations }),
        }
    }

    /// The number of elements of a window.
    fn elements(&self) -> Dim {
        Dim::product(self.kernel.iter().map(|&size| Dim::constant(size)))
    }

    /// The number of windows along each axis.
    fn counts(&self, sizes: &[Dim]) -> Vec<Dim> {
        let count = |i: usize| {
            let reach = (Dim::constant(self.kernel[i]) - 1) * self.dilations[i] + 1;
            let left = padded(&sizes[i], self.padding[i]) - reach;
            left.floor_div(&Dim::constant(self.strides[i])) + 1
        };
        (0..sizes.len()).map(count).collect()
    }

    /// The elements at `offset` of all windows, put where they are in the padded image.
    fn spread(&self, b: &Emitter<'_>, x: Value, offset: &[i64], sizes: &[Dim], counts: &[Dim]) -> Result<Value, Diagnostic> {
        let zero = Dim::constant(0);
        let (mut low, mut high, mut interior) = (vec![zero.clone(); 2], vec![zero; 2], vec![0; 2]);
        for (i, &at) in offset.iter().enumerate() {
            let start = Dim::constant(at) * self.dilations[i];
            let reach = &start + (&counts[i] - 1) * self.strides[i] + 1;
            low.push(start);
            high.push(padded(&sizes[i], self.padding[i]) - reach);
            interior.push(self.strides[i].saturating_sub(1));
        }
        b.pad_apart(x, b.lift(0, b.dtype(x))?, &low, &high, &interior)
    }
}

/// The size of an axis with as much padding before as after it.
fn padded(size: &Dim, padding: i64) -> Dim {
    size + Dim::constant(padding) * 2
}
