//! Writes kernels: a builder whose methods read like the code that they emit.
//!
//! It is a thin layer over [`disc_ir::Builder`]; every op is checked by the op table. A failed
//! check here is an error of a schedule, so these methods panic, and the compiler's edge turns the
//! panic into a `CompileError`.
//!
//! Invariant: constants and dim values are made once per function, in a prologue that dominates
//! everything.
use disc_ir::{
    Attr, Block, Builder, DType, Diagnostic, Dim, Function, FunctionKind, Literal, OpKind, Solver, Space, TensorType, Type, Value,
};
use std::{collections::HashMap, sync::Arc};

/// Builds the body of a kernel or host program.
pub struct KernelBuilder {
    pub function: Function,
    /// The block that ops go to.
    pub(super) block: Block,
    /// The block of constants and dim values, put before the body by [`KernelBuilder::finish`].
    prologue: Block,
    constants: HashMap<(DType, Vec<u8>, u32), Value>,
    dims: HashMap<Dim, Value>,
    /// The dims of those values.
    dims_of: HashMap<Value, Dim>,
    solver: Arc<Solver>,
    index_type: DType,
}

fn must<T>(result: Result<T, Diagnostic>) -> T {
    result.unwrap_or_else(|error| panic!("a schedule made an op that the op table forbids: {error}"))
}

impl KernelBuilder {
    /// Starts a function whose positions have an integer type.
    pub fn new(name: &str, kind: FunctionKind, index_type: DType) -> Self {
        let mut function = Function::new(name, kind);
        let (block, prologue) = (function.body, function.add_block());
        let solver = Arc::new(Solver::new(&function.facts));
        let (constants, dims, dims_of) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { function, block, prologue, constants, dims, dims_of, solver, index_type }
    }

    /// The type of positions and sizes: of loop indices, of positions in buffers, of dims.
    pub fn index_type(&self) -> DType {
        self.index_type
    }

    pub fn parameter(&mut self, name: &str, ty: Type) -> Value {
        let value = self.function.add_argument(self.function.body, ty);
        self.function.set_name(value, name);
        value
    }

    /// Adds a buffer parameter.
    pub fn buffer(&mut self, name: &str, tensor: TensorType) -> Value {
        self.parameter(name, Type::Buffer { tensor, space: Space::Global })
    }

    /// Adds the last parameters of a kernel: a launch's first unit and the one past the last.
    pub fn units(&mut self) -> [Value; 2] {
        ["begin", "end"].map(|name| self.position(name))
    }

    /// Adds a parameter that is a position or a size.
    pub fn position(&mut self, name: &str) -> Value {
        self.parameter(name, Type::scalar(self.index_type))
    }

    /// Ends the body and puts the prologue before it.
    pub fn finish(mut self) -> Function {
        self.emit_all(OpKind::Return, &[], &[], None);
        let body = self.function.body;
        let insts = [self.function.insts(self.prologue), self.function.insts(body)].concat();
        self.function.set_insts(body, insts);
        self.function.set_insts(self.prologue, Vec::new());
        self.function
    }

    /// Emits an op with attributes and stated result types; returns all its results.
    pub fn emit_all(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        attrs: &[(&str, Attr)],
        results: Option<Vec<Type>>,
    ) -> Vec<Value> {
        self.emit_in(self.block, kind, operands, attrs, &[], results)
    }

    pub(super) fn emit_in(
        &mut self,
        block: Block,
        kind: OpKind,
        operands: &[Value],
        attrs: &[(&str, Attr)],
        regions: &[Block],
        results: Option<Vec<Type>>,
    ) -> Vec<Value> {
        let mut builder = Builder::at(&mut self.function, block, self.solver.clone());
        let mut request = builder.op(kind).operands(operands);
        for (name, value) in attrs {
            request = request.attr(name, value.clone());
        }
        for &region in regions {
            request = request.region(region);
        }
        if let Some(types) = results {
            request = request.results(types);
        }
        let inst = must(request.build());
        self.function.results_of(inst).to_vec()
    }

    /// Emits an op of one result without attributes.
    pub fn emit(&mut self, kind: OpKind, operands: &[Value]) -> Value {
        self.emit_all(kind, operands, &[], None)[0]
    }

