//! Emits contractions, reductions and scans.
use super::{Emitter, Sign, ints, limits};
use disc_ir::{Attr, DType, Diagnostic, OpKind, Type, Value};

type Emitted = Result<Value, Diagnostic>;

/// The pairs of axes of a contraction: those of `x`, and those of `y`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dot<'a> {
    pub batching: (&'a [usize], &'a [usize]),
    pub contracting: (&'a [usize], &'a [usize]),
    /// The type of the result, if it is not that of the operands.
    pub dtype: Option<DType>,
}

fn list(axes: &[usize]) -> Attr {
    Attr::Ints(ints(axes))
}

impl Emitter<'_> {
    /// Contracts pairs of axes. Axes of the result: batch, free axes of `x`, free axes of `y`.
    ///
    /// # Errors
    /// Sizes of a pair that differ.
    pub fn dot(&self, x: Value, y: Value, dot: &Dot<'_>) -> Emitted {
        for (xs, ys) in [dot.batching, dot.contracting] {
            for (&i, &j) in xs.iter().zip(ys) {
                self.require(&self.size_of(y, j)?, Sign::Eq, &self.size_of(x, i)?)?;
            }
        }
        let mut attrs =
            vec![("lhs_contracting_dims", list(dot.contracting.0)), ("rhs_contracting_dims", list(dot.contracting.1))];
        if !dot.batching.0.is_empty() {
            attrs.extend([("lhs_batching_dims", list(dot.batching.0)), ("rhs_batching_dims", list(dot.batching.1))]);
        }
        if let Some(dtype) = dot.dtype.filter(|&dtype| dtype != self.dtype(x)) {
            attrs.push(("dtype", Attr::DType(dtype)));
        }
        self.request(OpKind::DotGeneral, &[x, y], |r| attrs.into_iter().fold(r, |r, (name, attr)| r.attr(name, attr)))
    }

    /// Emits an op whose body combines two scalars of type `dtype` by `how`, or takes the second.
    pub(super) fn combine(
        &self,
        kind: OpKind,
        operands: &[Value],
        how: impl Into<Option<OpKind>>,
        dtype: DType,
        attrs: Vec<(&'static str, Attr)>,
    ) -> Emitted {
        let how = how.into();
        self.with(|b| {
            let scalar = Type::tensor([], dtype);
            let body = b.region([scalar.clone(), scalar], |b, values| {
                let result = match how {
                    Some(how) => b.emit(how, values)?,
                    None => values[1],
                };
                b.ret(&[result]).map(drop)
            })?;
            let request = b.op(kind).operands(operands).region(body);
            attrs.into_iter().fold(request, |r, (name, attr)| r.attr(name, attr)).value()
        })
    }

    /// Combines the elements along `axes` by `how`: add, multiply, maximum, minimum, and, or. A
    /// tensor without axes has none to reduce, whichever are named.
    ///
    /// # Errors
    /// No such axis.
    pub fn reduce(&self, x: Value, axes: &[usize], how: OpKind, keep: bool) -> Emitted {
        if self.rank(x) == 0 || axes.is_empty() {
            return Ok(x);
        }
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        let dtype = self.dtype(x);
        let init = self.neutral(how, dtype)?;
        let attrs = vec![("dims", list(&axes))];
        let result = self.combine(OpKind::Reduce, &[x, init], how, dtype, attrs)?;
        if keep { self.unsqueeze(result, &axes) } else { Ok(result) }
    }

    /// The scalar that changes nothing when it is combined by `how`.
    ///
    /// # Errors
    /// None.
    pub fn neutral(&self, how: OpKind, dtype: DType) -> Emitted {
        self.full(limits::neutral(how, dtype), &[], dtype)
    }

    /// # Errors
    /// No such axis.
    pub fn sum(&self, x: Value, axes: &[usize], keep: bool) -> Emitted {
        self.reduce(x, axes, OpKind::Add, keep)
    }

    /// The running combination along `axis`.
    ///
    /// # Errors
    /// No such axis.
    pub fn cumulative(&self, x: Value, axis: usize, how: OpKind) -> Emitted {
        let dtype = self.dtype(x);
        let init = self.neutral(how, dtype)?;
        self.combine(OpKind::Cumulative, &[x, init], how, dtype, vec![("dim", Attr::Int(axis as i64))])
    }

    /// `y[i] = y[i - 1] * factor[i] + x[i]` along `axis`, from 0 on.
    ///
    /// # Errors
    /// Other shapes or types than one.
    pub fn running_sum(&self, x: Value, factor: Value, axis: usize) -> Emitted {
        let dtype = self.dtype(x);
        let inits = [self.full(0, &[], dtype)?, self.full(1, &[], dtype)?];
        self.with(|b| {
            let body = b.region(vec![Type::tensor([], dtype); 4], |b, values| {
                let &[total, so_far, value, scale] = values else { unreachable!("a body of four arguments") };
                let moved = b.emit(OpKind::Multiply, &[total, scale])?;
                let sum = b.emit(OpKind::Add, &[moved, value])?;
                let product = b.emit(OpKind::Multiply, &[so_far, scale])?;
                b.ret(&[sum, product]).map(drop)
            })?;
            let operands = [x, factor, inits[0], inits[1]];
            b.op(OpKind::Cumulative).operands(&operands).region(body).attr("dim", axis as i64).value()
        })
    }
}
