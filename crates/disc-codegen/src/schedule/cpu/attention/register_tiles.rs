//! Attention of bf16 by tile registers, where the target has such (AMX): both products of
//! [`flash`](super::flash) are of tiles.
//!
//! Blocks have two tiles of rows. A unit packs `KEYS` columns of keys, and as many rows of values,
//! into panels of words. Exponentials are rounded to the type of the values, and are not normalised
//! yet.
//!
//! Invariants:
//! - Everything after the last term of a sum is zero, in rows and in panels: queries after their
//!   last element, exponentials and values after the last column.
//! - Rows after the last one of a block are in memory, and their results are ignored.
use super::{
    flash,
    plan::AttentionPlan,
    softmax::Softmax,
    unit::{Place, Unit},
};
use crate::{
    kernel::KernelBuilder,
    schedule::{Condition::Less, Group, Scheduled, Version, VersionKind},
};
use disc_ir::{DType, Dim, Value, fragment::REGISTER_ROWS};
use disc_kernel_macros::expr;

versions! {
    /// Attention of queries that fill a tile register.
    AttentionTiles {
        kernels: "`kN_attention_tiles`",
        sizes: "targets with tile registers: softmax attention of bf16, at least 16 queries",
        unit: "up to 192 queries, which share packed keys and values",
    }
}

/// Code for a number of rows that fills a tile.
pub(super) enum Code {
    /// The number of rows always does.
    Always(Scheduled),
    Sometimes(Version),
}

/// Schedules a group by tile registers, if the target multiplies its operands in them and there may
/// be enough rows.
pub(super) fn schedule(group: &Group<'_>, softmax: &Softmax) -> Option<Code> {
    group.target.register_tile(DType::BF16)?;
    let plan = AttentionPlan::of(group.function, &group.solver, group.target).ok()?.in_register_tiles(group.target)?;
    let rows = plan.scores.shape.m.size.clone();
    let range = group.solver.range(&rows);
    if range.hi.is_some_and(|most| most < REGISTER_ROWS) {
        return None;
    }
    let named = Group { name: format!("{}_tiles", group.name).into(), ..group.clone() };
    let code = flash::schedule(&named, &plan, softmax);
    Some(match range.lo {
        Some(least) if least >= REGISTER_ROWS => Code::Always(code),
        _ => {
            let guard = vec![Less(Dim::constant(REGISTER_ROWS - 1), rows)];
            Code::Sometimes(Version { kind: VersionKind::AttentionTiles, guard, code, workspaces: Vec::new() })
        }
    })
}

impl Unit<'_> {
    /// Fills the rows of blocks with zeros, before any block.
    pub(super) fn clear_rows(&self, kb: &mut KernelBuilder) {
        let weighted = &self.plan.weighted;
        self.scores.clear_rows(kb);
        let count = kb.dim(&(self.plan.stride_of_powers() * weighted.block_rows()));
        let (zero, step) = (kb.int(0), kb.int(i64::from(weighted.tile.lanes)));
        let nothing = kb.zero(weighted.rows_dtype(), weighted.tile.lanes);
        kb.for_each([zero, count, step], |kb, place| {
            kb.store(self.state.powers, place, nothing, None);
        });
    }

    /// Packs the values of some columns.
    pub(super) fn pack_values(&self, kb: &mut KernelBuilder, place: &Place, [low, high]: [Value; 2]) {
        let (zero, panels, depth) = (kb.int(0), kb.dim(&self.plan.weighted.panels()), expr!(kb, high - low));
        let values = self.values_from(kb, place, low);
        self.weighted.pack_part(kb, &place.at, values, [zero, panels], depth);
    }

    /// Gives the place in a packed panel of the values of a column, by its number among those that
    /// were packed: a multiple of the terms of a tile.
    pub(super) fn packed_values(&self, kb: &mut KernelBuilder, number: Value) -> Value {
        let plan = &self.plan.weighted;
        let (size, width) = (kb.int(plan.word_size()), kb.int(i64::from(plan.tile.columns)));
        expr!(kb, number / size * width)
    }

    /// Ends the exponentials of each row of a block with zeros, up to whole tiles: `end` is the
    /// number of the column after the last one, among those of the block.
    pub(super) fn end_powers(&self, kb: &mut KernelBuilder, height: Value, end: Value) {
        let plan = &self.plan.weighted;
        let terms = plan.row_unit();
        if plan.shape.k.size.as_const().is_some_and(|columns| columns % terms == 0) {
            return;
        }
        let (zero, one, unit, stride) = (kb.int(0), kb.int(1), kb.int(terms), kb.dim(&self.plan.stride_of_powers()));
        let over = expr!(kb, end % unit);
        let missing = expr!(kb, unit - over);
        let rows = expr!(kb, select(over == zero, zero, height));
        let (nothing, mask) = (kb.zero(plan.rows_dtype(), terms as u32), kb.lane_mask(missing, terms as u32));
        kb.for_each([zero, rows, one], |kb, row| {
            let place = expr!(kb, row * stride + end);
            kb.store(self.state.powers, place, nothing, Some(mask));
        });
    }
}