    /// Emits an op of one result whose type is stated.
    pub fn emit_as(&mut self, kind: OpKind, operands: &[Value], attrs: &[(&str, Attr)], ty: Type) -> Value {
        self.emit_all(kind, operands, attrs, Some(vec![ty]))[0]
    }

    pub fn ty(&self, value: Value) -> &Type {
        self.function.ty(value)
    }

    pub fn dtype(&self, value: Value) -> DType {
        self.function.ty(value).dtype()
    }

    /// The number of lanes of a value; 1 is a scalar.
    pub fn lanes(&self, value: Value) -> u32 {
        match self.function.ty(value) {
            Type::Vector { lanes, .. } => *lanes,
            ty => panic!("a schedule asked for the lanes of {ty}"),
        }
    }

    /// A constant position or size.
    pub fn int(&mut self, value: i64) -> Value {
        self.constant(Literal::splat_i64(self.index_type, value), 1)
    }

    /// A constant whose lanes all have the value of a splat literal.
    pub fn constant(&mut self, literal: Literal, lanes: u32) -> Value {
        let key = (literal.dtype, literal.bytes.to_vec(), lanes);
        if let Some(&value) = self.constants.get(&key) {
            return value;
        }
        let ty = Type::Vector { lanes, dtype: literal.dtype };
        let value = self.emit_in(self.prologue, OpKind::Constant, &[], &[("value", literal.into())], &[], Some(vec![ty]))[0];
        self.constants.insert(key, value);
        value
    }

    pub fn float(&mut self, dtype: DType, value: f64, lanes: u32) -> Value {
        self.constant(Literal::splat_f64(dtype, value), lanes)
    }

    /// Zero (or false) of a type.
    pub fn zero(&mut self, dtype: DType, lanes: u32) -> Value {
        self.constant(Literal::splat_i64(dtype, 0), lanes)
    }

    /// The value of a dim expression.
    pub fn dim(&mut self, dim: &Dim) -> Value {
        if let Some(size) = dim.as_const() {
            return self.int(size);
        }
        if let Some(&value) = self.dims.get(dim) {
            return value;
        }
        let attrs = [("value", dim.clone().into())];
        let ty = Type::scalar(self.index_type);
        let value = self.emit_in(self.prologue, OpKind::DimValue, &[], &attrs, &[], Some(vec![ty]))[0];
        self.dims.insert(dim.clone(), value);
        self.dims_of.insert(value, dim.clone());
        value
    }

    /// The dim that `value` is known to be: a constant, or a result of [`KernelBuilder::dim`].
    fn known_dim(&self, value: Value) -> Option<Dim> {
        match self.dims_of.get(&value) {
            Some(dim) => Some(dim.clone()),
            None if self.lanes(value) == 1 && self.dtype(value) == self.index_type => self.known_int(value).map(Dim::constant),
            None => None,
        }
    }

    /// The value and the dim of which [`KernelBuilder::add`] made a scalar the sum.
    fn offset_sum(&self, sum: Value) -> Option<(Value, Dim)> {
        let inst = self.function.defining(sum).filter(|&inst| self.function.kind_of(inst) == OpKind::Add)?;
        let &[from, offset] = self.function.operands(inst) else { return None };
        Some((from, self.known_dim(offset)?))
    }

    /// The integer that `value` is known to be.
    pub fn known_int(&self, value: Value) -> Option<i64> {
        let inst = self.function.defining(value)?;
        match (self.function.kind_of(inst), &self.function.inst(inst).attrs[..]) {
            (OpKind::Constant, [Some(Attr::Literal(literal))]) if literal.dtype.is_integer() => Some(literal.i64_at(0)),
            _ => None,
        }
    }

    /// Returns true if all lanes of a value are known to be 0.
    pub fn is_zero(&self, value: Value) -> bool {
        let Some(inst) = self.function.defining(value) else { return false };
        match (self.function.kind_of(inst), &self.function.inst(inst).attrs[..]) {
            (OpKind::Constant, [Some(Attr::Literal(literal))]) => literal.bytes.iter().all(|&byte| byte == 0),
            (OpKind::Splat, _) => self.is_zero(self.function.operands(inst)[0]),
            _ => false,
        }
    }

