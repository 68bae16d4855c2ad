//! The memory that a product works on, as the kernel and its routines name it.
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{
        Group,
        cpu::matmul::plan::{MatmulPlan, forms::LeftForm, operand::Operand},
    },
};
use disc_ir::{Dim, Space, TensorType, Type, Value};

/// The names of the memory that rows and panels are packed into.
pub(in crate::schedule) const ROWS: &str = "rows";
pub(in crate::schedule) const PANEL: &str = "panel";

/// Inputs and outputs of one product, and the task memory that it packs into.
pub(in crate::schedule) struct Operands {
    /// In the order of the plan's.
    pub(in crate::schedule) inputs: Vec<Value>,
    pub(in crate::schedule) outputs: Vec<Value>,
    pub(in crate::schedule) left: Option<Value>,
    pub(in crate::schedule) right: Option<Value>,
    /// Packed rows, or parts of them that a micro-kernel copies.
    pub(in crate::schedule) rows: Option<Value>,
    pub(in crate::schedule) panel: Option<Value>,
    /// Columns that are left over of the last panel.
    pub(in crate::schedule) rest: Option<Value>,
    /// The memory that blocks leave sums in that are finished apart.
    pub(in crate::schedule) sums: Option<Value>,
}

impl Operands {
    /// Collects the operands; `scratch` makes task memory for a number of elements.
    pub(in crate::schedule) fn new(
        kb: &mut KernelBuilder,
        plan: &MatmulPlan,
        inputs: Vec<Value>,
        outputs: Vec<Value>,
        scratch: &mut dyn FnMut(&mut KernelBuilder, &str, TensorType) -> Value,
    ) -> Self {
        let buffer = |side: &Operand| {
            let memory = side.memory.as_ref()?;
            plan.inputs.iter().position(|&input| input == memory.input).map(|i| inputs[i])
        };
        let (left, right) = (buffer(&plan.left.operand), buffer(&plan.right.operand));
        let elements = match plan.left.form {
            LeftForm::Packed => Some(&plan.shape.m.left * plan.packed_rows()),
            LeftForm::Staged { .. } => Some(Dim::constant(i64::from(plan.tile.rows) * plan.staged_elements())),
            LeftForm::InPlace => None,
        };
        let rows = elements.map(|elements| scratch(kb, ROWS, TensorType::new([elements], plan.rows_dtype())));
        let panels = plan.packed_panel_elements() * plan.packed_panels();
        let panel = (plan.is_packed_right() || plan.widens_panels())
            .then(|| scratch(kb, PANEL, TensorType::new([panels], plan.panel_dtype())));
        let rest = plan.rest_memory().map(|tensor| scratch(kb, "rest", tensor));
        let sums =
            (plan.result.is_finished_apart() || plan.register_tiles().is_some()).then(|| scratch(kb, "sums", plan.sums_memory()));
        Self { inputs, outputs, left, right, rows, panel, rest, sums }
    }

    /// Declares the operands as the parameters of a routine.
    pub(in crate::schedule) fn parameters(kb: &mut KernelBuilder, group: &Group<'_>, plan: &MatmulPlan) -> Self {
        let mut declare = |name: String, value: Value| match &plan.partition.blocks {
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

    /// Gives the arguments for such parameters.
    pub(in crate::schedule) fn arguments(&self) -> Vec<Value> {
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

    pub(in crate::schedule) fn left(&self) -> Value {
        self.left.expect("an operand that is read in place lies in memory")
    }

    pub(in crate::schedule) fn right(&self) -> Value {
        self.right.expect("an operand that is read in place lies in memory")
    }

    pub(in crate::schedule) fn rows(&self) -> Value {
        self.rows.expect("packed rows have memory")
    }

    pub(in crate::schedule) fn panel(&self) -> Value {
        self.panel.expect("a packed panel has memory")
    }

    pub(in crate::schedule) fn sums(&self) -> Value {
        self.sums.expect("sums that are finished apart have memory")
    }

    /// Gives the elements of the group's values, with the inputs in memory.
    pub(in crate::schedule) fn elements<'g>(&self, group: &Group<'g>, plan: &MatmulPlan, lanes: u32) -> Elements<'g> {
        let mut elements = Elements::new(group.function, group.solver.clone(), lanes, group.target);
        elements.first_site = group.first_site;
        for (&input, &buffer) in plan.inputs.iter().zip(&self.inputs) {
            elements.bind(input, buffer);
        }
        elements
    }

    /// Gives the same operands with another panel.
    pub(in crate::schedule) fn with_panel(&self, panel: Value) -> Self {
        Self { inputs: self.inputs.clone(), outputs: self.outputs.clone(), panel: Some(panel), ..*self }
    }

    /// The memory that rows of the left operand are read from.
    pub(in crate::schedule) fn left_rows(&self, plan: &MatmulPlan) -> Value {
        if plan.left.is_packed() { self.rows() } else { self.left() }
    }
}

/// Computes the element of an operand at a position of the product and of the sums.
pub(in crate::schedule) fn operand_element(
    kb: &mut KernelBuilder,
    operand: &Operand,
    elements: &mut Elements<'_>,
    at: &[Index],
    sums: &[Index],
) -> Value {
    let mut here = vec![Index::uniform(kb.int(0)); operand.dims.len()];
    for (i, &dim) in operand.batch.iter().enumerate() {
        here[dim] = at[i];
    }
    for (i, &dim) in operand.free.iter().enumerate() {
        here[dim] = at[operand.first + i];
    }
    match (sums, operand.sum.last()) {
        // Of sums that are walked as one, the last dimension carries the position.
        (&[index], Some(&last)) => here[last] = index,
        _ => operand.sum.iter().zip(sums).for_each(|(&dim, &index)| here[dim] = index),
    }
    elements.element(kb, operand.value, &here)
}
