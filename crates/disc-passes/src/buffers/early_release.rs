//! Ends frames before their block ends, once no later op needs their memory.
//!
//! Frames form a stack. Where a frame begins, the frames on top of the stack without a live
//! allocation end first, so that a model of many layers that each bind a dim from data takes the
//! memory of one layer.
//!
//! Invariant: only frames of one block end each other; the first frame, from which kernels take
//! task memory, ends with the call.
use super::{frames::Frames, liveness::root};
use disc_ir::{Block, Builder, DType, Function, Inst, OpKind, Solver, Type, Value};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Ends frames where another one begins.
pub(super) fn end_frames(host: &mut Function, frames: &Frames, solver: &Arc<Solver>) {
    let arenas: HashSet<Inst> = (1..frames.count()).filter_map(|frame| host.defining(frames.arena(frame))).collect();
    let mut blocks = vec![host.body];
    while let Some(block) = blocks.pop() {
        let regions = host.insts(block).iter().filter(|&&inst| host.kind_of(inst) != OpKind::Fusion);
        blocks.extend(regions.flat_map(|&inst| host.inst(inst).regions.clone()));
        end_frames_of(host, block, &arenas, solver);
    }
}

fn end_frames_of(host: &mut Function, block: Block, arenas: &HashSet<Inst>, solver: &Arc<Solver>) {
    let insts = host.insts(block).to_vec();
    let mut last_uses: HashMap<Inst, usize> = HashMap::new();
    for (position, &inst) in insts.iter().enumerate() {
        used_arenas(host, inst, &mut |arena| {
            last_uses.insert(arena, position);
        });
    }
    let (mut stack, mut ended) = (Vec::new(), HashMap::new());
    for (position, &inst) in insts.iter().enumerate().filter(|(_, inst)| arenas.contains(inst)) {
        let is_over = |arena: &Inst| last_uses.get(arena).is_none_or(|&last| last < position);
        while let Some(arena) = stack.pop_if(|arena| is_over(arena)) {
            ended.insert(inst, arena);
        }
        stack.push(inst);
    }
    if ended.is_empty() {
        return;
    }
    let mut mark_of: HashMap<Inst, Value> = HashMap::new();
    let mut made = Vec::with_capacity(insts.len() + 2 * ended.len());
    for inst in insts {
        if let Some(first) = ended.get(&inst) {
            made.push(add(host, block, solver, OpKind::Release, &[mark_of[first]]).0);
        }
        if ended.values().any(|&first| first == inst) {
            let (mark, value) = add(host, block, solver, OpKind::Mark, &[]);
            made.push(mark);
            mark_of.insert(inst, value.expect("a mark is a value"));
        }
        made.push(inst);
    }
    host.set_insts(block, made);
}

/// Calls `visit` for the arena of each allocation that an op or its regions use. A view is no use.
fn used_arenas(host: &Function, inst: Inst, visit: &mut impl FnMut(Inst)) {
    if matches!(host.kind_of(inst), OpKind::View | OpKind::Alloc) {
        return;
    }
    for &operand in host.operands(inst) {
        let part = host.defining(root(host, operand)).filter(|&part| host.kind_of(part) == OpKind::Alloc);
        part.and_then(|part| host.defining(host.operands(part)[0])).into_iter().for_each(&mut *visit);
    }
    if host.kind_of(inst) != OpKind::Fusion {
        host.inst(inst).regions.iter().flat_map(|&region| host.insts(region)).for_each(|&inner| used_arenas(host, inner, visit));
    }
}

/// Makes an op that is in no block yet; returns it and its result.
fn add(host: &mut Function, block: Block, solver: &Arc<Solver>, kind: OpKind, operands: &[Value]) -> (Inst, Option<Value>) {
    let before = host.insts(block).to_vec();
    let results = if kind == OpKind::Mark { vec![Type::scalar(DType::I64)] } else { Vec::new() };
    let built = Builder::at(host, block, solver.clone()).op(kind).operands(operands).results(results).build();
    let inst = built.expect("a mark, or its release");
    host.set_insts(block, before);
    (inst, host.results_of(inst).first().copied())
}
