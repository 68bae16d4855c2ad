//! Appends random ops to a program, on existing values.
//!
//! An op is proposed, and the builder, which knows every constraint, takes or refuses it. If an op
//! has a condition that no type states (a slice that fits, an index dimension that is not empty),
//! only proposals that hold for all sizes are made.
use super::{Random, dtype};
use crate::{
    attr::{Attr, AttrKind},
    build::Builder,
    diag::Diagnostic,
    dim::Dim,
    graph::{Block, Value},
    literal::Literal,
    ops::{
        OPS, OpDef, OpKind, Stages, Trait,
        body::{self, Order},
    },
    types::{DType, TensorType, Type},
};

pub(super) struct Generator<'f> {
    pub(super) random: Random,
    pub(super) builder: Builder<'f>,
    /// The values that ops can use.
    pub(super) values: Vec<Value>,
}

pub(super) type Made = Result<Vec<Value>, Diagnostic>;
type Proposal<'f> = fn(&mut Generator<'f>) -> Made;

/// The most dimensions of a value.
const MAX_RANK: usize = 5;
/// The most elements of a value, with the largest sizes.
const MAX_ELEMENTS: i64 = 30_000;

/// Returns true if the op is legal on tensors and is not a terminator.
pub(super) fn is_tensor_op(def: &OpDef) -> bool {
    matches!(def.stages, Stages::Tensor | Stages::Both) && !def.has(Trait::Terminator)
}

fn is_small(tensor: &TensorType) -> bool {
    let elements = tensor.element_count().eval(&|_| Some(super::LARGEST));
    tensor.rank() <= MAX_RANK && elements.is_ok_and(|n| n <= MAX_ELEMENTS)
}

/// The ops that combine two values of one type.
const COMBINERS: [OpKind; 7] =
    [OpKind::Add, OpKind::Multiply, OpKind::Maximum, OpKind::Minimum, OpKind::And, OpKind::Or, OpKind::Xor];

