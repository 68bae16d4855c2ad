//! The last few columns of a product that packs its panels: too few for a vector, so that each is multiplied along the sums instead.
//!
//! 49 columns are three vectors of 16 and one column more. A vector for that one would cost what 8 or 16 columns cost; along the sums all lanes
//! work, and the rows that are read for it were just read for the columns before. Each such column is copied out of its panel first.
//!
//! Invariant: which columns are computed this way depends on their number alone, and on what is known of the product when it is compiled.
use super::{
    dot,
    micro::{Source, starts},
    operands::Operands,
    parameters::Parameters,
};
use crate::{
    kernel::KernelBuilder,
    schedule::{
        Group,
        cpu::matmul::{
            Blocks, Part, dispatch, in_blocks,
            plan::{Left, MatmulPlan},
        },
    },
};
use disc_ir::{Dim, OpKind, TensorType, Value};

/// Adding up the lanes of a sum costs as much as some products: shorter sums are computed in vectors of columns, and of sums up to the second
/// bound fewer columns are left over.
const SHORT_SUM: i64 = 64;
const LONG_SUM: i64 = 256;
/// Below so many rows copying a column costs more than it saves, and below the second bound copying several.
const FEW_ROWS: i64 = 16;
const SOME_ROWS: i64 = 48;
/// Columns that share what is read of the rows, where so many are left over.
const PAIR: u32 = 2;

impl MatmulPlan {
    /// The most columns that are left over.
    pub(in crate::schedule) fn most_rest(&self) -> u32 {
        let along = self.k.left.is_const(1) && self.word.is_none() && self.packs_known_rows();
        match (self.k.size.as_const(), self.m.size.as_const()) {
            (Some(sums), Some(rows)) if along && sums >= LONG_SUM && rows >= SOME_ROWS => self.narrow() / 2,
            (Some(sums), Some(rows)) if along && sums >= SHORT_SUM && rows >= FEW_ROWS => self.narrow() / 4,
            _ => 0,
        }
    }

    /// How many of them are multiplied at once, more first; none, where no columns are left over.
    pub(in crate::schedule) fn rest_blocks(&self) -> Vec<u32> {
        let Some(columns) = self.n.size.as_const() else {
            let most = if self.whole_panels { 0 } else { self.most_rest() };
            return [PAIR, 1].into_iter().filter(|&columns| columns <= most).collect();
        };
        let last = (columns % i64::from(self.tile.columns)) as u32;
        let rest = self.tail_of(last).map_or(0, |tail| last.saturating_sub(tail * self.narrow()));
        let pairs = (rest >= PAIR).then_some(PAIR);
        pairs.into_iter().chain((!rest.is_multiple_of(PAIR)).then_some(1)).collect()
    }

    /// Narrow vectors for the columns of a last panel, if that is fewer than a panel has.
    pub(in crate::schedule) fn tail_of(&self, columns: u32) -> Option<u32> {
        let (narrow, most) = (self.narrow(), self.tile.columns / self.narrow());
        let tail = columns.saturating_sub(self.most_rest()).div_ceil(narrow);
        (columns > 0 && tail < most).then_some(tail)
    }

    /// Task memory for columns that are left over.
    pub(in crate::schedule) fn rest_memory(&self) -> Option<TensorType> {
        let columns = i64::from(self.most_rest());
        (!self.rest_blocks().is_empty()).then(|| TensorType::new([self.rest_stride() * columns], self.compute))
    }

    /// Elements from one such column to the next.
    fn rest_stride(&self) -> Dim {
        let lanes = i64::from(self.tile.lanes);
        self.k.size.ceil_div(&Dim::constant(lanes)) * lanes
    }

    /// The first column of the panel at `column` that is left over, as its number there, and how many are.
    fn rest(&self, kb: &mut KernelBuilder, column: Value) -> [Value; 2] {
        let (columns, width, narrow) = (kb.dim(&self.n.size), i64::from(self.tile.columns), i64::from(self.narrow()));
        let (zero, width, narrow, up) =
            (kb.int(0), kb.int(width), kb.int(narrow), kb.int(narrow - 1 - i64::from(self.most_rest())));
        let left = kb.sub(columns, column);
        let left = kb.map(OpKind::Minimum, &[left, width]);
        let vectors = kb.add(left, up);
        let vectors = kb.div(vectors, narrow);
        let first = kb.mul(vectors, narrow);
        let count = kb.sub(left, first);
        [first, kb.map(OpKind::Maximum, &[count, zero])]
    }
}

/// Copies the columns that are left over out of the panel that starts with `column`.
pub(in crate::schedule) fn copy_columns(kb: &mut KernelBuilder, plan: &MatmulPlan, operands: &Operands, column: Value) {
    let Some(memory) = operands.rest else { return };
    let [first, count] = plan.rest(kb, column);
    let (zero, one, depth) = (kb.int(0), kb.int(1), kb.dim(&plan.k.size));
    let (stride, width) = (kb.dim(&plan.rest_stride()), kb.int(i64::from(plan.tile.columns)));
    let columns = kb.open_for([zero, count, one]);
    let (from, to) = (kb.add(first, columns.index), kb.mul(columns.index, stride));
    kb.for_([zero, depth, one], &[], |kb, k, _| {
        let (row, there) = (kb.mul(k, width), kb.add(to, k));
        let here = kb.add(from, row);
        let element = kb.load(operands.panel(), here, 1, None);
        kb.store(memory, there, element, None);
        Vec::new()
    });
    kb.close_for(columns);
}

impl Blocks<'_> {
    /// Multiplies a block of rows, which start at `left`, by the columns of the panel that are left over.
    pub(in crate::schedule) fn call_rest(
        &self,
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        part: &Part<'_>,
        left: Value,
        [block, first, height]: [Value; 3],
    ) {
        let plan = part.plan;
        let (zero, stride) = (kb.int(0), kb.dim(&plan.rest_stride()));
        let [start, count] = plan.rest(kb, self.column);
        let start = kb.add(self.column, start);
        in_blocks(kb, [zero, count], &plan.rest_blocks(), &mut |kb, columns, number| {
            let (right, column) = (kb.mul(number, stride), kb.add(start, number));
            let mut arguments = part.operands.arguments();
            arguments.extend([left, right, first, column, block, zero]);
            arguments.extend(self.outer(plan));
            let source = Source::Along(columns);
            dispatch(kb, &part.name, source, &arguments, height, plan.heights(group.target, source));
        });
    }
}

/// The sums of `rows` rows and so many columns that are left over.
pub(in crate::schedule) fn accumulate(
    kb: &mut KernelBuilder,
    group: &Group<'_>,
    plan: &MatmulPlan,
    parameters: &Parameters,
    [rows, columns]: [u32; 2],
) -> Vec<Value> {
    let operands = &parameters.operands;
    let left = match plan.left_form {
        Left::InPlace => operands.left(),
        Left::Packed => operands.rows(),
    };
    let right = operands.rest.expect("columns that are left over have memory");
    let lefts = starts(kb, parameters.left, &plan.m.left, rows);
    let rights = starts(kb, parameters.right, &plan.rest_stride(), columns);
    dot::accumulate(kb, group, plan, [(left, lefts), (right, rights)])
}
