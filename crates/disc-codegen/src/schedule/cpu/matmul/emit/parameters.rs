//! The parameters of a micro-kernel: operands, the place of its block, and facts about rows in task
//! memory.
//!
//! Each routine of one product declares the same parameters, so that one can pass its own on to the
//! next.
use super::{
    masks::{column_masks, tail_masks},
    operands::Operands,
};
use crate::{
    element::{Elements, RowBlock},
    kernel::{Index, KernelBuilder},
    schedule::{
        Group,
        cpu::matmul::plan::{
            MatmulPlan,
            forms::ResultForm,
            source::{Piece, Source},
            split_k::PARTS,
        },
    },
};
use disc_ir::{Dim, Space, TensorType, Type, Value};
use disc_kernel_macros::expr;

/// The arguments of a micro-kernel.
pub(in crate::schedule) struct Parameters {
    pub(in crate::schedule) operands: Operands,
    pub(in crate::schedule) left: Value,
    pub(in crate::schedule) right: Value,
    pub(in crate::schedule) row: Value,
    pub(in crate::schedule) column: Value,
    pub(in crate::schedule) block: Value,
    pub(in crate::schedule) fetches: Value,
    pub(in crate::schedule) outer: Vec<Value>,
    pub(in crate::schedule) held: RowBufferParameters,
}

/// The parameters that depend on the form of the result.
pub(in crate::schedule) enum RowBufferParameters {
    None,
    /// The column of the result that is the first there.
    Result {
        start: Value,
    },
    /// The number of columns of the left operand that are there, and the totals: rows of whole
    /// panels, each of which is scaled by its factor first.
    Parts {
        depth: Value,
        totals: Value,
        factors: Value,
    },
    /// The number of products that the sums have here, and the memory that they are left in: `[m,
    /// n]` from an element on.
    Split {
        depth: Value,
        parts: Value,
        from: Value,
    },
}

impl Parameters {
    pub(in crate::schedule) fn declare(kb: &mut KernelBuilder, group: &Group<'_>, plan: &MatmulPlan) -> Self {
        let operands = Operands::parameters(kb, group, plan);
        let mut scalar = |name: &str| kb.position(name);
        let [left, right, row, column, block, fetches] = ["left", "right", "row", "column", "block", "fetches"].map(&mut scalar);
        let outer = (0..plan.shape.outer.len()).map(|i| scalar(&format!("outer{i}"))).collect();
        let task = |count: Dim| Type::Buffer { tensor: TensorType::new([count], plan.compute), space: Space::Task };
        let held = match plan.result {
            ResultForm::SplitK => RowBufferParameters::Split {
                depth: scalar("depth"),
                parts: kb.buffer("parts", TensorType::new([&plan.shape.m.size * &plan.shape.n.size * PARTS], plan.compute)),
                from: kb.position("from"),
            },
            ResultForm::Direct | ResultForm::Apart | ResultForm::Interleaved(_) => RowBufferParameters::None,
            ResultForm::Block => RowBufferParameters::Result { start: scalar("start") },
            ResultForm::Totals => RowBufferParameters::Parts {
                depth: scalar("depth"),
                totals: kb.parameter("totals", task(plan.total_columns() * plan.most_rows())),
                factors: kb.parameter("factors", task(Dim::constant(plan.most_rows()))),
            },
        };
        Self { operands, left, right, row, column, block, fetches, outer, held }
    }

    /// Gives the arguments for another routine that declares the same parameters.
    pub(in crate::schedule) fn arguments(&self) -> Vec<Value> {
        let own = [self.left, self.right, self.row, self.column, self.block, self.fetches];
        self.operands.arguments().into_iter().chain(own).chain(self.outer.iter().copied()).collect()
    }

    /// Gives the vectors of a panel, each with a mask if the panel may end after the last column.
    pub(in crate::schedule) fn vectors(
        &self,
        kb: &mut KernelBuilder,
        plan: &MatmulPlan,
        source: Source,
    ) -> Vec<(Piece, Option<Value>)> {
        let pieces = plan.pieces(source);
        let masks = match source {
            Source::InPlace | Source::Wide | Source::Copied | Source::Along(_) => vec![None; pieces.len()],
            Source::Edge | Source::Panels | Source::Widening | Source::Widened | Source::Int4 | Source::Task => {
                column_masks(kb, plan, self.column)
            }
            Source::Tail(_) | Source::EdgeTail(_) => tail_masks(kb, plan, self.column, &pieces),
        };
        pieces.into_iter().zip(masks).collect()
    }

    /// Gives the position of a row of the block among the results, at the first column.
    pub(in crate::schedule) fn row_of_result(&self, kb: &mut KernelBuilder, plan: &MatmulPlan, row: i64) -> Vec<Index> {
        let mut at = vec![Index::uniform(kb.int(0)); plan.shape.rank];
        for (outer, &position) in plan.shape.outer.iter().zip(&self.outer) {
            at[outer.run.axis] = Index::uniform(position);
        }
        if let Some(axis) = plan.shape.m.dim {
            let row = kb.int(row);
            at[axis] = Index::uniform(expr!(kb, self.row + row));
        }
        at
    }

    /// Gives the elements of the group's values; of a result in task memory, row `first` is the
    /// first there.
    pub(in crate::schedule) fn elements<'g>(
        &self,
        kb: &mut KernelBuilder,
        group: &Group<'g>,
        plan: &MatmulPlan,
        first: Value,
    ) -> Elements<'g> {
        let mut elements = self.operands.elements(group, plan, plan.tile.lanes);
        if let (RowBufferParameters::Result { start }, Some(held)) = (&self.held, &plan.partition.blocks) {
            let output = plan.outputs.iter().position(|&o| o == held.value).expect("the plan makes the value");
            let stride = kb.dim(&held.room.stride);
            let axis = plan.shape.m.dim.expect("a product with rows");
            elements.hold_rows(self.operands.outputs[output], RowBlock { axis, first, column: *start, stride });
        }
        elements
    }
}
