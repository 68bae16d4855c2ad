//! Loads gathers whose lanes are close to one another in memory: two vectors, and the lanes picked
//! from them.
//!
//! Positions that are counted, not data, mostly rise slowly: an image that is enlarged reads each
//! cell for some neighbours. A test at run time finds if those of a vector are within two vectors;
//! otherwise each lane is loaded by itself.
//!
//! Invariant: no element outside of the buffer is read.
use super::Elements;
use crate::kernel::{Index, KernelBuilder, compute_dtype};
use disc_ir::{DType, Function, Inst, Literal, OpKind, TensorType, Value, ops::Trait};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;
use std::collections::HashSet;

impl Elements<'_> {
    /// The type in which lanes of `dtype` are picked, if the target supports that.
    pub(super) fn picked_dtype(&self, dtype: DType) -> Option<DType> {
        let wide = match dtype {
            DType::I1 => return None,
            dtype if dtype.is_float() => compute_dtype(dtype),
            dtype if dtype.size() < 4 => DType::I32,
            dtype => dtype,
        };
        self.target.picks_lanes(wide, self.lanes).then_some(wide)
    }

    /// Loads the elements of a buffer that are some steps after a position, in the type in which
    /// they are picked.
    pub(super) fn load_near(&mut self, kb: &mut KernelBuilder, buffer: Value, [base, steps]: [Value; 2], picked: DType) -> Value {
        let (lanes, mask) = (self.lanes, self.mask);
        let zero = kb.int(0);
        let first = kb.extract_lane(steps, 0);
        let offsets = kb.map(OpKind::Subtract, &[steps, first]);
        let first = kb.convert(first, kb.index_type());
        let first = expr!(kb, base + first);
        // As unsigned numbers, steps before the first one are far after it.
        let unsigned = if kb.dtype(steps) == DType::I32 { DType::U32 } else { DType::U64 };
        let both = kb.constant(Literal::splat_i64(unsigned, 2 * i64::from(lanes)), 1);
        let unsigned = kb.convert(offsets, unsigned);
        let mut near = expr!(kb, unsigned < both);
        if let Some(mask) = mask {
            near = expr!(kb, near | !mask);
        }
        let near = kb.reduce_lanes(near, "and");
        // A masked first lane may be anywhere, also before the buffer.
        let inside = expr!(kb, first >= zero);
        let near = expr!(kb, near & inside);
        let size = kb.function.ty(buffer).shaped().expect("a buffer has a shape").element_count();
        let size = kb.dim(&size);
        let pick = |kb: &mut KernelBuilder| {
            let width = kb.int(i64::from(lanes));
            let [low, high] = [zero, width].map(|shift| {
                let from = expr!(kb, first + shift);
                let left = expr!(kb, size - from);
                let inside = kb.lane_mask(left, lanes);
                let vector = kb.load(buffer, from, lanes, Some(inside));
                kb.convert(vector, picked)
            });
            let places = kb.convert(offsets, DType::I32);
            vec![kb.pick_lanes(low, high, places)]
        };
        let each = |kb: &mut KernelBuilder| {
            let positions = Index::Lanes { base, steps }.value(kb, lanes);
            let found = kb.load(buffer, positions, lanes, mask);
            vec![kb.convert(found, picked)]
        };
        kb.if_(near, pick, each)[0]
    }
}

/// Returns true if the positions along the last dimension of a gather's operand are computed from
/// scalars, constants and counting only.
pub(super) fn is_counted(function: &Function, inst: Inst) -> bool {
    let &[operand, indices] = function.operands(inst) else { return false };
    let last = function.ty(operand).shaped().map(TensorType::rank).and_then(|rank| rank.checked_sub(1));
    if function.axes(inst, "start_index_map").last().copied() != last {
        return false;
    }
    let (mut stack, mut seen) = (vec![indices], HashSet::new());
    while let Some(value) = stack.pop() {
        let Some(inst) = function.defining(value) else {
            // A scalar moves all positions alike.
            if function.ty(value).shaped().is_some_and(|tensor| tensor.dims.is_empty()) {
                continue;
            }
            return false;
        };
        if !seen.insert(inst) {
            continue;
        }
        match function.kind_of(inst) {
            OpKind::Iota | OpKind::DimValue | OpKind::GetDimensionSize | OpKind::Constant => {}
            OpKind::BroadcastInDim | OpKind::Reshape | OpKind::Concatenate => stack.extend(function.operands(inst)),
            kind if kind.def().has(Trait::Elementwise) => stack.extend(function.operands(inst)),
            _ => return false,
        }
    }
    true
}
