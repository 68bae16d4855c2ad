//! Scatter: the inputs are copied, then the updates are applied one after the other.
use super::Draft;
use crate::{
    index::Index,
    schedule::{
        Group, Scheduled,
        loops::{Merged, place_unit},
    },
};
use disc_ir::{Code, Dim, Inst, Value};
use disc_passes::query::Query;

/// Elements of a unit of the copy.
const CHUNK: i64 = 4096;

pub(super) fn schedule(group: &Group<'_>, inst: Inst) -> Scheduled {
    let mut all = copy(group, inst);
    let mut applied = apply(group, inst);
    all.kernels.append(&mut applied.kernels);
    all.launches.append(&mut applied.launches);
    all.sites.append(&mut applied.sites);
    all
}

fn copy(group: &Group<'_>, inst: Inst) -> Scheduled {
    let draft = Draft::new(group, &format!("{}_copy", group.name));
    let results = group.function.results_of(inst).to_vec();
    let shape = group.tensor(results[0]).dims.clone();
    let count = Dim::product(shape.iter().cloned());
    let runs: Vec<Merged> = shape.iter().enumerate().map(|(axis, size)| Merged { size: size.clone(), axis }).collect();
    draft.units(count.ceil_div(&Dim::constant(CHUNK)), count.clone(), |draft, unit| {
        let kb = &mut draft.kb;
        let (chunk, one, total) = (kb.int(CHUNK), kb.int(1), kb.dim(&count));
        let low = kb.mul(unit, chunk);
        let high = kb.add(low, chunk);
        let high = kb.map(disc_ir::OpKind::Minimum, &[high, total]);
        let each = kb.open_for([low, high, one]);
        let mut at = vec![Index::uniform(one); shape.len()];
        place_unit(kb, each.index, &runs, &mut at);
        for (i, &result) in results.iter().enumerate() {
            let value = draft.elements.element(&mut draft.kb, group.function.operands(inst)[i], &at);
            draft.store(group, result, &at, value);
        }
        draft.kb.close_for(each);
    })
}

fn apply(group: &Group<'_>, inst: Inst) -> Scheduled {
    let draft = Draft::new(group, &group.name);
    let operands = group.function.operands(inst).to_vec();
    let n = operands.len() / 2;
    let (inputs, indices, updates) = (&operands[..n], operands[n], &operands[n + 1..]);
    let places = Places::of(&draft, inst);
    let (shape, update_shape) = (group.tensor(inputs[0]).dims.clone(), group.tensor(updates[0]).dims.clone());
    let index_shape = group.tensor(indices).dims.clone();
    let results = group.function.results_of(inst).to_vec();
    let runs: Vec<Merged> = update_shape.iter().enumerate().map(|(axis, size)| Merged { size: size.clone(), axis }).collect();
    let count = Dim::product(update_shape.iter().cloned());
    draft.units(Dim::constant(1), count.clone() * 4, |draft, _| {
        let (zero, one) = (draft.kb.int(0), draft.kb.int(1));
        let total = draft.kb.dim(&count);
        let each = draft.kb.open_for([zero, total, one]);
        let mut at = vec![Index::uniform(zero); update_shape.len()];
        place_unit(&mut draft.kb, each.index, &runs, &mut at);
        let (position, inside) = places.position(draft, inst, indices, &index_shape, &shape, &at);
        let branch = draft.kb.open_if(inside);
        let mut arguments = Vec::new();
        let mut wanted = Vec::new();
        for (&result, &input) in results.iter().zip(inputs) {
            // A result that nobody wants is still needed where the body mixes several: it stays what the input was.
            let now = match draft.target(result) {
                Some(buffer) => draft.elements.load(&mut draft.kb, buffer, group.tensor(result), &position),
                None => draft.elements.element(&mut draft.kb, input, &position),
            };
            arguments.push(now);
            wanted.push(result);
        }
        for &update in updates {
            arguments.push(draft.elements.element(&mut draft.kb, update, &at));
        }
        let body = group.function.inst(inst).regions[0];
        let combined = draft.elements.inline(&mut draft.kb, body, &arguments);
        for (&result, value) in wanted.iter().zip(combined) {
            draft.store(group, result, &position, value);
        }
        draft.kb.close_if(branch);
        draft.kb.close_for(each);
    })
}

/// The dimension numbers of a scatter.
struct Places {
    window: Vec<usize>,
    dropped: Vec<usize>,
    batching: Vec<usize>,
    index_batching: Vec<usize>,
    named: Vec<usize>,
    vector_dim: usize,
}

impl Places {
    fn of(draft: &Draft<'_>, inst: Inst) -> Self {
        let axes = |name| draft.elements.group.axes(inst, name);
        let batching = axes("input_batching_dims");
        Self {
            window: axes("update_window_dims"),
            dropped: axes("inserted_window_dims").into_iter().chain(batching.iter().copied()).collect(),
            batching,
            index_batching: axes("scatter_indices_batching_dims"),
            named: axes("scatter_dims_to_operand_dims"),
            vector_dim: draft.elements.group.int(inst, "index_vector_dim") as usize,
        }
    }

    /// Where the update at `at` goes, and whether that is inside of the inputs.
    fn position(
        &self,
        draft: &mut Draft<'_>,
        inst: Inst,
        indices: Value,
        index_shape: &[Dim],
        shape: &[Dim],
        at: &[Index],
    ) -> (Vec<Index>, Value) {
        let zero = draft.kb.int(0);
        let batch: Vec<Index> = (0..at.len()).filter(|d| !self.window.contains(d)).map(|d| at[d]).collect();
        let mut position = vec![Index::uniform(zero); shape.len()];
        let kept = (0..shape.len()).filter(|d| !self.dropped.contains(d));
        for (axis, &d) in kept.zip(&self.window) {
            position[axis] = at[d];
        }
        for (&axis, &d) in self.batching.iter().zip(&self.index_batching) {
            position[axis] = batch[if d > self.vector_dim { d - 1 } else { d }];
        }
        let checked = draft.elements.group.word(inst, "bounds") == "check";
        let mut inside: Option<Value> = None;
        for (k, &axis) in self.named.iter().enumerate() {
            let mut from = batch.clone();
            if self.vector_dim < index_shape.len() {
                from.insert(self.vector_dim, Index::uniform(draft.kb.int(k as i64)));
            }
            let start = draft.elements.element(&mut draft.kb, indices, &from);
            let start = crate::element::signed_index(&mut draft.kb, start);
            let start = Index::from_value(&mut draft.kb, start);
            position[axis] = position[axis].add(&mut draft.kb, 1, start);
            let kb = &mut draft.kb;
            let here = position[axis].value(kb, 1);
            let limit = kb.dim(&shape[axis]);
            let (after, before) = (kb.compare("GE", here, zero), kb.compare("LT", here, limit));
            let fits = kb.and(after, before);
            if checked {
                let site = draft.elements.site(inst, Code::E0603, "index {0} is out of range for a size of {1}");
                draft.kb.assert(fits, &[here, limit], site);
            }
            inside = Some(match inside {
                Some(others) => draft.kb.and(others, fits),
                None => fits,
            });
        }
        let always = draft.kb.constant(disc_ir::Literal::splat_i64(disc_ir::DType::I1, 1), 1);
        (position, inside.unwrap_or(always))
    }
}
