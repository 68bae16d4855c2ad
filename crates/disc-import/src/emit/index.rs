//! Emits gathers, slices at computed positions, sorts and top-k.
use super::{Emitter, Sign, ints};
use disc_ir::{Attr, DType, Diagnostic, Dim, OpKind, Type, Value};

/// The form of a gather: an index vector is along `vector_dim` of the index and addresses the axes
/// `index_map` of `x`.
#[derive(Clone, Debug)]
pub struct Gather<'a> {
    pub offset_dims: &'a [usize],
    pub collapsed: &'a [usize],
    pub index_map: &'a [usize],
    pub vector_dim: usize,
    pub window: Vec<Dim>,
    /// "check" fails the call for an index out of range, "clamp" takes the nearest element.
    pub bounds: &'static str,
    /// Axes that `x` and the index have in common.
    pub batching: &'a [usize],
}

/// The form of a scatter: an index vector is along `vector_dim` of the index and addresses the axes
/// `index_map` of `x`; the axes `window_dims` of an update run over the others.
#[derive(Clone, Copy, Debug)]
pub struct Scatter<'a> {
    pub window_dims: &'a [usize],
    pub inserted: &'a [usize],
    pub index_map: &'a [usize],
    pub vector_dim: usize,
    /// The op that combines an element and its update; `None` replaces the element.
    pub how: Option<OpKind>,
    /// "check" fails the call for an index out of range, "skip" leaves its update out.
    pub bounds: &'static str,
    /// Axes that `x` and the index have in common.
    pub batching: &'a [usize],
}

fn list(axes: &[usize]) -> Attr {
    Attr::Ints(ints(axes))
}

