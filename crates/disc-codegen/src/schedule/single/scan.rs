//! Running combinations: one line after the other, each in order.
use super::{Draft, flag, lines};
use crate::{
    index::Index,
    schedule::{Group, Scheduled, loops::place_unit},
};
use disc_ir::{Dim, Inst, Value};
use disc_passes::query::Query;

pub(super) fn schedule(group: &Group<'_>, inst: Inst) -> Scheduled {
    let draft = Draft::new(group, &group.name);
    let operands = group.function.operands(inst).to_vec();
    let (inputs, inits) = operands.split_at(operands.len() / 2);
    let shape = group.tensor(inputs[0]).dims.clone();
    let axis = draft.elements.group.int(inst, "dim") as usize;
    let runs = lines(&shape, axis);
    let units = Dim::product(runs.iter().map(|run| run.size.clone()));
    let cost = Dim::product(shape.iter().cloned()) * 2;
    draft.units(units, cost, |draft, unit| {
        let zero = Index::uniform(draft.kb.int(0));
        let mut at = vec![zero; shape.len()];
        place_unit(&mut draft.kb, unit, &runs, &mut at);
        let start: Vec<Value> = inits.iter().map(|&init| draft.elements.element(&mut draft.kb, init, &[])).collect();
        let size = draft.kb.dim(&shape[axis]);
        let (low, one) = (draft.kb.int(0), draft.kb.int(1));
        let body = group.function.inst(inst).regions[0];
        let mut step = draft.kb.open_for_carrying([low, size, one], &start);
        let position = match flag(&draft.elements, inst, "reverse", false) {
            true => {
                let last = draft.kb.sub(size, one);
                draft.kb.sub(last, step.index)
            }
            false => step.index,
        };
        at[axis] = Index::uniform(position);
        let mut arguments = step.carried.clone();
        for &input in inputs {
            arguments.push(draft.elements.element(&mut draft.kb, input, &at));
        }
        let combined = draft.elements.inline(&mut draft.kb, body, &arguments);
        for (&result, &value) in group.function.results_of(inst).iter().zip(&combined) {
            draft.store(group, result, &at, value);
        }
        step.next = combined;
        draft.kb.close_for(step);
    })
}
