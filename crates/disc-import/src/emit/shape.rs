//! Emits ops that change shapes: broadcasting, reshapes, moves of axes, slices, pads.
use super::{Emitter, Operand, Sign, ints};
use disc_ir::{Attr, DType, Diagnostic, Dim, OpKind, Type, Value, dim::Fact};

type Emitted = Result<Value, Diagnostic>;

impl Emitter<'_> {
    /// The values, broadcast to one shape.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn together(&self, xs: &[Value]) -> Result<Vec<Value>, Diagnostic> {
        let shape = self.common_shape(xs);
        xs.iter().map(|&x| self.expand(x, &shape)).collect()
    }

    /// The broadcast shape; of two sizes that are not provably equal, that of the format's result
    /// decides.
    pub fn common_shape(&self, xs: &[Value]) -> Vec<Dim> {
        let shapes: Vec<Vec<Dim>> = xs.iter().map(|&x| self.shape(x)).collect();
        self.common_sizes(&shapes)
    }

    /// The broadcast of all axes but the last two, for a result of rank `rank`.
    pub fn common_batch(&self, x: Value, y: Value, rank: usize) -> Vec<Dim> {
        let wanted = self.wanted_of_rank(rank);
        let shapes = [self.shape(x), self.shape(y)].map(|shape| {
            let batch = shape.len().saturating_sub(2);
            let missing = rank.saturating_sub(shape.len());
            [vec![Dim::constant(1); missing], shape[..batch].to_vec()].concat()
        });
        let [left, right] = &shapes;
        let sizes = left.iter().zip(right).enumerate();
        sizes.map(|(axis, (a, b))| common_size([a, b], wanted.and_then(|w| w.get(axis)))).collect()
    }

    pub(super) fn common_sizes(&self, shapes: &[Vec<Dim>]) -> Vec<Dim> {
        let rank = shapes.iter().map(Vec::len).max().unwrap_or_default();
        let wanted = self.wanted_of_rank(rank);
        let size = |axis: usize| {
            let own = shapes.iter().filter_map(|shape| shape.get((axis + shape.len()).checked_sub(rank)?));
            common_size(own, wanted.and_then(|w| w.get(axis)))
        };
        (0..rank).map(size).collect()
    }

    fn wanted_of_rank(&self, rank: usize) -> Option<&[Dim]> {
        self.wanted().filter(|wanted| wanted.len() == rank)
    }

    /// Broadcasts to `shape` as NumPy does.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn expand(&self, x: Value, shape: &[Dim]) -> Emitted {
        let rank = self.rank(x);
        let dims: Vec<usize> = (shape.len().saturating_sub(rank)..shape.len()).collect();
        self.broadcast(x, shape, &dims)
    }

    /// Broadcasts to `shape`; `dims[i]` is the axis of the result that axis `i` of `x` becomes.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn broadcast(&self, x: Value, shape: &[Dim], dims: &[usize]) -> Emitted {
        let own = self.shape(x);
        if own == shape {
            return Ok(x);
        }
        for (size, wanted) in own.iter().zip(dims.iter().filter_map(|&axis| shape.get(axis))) {
            if !size.is_const(1) {
                self.require(size, Sign::Eq, wanted)?;
            }
        }
        let ty = Type::tensor(shape.iter().cloned(), self.dtype(x));
        self.request(OpKind::BroadcastInDim, &[x], |r| r.attr("dims", ints(dims)).result(ty))
    }

    /// The elements in row-major order, in another shape.
    ///
    /// # Errors
    /// Another number of elements.
    pub fn reshape(&self, x: Value, shape: &[Dim]) -> Emitted {
        let mut own = self.shape(x);
        if own == shape {
            return Ok(x);
        }
        let mut source = x;
        let count = Dim::product(shape.iter().cloned());
        if let [size] = &own[..]
            && self.is_bound_later(size, &count)
        {
            self.require(&count, Sign::Le, size)?;
            source = self.slice_all(x, &[Dim::constant(0)], std::slice::from_ref(&count), &[1])?;
            own = vec![count.clone()];
        }
        self.require(&Dim::product(own.iter().cloned()), Sign::Eq, &count)?;
        let ty = Type::tensor(shape.iter().cloned(), self.dtype(x));
        self.request(OpKind::Reshape, &[source], |r| r.result(ty))
    }

    /// Returns true if a fact `size == product` would give a dim of the signature a form that some
    /// op only binds later: it is `x_0` beside `size_1*size_1`.
    fn is_bound_later(&self, size: &Dim, product: &Dim) -> bool {
        let (Some(own), None) = (size.as_symbol(), product.as_symbol()) else { return false };
        let bound = self.with(|b| b.function.data_dims());
        !bound.contains(own) && product.symbols().iter().any(|symbol| bound.contains(symbol))
    }

    /// Adds axes of size 1, at these positions of the result.
    ///
    /// # Errors
    /// None for values of this function.
    pub fn unsqueeze(&self, x: Value, axes: &[usize]) -> Emitted {
        let mut rest = self.shape(x).into_iter();
        let rank = rest.len() + axes.len();
        let size = |axis| if axes.contains(&axis) { None } else { rest.next() };
        let shape: Vec<Dim> = (0..rank).map(size).map(|size| size.unwrap_or(Dim::constant(1))).collect();
        self.reshape(x, &shape)
    }

    /// Removes axes, whose size is 1.
    ///
    /// # Errors
    /// Another size than 1.
    pub fn squeeze(&self, x: Value, axes: &[usize]) -> Emitted {
        let sizes = self.shape(x).into_iter().enumerate();
        let shape: Vec<Dim> = sizes.filter(|(axis, _)| !axes.contains(axis)).map(|(_, size)| size).collect();
        self.reshape(x, &shape)
    }

    /// Axis `i` of the result is axis `dims[i]` of `x`.
    ///
    /// # Errors
    /// `dims` are not the axes of `x`.
    pub fn transpose(&self, x: Value, dims: &[usize]) -> Emitted {
        if dims.is_sorted() {
            return Ok(x);
        }
        self.request(OpKind::Transpose, &[x], |r| r.attr("dims", ints(dims)))
    }

    /// Moves axis `source` to position `target`.
    ///
    /// # Errors
    /// No such axis.
    pub fn move_axis(&self, x: Value, source: usize, target: usize) -> Emitted {
        let mut dims: Vec<usize> = (0..self.rank(x)).filter(|&axis| axis != source).collect();
        dims.insert(target.min(dims.len()), source);
        self.transpose(x, &dims)
    }

    /// Counts along `axis`, from 0.
    ///
    /// # Errors
    /// No such axis.
    pub fn iota(&self, shape: &[Dim], axis: usize, dtype: DType) -> Emitted {
        if dtype == DType::I1 {
            return self.convert(self.iota(shape, axis, DType::I32)?, DType::I1);
        }
        let ty = Type::tensor(shape.iter().cloned(), dtype);
        self.request(OpKind::Iota, &[], |r| r.attr("dim", axis as i64).result(ty))
    }

    /// `x[start:limit:stride]` of one axis; the bounds are in range.
    ///
    /// # Errors
    /// Bounds out of range.
    pub fn slice(&self, x: Value, axis: usize, start: &Dim, limit: &Dim, stride: i64) -> Emitted {
        let (sizes, size) = (self.shape(x), self.size_of(x, axis)?);
        if stride == 1 && start.is_const(0) {
            if *limit == size {
                return Ok(x);
            }
            if self.equal(limit, &size) {
                // Facts about this axis do not imply facts about products of several: the equality
                // is stated.
                self.state(Fact::Equal(limit.clone(), size))?;
                return Ok(x);
            }
        }
        let (mut starts, mut limits, mut strides) = (vec![Dim::constant(0); sizes.len()], sizes, Vec::new());
        strides.resize(limits.len(), 1);
        (starts[axis], limits[axis], strides[axis]) = (start.clone(), limit.clone(), stride);
        self.slice_all(x, &starts, &limits, &strides)
    }

    /// `x[start:limit:stride]` of every axis.
    ///
    /// # Errors
    /// Bounds out of range.
    pub fn slice_all(&self, x: Value, start: &[Dim], limit: &[Dim], strides: &[i64]) -> Emitted {
        let (start, limit, strides) = (start.to_vec(), limit.to_vec(), strides.to_vec());
        self.request(OpKind::Slice, &[x], |r| r.attr("start", start).attr("limit", limit).attr("strides", strides))
    }

    /// # Errors
    /// Other axes than `axis` have different sizes.
    pub fn concatenate(&self, xs: &[Value], axis: usize) -> Emitted {
        let Some((&first, others)) = xs.split_first() else { return self.op(OpKind::Concatenate, xs) };
        let sizes = self.shape(first);
        for &x in others {
            for (i, (own, size)) in self.shape(x).iter().zip(&sizes).enumerate() {
                if i != axis {
                    self.require(own, Sign::Eq, size)?;
                }
            }
        }
        if others.is_empty() { Ok(first) } else { self.request(OpKind::Concatenate, xs, |r| r.attr("dim", axis as i64)) }
    }

    /// # Errors
    /// No such axis.
    pub fn reverse(&self, x: Value, axes: &[usize]) -> Emitted {
        if axes.is_empty() { Ok(x) } else { self.request(OpKind::Reverse, &[x], |r| r.attr("dims", ints(axes))) }
    }

    /// Pads by `value`, `low` and `high` per axis; negative amounts crop.
    ///
    /// # Errors
    /// An axis that is cropped by more than its size.
    pub fn pad(&self, x: Value, value: impl Into<Operand>, low: &[Dim], high: &[Dim]) -> Emitted {
        self.pad_apart(x, value, low, high, &vec![0; self.rank(x)])
    }

    /// Pads as [`Emitter::pad`], with `interior` elements between those of each axis.
    ///
    /// # Errors
    /// As [`Emitter::pad`].
    pub fn pad_apart(&self, x: Value, value: impl Into<Operand>, low: &[Dim], high: &[Dim], interior: &[i64]) -> Emitted {
        let value = self.like(value, x)?;
        let (low, high, interior) = (low.to_vec(), high.to_vec(), interior.to_vec());
        let attrs = [("low", Attr::Dims(low)), ("high", Attr::Dims(high)), ("interior", Attr::Ints(interior))];
        self.request(OpKind::Pad, &[x, value], |r| attrs.into_iter().fold(r, |r, (name, attr)| r.attr(name, attr)))
    }
}

/// The size that a broadcast of these has: the one that is not 1; of two, the wanted one.
fn common_size<'d>(sizes: impl IntoIterator<Item = &'d Dim>, wanted: Option<&Dim>) -> Dim {
    let mut result = Dim::constant(1);
    for size in sizes {
        let is_known = size.is_const(1) || *size == result;
        if !is_known && (result.is_const(1) || wanted == Some(size)) {
            result = size.clone();
        }
    }
    result
}