impl<'f> Generator<'f> {
    /// Adds an op, with the helpers that it needs; sometimes none.
    pub(super) fn step(&mut self) {
        let propose: [(usize, Proposal<'f>); 18] = [
            (40, Self::elementwise),
            (4, Self::broadcast),
            (8, Self::rearrange),
            (6, Self::resize),
            (4, Self::concatenate),
            (8, Self::reduce),
            (4, Self::reduce_argument),
            (5, Self::window),
            (6, Self::contract),
            (6, Self::multiply),
            (6, Self::normalize),
            (4, Self::beside),
            (3, Self::convolve),
            (2, Self::patch),
            (6, Self::look_up),
            (5, Self::order),
            (5, Self::make),
            (4, Self::control),
        ];
        let mut place = self.random.below(propose.iter().map(|(weight, _)| weight).sum());
        for (weight, make) in propose {
            match place.checked_sub(weight) {
                Some(rest) => place = rest,
                None => {
                    self.take(make);
                    return;
                }
            }
        }
    }

    /// Adds the ops of a proposal, or removes them all if it is refused or becomes too large.
    fn take(&mut self, make: Proposal<'f>) {
        let block = self.builder.block;
        let before = self.builder.function.insts(block).len();
        let made = make(self).unwrap_or_default();
        if made.is_empty() || !made.iter().all(|&value| is_small(&self.tensor(value))) {
            let kept = self.builder.function.insts(block)[..before].to_vec();
            self.builder.function.set_insts(block, kept);
            return;
        }
        self.values.extend(made);
    }

    fn value(&mut self) -> Value {
        // Later values more often: programs become deep.
        let n = self.values.len();
        let place = self.random.below(n).max(self.random.below(n));
        self.values[place]
    }

    pub(super) fn tensor(&self, value: Value) -> TensorType {
        self.builder.function.ty(value).as_tensor().expect("values are tensors").clone()
    }

    /// A value with at least one dimension, and one of its axes.
    pub(super) fn with_axis(&mut self) -> Option<(Value, TensorType, usize)> {
        let value = self.value();
        let tensor = self.tensor(value);
        (tensor.rank() > 0).then(|| (value, tensor.clone(), self.random.below(tensor.rank())))
    }

    pub(super) fn one(&mut self, kind: OpKind, operands: &[Value], attrs: &[(&str, Attr)], result: Option<Type>) -> Made {
        let mut request = self.builder.op(kind).operands(operands);
        for (name, attr) in attrs {
            request = request.attr(name, attr.clone());
        }
        if let Some(ty) = result {
            request = request.result(ty);
        }
        let inst = request.build()?;
        Ok(self.builder.function.results_of(inst).to_vec())
    }

    pub(super) fn with_region(&mut self, kind: OpKind, operands: &[Value], attrs: &[(&str, Attr)], region: Block) -> Made {
        let mut request = self.builder.op(kind).operands(operands).region(region);
        for (name, attr) in attrs {
            request = request.attr(name, attr.clone());
        }
        let inst = request.build()?;
        Ok(self.builder.function.results_of(inst).to_vec())
    }

    pub(super) fn splat(&mut self, tensor: &TensorType, value: f64) -> Made {
        let literal = Literal::splat_f64(tensor.dtype, value);
        self.one(OpKind::Constant, &[], &[("value", literal.into())], Some(Type::Tensor(tensor.clone())))
    }

    /// Returns a value of this type: an existing one, or a constant.
    fn like(&mut self, tensor: &TensorType) -> Result<Value, Diagnostic> {
        let same: Vec<Value> = self.values.iter().copied().filter(|&v| self.tensor(v) == *tensor).collect();
        if same.is_empty() || self.random.chance(20) {
            let value = *self.random.choose(&[0.0, 1.0, 2.5, -3.0]);
            return Ok(self.splat(tensor, value)?[0]);
        }
        Ok(*self.random.choose(&same))
    }

    fn elementwise(&mut self) -> Made {
        let kinds: Vec<&OpDef> = OPS.iter().filter(|def| is_tensor_op(def) && def.has(Trait::Elementwise)).collect();
        let def = *self.random.choose(&kinds);
        let value = self.value();
        let tensor = self.tensor(value);
        let mut operands = vec![value];
        for operand in &def.operands[1..] {
            operands.push(if operand.name == "rhs" && self.random.chance(20) { value } else { self.like(&tensor)? });
        }
        if def.kind == OpKind::Select {
            operands[0] = self.like(&tensor.with_dtype(DType::I1))?;
        }
        let mut attrs: Vec<(&str, Attr)> = def.attrs.iter().map(|attr| (attr.name, self.word(attr.kind))).collect();
        // Bits are read as numbers, never as truth values.
        if def.kind == OpKind::BitcastConvert && matches!(attrs[0].1, Attr::DType(DType::I1)) {
            attrs[0].1 = Attr::DType(tensor.dtype);
        }
        self.one(def.kind, &operands, &attrs, None)
    }

    /// A random value of an attribute of an element-wise op.
    fn word(&mut self, kind: AttrKind) -> Attr {
        match kind {
            AttrKind::Enum(words) => Attr::Enum(self.random.choose::<&'static str>(words)),
            _ => Attr::DType(dtype(&mut self.random)),
        }
    }

    fn broadcast(&mut self) -> Made {
        let value = self.value();
        let tensor = self.tensor(value);
        let mut dims = tensor.dims.clone();
        let at = self.random.below(tensor.rank() + 1);
        dims.insert(at, super::size(&mut self.random));
        let axes: Vec<i64> = (0..dims.len() as i64).filter(|&axis| axis != at as i64).collect();
        self.one(OpKind::BroadcastInDim, &[value], &[("dims", axes.into())], Some(Type::tensor(dims, tensor.dtype)))
    }

    /// Transposes, reverses or reshapes.
    fn rearrange(&mut self) -> Made {
        let Some((value, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        match self.random.below(3) {
            0 => {
                let mut axes: Vec<i64> = (0..tensor.rank() as i64).collect();
                axes.rotate_left(axis);
                axes.swap(0, self.random.below(tensor.rank()));
                self.one(OpKind::Transpose, &[value], &[("dims", axes.into())], None)
            }
            1 => self.one(OpKind::Reverse, &[value], &[("dims", vec![axis as i64].into())], None),
            _ => {
                let mut dims = tensor.dims.clone();
                if axis + 1 < dims.len() {
                    let inner = dims.remove(axis + 1);
                    dims[axis] = &dims[axis] * &inner;
                } else {
                    dims.insert(axis, Dim::constant(1));
                }
                self.one(OpKind::Reshape, &[value], &[], Some(Type::tensor(dims, tensor.dtype)))
            }
        }
    }

    /// Slices or pads.
    fn resize(&mut self) -> Made {
        let Some((value, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        let zeros = vec![Dim::constant(0); tensor.rank()];
        let mut low = zeros.clone();
        if self.random.chance(50) {
            low[axis] = tensor.dims[axis].floor_div(&Dim::constant(2));
            let mut strides = vec![1; tensor.rank()];
            strides[axis] = self.random.between(1, 4) as i64;
            let attrs = [("start", low.into()), ("limit", tensor.dims.clone().into()), ("strides", strides.into())];
            return self.one(OpKind::Slice, &[value], &attrs, None);
        }
        let mut high = zeros;
        low[axis] = Dim::constant(self.random.below(3) as i64);
        high[axis] = super::size(&mut self.random);
        let mut interior = vec![0; tensor.rank()];
        interior[axis] = self.random.below(3) as i64;
        let fill = self.splat(&TensorType::scalar(tensor.dtype), 1.0)?[0];
        let attrs = [("low", low.into()), ("high", high.into()), ("interior", interior.into())];
        self.one(OpKind::Pad, &[value, fill], &attrs, None)
    }

    fn concatenate(&mut self) -> Made {
        let Some((value, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        let other = self.like(&tensor)?;
        self.one(OpKind::Concatenate, &[value, other], &[("dim", Attr::Int(axis as i64))], None)
    }

    /// A combiner of this type, its region, and a neutral (or at least harmless) start.
    fn combiner(&mut self, dtype: DType) -> Result<(Block, Value), Diagnostic> {
        let admits = |kind: &OpKind| kind.def().operands[0].class.contains(dtype);
        let kinds: Vec<OpKind> = COMBINERS.iter().copied().filter(admits).collect();
        let kind = *self.random.choose(&kinds);
        let start = if matches!(kind, OpKind::Multiply | OpKind::And) { 1.0 } else { 0.0 };
        let init = self.splat(&TensorType::scalar(dtype), start)?[0];
        Ok((body::combine(&mut self.builder, kind, dtype)?, init))
    }

    fn reduce(&mut self) -> Made {
        let Some((value, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        let (region, init) = self.combiner(tensor.dtype)?;
        if self.random.chance(30) {
            let attrs = [("dim", Attr::Int(axis as i64)), ("reverse", Attr::Bool(self.random.chance(50)))];
            return self.with_region(OpKind::Cumulative, &[value, init], &attrs, region);
        }
        let mut axes = vec![axis as i64];
        axes.extend((0..tensor.rank() as i64).filter(|&other| other != axis as i64 && self.random.chance(30)));
        self.with_region(OpKind::Reduce, &[value, init], &[("dims", axes.into())], region)
    }

    /// The largest or smallest value and its index.
    fn reduce_argument(&mut self) -> Made {
        let Some((value, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        let place = Some(Type::Tensor(tensor.with_dtype(DType::I64)));
        let indices = self.one(OpKind::Iota, &[], &[("dim", Attr::Int(axis as i64))], place)?[0];
        let largest = self.random.chance(50);
        let start = if largest { f64::NEG_INFINITY } else { f64::INFINITY };
        let init = self.splat(&TensorType::scalar(tensor.dtype), start)?[0];
        let first = self.splat(&TensorType::scalar(DType::I64), 0.0)?[0];
        let region = body::argument(&mut self.builder, largest, tensor.dtype, DType::I64)?;
        let attrs = [("dims", vec![axis as i64].into())];
        self.with_region(OpKind::Reduce, &[value, indices, init, first], &attrs, region)
    }

    fn window(&mut self) -> Made {
        let Some((value, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        let (region, init) = self.combiner(tensor.dtype)?;
        let (mut sizes, mut strides) = (vec![Dim::constant(1); tensor.rank()], vec![1; tensor.rank()]);
        sizes[axis] = Dim::constant(self.random.between(1, 4) as i64);
        strides[axis] = self.random.between(1, 3) as i64;
        let mut padding = vec![Dim::constant(0); tensor.rank()];
        padding[axis] = Dim::constant(self.random.below(2) as i64);
        let attrs = [
            ("window_dimensions", sizes.into()),
            ("window_strides", strides.into()),
            ("padding_low", padding.clone().into()),
            ("padding_high", padding.into()),
        ];
        self.with_region(OpKind::ReduceWindow, &[value, init], &attrs, region)
    }

    /// Windows over the last dimension.
    fn patch(&mut self) -> Made {
        let Some((value, tensor, _)) = self.with_axis() else { return Ok(Vec::new()) };
        if tensor.rank() > 3 {
            return Ok(Vec::new());
        }
        let windows = vec![Dim::constant(self.random.between(1, 4) as i64)];
        let padding = vec![Dim::constant(self.random.below(2) as i64)];
        let attrs = [
            ("window_dimensions", windows.into()),
            ("window_strides", vec![self.random.between(1, 3) as i64].into()),
            ("padding_low", padding.clone().into()),
            ("padding_high", padding.into()),
        ];
        self.one(OpKind::Im2col, &[value], &attrs, None)
    }

    /// A product of a value with itself or one like it, over one axis; another axis may be a batch.
    fn contract(&mut self) -> Made {
        let Some((lhs, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        let rhs = self.like(&tensor)?;
        let contracting = vec![axis as i64];
        let batching: Vec<i64> =
            (0..tensor.rank() as i64).filter(|&other| other != axis as i64).take(self.random.below(3)).collect();
        let attrs = [
            ("lhs_batching_dims", batching.clone().into()),
            ("rhs_batching_dims", batching.into()),
            ("lhs_contracting_dims", contracting.clone().into()),
            ("rhs_contracting_dims", contracting.into()),
        ];
        self.one(OpKind::DotGeneral, &[lhs, rhs], &attrs, None)
    }

    /// A convolution of a value of rank 3 with a constant kernel.
    fn convolve(&mut self) -> Made {
        let of_rank_three: Vec<Value> = self.values.iter().copied().filter(|&v| self.tensor(v).rank() == 3).collect();
        if of_rank_three.is_empty() {
            return Ok(Vec::new());
        }
        let value = *self.random.choose(&of_rank_three);
        let tensor = self.tensor(value);
        let taps = Dim::constant(self.random.between(1, 4) as i64);
        let kernel = TensorType::new([Dim::constant(2), tensor.dims[1].clone(), taps], tensor.dtype);
        let kernel = self.splat(&kernel, 0.5)?[0];
        let mut attrs: Vec<(&str, Attr)> = Vec::new();
        for (name, value) in [
            ("input_batch_dimension", 0),
            ("input_feature_dimension", 1),
            ("kernel_output_feature_dimension", 0),
            ("kernel_input_feature_dimension", 1),
            ("output_batch_dimension", 0),
            ("output_feature_dimension", 1),
        ] {
            attrs.push((name, Attr::Int(value)));
        }
        for name in ["input_spatial_dimensions", "kernel_spatial_dimensions", "output_spatial_dimensions"] {
            attrs.push((name, Attr::Ints(vec![2])));
        }
        attrs.push(("window_strides", Attr::Ints(vec![self.random.between(1, 3) as i64])));
        attrs.push(("padding_low", Attr::Dims(vec![Dim::constant(self.random.below(2) as i64)])));
        self.one(OpKind::Convolution, &[value, kernel], &attrs, None)
    }

    /// Gathers rows, scatters them back, or takes or replaces a dynamic slice.
    fn look_up(&mut self) -> Made {
        let Some((value, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        // A row exists for all sizes only if the size is a constant.
        if tensor.dims[0].as_const().is_some_and(|size| size > 0) && self.random.chance(60) {
            return self.rows(value, &tensor);
        }
        let starts = TensorType::scalar(*self.random.choose(&[DType::I32, DType::I64]));
        let place = [("value", super::size(&mut self.random).into())];
        let start = self.one(OpKind::DimValue, &[], &place, Some(Type::Tensor(starts)))?[0];
        let starts = vec![start; tensor.rank()];
        let mut sizes = tensor.dims.clone();
        sizes[axis] = sizes[axis].floor_div(&Dim::constant(2));
        let slice = self.one(OpKind::DynamicSlice, &[&[value], &starts[..]].concat(), &[("sizes", sizes.into())], None)?[0];
        if self.random.chance(50) {
            return Ok(vec![slice]);
        }
        self.one(OpKind::DynamicUpdateSlice, &[&[value, slice], &starts[..]].concat(), &[], None)
    }

    /// Gathers rows of a value at constant or computed indices; or adds them into it.
    fn rows(&mut self, value: Value, tensor: &TensorType) -> Made {
        let indices = TensorType::new([super::size(&mut self.random)], DType::I64);
        let places = self.one(OpKind::Iota, &[], &[("dim", Attr::Int(0))], Some(Type::Tensor(indices)))?[0];
        let mut sizes = tensor.dims.clone();
        sizes[0] = Dim::constant(1);
        let offsets: Vec<i64> = (1..tensor.rank() as i64).collect();
        let attrs = [
            ("offset_dims", offsets.clone().into()),
            ("collapsed_slice_dims", vec![0].into()),
            ("start_index_map", vec![0].into()),
            ("index_vector_dim", Attr::Int(1)),
            ("slice_sizes", sizes.into()),
        ];
        let rows = self.one(OpKind::Gather, &[value, places], &attrs, None)?[0];
        if self.random.chance(50) {
            return Ok(vec![rows]);
        }
        let (region, _) = self.combiner(tensor.dtype)?;
        let attrs = [
            ("update_window_dims", offsets.into()),
            ("inserted_window_dims", vec![0].into()),
            ("scatter_dims_to_operand_dims", vec![0].into()),
            ("index_vector_dim", Attr::Int(1)),
        ];
        self.with_region(OpKind::Scatter, &[value, places, rows], &attrs, region)
    }

    fn order(&mut self) -> Made {
        let Some((value, tensor, axis)) = self.with_axis() else { return Ok(Vec::new()) };
        if self.random.chance(50) {
            let last = tensor.dims.last().expect("there is an axis");
            let k = last.floor_div(&Dim::constant(2));
            let attrs = [("k", k.into()), ("largest", Attr::Bool(self.random.chance(50))), ("index_dtype", DType::I64.into())];
            return self.one(OpKind::TopK, &[value], &attrs, None);
        }
        let order = *self.random.choose(&[Order::Ascending, Order::Descending]);
        let region = body::comparator(&mut self.builder, order, &[tensor.dtype])?;
        let attrs = [("dimension", Attr::Int(axis as i64)), ("is_stable", Attr::Bool(true))];
        self.with_region(OpKind::Sort, &[value], &attrs, region)
    }

    /// Makes a value without operands, or from sizes.
    fn make(&mut self) -> Made {
        let tensor = TensorType::new([super::size(&mut self.random)], dtype(&mut self.random));
        match self.random.below(6) {
            0 => self.splat(&tensor, 1.5),
            1 => self.one(OpKind::Iota, &[], &[("dim", Attr::Int(0))], Some(Type::Tensor(tensor))),
            2 => {
                let value = [("value", super::size(&mut self.random).into())];
                self.one(OpKind::DimValue, &[], &value, Some(Type::tensor([], DType::I64)))
            }
            3 => {
                let mask = self.like(&tensor.with_dtype(DType::I1))?;
                let positions = Type::tensor([super::size(&mut self.random)], DType::I64);
                self.one(OpKind::Nonzero, &[mask], &[], Some(positions))
            }
            4 => {
                let Some((value, _, axis)) = self.with_axis() else { return Ok(Vec::new()) };
                self.one(OpKind::GetDimensionSize, &[value], &[("dimension", Attr::Int(axis as i64))], None)
            }
            _ => {
                let state = self.splat(&TensorType::new([Dim::constant(2)], DType::U64), 7.0)?[0];
                let types = vec![Type::tensor([Dim::constant(2)], DType::U64), Type::Tensor(tensor.with_dtype(DType::U32))];
                let inst = self.builder.op(OpKind::RngBitGenerator).operands(&[state]).results(types).build()?;
                Ok(self.builder.function.results_of(inst).to_vec())
            }
        }
    }

    /// A choice between two values, or a short loop over one.
    fn control(&mut self) -> Made {
        let value = self.value();
        let tensor = self.tensor(value);
        let counter = TensorType::scalar(DType::I64);
        let size = [("value", super::size(&mut self.random).into())];
        let size = self.one(OpKind::DimValue, &[], &size, Some(Type::Tensor(counter.clone())))?[0];
        let (three, one) = (self.splat(&counter, 3.0)?[0], self.splat(&counter, 1.0)?[0]);
        let less = [("direction", Attr::Enum("LT"))];
        if self.random.chance(50) {
            let pred = self.one(OpKind::Compare, &[size, three], &less, None)?[0];
            let other = self.like(&tensor)?;
            let then = self.builder.region([], |b, _| b.ret(&[value]).map(drop))?;
            let otherwise = self.builder.region([], |b, _| b.ret(&[other]).map(drop))?;
            let inst = self.builder.op(OpKind::If).operands(&[pred]).region(then).region(otherwise).build()?;
            return Ok(self.builder.function.results_of(inst).to_vec());
        }
        let zero = self.splat(&counter, 0.0)?[0];
        let types = [Type::Tensor(counter), Type::Tensor(tensor.clone())];
        let cond = self.builder.region(types.clone(), |b, args| {
            let more = b.op(OpKind::Compare).operands(&[args[0], three]).attr("direction", "LT").value()?;
            b.ret(&[more]).map(drop)
        })?;
        let kind = if OpKind::Add.def().operands[0].class.contains(tensor.dtype) { OpKind::Add } else { OpKind::Xor };
        let step = self.builder.region(types, |b, args| {
            let next = b.emit(OpKind::Add, &[args[0], one])?;
            let twice = b.emit(kind, &[args[1], args[1]])?;
            b.ret(&[next, twice]).map(drop)
        })?;
        let inst = self.builder.op(OpKind::While).operands(&[zero, value]).region(cond).region(step).build()?;
        Ok(self.builder.function.results_of(inst).to_vec())
    }
}