    /// Returns true if a value was loaded under a mask: its other lanes are 0.
    pub fn is_zero_without(&self, value: Value, mask: Value) -> bool {
        let Some(inst) = self.function.defining(value) else { return false };
        match (self.function.kind_of(inst), self.function.operands(inst)) {
            (OpKind::Load, &[_, _, under]) => under == mask,
            (OpKind::Convert, &[from]) => self.is_zero_without(from, mask),
            _ => false,
        }
    }

    /// Returns a value with `lanes` lanes: itself, or a scalar broadcast.
    pub fn widen(&mut self, value: Value, lanes: u32) -> Value {
        if self.lanes(value) == lanes {
            return value;
        }
        if let Some(inst) = self.function.defining(value)
            && self.function.kind_of(inst) == OpKind::Constant
            && let Some(Attr::Literal(literal)) = self.function.inst(inst).attrs[0].clone()
        {
            return self.constant(literal, lanes);
        }
        let dtype = self.dtype(value);
        self.emit_as(OpKind::Splat, &[value], &[], Type::Vector { lanes, dtype })
    }

    /// Gives all values the largest number of lanes among them.
    pub fn unify(&mut self, values: &[Value]) -> Vec<Value> {
        let lanes = values.iter().map(|&v| self.lanes(v)).max().unwrap_or(1);
        values.iter().map(|&v| self.widen(v, lanes)).collect()
    }

    /// Emits an element-wise op; scalars among vectors are broadcast.
    pub fn map(&mut self, kind: OpKind, operands: &[Value]) -> Value {
        let operands = self.unify(operands);
        self.emit(kind, &operands)
    }

    pub fn add(&mut self, a: Value, b: Value) -> Value {
        match (self.known_int(a), self.known_int(b)) {
            (Some(0), _) if self.lanes(a) == 1 => b,
            (_, Some(0)) if self.lanes(b) == 1 => a,
            (Some(x), Some(y)) if self.lanes(a) == 1 && self.lanes(b) == 1 => self.int(x.wrapping_add(y)),
            _ => self.add_offset(a, b).unwrap_or_else(|| self.map(OpKind::Add, &[a, b])),
        }
    }

