//! Pools windows: side by side as reductions, others as a whole, or axis after axis.
use crate::emit::{Emitter, Window, neutral};
use disc_ir::{Code, Diagnostic, Dim, OpKind, Value};

/// Overlapping windows of more elements are pooled axis by axis.
const MOST_TAPS: i64 = 64;

/// The most elements of a window that are written out one by one.
const MOST_OFFSETS: i64 = 1 << 16;

/// Longer windows, which may end beyond the image, are cut to it: some models pool all they have by
/// a window of a thousand.
const LONG: i64 = 16;

/// Windows over the last `n` axes of a tensor. Lists have one entry for each axis.
pub(super) struct Windows {
    pub(super) n: usize,
    sizes: Vec<Dim>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// The padding before and after; with `ceil`, what the result needs after. It may crop.
    pub(super) edges: Vec<(Dim, Dim)>,
    /// The number of windows along the last `n` axes.
    counts: Vec<Dim>,
}

/// The form of the windows along one axis.
struct Axis<'a> {
    size: &'a Dim,
    kernel: Dim,
    stride: i64,
    dilation: i64,
    low: i64,
    high: i64,
}

impl Axis<'_> {
    fn reach(&self) -> Dim {
        (&self.kernel - 1) * self.dilation + 1
    }

    /// The number of windows. With `ceil`, the last one starts in the image or in the padding
    /// before.
    fn count(&self, ceil: bool) -> Dim {
        let (room, stride) = (self.size + self.low + self.high - self.reach(), Dim::constant(self.stride));
        if ceil {
            return Dim::min(&(room.ceil_div(&stride) + 1), &(self.size + self.low).ceil_div(&stride));
        }
        room.floor_div(&stride) + 1
    }

    /// The padding after the image that `count` windows reach into; the most that may be, where it
    /// depends on the size.
    fn high_edge(&self, count: &Dim) -> Dim {
        let reach = self.reach();
        let needed = (count - 1) * self.stride + &reach - self.size - self.low;
        let most = Dim::constant(self.high) + self.stride - 1;
        let windows = (self.size + self.low + &most - reach).floor_div(&Dim::constant(self.stride)) + 1;
        if needed.as_const().is_none() && self.kernel.as_const().is_some() && windows == *count { most } else { needed }
    }
}

impl Windows {
    /// `ceil`: windows may reach beyond the padded image; `cut`: long ones may be cut to what it
    /// has.
    pub(super) fn new(
        b: &Emitter<'_>,
        x: Value,
        kernel: &[i64],
        strides: &[i64],
        padding: (&[i64], &[i64]),
        dilations: &[i64],
        (ceil, cut): (bool, bool),
    ) -> Result<Self, Diagnostic> {
        let (shape, n) = (b.shape(x), kernel.len());
        let lists = [strides.len(), padding.0.len(), padding.1.len(), dilations.len()];
        let lead = shape.len().checked_sub(n).filter(|_| lists.iter().all(|&length| length == n)).ok_or_else(|| {
            let message =
                format!("(C1) lists of {n} and {lists:?} entries for the last axes of a tensor of rank {}", shape.len());
            Diagnostic::new(Code::E0202, message)
        })?;
        if let Some(wrong) = kernel.iter().chain(strides).chain(dilations).find(|&&value| value < 1) {
            return Err(Diagnostic::new(Code::E0202, format!("(C1) {wrong}: sizes, strides and dilations are at least 1")));
        }
        let zero = (Dim::constant(0), Dim::constant(0));
        let mut windows = Self {
            n,
            sizes: vec![Dim::constant(1); lead],
            strides: vec![1; lead],
            dilations: vec![1; lead],
            edges: vec![zero; lead],
            counts: Vec::with_capacity(n),
        };
        let wanted = b.wanted().filter(|wanted| wanted.len() == shape.len());
        for i in 0..n {
            let size = &shape[lead + i];
            let (low, high) = (padding.0[i], padding.1[i]);
            let whole = Dim::constant(kernel[i]);
            let is_cut = cut && ceil && kernel[i] > LONG && dilations[i] == 1;
            let kernel = if is_cut { Dim::min(&whole, &(size + low + high)) } else { whole };
            let axis = Axis { size, kernel, stride: strides[i], dilation: dilations[i], low, high };
            let count = wanted.map_or_else(|| axis.count(ceil), |wanted| wanted[lead + i].clone());
            let high = if ceil { axis.high_edge(&count) } else { Dim::constant(high) };
            windows.edges.push((Dim::constant(low), high));
            windows.sizes.push(axis.kernel);
            windows.strides.push(strides[i]);
            windows.dilations.push(dilations[i]);
            windows.counts.push(count);
        }
        Ok(windows)
    }

    pub(super) fn is_small(&self, kernel: &[i64]) -> bool {
        taps(kernel) <= MOST_TAPS
    }

