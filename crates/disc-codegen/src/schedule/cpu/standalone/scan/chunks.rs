//! Schedules a line along which other ops are computed: in chunks that stay in cache.
//!
//! The input of the scan is computed in vectors and put into task memory, combined there in order,
//! and the ops after it are computed in vectors again. A costly op that both the scan and an op
//! after it read is computed twice.
use super::{KernelFrame, Scan};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, compute_dtype, cost},
    schedule::{Group, Scheduled, common::vector_loop::vector_loop},
};
use disc_ir::{Dim, OpKind, TensorType, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

/// The elements of a chunk: enough that the stored ones are in cache when vectors of them are read.
const CHUNK: i64 = 512;

impl<'g> Scan<'g> {
    /// Returns true if the group computes only the scan, and conversions of its inputs and results:
    /// these wait for no element before.
    pub(super) fn is_alone(&self) -> bool {
        let function = self.group.function;
        let unconverted =
            |value: Value| function.made_by(value, OpKind::Convert).map_or(value, |inst| function.operands(inst)[0]);
        let results = function.results_of(self.inst);
        self.inputs.iter().all(|&input| self.group.inputs().contains(&unconverted(input)))
            && self.group.outputs().iter().all(|&output| results.contains(&unconverted(output)))
    }

    /// Schedules each line by itself, chunk by chunk.
    pub(super) fn by_chunks(&self, group: &Group<'g>) -> Scheduled {
        let lanes = cost::lanes(group.function, group.target, &group.solver, &self.shape[self.axis]);
        let mut frame = KernelFrame::new(group, &group.name, lanes);
        let made = |&value: &Value| {
            let tensor = TensorType::new([Dim::constant(CHUNK)], compute_dtype(group.tensor(value).dtype));
            frame.kb.scratch(tensor)
        };
        let held: Vec<Value> = self.inputs.iter().map(made).collect();
        frame.counted(&self.outer, self.cost(1), |frame, positions| {
            let mut at = vec![Index::uniform(frame.kb.int(0)); self.shape.len()];
            self.outer.iter().zip(positions).for_each(|(run, &position)| at[run.axis] = Index::uniform(position));
            frame.elements.lanes = 1;
            let start = self.starts(frame, 1);
            frame.elements.lanes = lanes;
            let (zero, one, chunk) = (frame.kb.int(0), frame.kb.int(1), frame.kb.int(CHUNK));
            let size = frame.kb.dim(&self.shape[self.axis]);
            let count = frame.kb.dim(&self.shape[self.axis].ceil_div(&Dim::constant(CHUNK)));
            let mut open = frame.kb.open_for_carrying([zero, count, one], &start);
            frame.elements.open_scope();
            let mut number = open.index;
            if self.reverse {
                number = expr!(frame.kb, count - one - number);
            }
            let low = expr!(frame.kb, number * chunk);
            let high = expr!(frame.kb, min(low + chunk, size));
            let carried = open.carried.clone();
            self.fill(frame, &held, &at, [low, high]);
            open.next = self.combine_held(frame, &held, [low, high], &carried);
            self.write_held(frame, &held, &at, [low, high]);
            frame.elements.close_scope();
            frame.kb.close_for(open);
        })
    }

    /// Emits `body` for the vectors of a chunk: with the position of each, and its position in task
    /// memory.
    fn over_chunk(
        &self,
        frame: &mut KernelFrame<'g>,
        at: &[Index],
        [low, high]: [Value; 2],
        mut body: impl FnMut(&mut KernelBuilder, &mut Elements<'g>, &[Index], Value),
    ) {
        vector_loop(&mut frame.kb, &mut frame.elements, [low, high], false, &mut |kb, elements, index| {
            let Index::Affine { base, .. } = index else { panic!("a vector loop walks along an axis") };
            let mut at = at.to_vec();
            at[self.axis] = index;
            let place = expr!(kb, base - low);
            body(kb, elements, &at, place);
        });
    }

    /// Stores the elements to combine in task memory.
    fn fill(&self, frame: &mut KernelFrame<'g>, held: &[Value], at: &[Index], range: [Value; 2]) {
        let lanes = frame.elements.lanes;
        self.over_chunk(frame, at, range, |kb, elements, at, place| {
            for (&input, &buffer) in self.inputs.iter().zip(held) {
                let value = elements.element(kb, input, at);
                let value = kb.widen(value, lanes);
                kb.store(buffer, place, value, elements.mask);
            }
        });
    }

    /// Combines the elements in task memory, in the order of the walk.
    fn combine_held(&self, frame: &mut KernelFrame<'g>, held: &[Value], [low, high]: [Value; 2], start: &[Value]) -> Vec<Value> {
        let lanes = std::mem::replace(&mut frame.elements.lanes, 1);
        let (zero, one) = (frame.kb.int(0), frame.kb.int(1));
        let count = expr!(frame.kb, high - low);
        let mut open = frame.kb.open_for_carrying([zero, count, one], start);
        frame.elements.open_scope();
        let mut place = open.index;
        if self.reverse {
            place = expr!(frame.kb, count - one - place);
        }
        let values = held.iter().map(|&buffer| frame.kb.load(buffer, place, 1, None)).collect();
        let carried = open.carried.clone();
        let combined = self.combine(frame, &carried, values, 1);
        held.iter().zip(&combined).for_each(|(&buffer, &value)| frame.kb.store(buffer, place, value, None));
        open.next = combined;
        frame.elements.close_scope();
        let carried = frame.kb.close_for(open);
        frame.elements.lanes = lanes;
        carried
    }

    /// Computes and stores the outputs of a chunk.
    fn write_held(&self, frame: &mut KernelFrame<'g>, held: &[Value], at: &[Index], range: [Value; 2]) {
        let targets = frame.memory.targets.clone();
        let results = self.group.function.results_of(self.inst);
        let lanes = frame.elements.lanes;
        self.over_chunk(frame, at, range, |kb, elements, at, place| {
            for (&result, &buffer) in results.iter().zip(held) {
                let combined = kb.load(buffer, place, lanes, elements.mask);
                elements.conclude(kb, result, at, combined);
            }
            let computed: Vec<Value> = targets.iter().map(|(output, _)| elements.element(kb, *output, at)).collect();
            for (&(output, buffer), value) in targets.iter().zip(computed) {
                elements.store(kb, buffer, self.group.tensor(output), at, value);
            }
        });
    }
}