impl Emitter<'_> {
    /// The elements `index` of one axis, as `numpy.take`.
    ///
    /// # Errors
    /// No such axis.
    pub fn take(&self, x: Value, axis: usize, index: Value, bounds: &'static str) -> Result<Value, Diagnostic> {
        self.take_batched(x, axis, index, 0, bounds)
    }

    /// The elements `index` of one axis; the first `batch` axes of `x` and of the index are common
    /// to both, and before `axis`.
    ///
    /// # Errors
    /// No such axis, or batches of other sizes.
    pub fn take_batched(
        &self,
        x: Value,
        axis: usize,
        index: Value,
        batch: usize,
        bounds: &'static str,
    ) -> Result<Value, Diagnostic> {
        let (sizes, depth) = (self.shape(x), self.rank(index));
        for (own, of_index) in sizes.iter().zip(&self.shape(index)).take(batch) {
            self.require(own, Sign::Eq, of_index)?;
        }
        // Axes of the result: those before the axis, those of the index after the batch, others.
        let shared: Vec<usize> = (0..batch).collect();
        let others = (batch..sizes.len()).filter(|&i| i != axis);
        let offset: Vec<usize> = others.map(|i| if i < axis { i } else { i + depth - batch - 1 }).collect();
        let is_one = |i: usize| i == axis || i < batch;
        let window = sizes.into_iter().enumerate().map(|(i, size)| if is_one(i) { Dim::constant(1) } else { size });
        let form = Gather {
            offset_dims: &offset,
            collapsed: &[axis],
            index_map: &[axis],
            vector_dim: depth,
            window: window.collect(),
            bounds,
            batching: &shared,
        };
        self.gather(x, index, form)
    }

    /// # Errors
    /// The op's violated constraint.
    pub fn gather(&self, x: Value, index: Value, form: Gather<'_>) -> Result<Value, Diagnostic> {
        let mut attrs = vec![
            ("offset_dims", list(form.offset_dims)),
            ("collapsed_slice_dims", list(form.collapsed)),
            ("start_index_map", list(form.index_map)),
            ("index_vector_dim", Attr::Int(form.vector_dim as i64)),
            ("slice_sizes", Attr::Dims(form.window)),
            ("bounds", Attr::Enum(form.bounds)),
        ];
        if !form.batching.is_empty() {
            attrs.extend([("operand_batching_dims", list(form.batching)), ("start_indices_batching_dims", list(form.batching))]);
        }
        self.request(OpKind::Gather, &[x, index], |r| attrs.into_iter().fold(r, |r, (name, attr)| r.attr(name, attr)))
    }

    /// `x` with updates combined into it. Truth values are added by `or`.
    ///
    /// # Errors
    /// The op's violated constraint.
    pub fn scatter(&self, x: Value, index: Value, updates: Value, form: &Scatter<'_>) -> Result<Value, Diagnostic> {
        let dtype = self.dtype(x);
        let how = if form.how == Some(OpKind::Add) && dtype == DType::I1 { Some(OpKind::Or) } else { form.how };
        let mut attrs = vec![
            ("update_window_dims", list(form.window_dims)),
            ("inserted_window_dims", list(form.inserted)),
            ("scatter_dims_to_operand_dims", list(form.index_map)),
            ("index_vector_dim", Attr::Int(form.vector_dim as i64)),
            ("bounds", Attr::Enum(form.bounds)),
        ];
        if !form.batching.is_empty() {
            attrs.extend([("input_batching_dims", list(form.batching)), ("scatter_indices_batching_dims", list(form.batching))]);
        }
        self.combine(OpKind::Scatter, &[x, index, updates], how, dtype, attrs)
    }

    /// The slice of size `sizes` that starts at `starts`, scalars, one for each axis.
    ///
    /// # Errors
    /// The op's violated constraint.
    pub fn dynamic_slice(&self, x: Value, starts: &[Value], sizes: &[Dim]) -> Result<Value, Diagnostic> {
        self.request(OpKind::DynamicSlice, &[&[x], starts].concat(), |r| r.attr("sizes", sizes.to_vec()))
    }

    /// `x` with the slice that starts at `starts` replaced by `update`.
    ///
    /// # Errors
    /// The op's violated constraint.
    pub fn dynamic_update_slice(&self, x: Value, update: Value, starts: &[Value]) -> Result<Value, Diagnostic> {
        self.op(OpKind::DynamicUpdateSlice, &[&[x, update], starts].concat())
    }

    /// Sorts `xs[0]` stably along one axis, NaN as greatest; the others follow it.
    ///
    /// # Errors
    /// Other shapes than one, or no such axis.
    pub fn sort(&self, xs: &[Value], axis: usize, descending: bool) -> Result<Vec<Value>, Diagnostic> {
        self.with(|b| {
            let dtypes = xs.iter().map(|&x| b.function.ty(x).dtype());
            let arguments: Vec<Type> = dtypes.flat_map(|dtype| [Type::tensor([], dtype), Type::tensor([], dtype)]).collect();
            let body = b.region(arguments, |b, values| {
                let before = match *values {
                    [a, c, ..] if descending => comes_before(b, c, a)?,
                    [a, c, ..] => comes_before(b, a, c)?,
                    _ => unreachable!("two arguments for each tensor"),
                };
                b.ret(&[before]).map(drop)
            })?;
            let request = b.op(OpKind::Sort).operands(xs).region(body);
            let inst = request.attr("dimension", axis as i64).attr("is_stable", true).build()?;
            Ok(b.function.results_of(inst).to_vec())
        })
    }

    /// The `k` greatest or least of the last axis after the first `skip`, NaN as greatest, and
    /// their positions (i64).
    ///
    /// # Errors
    /// `k` and `skip` together exceed the axis.
    pub fn top_k(&self, x: Value, k: &Dim, largest: bool, skip: Option<&Dim>) -> Result<(Value, Value), Diagnostic> {
        self.with(|b| {
            let request = b.op(OpKind::TopK).operands(&[x]).attr("k", k.clone()).attr("largest", largest);
            let request = request.attr("index_dtype", DType::I64);
            let inst = skip.into_iter().fold(request, |r, skip| r.attr("skip", skip.clone())).build()?;
            match b.function.results_of(inst) {
                &[values, places] => Ok((values, places)),
                _ => unreachable!("top_k has two results"),
            }
        })
    }
}

/// Returns the truth value of `a` before `c`, NaN last.
fn comes_before(b: &mut disc_ir::Builder<'_>, a: Value, c: Value) -> Result<Value, Diagnostic> {
    let less = |b: &mut disc_ir::Builder<'_>| b.op(OpKind::Compare).operands(&[a, c]).attr("direction", "LT").value();
    if !b.function.ty(a).dtype().is_float() {
        return less(b);
    }
    let (a_nan, c_nan) = (b.emit(OpKind::IsNan, &[a])?, b.emit(OpKind::IsNan, &[c])?);
    let a_number = b.emit(OpKind::Not, &[a_nan])?;
    let only_c = b.emit(OpKind::And, &[c_nan, a_number])?;
    let less = less(b)?;
    b.emit(OpKind::Or, &[less, only_c])
}