    /// Emits `(from + m) + n` as `from + (m + n)` for dims `m` and `n`: positions that are moved
    /// forth and back are the same value again.
    fn add_offset(&mut self, a: Value, b: Value) -> Option<Value> {
        let second = self.known_dim(b)?;
        let (from, first) = self.offset_sum(a)?;
        let offset = first + &second;
        if offset.defect().is_some() {
            return None;
        }
        let offset = self.dim(&offset);
        Some(self.add(from, offset))
    }

    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        match (self.known_int(a), self.known_int(b)) {
            (_, Some(0)) if self.lanes(b) == 1 => a,
            (Some(x), Some(y)) if self.lanes(a) == 1 && self.lanes(b) == 1 => self.int(x.wrapping_sub(y)),
            _ => self.map(OpKind::Subtract, &[a, b]),
        }
    }

    /// The product of two integers.
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        match (self.known_int(a), self.known_int(b)) {
            (Some(1), _) => b,
            (_, Some(1)) => a,
            (Some(0), _) if self.lanes(b) == 1 => a,
            (_, Some(0)) if self.lanes(a) == 1 => b,
            (Some(x), Some(y)) if self.lanes(a) == 1 && self.lanes(b) == 1 => self.int(x.wrapping_mul(y)),
            _ => self.map(OpKind::Multiply, &[a, b]),
        }
    }

    /// The quotient of two integers that are not negative.
    pub fn div(&mut self, a: Value, b: Value) -> Value {
        match (self.known_int(a), self.known_int(b)) {
            (_, Some(1)) => a,
            (Some(x), Some(y)) if y > 0 && self.lanes(a) == 1 && self.lanes(b) == 1 => self.int(x / y),
            _ => self.map(OpKind::Divide, &[a, b]),
        }
    }

    /// The remainder of two integers that are not negative.
    pub fn rem(&mut self, a: Value, b: Value) -> Value {
        match (self.known_int(a), self.known_int(b)) {
            (_, Some(1)) => self.int(0),
            (Some(x), Some(y)) if y > 0 && self.lanes(a) == 1 && self.lanes(b) == 1 => self.int(x % y),
            _ => self.map(OpKind::Remainder, &[a, b]),
        }
    }

    pub fn compare(&mut self, direction: &'static str, a: Value, b: Value) -> Value {
        let operands = self.unify(&[a, b]);
        self.emit_all(OpKind::Compare, &operands, &[("direction", direction.into())], None)[0]
    }

    pub fn select(&mut self, pred: Value, on_true: Value, on_false: Value) -> Value {
        self.map(OpKind::Select, &[pred, on_true, on_false])
    }

    pub fn and(&mut self, a: Value, b: Value) -> Value {
        self.map(OpKind::And, &[a, b])
    }

    pub fn or(&mut self, a: Value, b: Value) -> Value {
        self.map(OpKind::Or, &[a, b])
    }

    pub fn xor(&mut self, a: Value, b: Value) -> Value {
        self.map(OpKind::Xor, &[a, b])
    }

    pub fn not(&mut self, a: Value) -> Value {
        self.emit(OpKind::Not, &[a])
    }

    pub fn min(&mut self, a: Value, b: Value) -> Value {
        self.map(OpKind::Minimum, &[a, b])
    }

    pub fn max(&mut self, a: Value, b: Value) -> Value {
        self.map(OpKind::Maximum, &[a, b])
    }

    pub fn convert(&mut self, value: Value, dtype: DType) -> Value {
        if self.dtype(value) == dtype {
            return value;
        }
        // A widened value is that number again.
        let widened = self.function.defining(value).filter(|&inst| self.function.kind_of(inst) == OpKind::Convert);
        if let Some(from) = widened.map(|inst| self.function.operands(inst)[0])
            && self.dtype(from) == dtype
            && dtype != DType::I1
            && self.dtype(value).holds(dtype)
        {
            return from;
        }
        self.emit_all(OpKind::Convert, &[value], &[("dtype", dtype.into())], None)[0]
    }

    /// The vector of `dtype` that a value was converted from.
    pub fn converted_from(&self, value: Value, dtype: DType) -> Option<Value> {
        let inst = self.function.defining(value).filter(|&inst| self.function.kind_of(inst) == OpKind::Convert)?;
        let from = self.function.operands(inst)[0];
        (self.dtype(from) == dtype && self.lanes(from) > 1).then_some(from)
    }

    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        let operands = self.unify(&[a, b, c]);
        self.emit(OpKind::Fma, &operands)
    }

    /// The lane numbers: 0, 1, ...
    pub fn lane_numbers(&mut self, lanes: u32) -> Value {
        self.emit_as(OpKind::Lanes, &[], &[], Type::Vector { lanes, dtype: self.index_type })
    }

    /// A mask that is true in the first `count` of `lanes` lanes.
    pub fn lane_mask(&mut self, count: Value, lanes: u32) -> Value {
        self.emit_as(OpKind::LaneMask, &[count], &[], Type::Vector { lanes, dtype: DType::I1 })
    }

    pub fn load(&mut self, buffer: Value, index: Value, lanes: u32, mask: Option<Value>) -> Value {
        let dtype = self.dtype(buffer);
        let operands: Vec<Value> = [buffer, index].into_iter().chain(mask).collect();
        self.emit_as(OpKind::Load, &operands, &[], Type::Vector { lanes, dtype })
    }

    pub fn store(&mut self, buffer: Value, index: Value, value: Value, mask: Option<Value>) {
        let operands: Vec<Value> = [buffer, index, value].into_iter().chain(mask).collect();
        self.emit_all(OpKind::Store, &operands, &[], None);
    }

    /// Emits a non-temporal store of a vector whose address is a multiple of so many bytes, and
    /// which is not read soon.
    pub fn store_nontemporal(&mut self, buffer: Value, index: Value, value: Value, multiple: i64) {
        self.emit_all(OpKind::Store, &[buffer, index, value], &[("nontemporal", multiple.into())], None);
    }

    /// Returns true if a buffer is not the task's own.
    pub fn is_global(&self, buffer: Value) -> bool {
        matches!(self.ty(buffer), Type::Buffer { space: Space::Global, .. })
    }

    /// The part of a buffer that starts at an element, as a buffer of `tensor`.
    pub fn view(&mut self, buffer: Value, index: Value, tensor: TensorType) -> Value {
        let space = match self.ty(buffer) {
            Type::Buffer { space, .. } => *space,
            ty => panic!("a schedule took a view of {ty}"),
        };
        self.emit_as(OpKind::View, &[buffer, index], &[], Type::Buffer { tensor, space })
    }

    /// Allocates memory of the task.
    pub fn scratch(&mut self, tensor: TensorType) -> Value {
        let ty = Type::Buffer { tensor, space: Space::Task };
        self.emit_in(self.prologue, OpKind::Scratch, &[], &[], &[], Some(vec![ty]))[0]
    }

    /// Allocates memory that the threads of a block share.
    pub fn shared(&mut self, tensor: TensorType) -> Value {
        let ty = Type::Buffer { tensor, space: Space::Shared };
        self.emit_in(self.prologue, OpKind::Shared, &[], &[], &[], Some(vec![ty]))[0]
    }

    /// A number of this thread: of its `block`, `thread`, `warp` or `lane`, or of blocks in the
    /// `grid`.
    pub fn place(&mut self, of: &'static str) -> Value {
        self.emit_as(OpKind::Place, &[], &[("of", Attr::Enum(of))], Type::scalar(self.index_type))
    }

    /// Waits for the threads of the block.
    pub fn barrier(&mut self) {
        self.emit_all(OpKind::Barrier, &[], &[("scope", Attr::Enum("block"))], None);
    }

    /// Waits for the threads of the warp.
    pub fn warp_barrier(&mut self) {
        self.emit_all(OpKind::Barrier, &[], &[("scope", Attr::Enum("warp"))], None);
    }

    /// Combines the values of each `width` lanes of a warp.
    pub fn reduce_group(&mut self, value: Value, applies: &'static str, width: u32) -> Value {
        let attrs = [("applies", Attr::Enum(applies)), ("width", i64::from(width).into())];
        self.emit_all(OpKind::ReduceGroup, &[value], &attrs, None)[0]
    }

    /// The value of the lane that is `by` of this one, in its segment of `width` lanes.
    pub fn shuffle(&mut self, how: &'static str, value: Value, by: Value, width: u32) -> Value {
        let by = self.convert(by, DType::I32);
        let attrs = [("how", Attr::Enum(how)), ("width", i64::from(width).into())];
        self.emit_all(OpKind::Shuffle, &[value, by], &attrs, None)[0]
    }

    /// One lane of a vector.
    pub fn extract_lane(&mut self, value: Value, lane: u32) -> Value {
        self.emit_all(OpKind::ExtractLane, &[value], &[("lane", i64::from(lane).into())], None)[0]
    }

    pub fn reduce_lanes(&mut self, value: Value, applies: &'static str) -> Value {
        if self.lanes(value) == 1 {
            return value;
        }
        self.emit_all(OpKind::ReduceLanes, &[value], &[("applies", applies.into())], None)[0]
    }

    /// Runs `fill` with ops going to a new block with these arguments, which it must not end.
    pub(super) fn region(&mut self, arguments: &[Type], fill: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>) -> Block {
        let block = self.function.add_block();
        let values: Vec<Value> = arguments.iter().map(|ty| self.function.add_argument(block, ty.clone())).collect();
        let outer = std::mem::replace(&mut self.block, block);
        let results = fill(self, &values);
        self.emit_all(OpKind::Return, &results, &[], None);
        self.block = outer;
        block
    }

    /// Emits `for index in (lower..upper).step_by(step)`, carrying `inits`; the results of `body`
    /// are carried on.
    pub fn for_(
        &mut self,
        [lower, upper, step]: [Value; 3],
        inits: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let arguments: Vec<Type> = [lower].iter().chain(inits).map(|&v| self.ty(v).clone()).collect();
        let region = self.region(&arguments, |kb, values| body(kb, values[0], &values[1..]));
        let operands: Vec<Value> = [lower, upper, step].into_iter().chain(inits.iter().copied()).collect();
        self.emit_in(self.block, OpKind::For, &operands, &[], &[region], None)
    }

    /// Emits a loop that carries nothing.
    pub fn for_each(&mut self, bounds: [Value; 3], body: impl FnOnce(&mut Self, Value)) {
        self.for_(bounds, &[], |kb, index, _| {
            body(kb, index);
            Vec::new()
        });
    }

    /// Emits `if pred { then }`.
    pub fn when(&mut self, pred: Value, then: impl FnOnce(&mut Self)) {
        let then = |kb: &mut Self| {
            then(kb);
            Vec::new()
        };
        self.if_(pred, then, |_| Vec::new());
    }

    /// Emits `if pred { then } else { otherwise }`.
    pub fn if_(
        &mut self,
        pred: Value,
        then: impl FnOnce(&mut Self) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let then = self.region(&[], |kb, _| then(kb));
        let otherwise = self.region(&[], |kb, _| otherwise(kb));
        self.emit_in(self.block, OpKind::If, &[pred], &[], &[then, otherwise], None)
    }

    /// Emits `while cond(values) { values = body(values) }`.
    pub fn while_(
        &mut self,
        inits: &[Value],
        cond: impl FnOnce(&mut Self, &[Value]) -> Value,
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<Type> = inits.iter().map(|&v| self.ty(v).clone()).collect();
        let cond = self.region(&types, |kb, values| vec![cond(kb, values)]);
        let body = self.region(&types, body);
        self.emit_in(self.block, OpKind::While, inits, &[], &[cond, body], None)
    }

    /// Transposes a square whose rows are vectors: returns its columns.
    pub fn transpose_lanes(&mut self, rows: &[Value]) -> Vec<Value> {
        self.emit_all(OpKind::TransposeLanes, rows, &[], None)
    }

    /// Reinterprets the bits of a value as lanes of `dtype`.
    pub fn recast(&mut self, value: Value, dtype: DType) -> Value {
        let lanes = self.lanes(value) * self.dtype(value).size() as u32 / dtype.size() as u32;
        self.emit_as(OpKind::RecastLanes, &[value], &[], Type::Vector { lanes, dtype })
    }

    /// Adds to `sum` the products of the elements that the lanes of `a` and `b` hold.
    pub fn dot_lanes(&mut self, [a_elements, elements]: [DType; 2], a: Value, b: Value, sum: Value) -> Value {
        let lanes = self.lanes(sum);
        let (a, b) = (self.widen(a, lanes), self.widen(b, lanes));
        let other = (a_elements != elements).then_some(("a_elements", a_elements.into()));
        let attrs: Vec<_> = [("elements", elements.into())].into_iter().chain(other).collect();
        self.emit_all(OpKind::DotLanes, &[a, b, sum], &attrs, None)[0]
    }

    /// Adds to the blocks in `sum` the products of the pairs of rows in `a` and of columns in `b`.
    pub fn dot_pairs(&mut self, elements: DType, a: Value, b: Value, sum: Value) -> Value {
        self.emit_all(OpKind::DotPairs, &[a, b, sum], &[("elements", elements.into())], None)[0]
    }

    /// Picks the lanes of `a` followed by `b` that `places` name.
    pub fn pick_lanes(&mut self, a: Value, b: Value, places: Value) -> Value {
        self.emit(OpKind::PickLanes, &[a, b, places])
    }

    /// The even lanes of two vectors as if they were one, and the odd ones.
    pub fn unzip_lanes(&mut self, a: Value, b: Value) -> [Value; 2] {
        let made = self.emit_all(OpKind::UnzipLanes, &[a, b], &[], None);
        [made[0], made[1]]
    }

    /// Interleaves the lanes of two vectors and returns two vectors.
    pub fn zip_lanes(&mut self, a: Value, b: Value) -> [Value; 2] {
        let made = self.emit_all(OpKind::ZipLanes, &[a, b], &[], None);
        [made[0], made[1]]
    }

    pub fn call(&mut self, callee: &str, arguments: &[Value]) {
        self.emit_all(OpKind::Call, arguments, &[("callee", Attr::Symbol(callee.into()))], Some(Vec::new()));
    }

    /// Fails the launch at `site` unless `pred` holds; `values` go into the message.
    pub fn assert(&mut self, pred: Value, values: &[Value], site: i64) {
        let operands: Vec<Value> = [pred].iter().chain(values).copied().collect();
        self.emit_all(OpKind::Assert, &operands, &[("site", site.into())], None);
    }
}
