//! Queries about ops and values, for rules, passes and schedules.
use disc_ir::{Attr, Block, DType, Dim, Function, Inst, Literal, OpKind, Solver, Value, ops::Trait};

/// A realistic size: a dim held in 32 bits has to be in range for it.
const SIZE: i64 = 1 << 15;

/// Short answers about a function; an absent attribute reads as an empty list.
pub trait Query {
    /// Returns an attribute by its name; `None` if it is absent or the op has none of this name.
    fn attr(&self, inst: Inst, name: &str) -> Option<&Attr>;
    /// The sizes of a value; none for a scalar.
    fn shape(&self, value: Value) -> &[Dim];
    /// The op that defines `value`, if it is of this kind.
    fn made_by(&self, value: Value, kind: OpKind) -> Option<Inst>;
    /// The element of a constant whose elements are all equal.
    fn splat(&self, value: Value) -> Option<&Literal>;
    /// The dim expression that a scalar `i32` or `i64` holds: that of a `dim`, or a constant.
    fn as_dim(&self, value: Value) -> Option<Dim>;

    /// Returns true if a slice starts at 0 along every dimension with step 1, so that it is only
    /// another view of memory.
    fn is_front(&self, inst: Inst) -> bool;

    fn ints(&self, inst: Inst, name: &str) -> &[i64] {
        match self.attr(inst, name) {
            Some(Attr::Ints(values)) => values,
            _ => &[],
        }
    }

    fn axes(&self, inst: Inst, name: &str) -> Vec<usize> {
        self.ints(inst, name).iter().map(|&axis| axis as usize).collect()
    }

    fn dims(&self, inst: Inst, name: &str) -> &[Dim] {
        match self.attr(inst, name) {
            Some(Attr::Dims(values)) => values,
            _ => &[],
        }
    }

    fn word(&self, inst: Inst, name: &str) -> &'static str {
        match self.attr(inst, name) {
            Some(Attr::Enum(word)) => word,
            _ => "",
        }
    }

    fn int(&self, inst: Inst, name: &str) -> i64 {
        match self.attr(inst, name) {
            Some(Attr::Int(value)) => *value,
            _ => 0,
        }
    }
}

impl Query for Function {
    fn is_front(&self, inst: Inst) -> bool {
        self.kind_of(inst) == OpKind::Slice
            && self.dims(inst, "start").iter().all(|start| start.is_const(0))
            && self.ints(inst, "strides").iter().all(|&step| step == 1)
    }

    fn attr(&self, inst: Inst, name: &str) -> Option<&Attr> {
        let position = self.def(inst).attr_position(name)?;
        self.inst(inst).attrs[position].as_ref()
    }

    fn shape(&self, value: Value) -> &[Dim] {
        self.ty(value).shaped().map(|tensor| &tensor.dims[..]).unwrap_or_default()
    }

    fn made_by(&self, value: Value, kind: OpKind) -> Option<Inst> {
        self.defining(value).filter(|&inst| self.kind_of(inst) == kind)
    }

    fn splat(&self, value: Value) -> Option<&Literal> {
        let constant = self.made_by(value, OpKind::Constant)?;
        match self.attr(constant, "value") {
            Some(Attr::Literal(literal)) if literal.stored_len() == 1 => Some(literal),
            _ => None,
        }
    }

    fn as_dim(&self, value: Value) -> Option<Dim> {
        let ty = self.ty(value).as_tensor()?;
        // A narrow integer wraps at realistic sizes, and an unsigned one below 0.
        if ty.rank() != 0 || !matches!(ty.dtype, DType::I32 | DType::I64) {
            return None;
        }
        if let Some(literal) = self.splat(value) {
            return Some(Dim::constant(literal.i64_at(0)));
        }
        let inst = self.made_by(value, OpKind::DimValue)?;
        let Some(Attr::Dim(dim)) = self.attr(inst, "value") else { return None };
        // No tensor has 2^31 elements along a dimension that is counted in 32 bits; a sum with a
        // large constant wraps before that.
        let is_in_range = |size: i64| dim.eval(&|_| Some(size)).is_ok_and(|value| i32::try_from(value).is_ok());
        (ty.dtype == DType::I64 || (is_in_range(0) && is_in_range(SIZE))).then(|| dim.clone())
    }
}

/// Returns true if an op gathers rows: slices that are whole along the last dimension.
pub fn picks_rows(function: &Function, solver: &Solver, inst: Inst) -> bool {
    let whole = || function.dims(inst, "slice_sizes").last().zip(function.shape(function.operands(inst)[0]).last());
    function.kind_of(inst) == OpKind::Gather
        && whole().is_some_and(|(slice, size)| !slice.is_const(1) && solver.equal(slice, size))
}

/// The values that a block computes from `value` elementwise at the same position, `value` first;
/// with `reduces` also reductions of them. `None` if any use is of another kind, except that they
/// may be returned.
pub fn used_in_step(function: &Function, block: Block, value: Value, reduces: bool) -> Option<Vec<Value>> {
    let mut reached = vec![value];
    for &inst in function.insts(block) {
        if !function.operands(inst).iter().any(|operand| reached.contains(operand)) {
            continue;
        }
        match function.kind_of(inst) {
            OpKind::Return => {}
            OpKind::Reduce if reduces => {}
            kind if kind.def().has(Trait::Elementwise) => reached.extend(function.results_of(inst)),
            _ => return None,
        }
    }
    Some(reached)
}
