//! Products of a few rows with all columns, for schedules that hold rows of an operand or of the result in task memory.
use super::{
    Operands, dispatch,
    micro::{self, Source},
    pack,
    plan::{ContractionPlan, Left, Right},
};
use crate::{build::KernelBuilder, element::Site, index::Index, schedule::Group, target::Target};
use disc_ir::{Dim, Function, OpKind, Solver, TensorType, Value};

/// A product inside of another schedule's kernel.
pub(in crate::schedule) struct BlockProduct<'g> {
    group: &'g Group<'g>,
    plan: &'g ContractionPlan,
    operands: Operands,
}

impl ContractionPlan {
    /// The plan of a group of one product, or why it has none.
    pub(in crate::schedule) fn of(group: &Function, solver: &Solver, target: &Target, outputs: &[Value]) -> Result<Self, String> {
        let mut dots = group.insts(group.body).iter().copied().filter(|&inst| group.kind_of(inst) == OpKind::DotGeneral);
        match (dots.next(), dots.next()) {
            (Some(dot), None) => Self::of_product(group, solver, target, dot, outputs),
            _ => Err("the group does not hold exactly one product".into()),
        }
    }

    /// The plan for a product of which rows of `in_task` are in task memory.
    pub(in crate::schedule) fn in_blocks(mut self, in_task: Value) -> Self {
        self.dots_for_few_rows = false;
        self.few_rows_at_once = true;
        if self.right_form == Right::Dots {
            self.right_form = Right::Columns;
        }
        // What is in task memory is in the type of the sums already.
        if self.left.memory.as_ref().is_some_and(|memory| memory.input == in_task) && self.sums.len() <= 1 {
            self.left_form = Left::InPlace;
            self.m.left = self.left.free.last().map_or(Dim::constant(0), |&d| self.left.stride(d));
            self.k.left = self.left.sum.last().map_or(Dim::constant(0), |&d| self.left.stride(d));
        }
        self
    }

    /// The input of the group that the rows are read from.
    pub(in crate::schedule) fn left_input(&self) -> Option<Value> {
        self.left.memory.as_ref().map(|memory| memory.input)
    }

    /// Whether all panels are packed at once, rather than one by one.
    fn block_source(&self) -> Source {
        match self.right_form {
            Right::Panels => Source::Panels,
            Right::Rows if self.whole_panels => Source::InPlace,
            Right::Rows | Right::Columns | Right::Computed | Right::Dots => Source::Task,
        }
    }
}

impl Operands {
    /// The same with another panel.
    pub(super) fn with_panel(&self, panel: Value) -> Self {
        Self { inputs: self.inputs.clone(), outputs: self.outputs.clone(), panel: Some(panel), ..*self }
    }
}

impl<'g> BlockProduct<'g> {
    /// With the memory of the group's inputs, then of its outputs. Asks for task memory for panels, where the right operand has to be packed.
    pub(in crate::schedule) fn new(
        kb: &mut KernelBuilder,
        group: &'g Group<'g>,
        plan: &'g ContractionPlan,
        memory: &[Value],
    ) -> Self {
        let known: Vec<Value> = group.inputs().iter().copied().chain(group.outputs()).collect();
        let of = |value: &Value| memory[known.iter().position(|k| k == value).expect("a product reads its group's memory")];
        let (inputs, outputs) = (plan.inputs.iter().map(of).collect(), plan.outputs.iter().map(of).collect());
        let operands = Operands::new(kb, plan, inputs, outputs, &mut |kb, _, tensor| kb.scratch(tensor));
        Self { group, plan, operands }
    }

    /// Where the operands start for a batch position; packs the right one, if that is needed.
    pub(in crate::schedule) fn start(&self, kb: &mut KernelBuilder, at: &[Index]) -> [Value; 2] {
        let (plan, bases) = (self.plan, self.plan.bases(kb, at));
        if plan.block_source() != Source::Task {
            return bases;
        }
        let (zero, one, width) = (kb.int(0), kb.int(1), kb.int(i64::from(plan.tile.columns)));
        let panels = kb.dim(&plan.panels());
        let mut elements = self.operands.elements(self.group, plan, plan.tile.lanes);
        let panel_loop = kb.open_for([zero, panels, one]);
        let column = kb.mul(panel_loop.index, width);
        let whole = self.operands.panel();
        let offset = self.panel_offset(kb, panel_loop.index);
        let panel = kb.view(whole, offset, TensorType::new([pack::panel_elements(plan)], plan.compute));
        let operands = self.operands.with_panel(panel);
        match plan.right_form {
            Right::Computed => pack::compute_panel(kb, plan, &operands, &mut elements, at, column),
            Right::Rows => pack::copy_panel(kb, plan, &operands, bases[1], column),
            _ => pack::transpose_panel(kb, plan, &operands, bases[1], column),
        }
        kb.close_for(panel_loop);
        bases
    }

    fn panel_offset(&self, kb: &mut KernelBuilder, panel: Value) -> Value {
        let size = match self.plan.block_source() {
            Source::Task => pack::panel_elements(self.plan),
            _ => &self.plan.k.size * i64::from(self.plan.tile.columns),
        };
        let size = kb.dim(&size);
        kb.mul(panel, size)
    }

    /// Computes `height` rows from row `first` on, at most as many as a tile has; the left operand of them starts at `left`.
    pub(in crate::schedule) fn run(
        &self,
        kb: &mut KernelBuilder,
        at: &[Index],
        [left, right]: [Value; 2],
        [first, height]: [Value; 2],
    ) {
        let (plan, mut left) = (self.plan, left);
        if plan.left_form == Left::Packed {
            let mut elements = self.operands.elements(self.group, plan, plan.tile.lanes);
            let last = kb.add(first, height);
            pack::compute_rows(kb, plan, &self.operands, &mut elements, at, [first, last]);
            left = kb.int(0);
        }
        let (zero, one, width) = (kb.int(0), kb.int(1), kb.int(i64::from(plan.tile.columns)));
        let panels = kb.dim(&plan.panels());
        kb.for_([zero, panels, one], &[], |kb, panel, _| {
            let column = kb.mul(panel, width);
            let base = match plan.block_source() {
                Source::InPlace | Source::Wide => kb.add(right, column),
                Source::Panels => {
                    let offset = self.panel_offset(kb, panel);
                    kb.add(right, offset)
                }
                Source::Task => self.panel_offset(kb, panel),
            };
            let mut arguments = self.operands.arguments();
            arguments.extend([left, base, first, column, zero, zero]);
            arguments.extend(plan.outer.iter().map(|o| at[o.run.axis].as_uniform().expect("a batch position is a scalar")));
            dispatch(kb, &self.group.name, plan.block_source(), &arguments, height, [1, plan.tile.rows]);
            Vec::new()
        });
    }

    /// The routines that [`BlockProduct::run`] calls. Of the value `in_task`, an operand or an output, only a block of rows is in memory.
    pub(in crate::schedule) fn routines(group: &Group<'_>, plan: &ContractionPlan, in_task: Value) -> Vec<(Function, Vec<Site>)> {
        (1..=plan.tile.rows).map(|rows| micro::emit(group, plan, &group.name, plan.block_source(), rows, Some(in_task))).collect()
    }
}
