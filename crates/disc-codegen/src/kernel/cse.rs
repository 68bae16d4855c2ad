//! Computes equal things once, branches of pure ops among them, and drops unused ones.
use disc_ir::{Attr, Block, Function, Inst, OpKind, Type, Value, fragment::is_tile_register, ops::Trait};
use std::{collections::HashMap, fmt::Write};

/// The key by which two pure ops are equal. Attributes are compared by their debug text, which
/// shows every bit of them but NaN payloads of literals, whose bytes it shows.
type Key = (OpKind, Vec<Value>, String, Vec<Type>);

pub(super) fn run(kernel: &mut Function) {
    let mut replaced = HashMap::new();
    let mut scopes = vec![HashMap::new()];
    let body = kernel.body;
    block(kernel, body, &mut scopes, &mut replaced);
    kernel.replace_uses(&replaced);
}

fn block(kernel: &mut Function, at: Block, scopes: &mut Vec<HashMap<Key, Inst>>, replaced: &mut HashMap<Value, Value>) {
    let mut kept = Vec::new();
    for inst in kernel.insts(at).to_vec() {
        for region in kernel.inst(inst).regions.clone() {
            scopes.push(HashMap::new());
            block(kernel, region, scopes, replaced);
            scopes.pop();
        }
        let Some(meaning) = meaning(kernel, inst, replaced) else {
            kept.push(inst);
            continue;
        };
        let data = kernel.inst(inst);
        let operands: Vec<Value> = data.operands.iter().map(|v| replaced.get(v).copied().unwrap_or(*v)).collect();
        let types = data.results.iter().map(|&r| kernel.ty(r).clone()).collect();
        let key = (data.kind, operands, meaning, types);
        if let Some(&earlier) = scopes.iter().find_map(|scope| scope.get(&key)) {
            for (&old, &new) in kernel.results_of(inst).iter().zip(kernel.results_of(earlier)) {
                replaced.insert(old, new);
            }
        } else {
            scopes.last_mut().expect("the outermost scope").insert(key, inst);
            kept.push(inst);
        }
    }
    kernel.set_insts(at, kept);
}

/// The meaning of an op on its operands, as text; `None` for one that is not pure.
fn meaning(kernel: &Function, inst: Inst, replaced: &HashMap<Value, Value>) -> Option<String> {
    let data = kernel.inst(inst);
    match data.kind {
        OpKind::If => {
            let mut found = String::new();
            data.regions.iter().try_for_each(|&region| branch(kernel, region, replaced, &mut found))?;
            Some(found)
        }
        // Each is memory of its own, or a register that would have to be copied.
        OpKind::Scratch | OpKind::Shared => None,
        OpKind::Constant if is_tile_register(kernel.ty(kernel.result(inst))) => None,
        kind if kind.def().has(Trait::Pure) && data.regions.is_empty() => Some(text(&data.attrs)),
        _ => None,
    }
}

/// Adds the meaning of a branch of pure ops: its own values by their numbers, others by themselves.
fn branch(kernel: &Function, region: Block, replaced: &HashMap<Value, Value>, found: &mut String) -> Option<()> {
    let mut own: HashMap<Value, usize> = HashMap::new();
    for &inst in kernel.insts(region) {
        let data = kernel.inst(inst);
        let is_end = data.kind == OpKind::Return;
        if !data.regions.is_empty()
            || !is_end && (!data.kind.def().has(Trait::Pure) || matches!(data.kind, OpKind::Scratch | OpKind::Shared))
        {
            return None;
        }
        write!(found, "{:?}{}(", data.kind, text(&data.attrs)).expect("writing to a string");
        for operand in &data.operands {
            let operand = replaced.get(operand).unwrap_or(operand);
            let known = own.get(operand).map_or_else(|| format!("{operand:?}"), |number| format!("own {number}"));
            write!(found, "{known},").expect("writing to a string");
        }
        for &result in &data.results {
            own.insert(result, own.len());
            write!(found, "){:?}", kernel.ty(result)).expect("writing to a string");
        }
    }
    found.push(';');
    Some(())
}

fn text(attrs: &[Option<Attr>]) -> String {
    if attrs.is_empty() { String::new() } else { format!("{attrs:?}") }
}

/// Drops pure ops and loads whose results are not used.
pub(super) fn remove_unused(kernel: &mut Function) {
    let mut uses = kernel.use_counts();
    let body = kernel.body;
    sweep(kernel, body, &mut uses);
}

fn sweep(kernel: &mut Function, at: Block, uses: &mut [u32]) {
    let mut kept = Vec::new();
    for inst in kernel.insts(at).to_vec().into_iter().rev() {
        let def = kernel.def(inst);
        let droppable = (def.has(Trait::Pure) || def.has(Trait::Reads)) && kernel.inst(inst).regions.is_empty();
        if droppable && kernel.results_of(inst).iter().all(|r| uses[r.index()] == 0) {
            kernel.operands(inst).iter().for_each(|o| uses[o.index()] -= 1);
            continue;
        }
        for region in kernel.inst(inst).regions.clone() {
            sweep(kernel, region, uses);
        }
        kept.push(inst);
    }
    kept.reverse();
    kernel.set_insts(at, kept);
}
