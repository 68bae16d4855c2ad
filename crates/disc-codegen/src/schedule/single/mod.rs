//! Ops with a schedule of their own: those of which no single element can be asked.
//!
//! These are plain and scalar: a work unit is what must be done in order (a row of a sort, a whole scatter).
mod nonzero;
mod random;
mod scan;
mod scatter;
mod sort;

use super::{Argument, Group, Launch, Scheduled, scratch_bytes};
use crate::{build::KernelBuilder, element::Elements, index::Index, schedule::loops::Merged};
use disc_ir::{DType, Dim, FunctionKind, Inst, OpKind, Type, Value};
use disc_passes::query::Query;

/// The schedule of a group of one such op; `None` where elements can be computed one by one.
pub fn schedule(group: &Group<'_>) -> Option<Scheduled> {
    let ops = group.function.insts(group.function.body).iter().copied();
    for inst in ops {
        match group.function.kind_of(inst) {
            OpKind::Cumulative => return Some(scan::schedule(group, inst)),
            OpKind::Sort | OpKind::TopK => return Some(sort::schedule(group, inst)),
            OpKind::Scatter => return Some(scatter::schedule(group, inst)),
            OpKind::Nonzero => return Some(nonzero::schedule(group, inst)),
            OpKind::RngBitGenerator => return Some(random::schedule(group, inst)),
            _ => {}
        }
    }
    None
}

/// A kernel in the making, with all of the group's memory bound.
struct Draft<'g> {
    kb: KernelBuilder,
    elements: Elements<'g>,
    /// Memory by value, for the outputs.
    targets: Vec<(Value, Value)>,
    arguments: Vec<Argument>,
    begin: Value,
    end: Value,
}

impl<'g> Draft<'g> {
    fn new(group: &Group<'g>, name: &str) -> Self {
        let mut kb = KernelBuilder::new(name, FunctionKind::Kernel);
        let mut elements = Elements::new(group.function, group.solver.clone(), 1, group.target);
        elements.first_site = group.first_site;
        let mut arguments = Vec::new();
        for (i, &input) in group.inputs().iter().enumerate() {
            let buffer = kb.buffer(&format!("in{i}"), group.tensor(input).clone());
            elements.bind(input, buffer);
            arguments.push(Argument::Input(i));
        }
        let mut targets = Vec::new();
        for (i, output) in group.outputs().into_iter().enumerate() {
            targets.push((output, kb.buffer(&format!("out{i}"), group.tensor(output).clone())));
            arguments.push(Argument::Output(group.wanted[i]));
        }
        let begin = kb.parameter("begin", Type::scalar(DType::I64));
        let end = kb.parameter("end", Type::scalar(DType::I64));
        Self { kb, elements, targets, arguments, begin, end }
    }

    /// The memory of a result, if anybody wants it.
    fn target(&self, value: Value) -> Option<Value> {
        self.targets.iter().find(|(output, _)| *output == value).map(|(_, buffer)| *buffer)
    }

    /// Stores an element of a result, if anybody wants it.
    fn store(&mut self, group: &Group<'_>, value: Value, at: &[Index], computed: Value) {
        if let Some(buffer) = self.target(value) {
            self.elements.store(&mut self.kb, buffer, group.tensor(value), at, computed);
        }
    }

    /// The kernel: `body` for every unit.
    fn units(mut self, units: Dim, cost: Dim, body: impl FnOnce(&mut Self, Value)) -> Scheduled {
        let one = self.kb.int(1);
        let (begin, end) = (self.begin, self.end);
        let block = self.kb.open_for([begin, end, one]);
        body(&mut self, block.index);
        self.kb.close_for(block);
        let kernel = self.kb.finish();
        let launch =
            Launch { kernel: kernel.name.clone(), arguments: self.arguments, units, cost, scratch: scratch_bytes(&kernel) };
        Scheduled { kernels: vec![kernel], launches: vec![launch], sites: self.elements.sites }
    }
}

/// All dimensions but `axis`, for units that are lines along it.
fn lines(shape: &[Dim], axis: usize) -> Vec<Merged> {
    let others = shape.iter().enumerate().filter(|(d, _)| *d != axis);
    others.map(|(d, size)| Merged { size: size.clone(), axis: d }).collect()
}

fn flag(elements: &Elements<'_>, inst: Inst, name: &str, default: bool) -> bool {
    match elements.group.attr(inst, name) {
        Some(disc_ir::Attr::Bool(value)) => *value,
        _ => default,
    }
}
