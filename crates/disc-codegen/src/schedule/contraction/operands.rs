//! The memory that a product works on, as the kernel and its routines name it.
use super::plan::{ContractionPlan, Left};
use crate::{build::KernelBuilder, element::Elements, schedule::Group};
use disc_ir::{Dim, Space, TensorType, Type, Value};

/// The name of the memory that rows are packed into.
pub(super) const ROWS: &str = "rows";

/// Inputs and outputs of one product, and the task memory that it packs into.
pub(super) struct Operands {
    /// In the order of the plan's.
    pub(super) inputs: Vec<Value>,
    pub(super) outputs: Vec<Value>,
    pub(super) left: Option<Value>,
    pub(super) right: Option<Value>,
    /// Packed rows, or parts of them that a micro-kernel copies.
    pub(super) rows: Option<Value>,
    pub(super) panel: Option<Value>,
    /// Columns that are left over of the last panel.
    pub(super) rest: Option<Value>,
    /// Where blocks leave sums that are finished apart.
    pub(super) sums: Option<Value>,
}

impl Operands {
    /// Task memory is made by `scratch`, for a number of elements.
    pub(super) fn new(
        kb: &mut KernelBuilder,
        plan: &ContractionPlan,
        inputs: Vec<Value>,
        outputs: Vec<Value>,
        scratch: &mut dyn FnMut(&mut KernelBuilder, &str, TensorType) -> Value,
    ) -> Self {
        let buffer = |side: &super::operand::Operand| {
            let memory = side.memory.as_ref()?;
            plan.inputs.iter().position(|&input| input == memory.input).map(|i| inputs[i])
        };
        let (left, right) = (buffer(&plan.left), buffer(&plan.right));
        let elements = match plan.left_form {
            Left::Packed => Some(&plan.m.left * plan.packed_rows()),
            Left::InPlace => plan.staged.then(|| Dim::constant(i64::from(plan.tile.rows) * plan.staged_elements())),
        };
        let rows = elements.map(|elements| scratch(kb, ROWS, TensorType::new([elements], plan.rows_dtype())));
        let panels = super::pack::panel_elements(plan) * plan.packed_panels();
        let panel = plan.is_packed_right().then(|| scratch(kb, "panel", TensorType::new([panels], plan.panel_dtype())));
        let rest = plan.rest_memory().map(|tensor| scratch(kb, "rest", tensor));
        let sums = plan.finishes_apart.then(|| scratch(kb, "sums", super::finish::memory(plan)));
        Self { inputs, outputs, left, right, rows, panel, rest, sums }
    }

    /// As the parameters of a routine.
    pub(super) fn parameters(kb: &mut KernelBuilder, group: &Group<'_>, plan: &ContractionPlan) -> Self {
        let mut declare = |name: String, value: Value| match &plan.held {
            Some(held) if held.value == value => {
                kb.parameter(&name, Type::Buffer { tensor: plan.row_block(group.tensor(value)), space: Space::Task })
            }
            _ => kb.buffer(&name, group.tensor(value).clone()),
        };
        let inputs = plan.inputs.iter().enumerate().map(|(i, &input)| declare(format!("in{i}"), input)).collect();
        let outputs = plan.outputs.iter().enumerate().map(|(i, &output)| declare(format!("out{i}"), output)).collect();
        Self::new(kb, plan, inputs, outputs, &mut |kb, name, tensor| {
            kb.parameter(name, Type::Buffer { tensor, space: Space::Task })
        })
    }

    /// The arguments for such parameters.
    pub(super) fn arguments(&self) -> Vec<Value> {
        self.inputs
            .iter()
            .chain(&self.outputs)
            .copied()
            .chain(self.rows)
            .chain(self.panel)
            .chain(self.rest)
            .chain(self.sums)
            .collect()
    }

    pub(super) fn left(&self) -> Value {
        self.left.expect("an operand that is read in place lies in memory")
    }

    pub(super) fn right(&self) -> Value {
        self.right.expect("an operand that is read in place lies in memory")
    }

    pub(super) fn rows(&self) -> Value {
        self.rows.expect("packed rows have memory")
    }

    pub(super) fn panel(&self) -> Value {
        self.panel.expect("a packed panel has memory")
    }

    pub(super) fn sums(&self) -> Value {
        self.sums.expect("sums that are finished apart have memory")
    }

    /// Elements of the group's values, with the inputs in memory.
    pub(super) fn elements<'g>(&self, group: &Group<'g>, plan: &ContractionPlan, lanes: u32) -> Elements<'g> {
        let mut elements = Elements::new(group.function, group.solver.clone(), lanes, group.target);
        elements.first_site = group.first_site;
        for (&input, &buffer) in plan.inputs.iter().zip(&self.inputs) {
            elements.bind(input, buffer);
        }
        elements
    }
}
