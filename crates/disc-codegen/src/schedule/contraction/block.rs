//! Products of a few rows with all columns, for schedules that hold rows of an operand or of the result in task memory.
use super::{
    dispatch, micro, pack_panels,
    plan::{ContractionPlan, Right},
};
use crate::{build::KernelBuilder, element::Site, index::Index, schedule::Group};
use disc_ir::{Function, TensorType, Value};

/// A product inside of another schedule's kernel.
pub(in crate::schedule) struct BlockProduct<'g> {
    group: &'g Group<'g>,
    plan: &'g ContractionPlan,
    /// The group's inputs, then its outputs.
    memory: Vec<Value>,
    packed: Option<Value>,
}

impl<'g> BlockProduct<'g> {
    /// Asks for task memory for panels, where the right operand has to be packed.
    pub(in crate::schedule) fn new(
        kb: &mut KernelBuilder,
        group: &'g Group<'g>,
        plan: &'g ContractionPlan,
        memory: Vec<Value>,
    ) -> Self {
        let packed = (plan.right == Right::PackedByUnit).then(|| {
            let padded = plan.panels() * i64::from(plan.tile.columns);
            kb.scratch(TensorType::new([padded * &plan.k.size], plan.compute))
        });
        Self { group, plan, memory, packed }
    }

    /// Where the operands start for a batch position; packs the right one, if that is needed.
    pub(in crate::schedule) fn start(&self, kb: &mut KernelBuilder, at: &[Index]) -> [Value; 2] {
        let bases = self.plan.bases(kb, at);
        if let Some(packed) = self.packed {
            pack_panels(kb, self.group, self.plan, self.memory[self.plan.right_input], bases[1], packed);
        }
        bases
    }

    /// Computes `height` rows from row `first` on, at most as many as a tile has; the left operand of them starts at `left`.
    pub(in crate::schedule) fn run(
        &self,
        kb: &mut KernelBuilder,
        at: &[Index],
        [left, right]: [Value; 2],
        [first, height]: [Value; 2],
    ) {
        let plan = self.plan;
        let (zero, one, width) = (kb.int(0), kb.int(1), kb.int(i64::from(plan.tile.columns)));
        let panels = kb.dim(&plan.panels());
        let panel_size = kb.dim(&(&plan.k.size * i64::from(plan.tile.columns)));
        kb.for_([zero, panels, one], &[], |kb, panel, _| {
            let column = kb.mul(panel, width);
            let base = match self.packed {
                Some(_) => kb.mul(panel, panel_size),
                None => kb.add(right, column),
            };
            let mut arguments = self.memory.clone();
            arguments.extend(self.packed);
            arguments.extend([left, base, first, column, zero, zero]);
            arguments.extend(plan.outer.iter().map(|o| at[o.run.axis].as_uniform().expect("a batch position is a scalar")));
            dispatch(kb, &self.group.name, &arguments, height, 1, plan.tile.rows);
            Vec::new()
        });
    }
}

/// The routines that [`BlockProduct::run`] calls. Of the value `in_task`, an operand or an output, only a block of rows is in memory.
pub(in crate::schedule) fn routines(group: &Group<'_>, plan: &ContractionPlan, in_task: Value) -> Vec<(Function, Vec<Site>)> {
    (1..=plan.tile.rows).map(|rows| micro::emit(group, plan, rows, Some(in_task))).collect()
}
