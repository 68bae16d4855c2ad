//! Stores results into the inputs that are their destinations, in place where that is proved.
//!
//! The planner first computes each such result in memory of its own, and copies it to the input at
//! the end of the program: an error on the way leaves the input as it was. Then the memory of a
//! result and of its input become one, if nobody can tell: a group that updates a part of the input
//! writes only that part, and one that computes each position from the same position overwrites it.
//!
//! Invariants:
//! - From the first write to an input on, only the group that writes reads its old value, and each
//!   position before it is written.
//! - An input is first written after the last check of a size or of an assertion.
//! - Of several stores, each reads what the inputs held before the first.
use super::{
    in_place::{may_overwrite, same_shape},
    liveness::root,
    planner::{Planner, global, index_zero},
};
use disc_ir::{Block, Builder, Diagnostic, Function, FusionKind, Inst, OpKind, Solver, Type, Value};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

impl Planner<'_> {
    /// Copies the results that are stored into inputs there, at the end of the program.
    pub(super) fn store_results(&mut self, body: Block) -> Result<(), Diagnostic> {
        let written = written(&self.host);
        let mut copies = Vec::new();
        for store in self.source.stores.clone() {
            let value = self.source.returned(self.source.body)[store.result];
            let (from, input) = (self.memory[&value], self.host.parameters()[store.parameter]);
            let held = root(&self.host, from);
            if held == input {
                continue;
            }
            let tensor = self.tensor(value);
            // The old value of an input that is written too.
            let from = if written.contains(&held) {
                let staged = self.allocate(body, &tensor)?;
                self.copy(body, from, staged)?;
                staged
            } else {
                from
            };
            copies.push((from, self.as_type(body, input, &tensor)?));
        }
        copies.into_iter().try_for_each(|(from, to)| self.copy(body, from, to))
    }
}

/// The inputs of a host program that it writes to.
fn written(host: &Function) -> HashSet<Value> {
    host.stores.iter().filter_map(|store| host.parameters().get(store.parameter).copied()).collect()
}

/// Merges temporary memory with the inputs that it is copied to at the end, or that it updates,
/// until none is left that may be.
pub(super) fn merge(host: &mut Function, solver: &Arc<Solver>) -> Result<(), Diagnostic> {
    if host.stores.is_empty() {
        return Ok(());
    }
    name_views_once(host, solver)?;
    // A merge may make others possible, but rarely: the search goes on after it, then over all.
    let (mut from, mut has_merged) = (0, false);
    loop {
        let Some((at, found)) = find(host, solver, from) else {
            if !std::mem::take(&mut has_merged) {
                return Ok(());
            }
            from = 0;
            continue;
        };
        has_merged = true;
        // The allocation and the copy are gone.
        from = at.saturating_sub(2);
        let view = view_of(host, found.input, found.temporary, solver)?;
        let kept = host.insts(host.body).iter().copied().filter(|&inst| Some(inst) != host.defining(found.temporary));
        let kept = kept.collect();
        host.set_insts(host.body, kept);
        host.replace_uses(&HashMap::from([(found.temporary, view)]));
        remove_copies_to_itself(host);
    }
}

/// Temporary memory, and the input that takes its place.
struct Merge {
    temporary: Value,
    input: Value,
}

/// Returns the first merge of a group that is at this position of the host program or after it,
/// with the group's position.
fn find(host: &Function, solver: &Solver, from: usize) -> Option<(usize, Merge)> {
    let (written, accesses) = (written(host), Accesses::of(host));
    let groups = host.insts(host.body).iter().enumerate().skip(from);
    for (at, &group) in groups.filter(|&(_, &inst)| host.kind_of(inst) == OpKind::Fusion) {
        let (read, outputs) = host.operands(group).split_at(inputs(host, group));
        for (result, &output) in outputs.iter().enumerate() {
            let input = root(host, output);
            if !written.contains(&input) {
                continue;
            }
            // Lists have many tensors, most of them given, or of other sizes.
            let moves = |&position: &usize| {
                let temporary = root(host, read[position]);
                is_temporary(host, temporary)
                    && fits(host, solver, temporary, input)
                    && may_move(host, solver, group, position, result)
            };
            let sources = (0..read.len()).filter(moves).map(|position| root(host, read[position]));
            let mut merges = sources.map(|temporary| Merge { temporary, input });
            if let Some(merge) = merges.find(|merge| is_safe(host, solver, merge, group, &accesses)) {
                return Some((at, merge));
            }
        }
    }
    None
}

/// Returns true if a group may write a result where it reads an input: it copies it, updates a part
/// of it, or computes each position from the same position.
fn may_move(host: &Function, solver: &Solver, group: Inst, read: usize, result: usize) -> bool {
    is_copy(host, group) || updates_part(host, solver, group, read, result) || may_overwrite(host, solver, group, read, result)
}

