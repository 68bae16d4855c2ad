//! Computes single elements of a fusion group's values.
//!
//! A schedule decides which elements to compute, in which place and order; this module says how one
//! element (or one vector of neighbouring elements) is computed from the elements of the group's
//! inputs. Every tensor op has its rule here, except those that no single element can be asked of
//! (sort, scatter, ...), which have schedules of their own.
//!
//! Invariants:
//! - f16 and bf16 are computed in f32: a value of these types is an f32 vector, whose lanes are
//!   numbers of the type. Every op of the program rounds once; what adds up elements, at its end.
//! - A value that is the same in every lane stays a scalar.
//! - Lanes that the mask switches off may compute anything, but read no memory.
mod condition;
mod elementwise;
mod index;
pub(crate) mod matmul;
mod movement;
mod near;
mod patterns;
mod reduce;
mod repeat;
mod reshape;
mod window;

pub(crate) use index::signed as signed_index;

use crate::{
    kernel::{Index, KernelBuilder, Site, compute_dtype, cost, expand_math::Arithmetic, lanes::interleave, linear},
    target::{CpuModel, Target},
};
use disc_ir::{DType, Dim, Function, Inst, OpKind, Solver, TensorType, Value};
use disc_kernel_macros::expr;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The values computed in a block.
#[derive(Default)]
struct Memo {
    elements: HashMap<(Value, Vec<Index>), Vec<Value>>,
    joins: HashMap<Vec<Part>, Index>,
    /// The positions that index vectors name, in range, by gather and entry.
    starts: HashMap<(Inst, usize, Value), Index>,
    /// Results of long functions, by argument: if they occur at another position, as in both halves
    /// of a concatenation, they are computed once.
    applied: HashMap<(Inst, Vec<Value>), Value>,
}

/// Computes elements of the values of one function (a fusion group's region, or a single op).
pub struct Elements<'g> {
    pub group: &'g Function,
    pub solver: Arc<Solver>,
    /// The lanes of a vector; 1 for scalar code.
    pub lanes: u32,
    target: Target,
    /// The arithmetic for which the target has instructions.
    arithmetic: Arithmetic,
    /// The mask of active lanes; all, if absent.
    pub mask: Option<Value>,
    /// A flag that is true if the position exists that is the same in every lane; it does, if
    /// absent.
    exists: Option<Value>,
    buffers: HashMap<Value, Value>,
    /// Buffers that hold a block of rows only.
    blocks: HashMap<Value, RowBlock>,
    /// Buffers that hold one line of their value: positions along all dimensions but the last are
    /// ignored.
    lines: HashSet<Value>,
    /// Whole vectors are written with non-temporal stores: each row of results starts at a multiple
    /// of [`disc_abi::ALIGN`] bytes.
    pub nontemporal: bool,
    /// Lanes that are read at positions of their own are likely to be neighbours.
    near: bool,
    /// Steps of lanes that all are smaller than the number of lanes.
    spans: HashSet<Value>,
    /// The sizes that a position is known to be below, or not to be below.
    bounds: HashMap<Index, Vec<(Dim, bool)>>,
    /// The parts from which positions were joined: dimensions that a reshape takes apart again.
    parts: HashMap<Index, Vec<Vec<Part>>>,
    /// The values computed already, by block nesting: an inner block's values die with it.
    scopes: Vec<Memo>,
    /// The sites of run-time checks, numbered from `first_site`.
    pub sites: Vec<Site>,
    pub first_site: i64,
}

/// Some rows of a tensor, and some columns of these: positions along one dimension and along the
/// last one, for one position along the others.
#[derive(Clone, Copy, Debug)]
pub struct RowBlock {
    /// The dimension of the rows.
    pub axis: usize,
    /// The first row.
    pub first: Value,
    /// The first column.
    pub column: Value,
    /// The elements from one row to the next.
    pub stride: Value,
}

/// A position along a dimension of this size.
type Part = (Index, Dim);

