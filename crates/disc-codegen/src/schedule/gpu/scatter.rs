//! Schedules scatters on a grid: the inputs are copied, then each thread applies, in their order,
//! the updates that go to its elements.
//!
//! Neighbouring threads have neighbouring elements of an update, which go to separate positions.
//! Updates at different positions that may meet are shared out by where they go: each thread looks
//! at all of them and applies its own. So results are those of the order of the op.
//!
//! Positions have 64 bits, as data may name any.
use super::frame::{GridFrame, grid_of};
use crate::{
    kernel::{Index, OpenFor},
    schedule::{
        Argument, Group, Scheduled, Versioned,
        common::iteration_space::{Merged, place_unit, positions_of},
        cpu::Scatter,
    },
};
use disc_ir::{Attr, DType, Dim, Inst, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

/// The threads that share the updates of each element that is separate from the others: a power of
/// two.
const SHARES: i64 = 32;
/// The threads that share all updates, if no element is separate: a power of two.
const SHARES_OF_ALL: i64 = 256;

pub(super) fn versions(group: &Group<'_>, inst: Inst) -> Versioned {
    let group = Group { index_type: DType::I64, ..group.clone() };
    let mut all = copy(&group, inst);
    all.append_of(&group, |group| apply(group, inst));
    all.into()
}

fn frame<'g>(group: &Group<'g>, name: &str) -> GridFrame<'g> {
    let named = Group { name: name.into(), ..group.clone() };
    GridFrame::new(&named, 1, grid_of(group.target))
}

/// Writes the kernel that copies the inputs.
fn copy(group: &Group<'_>, inst: Inst) -> Scheduled {
    let frame = frame(group, &format!("{}_copy", group.name));
    let scatter = Scatter::of(group, inst);
    let inputs = group.function.operands(inst)[..scatter.results.len()].iter().copied();
    let results = scatter.results.iter();
    let pairs: Vec<(Value, Value)> =
        results.zip(inputs).filter_map(|(&result, input)| Some((frame.target_of(result)?, input))).collect();
    let source = |input: Value| frame.memory.sources.iter().find(|(known, _)| *known == input).map(|found| found.1);
    let argument = |buffer: Value| -> Argument {
        let position = frame.memory.pairs().position(|(_, known)| known == buffer).expect("memory of the kernel");
        frame.memory.arguments[position]
    };
    let sources: Option<Vec<Value>> = pairs.iter().map(|&(_, input)| source(input)).collect();
    let copied = sources.iter().flatten().zip(&pairs);
    let copies = copied.map(|(&from, &(to, _))| (argument(from), argument(to))).collect();
    let count = Dim::product(scatter.shape.iter().cloned());
    let mut code = frame.each(&count, |frame, number| {
        let GridFrame { kb, elements, .. } = frame;
        if let Some(sources) = &sources {
            for (&(target, _), &source) in pairs.iter().zip(sources) {
                let moved = kb.load(source, number, 1, None);
                kb.store(target, number, moved, None);
            }
            return;
        }
        let mut at = vec![Index::uniform(number); scatter.shape.len()];
        place_unit(kb, number, &Merged::each(&scatter.shape), &mut at);
        for &(target, input) in &pairs {
            let value = elements.element(kb, input, &at);
            elements.store(kb, target, group.tensor(input), &at, value);
        }
    });
    code.launches[0].copies = copies;
    code
}

/// Writes the kernel that applies the updates.
fn apply(group: &Group<'_>, inst: Inst) -> Scheduled {
    let frame = frame(group, &group.name);
    let scatter = Scatter::of(group, inst);
    let is_unique = matches!(group.function.attr(inst, "unique_indices"), Some(Attr::Bool(true)));
    let are_apart = scatter.places.are_apart();
    let is_own = |dim: usize| is_unique || are_apart && scatter.places.is_own(dim);
    let (own, ordered): (Vec<usize>, Vec<usize>) = (0..scatter.update_shape.len()).partition(|&dim| is_own(dim));
    let size = |dims: &[usize]| Dim::product(dims.iter().map(|&dim| scatter.update_shape[dim].clone()));
    let shares = match own.is_empty() {
        _ if size(&ordered).is_const(1) => 1,
        true => SHARES_OF_ALL,
        false => SHARES,
    };
    let runs: Vec<Merged> = [Merged { size: Dim::constant(shares), axis: 0 }]
        .into_iter()
        .chain(own.iter().map(|&axis| Merged { size: scatter.update_shape[axis].clone(), axis }))
        .collect();
    // Updates of one share never meet those of another: they go to other positions along these
    // dimensions.
    let separates = |axis: &usize| !are_apart || scatter.places.dropped.contains(axis);
    let axes: Vec<usize> = (0..scatter.shape.len()).filter(separates).collect();
    frame.each(&(size(&own) * shares), |frame, number| {
        let kb = &mut frame.kb;
        let mut at = vec![Index::uniform(kb.int(0)); scatter.update_shape.len()];
        let places = positions_of(kb, number, &runs);
        own.iter().zip(&places[1..]).for_each(|(&axis, &place)| at[axis] = Index::uniform(place));
        let mut loops: Vec<OpenFor> = Vec::new();
        for &dim in &ordered {
            let kb = &mut frame.kb;
            let bounds = [kb.int(0), kb.dim(&scatter.update_shape[dim]), kb.int(1)];
            let open = kb.open_for(bounds);
            at[dim] = Index::uniform(open.index);
            loops.push(open);
            frame.elements.open_scope();
        }
        apply_one(frame, group, &scatter, &at, (shares, places[0], &axes));
        for open in loops.into_iter().rev() {
            frame.elements.close_scope();
            frame.kb.close_for(open);
        }
    })
}

/// Applies the element of the updates at a position, if it is of this share.
fn apply_one(
    frame: &mut GridFrame<'_>,
    group: &Group<'_>,
    scatter: &Scatter<'_, '_>,
    at: &[Index],
    (shares, share, axes): (i64, Value, &[usize]),
) {
    let targets: Vec<Option<Value>> = scatter.results.iter().map(|&result| frame.target_of(result)).collect();
    let GridFrame { kb, elements, .. } = frame;
    let (position, mut applies) = scatter.position(kb, elements, at);
    // An update that is computed is so even without a position: it may check an index.
    for &update in scatter.updates.iter().filter(|update| !group.inputs().contains(update)) {
        elements.element(kb, update, at);
    }
    if shares > 1 {
        let mut number = kb.int(0);
        for &axis in axes {
            let (size, here) = (kb.dim(&scatter.shape[axis]), position[axis].value(kb, 1));
            number = expr!(kb, number * size + here);
        }
        applies = expr!(kb, applies & ((number & int(shares - 1)) == share));
    }
    kb.when(applies, |kb| {
        elements.scoped(|elements| scatter.combine(kb, elements, &targets, at, &position));
    });
}