fn is_safe(host: &Function, solver: &Solver, merge: &Merge, group: Inst, accesses: &Accesses) -> bool {
    if !is_allocated_once(host, merge.temporary) || !is_known_early(host, merge.temporary) {
        return false;
    }
    let own = accesses.to(merge.temporary);
    let (Some(first), Some(last)) = (own.first(), own.last()) else { return false };
    let ends = last.inst == group && first.inst != group && first.position < last.position;
    // A store of the input itself is no read of its old value.
    let others = accesses.to(merge.input).iter().filter(|access| access.inst != group);
    let mut between = others.filter(|access| first.position <= access.position && access.position <= last.position);
    let overwrites = |at: &Access| at.position == first.position && writes_over(host, solver, first.inst, merge);
    let reads_input = host.operands(group)[..inputs(host, group)].iter().any(|&read| root(host, read) == merge.input);
    ends && !reads_input && first.position > accesses.last_check && between.all(overwrites)
}

/// Returns true if two buffers have as many elements of one type.
fn fits(host: &Function, solver: &Solver, a: Value, b: Value) -> bool {
    let (a, b) = (host.ty(a).shaped(), host.ty(b).shaped());
    a.zip(b).is_some_and(|(a, b)| a.dtype == b.dtype && solver.equal(&a.element_count(), &b.element_count()))
}

/// Returns true if a buffer is an allocation.
fn is_temporary(host: &Function, buffer: Value) -> bool {
    host.defining(buffer).is_some_and(|inst| host.kind_of(inst) == OpKind::Alloc)
}

/// Returns true if a buffer is an allocation outside of control flow.
fn is_allocated_once(host: &Function, buffer: Value) -> bool {
    is_temporary(host, buffer) && host.defining(buffer).is_some_and(|inst| host.insts(host.body).contains(&inst))
}

/// Returns true if a group reads the input, and may write there what it writes to the temporary
/// memory.
fn writes_over(host: &Function, solver: &Solver, group: Inst, merge: &Merge) -> bool {
    if host.kind_of(group) != OpKind::Fusion {
        return false;
    }
    let (read, outputs) = host.operands(group).split_at(inputs(host, group));
    let reads: Vec<usize> = (0..read.len()).filter(|&position| root(host, read[position]) == merge.input).collect();
    let results: Vec<usize> = (0..outputs.len()).filter(|&at| root(host, outputs[at]) == merge.temporary).collect();
    match (&reads[..], &results[..]) {
        (&[read], &[result]) => may_move(host, solver, group, read, result),
        _ => false,
    }
}

/// The number of operands of a group that it reads; it writes to the others.
fn inputs(host: &Function, group: Inst) -> usize {
    host.arguments(host.inst(group).regions[0]).len()
}

/// Returns true if a group copies one buffer to another.
fn is_copy(host: &Function, group: Inst) -> bool {
    let region = host.inst(group).regions[0];
    matches!((host.arguments(region), host.returned(region)), (&[from], &[to]) if from == to)
        && FusionKind::of(host, group) == Some(FusionKind::Pointwise)
}

/// Returns true if a result of a group is an input with a part of it replaced, and the group reads
/// that input for nothing else.
fn updates_part(host: &Function, solver: &Solver, group: Inst, read: usize, result: usize) -> bool {
    let region = host.inst(group).regions[0];
    let (inner, updated) = (host.arguments(region)[read], host.returned(region)[result]);
    let Some(inst) = host.defining(updated) else { return false };
    let kind = match host.kind_of(inst) {
        OpKind::DynamicUpdateSlice => FusionKind::Pointwise,
        OpKind::Scatter => FusionKind::Standalone,
        _ => return false,
    };
    let number = host.results_of(inst).iter().position(|&value| value == updated);
    let is_input = number.is_some_and(|number| host.operands(inst).get(number) == Some(&inner));
    let operands = host.operands(group);
    let (from, to) = (operands[read], operands[inputs(host, group) + result]);
    let memory = root(host, from);
    let only = operands[..inputs(host, group)].iter().filter(|&&other| root(host, other) == memory).count() == 1;
    let shape = |buffer: Value| host.ty(buffer).shaped().expect("a buffer");
    let alone = kind != FusionKind::Pointwise || host.returned(region).len() == 1;
    FusionKind::of(host, group) == Some(kind)
        && is_input
        && only
        && alone
        && host.ty(from).dtype() == host.ty(to).dtype()
        && same_shape(solver, shape(from), shape(to))
        && uses(host, region, inner) == 1
        && uses(host, region, updated) == 1
}

/// The number of times that the ops of a block read a value.
fn uses(host: &Function, block: Block, value: Value) -> usize {
    let operands = host.walk(block).into_iter().flat_map(|inst| host.operands(inst).to_vec());
    operands.filter(|&operand| operand == value).count()
}

/// Returns true if the sizes of a buffer are known when a call begins.
fn is_known_early(host: &Function, buffer: Value) -> bool {
    let late = host.data_dims();
    let tensor = host.ty(buffer).shaped().expect("a buffer");
    tensor.dims.iter().flat_map(disc_ir::Dim::symbols).all(|symbol| !late.contains(&symbol))
}