/// The least number of lanes from which vectors are taken apart rather than picked element by
/// element.
const LEAST_PARTED: u32 = 4;

impl<'g> Elements<'g> {
    pub fn new(group: &'g Function, solver: Arc<Solver>, lanes: u32, target: &Target) -> Self {
        let scopes = vec![Memo::default()];
        Self {
            group,
            solver,
            lanes,
            target: target.clone(),
            arithmetic: Arithmetic::of(target),
            mask: None,
            exists: None,
            buffers: HashMap::new(),
            blocks: HashMap::new(),
            lines: HashSet::new(),
            nontemporal: false,
            near: false,
            spans: HashSet::new(),
            bounds: HashMap::new(),
            parts: HashMap::new(),
            scopes,
            sites: Vec::new(),
            first_site: 0,
        }
    }

    /// Returns true if vectors of four bytes a lane take two registers.
    pub(crate) fn fills_two_registers(&self) -> bool {
        self.lanes == 2 * self.target.lanes(32)
    }

    /// Declares that a value of the group is in memory.
    pub fn bind(&mut self, value: Value, buffer: Value) {
        self.buffers.insert(value, buffer);
    }

    /// Declares that the line of a value that is read from now on is in memory.
    pub fn bind_line(&mut self, value: Value, buffer: Value) {
        self.lines.insert(buffer);
        self.bind(value, buffer);
    }

    /// The buffer of a value in memory.
    pub fn buffer(&self, value: Value) -> Value {
        self.buffers[&value]
    }

    /// The start of a vector that is contiguous in memory: of an input, or of a part of one that
    /// slices and transposes select.
    pub fn start_of(&mut self, kb: &mut KernelBuilder, value: Value, at: &[Index]) -> Value {
        if let Some(inst) = self.group.defining(value).filter(|_| !self.buffers.contains_key(&value)) {
            let operand = self.group.operands(inst)[0];
            let from = match self.group.kind_of(inst) {
                OpKind::Slice => self.sliced(kb, inst, at),
                OpKind::Transpose => self.turned(inst, at),
                other => panic!("`{}` is no part of what lies in memory", other.name()),
            };
            return self.start_of(kb, operand, &from);
        }
        match self.place(kb, self.buffers[&value], self.tensor(value), at) {
            Index::Affine { base, stride: 1 } => base,
            _ => panic!("a vector does not lie along the last dimension"),
        }
    }

    /// Declares that a buffer does not hold a whole tensor, but some of its rows.
    pub fn hold_rows(&mut self, buffer: Value, block: RowBlock) {
        self.blocks.insert(buffer, block);
    }

    /// Declares that every active lane of a position is below a size, or that none is.
    pub fn bound(&mut self, at: Index, size: Dim, below: bool) {
        self.bounds.entry(at).or_default().push((size, below));
    }

    /// Forgets the bounds of a position.
    pub fn unbound(&mut self, at: Index) {
        self.bounds.remove(&at);
    }

    /// `Some(true)` if a position is known to be below a size, `Some(false)` if it is known not to
    /// be.
    fn known_below(&self, at: Index, size: &Dim) -> Option<bool> {
        let known = self.bounds.get(&at)?;
        known.iter().find(|(bound, _)| self.solver.equal(bound, size)).map(|&(_, below)| below)
    }

    /// Declares the result of an accumulation at a position: it is rounded to the type of `value`.
    pub fn conclude(&mut self, kb: &mut KernelBuilder, value: Value, at: &[Index], total: Value) {
        let rounded = kb.round_to(total, self.tensor(value).dtype);
        self.seed(value, at, rounded);
    }

    /// Declares that an element is known: `computed` is in the compute type, and a number of the
    /// type of `value`.
    pub fn seed(&mut self, value: Value, at: &[Index], computed: Value) {
        self.scope().elements.insert((value, at.to_vec()), vec![computed]);
    }

    fn scope(&mut self) -> &mut Memo {
        self.scopes.last_mut().expect("the outermost scope is never left")
    }