    /// Combines the elements of each window by `how`.
    pub(super) fn pool(&self, b: &Emitter<'_>, x: Value, how: OpKind) -> Result<Value, Diagnostic> {
        let known: Option<Vec<i64>> = self.sizes.iter().map(Dim::as_const).collect();
        let is_bare = self.edges.iter().all(|(low, high)| low.is_const(0) && high.is_const(0));
        if let Some(sizes) = &known {
            if is_bare && self.dilations.iter().all(|&dilation| dilation == 1) && *sizes == self.strides {
                return self.pool_tiles(b, x, how);
            }
            if taps(sizes) <= MOST_TAPS {
                return self.pool_at_once(b, x, how, None);
            }
        }
        let mut x = x;
        for (axis, size) in self.sizes.iter().enumerate() {
            if !(size.is_const(1) && self.strides[axis] == 1) {
                x = self.pool_at_once(b, x, how, Some(axis))?;
            }
        }
        Ok(x)
    }

    /// Windows that are side by side: each axis becomes one of windows and one of their elements.
    fn pool_tiles(&self, b: &Emitter<'_>, x: Value, how: OpKind) -> Result<Value, Diagnostic> {
        let (mut x, mut shape, mut elements) = (x, Vec::new(), Vec::new());
        let lead = self.sizes.len() - self.n;
        for (axis, size) in self.sizes.iter().enumerate() {
            if size.is_const(1) {
                shape.push(b.shape(x).swap_remove(axis));
                continue;
            }
            let count = &self.counts[axis - lead];
            shape.push(count.clone());
            x = b.slice(x, axis, &Dim::constant(0), &(count * size), 1)?;
            elements.push(shape.len());
            shape.push(size.clone());
        }
        b.reduce(b.reshape(x, &shape)?, &elements, how, false)
    }

    /// Pools along all axes, or along one. An edge that may crop is padded before.
    fn pool_at_once(&self, b: &Emitter<'_>, x: Value, how: OpKind, only: Option<usize>) -> Result<Value, Diagnostic> {
        let takes = |axis: usize| only.is_none_or(|only| only == axis);
        let zero = Dim::constant(0);
        let edges: Vec<(Dim, Dim)> = (0..self.sizes.len())
            .map(|axis| if takes(axis) { self.edges[axis].clone() } else { (zero.clone(), zero.clone()) })
            .collect();
        let of =
            |values: &[i64]| -> Vec<i64> { (0..values.len()).map(|axis| if takes(axis) { values[axis] } else { 1 }).collect() };
        let sizes = (0..self.sizes.len()).map(|axis| if takes(axis) { self.sizes[axis].clone() } else { Dim::constant(1) });
        let mut window =
            Window { sizes: sizes.collect(), strides: of(&self.strides), dilations: of(&self.dilations), padding: edges };
        let is_padding = |edge: &Dim| edge.as_const().is_some_and(|size| size >= 0);
        if window.padding.iter().all(|(low, high)| is_padding(low) && is_padding(high)) {
            return b.reduce_window(x, how, &window);
        }
        let (low, high): (Vec<Dim>, Vec<Dim>) = window.padding.iter().cloned().unzip();
        let padded = b.pad(x, b.lift(neutral(how, b.dtype(x)), b.dtype(x))?, &low, &high)?;
        window.padding = vec![(zero.clone(), zero); low.len()];
        b.reduce_window(padded, how, &window)
    }

    /// The element at `offset` of every window, from axis `first` on.
    pub(super) fn elements_at(&self, b: &Emitter<'_>, x: Value, first: usize, offset: &[i64]) -> Result<Value, Diagnostic> {
        let lead = self.sizes.len() - self.n;
        let form = (&self.strides[first..], &self.dilations[first..], &self.counts[first - lead..]);
        elements_at(b, x, first, offset, form)
    }
}

/// The number of elements of a window.
fn taps(kernel: &[i64]) -> i64 {
    kernel.iter().fold(1, |count: i64, &size| count.saturating_mul(size))
}

/// The offsets of a window's elements, in row-major order. Each is written out as ops.
pub(super) fn offsets(kernel: &[i64]) -> Result<Vec<Vec<i64>>, Diagnostic> {
    if taps(kernel) > MOST_OFFSETS {
        let message = format!("a window of {kernel:?} elements is written out; {MOST_OFFSETS} are the most");
        return Err(Diagnostic::new(Code::E0105, message));
    }
    let longer = |offsets: Vec<Vec<i64>>, &size: &i64| {
        offsets.iter().flat_map(|offset| (0..size).map(move |at| [&offset[..], &[at]].concat())).collect()
    };
    Ok(kernel.iter().fold(vec![Vec::new()], longer))
}

/// The element at `offset` of every window, from axis `first` on; of strides, dilations and numbers
/// of windows, one for each of these axes.
pub(super) fn elements_at(
    b: &Emitter<'_>,
    x: Value,
    first: usize,
    offset: &[i64],
    (strides, dilations, counts): (&[i64], &[i64], &[Dim]),
) -> Result<Value, Diagnostic> {
    let mut x = x;
    for (i, &at) in offset.iter().enumerate() {
        let start = Dim::constant(at) * dilations[i];
        let limit = &start + (&counts[i] - 1) * strides[i] + 1;
        x = b.slice(x, first + i, &start, &limit, strides[i])?;
    }
    Ok(x)
}