/// Gives each input one view of each shape, at the start of the program: an update in place reads
/// and writes one buffer.
fn name_views_once(host: &mut Function, solver: &Arc<Solver>) -> Result<(), Diagnostic> {
    let written = written(host);
    let mut replaced = HashMap::new();
    for inst in host.walk(host.body) {
        if host.kind_of(inst) == OpKind::View && written.contains(&root(host, host.result(inst))) {
            let (input, view) = (root(host, host.result(inst)), host.result(inst));
            if is_known_early(host, view) {
                replaced.insert(view, view_of(host, input, view, solver)?);
            }
        }
    }
    replaced.retain(|from, to| from != to);
    host.replace_uses(&replaced);
    let is_replaced = |host: &Function, inst: Inst| host.results_of(inst).iter().any(|value| replaced.contains_key(value));
    remove(host, is_replaced);
    Ok(())
}

/// The view of an input in the shape of another buffer, which the start of the program makes.
fn view_of(host: &mut Function, input: Value, like: Value, solver: &Arc<Solver>) -> Result<Value, Diagnostic> {
    let tensor = host.ty(like).shaped().expect("a buffer").clone();
    if host.ty(input).shaped() == Some(&tensor) {
        return Ok(input);
    }
    let body = host.body;
    let is_it = |&inst: &Inst| {
        host.kind_of(inst) == OpKind::View
            && host.operands(inst)[0] == input
            && host.ty(host.result(inst)).shaped() == Some(&tensor)
    };
    // Those at the start are before the first group.
    let start = host.insts(body).iter().copied().take_while(|&inst| is_start(host, inst));
    if let Some(known) = start.into_iter().find(is_it) {
        return Ok(host.result(known));
    }
    let before = host.insts(body).len();
    let ty: Type = global(tensor);
    let mut builder = Builder::at(host, body, solver.clone());
    let zero = index_zero(&mut builder)?;
    let view = builder.op(OpKind::View).operands(&[input, zero]).result(ty).value()?;
    let mut insts = host.insts(body).to_vec();
    let made = insts.len() - before;
    insts.rotate_right(made);
    host.set_insts(body, insts);
    Ok(view)
}

/// Returns true for the ops that make views of inputs at the start of a program.
fn is_start(host: &Function, inst: Inst) -> bool {
    matches!(host.kind_of(inst), OpKind::Constant | OpKind::View)
}

fn remove_copies_to_itself(host: &mut Function) {
    remove(host, |host, inst| {
        host.kind_of(inst) == OpKind::Fusion
            && is_copy(host, inst)
            && matches!(*host.operands(inst), [from, to] if root(host, from) == root(host, to))
    });
}

fn remove(host: &mut Function, is_removed: impl Fn(&Function, Inst) -> bool) {
    let mut blocks = vec![host.body];
    while let Some(block) = blocks.pop() {
        let insts = host.insts(block).to_vec();
        blocks.extend(insts.iter().filter(|&&i| host.kind_of(i) != OpKind::Fusion).flat_map(|&i| host.inst(i).regions.to_vec()));
        let kept = insts.into_iter().filter(|&inst| !is_removed(host, inst)).collect();
        host.set_insts(block, kept);
    }
}

/// An op that reads or writes memory, and its position in the order of the text.
#[derive(Clone, Copy, Debug)]
struct Access {
    position: usize,
    inst: Inst,
}

/// The accesses to each piece of memory in the order of the text; a loop accesses at its end once
/// more what its body accesses and does not allocate.
struct Accesses {
    to: HashMap<Value, Vec<Access>>,
    /// The position of the last op that checks something, and may end the call.
    last_check: usize,
}

impl Accesses {
    fn of(host: &Function) -> Self {
        let mut accesses = Self { to: HashMap::new(), last_check: 0 };
        let mut position = 0;
        accesses.block(host, host.body, &mut position);
        accesses
    }

    fn to(&self, memory: Value) -> &[Access] {
        self.to.get(&memory).map_or(&[], |accesses| accesses)
    }

    fn block(&mut self, host: &Function, block: Block, position: &mut usize) {
        for &inst in host.insts(block) {
            *position += 1;
            let kind = host.kind_of(inst);
            if matches!(kind, OpKind::Assert | OpKind::BindDim) {
                self.last_check = *position;
            }
            // A view is another name of its buffer.
            if kind != OpKind::View {
                for &operand in host.operands(inst) {
                    self.to.entry(root(host, operand)).or_default().push(Access { position: *position, inst });
                }
            }
            // The region of a group uses the operands of the group only.
            if kind == OpKind::Fusion {
                continue;
            }
            let start = *position;
            host.inst(inst).regions.iter().for_each(|&region| self.block(host, region, position));
            if kind == OpKind::While {
                *position += 1;
                let end = Access { position: *position, inst };
                let within = self.to.values_mut().filter(|list| list.last().is_some_and(|last| last.position > start));
                within.for_each(|list| list.push(end));
            }
        }
    }
}