    /// Runs `emit` for ops inside a nested block: the values that it computes are forgotten
    /// afterwards.
    pub fn scoped<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        self.open_scope();
        let result = emit(self);
        self.close_scope();
        result
    }

    /// Opens a scope like [`Elements::scoped`], for code that cannot be put into a closure: every
    /// block that is opened needs one.
    pub fn open_scope(&mut self) {
        self.scopes.push(Memo::default());
    }

    pub fn close_scope(&mut self) {
        self.scopes.pop();
    }

    /// Runs `emit` like [`Elements::scoped`], with other active lanes.
    pub fn masked<T>(&mut self, mask: Option<Value>, emit: impl FnOnce(&mut Self) -> T) -> T {
        self.with_mask(mask, |elements| elements.scoped(emit))
    }

    /// Emits ops with other active lanes in the same block: at positions that are computed with
    /// these lanes only.
    pub fn with_mask<T>(&mut self, mask: Option<Value>, emit: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.mask, mask);
        let result = emit(self);
        self.mask = outer;
        result
    }

    pub fn tensor(&self, value: Value) -> &'g TensorType {
        self.group.ty(value).shaped().unwrap_or_else(|| panic!("a group holds a value of type {}", self.group.ty(value)))
    }

    /// The element of `value` at a position, in the compute type: a scalar if it is the same in
    /// every lane.
    pub fn element(&mut self, kb: &mut KernelBuilder, value: Value, at: &[Index]) -> Value {
        let key = (value, at.to_vec());
        if let Some(known) = self.scopes.iter().rev().find_map(|scope| scope.elements.get(&key)) {
            return known[0];
        }
        if let Some(&buffer) = self.buffers.get(&value) {
            let tensor = self.tensor(value).clone();
            let loaded = self.load(kb, buffer, &tensor, at);
            self.scope().elements.insert(key, vec![loaded]);
            return loaded;
        }
        let inst = self.group.defining(value).expect("an argument of a group is bound to a buffer");
        let results = self.compute(kb, inst, at);
        let data = self.group.inst(inst);
        for (&result, &computed) in data.results.iter().zip(&results) {
            self.scope().elements.insert((result, at.to_vec()), vec![computed]);
        }
        let position = data.results.iter().position(|&r| r == value).expect("the op defines it");
        results[position]
    }

    /// Loads an element of a buffer: row-major, or a block of rows.
    pub fn load(&mut self, kb: &mut KernelBuilder, buffer: Value, tensor: &TensorType, at: &[Index]) -> Value {
        let index = self.place(kb, buffer, tensor, at);
        if let Index::Lanes { base, steps } = index
            && self.spans.contains(&steps)
            && let Some(found) = self.load_span(kb, buffer, tensor, [base, steps])
        {
            return found;
        }
        if let (true, Index::Lanes { base, steps }, Some(wide)) = (self.near, index, self.picked_dtype(tensor.dtype)) {
            let found = self.load_near(kb, buffer, [base, steps], wide);
            return kb.convert(found, compute_dtype(tensor.dtype));
        }
        let loaded = self.load_at(kb, buffer, index);
        kb.convert(loaded, compute_dtype(tensor.dtype))
    }

    /// The index of an element in a buffer.
    fn place(&self, kb: &mut KernelBuilder, buffer: Value, tensor: &TensorType, at: &[Index]) -> Index {
        if let (true, Some(last)) = (self.lines.contains(&buffer), at.last()) {
            return *last;
        }
        let Some(block) = self.blocks.get(&buffer) else {
            let strides = strides(kb, &tensor.dims);
            return linear(kb, self.lanes, at, &strides);
        };
        let (row, column) = (at[block.axis], at.last().expect("rows have columns"));
        let (zero, one) = (kb.int(0), kb.int(1));
        let back = expr!(kb, zero - block.first);
        let row = row.add_scalar(kb, back);
        let back = expr!(kb, zero - block.column);
        let column = column.add_scalar(kb, back);
        linear(kb, self.lanes, &[row, column], &[block.stride, one])
    }

    fn load_at(&mut self, kb: &mut KernelBuilder, buffer: Value, index: Index) -> Value {
        match index {
            Index::Affine { base, stride: 0 } => self.load_uniform(kb, buffer, base),
            Index::Affine { base, stride: 1 } => kb.load(buffer, base, self.lanes, self.mask),
            Index::Affine { base, stride: 2 } if self.parts_pairs(kb.dtype(buffer)) => self.load_pairs(kb, buffer, base),
            index => {
                let positions = index.value(kb, self.lanes);
                kb.load(buffer, positions, self.lanes, self.mask)
            }
        }
    }

    /// Returns true if elements of this type with stride 2 are taken out of vectors.
    fn parts_pairs(&self, dtype: DType) -> bool {
        self.lanes >= LEAST_PARTED && dtype != DType::I1
    }

    /// Loads elements with stride 2 in the compute type: the even lanes of two vectors. It reads no
    /// element after the last of them.
    fn load_pairs(&self, kb: &mut KernelBuilder, buffer: Value, base: Value) -> Value {
        let (lanes, dtype) = (self.lanes, compute_dtype(kb.dtype(buffer)));
        let width = i64::from(lanes);
        // Without masks the second vector ends at the last element, which is an odd lane then.
        let behind = kb.int(if self.mask.is_some() { width } else { width - 1 });
        let second = expr!(kb, base + behind);
        let masks = self.mask.map(|mask| {
            let none = kb.zero(DType::I1, lanes);
            kb.zip_lanes(mask, none)
        });
        let mut load = |at: Value, which: usize| {
            let loaded = kb.load(buffer, at, lanes, masks.map(|masks| masks[which]));
            kb.convert(loaded, dtype)
        };
        let (low, high) = (load(base, 0), load(second, 1));
        let [even, odd] = kb.unzip_lanes(low, high);
        if masks.is_some() {
            return even;
        }
        let half = kb.int(width / 2);
        let is_low = kb.lane_mask(half, lanes);
        kb.select(is_low, even, odd)
    }

    /// Stores an element of a buffer, rounded to the buffer's type.
    pub fn store(&mut self, kb: &mut KernelBuilder, buffer: Value, tensor: &TensorType, at: &[Index], computed: Value) {
        let rounded = kb.convert(computed, kb.dtype(buffer));
        match self.place(kb, buffer, tensor, at) {
            Index::Affine { base, stride: 0 } => kb.store(buffer, base, rounded, None),
            Index::Affine { base, stride: 1 } => {
                let wide = kb.widen(rounded, self.lanes);
                match self.multiple(kb, buffer) {
                    Some(multiple) => kb.store_nontemporal(buffer, base, wide, multiple),
                    None => kb.store(buffer, base, wide, self.mask),
                }
            }
            index => {
                let (wide, positions) = (kb.widen(rounded, self.lanes), index.value(kb, self.lanes));
                kb.store(buffer, positions, wide, self.mask);
            }
        }
    }

    /// The number of bytes that the address of a whole vector of results is a multiple of, if the
    /// store is non-temporal.
    fn multiple(&self, kb: &KernelBuilder, buffer: Value) -> Option<i64> {
        let bytes = self.lanes as usize * kb.dtype(buffer).size();
        let nontemporal =
            self.nontemporal && self.mask.is_none() && kb.is_global(buffer) && bytes >= CpuModel::LEAST_NONTEMPORAL_BYTES;
        nontemporal.then(|| bytes.min(disc_abi::ALIGN) as i64)
    }

    /// Stores lanes that are strided in memory: all of them, or the first `count`, which are those
    /// of the mask.
    pub fn store_apart(
        &mut self,
        kb: &mut KernelBuilder,
        buffer: Value,
        tensor: &TensorType,
        at: &[Index],
        (computed, count): (Value, Option<Value>),
    ) {
        let (base, apart) = match self.place(kb, buffer, tensor, at) {
            Index::Affine { base, stride: stride @ (2 | 4) } if self.target.has_mask_registers() => (base, stride),
            _ => return self.store(kb, buffer, tensor, at, computed),
        };
        let rounded = kb.convert(computed, kb.dtype(buffer));
        let (wide, lanes) = (kb.widen(rounded, self.lanes), self.lanes);
        let numbers = kb.lane_numbers(lanes);
        let (zero, factor) = (kb.int(0), kb.int(apart));
        let (zeros, factors) = (kb.widen(zero, lanes), kb.widen(factor, lanes));
        let first = expr!(kb, numbers % factors == zeros);
        // Each lane occurs that many times: the first of them is stored.
        for (number, vector) in interleave(kb, &vec![wide; apart as usize]).into_iter().enumerate() {
            let offset = kb.int(number as i64 * i64::from(lanes));
            let start = expr!(kb, base + offset);
            let mask = match count {
                Some(count) => {
                    let left = expr!(kb, count * factor - offset);
                    let mask = kb.lane_mask(left, lanes);
                    expr!(kb, mask & first)
                }
                None => first,
            };
            kb.store(buffer, start, vector, Some(mask));
        }
    }

    /// Stores the elements of a short innermost dimension, one vector for each: interleaved as they
    /// are laid out in memory. Each may have other active lanes.
    pub fn store_interleaved(
        &mut self,
        kb: &mut KernelBuilder,
        buffer: Value,
        tensor: &TensorType,
        (places, computed): (&[Vec<Index>], &[Value]),
        masks: Option<&[Value]>,
    ) {
        let base = match self.place(kb, buffer, tensor, &places[0]) {
            Index::Affine { base, stride } if stride == computed.len() as i64 => base,
            // The size of the short dimension is known, but written in another way: it does not say
            // how far one row is from the next.
            _ => {
                for (number, (at, &value)) in places.iter().zip(computed).enumerate() {
                    let mask = masks.map_or(self.mask, |masks| Some(masks[number]));
                    self.with_mask(mask, |elements| elements.store(kb, buffer, tensor, at, value));
                }
                return;
            }
        };
        let (dtype, lanes) = (kb.dtype(buffer), self.lanes);
        let rounded = |&value: &Value| {
            let rounded = kb.convert(value, dtype);
            kb.widen(rounded, lanes)
        };
        let vectors: Vec<Value> = computed.iter().map(rounded).collect();
        let masks = masks.map(<[Value]>::to_vec).or_else(|| Some(vec![self.mask?; vectors.len()]));
        let masks = masks.map(|masks| interleave(kb, &masks));
        for (number, vector) in interleave(kb, &vectors).into_iter().enumerate() {
            let start = expr!(kb, base + int(number as i64 * i64::from(lanes)));
            kb.store(buffer, start, vector, masks.as_ref().map(|masks| masks[number]));
        }
    }

    /// All results of an op at a position.
    fn compute(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Vec<Value> {
        let kind = self.group.kind_of(inst);
        match kind {
            OpKind::BroadcastInDim
            | OpKind::Concatenate
            | OpKind::Constant
            | OpKind::DimValue
            | OpKind::GetDimensionSize
            | OpKind::Iota
            | OpKind::Pad
            | OpKind::Reshape
            | OpKind::Reverse
            | OpKind::Slice
            | OpKind::Transpose => vec![self.movement(kb, inst, at)],
            OpKind::DynamicSlice | OpKind::DynamicUpdateSlice | OpKind::Gather => vec![self.indexed(kb, inst, at)],
            OpKind::Reduce => {
                let totals = self.reduce(kb, inst, at);
                self.rounded(kb, inst, totals)
            }
            OpKind::Winograd => vec![self.element(kb, self.group.operands(inst)[0], at)],
            OpKind::Im2col => vec![self.im2col(kb, inst, at)],
            OpKind::ReduceWindow => {
                let totals = self.reduce_window(kb, inst, at);
                self.rounded(kb, inst, totals)
            }
            OpKind::DotGeneral => {
                let sum = self.dot_general(kb, inst, at);
                self.rounded(kb, inst, vec![sum])
            }
            OpKind::UnpackInt4 => vec![self.unpack_int4(kb, inst, at)],
            OpKind::Convolution => {
                let sum = self.convolution(kb, inst, at);
                self.rounded(kb, inst, vec![sum])
            }
            _ if self.group.def(inst).has(disc_ir::ops::Trait::Elementwise) => {
                if let Some(value) = self.pattern(kb, inst, at) {
                    return self.rounded(kb, inst, vec![value]);
                }
                let operands: Vec<Value> = self.group.operands(inst).to_vec();
                let computed: Vec<Value> = operands.iter().map(|&o| self.element(kb, o, at)).collect();
                if !cost::is_long_op(self.group, inst) {
                    return vec![elementwise::apply(kb, self.group, inst, &computed, self.arithmetic)];
                }
                let key = (inst, computed);
                if let Some(&known) = self.scopes.iter().rev().find_map(|scope| scope.applied.get(&key)) {
                    return vec![known];
                }
                let result = elementwise::apply(kb, self.group, inst, &key.1, self.arithmetic);
                self.scope().applied.insert(key, result);
                vec![result]
            }
            _ => panic!("`{}` has no element-wise rule; it needs a schedule of its own", kind.name()),
        }
    }

    /// Results of an op, rounded to their types.
    fn rounded(&self, kb: &mut KernelBuilder, inst: Inst, computed: Vec<Value>) -> Vec<Value> {
        let results = self.group.results_of(inst);
        computed.into_iter().zip(results).map(|(value, &result)| kb.round_to(value, self.tensor(result).dtype)).collect()
    }

    /// Returns true if a size is 1 by the facts.
    pub(crate) fn is_one(&self, dim: &Dim) -> bool {
        self.solver.equal(dim, &Dim::constant(1))
    }

    /// The lanes of a value at this position: 1 where every lane has the same position.
    pub(crate) fn lanes_at(&self, at: &[Index]) -> u32 {
        if at.iter().all(|index| index.as_uniform().is_some()) { 1 } else { self.lanes }
    }

    /// Evaluates a region on scalars (or vectors of them): `arguments` are in the compute type. A
    /// body that only accumulates does not round.
    pub(crate) fn inline(&mut self, kb: &mut KernelBuilder, region: disc_ir::Block, arguments: &[Value]) -> Vec<Value> {
        let mut known: HashMap<Value, Value> =
            self.group.arguments(region).iter().copied().zip(arguments.iter().copied()).collect();
        let accumulates = disc_ir::ops::body::monoid(self.group, region).is_some();
        for &inst in self.group.insts(region) {
            let operands: Vec<Value> = self.group.operands(inst).to_vec();
            let computed: Vec<Value> =
                operands.iter().map(|o| known.get(o).copied().unwrap_or_else(|| self.element(kb, *o, &[]))).collect();
            match self.group.kind_of(inst) {
                OpKind::Return => return computed,
                OpKind::Constant | OpKind::DimValue => {
                    let value = self.movement(kb, inst, &[]);
                    known.insert(self.group.result(inst), value);
                }
                _ => {
                    let mut value = elementwise::apply_unrounded(kb, self.group, inst, &computed, self.arithmetic);
                    if !accumulates {
                        value = elementwise::round(kb, self.group, inst, value);
                    }
                    known.insert(self.group.result(inst), value);
                }
            }
        }
        panic!("a region ends in `return`")
    }
}

/// The row-major strides of a shape, as scalars.
pub fn strides(kb: &mut KernelBuilder, dims: &[Dim]) -> Vec<Value> {
    (0..dims.len()).map(|i| kb.dim(&Dim::product(dims[i + 1..].iter().cloned()))).collect()
}
