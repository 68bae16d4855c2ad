//! Reads scalars of a host program from memory of a device, as few times as possible: each read
//! waits for the device.
//!
//! A read joins an earlier one of its block if nothing runs on the device in between, and its
//! buffer exists there.
use disc_ir::{Block, Function, Inst, OpKind, Value, graph::InstData, ops::Trait};
use std::collections::{HashMap, HashSet};

/// Makes the loads of a host program fetches, and joins those of one place.
pub(super) fn fetch_scalars(host: &mut Function) {
    let mut replaced = HashMap::new();
    let body = host.body;
    block(host, body, &mut replaced);
    host.replace_uses(&replaced);
}

fn block(host: &mut Function, at: Block, replaced: &mut HashMap<Value, Value>) {
    let mut kept: Vec<Inst> = Vec::new();
    // The position of the last fetch, and the values that were computed after it.
    let mut open: Option<(usize, HashSet<Value>)> = None;
    for inst in host.insts(at).to_vec() {
        for region in host.inst(inst).regions.clone() {
            block(host, region, replaced);
        }
        if host.kind_of(inst) == OpKind::Load {
            let buffer = host.operands(inst)[0];
            match &open {
                Some((place, later)) if !later.contains(&buffer) => {
                    kept[*place] = joined(host, kept[*place], inst, replaced);
                }
                _ => {
                    open = Some((kept.len(), HashSet::new()));
                    kept.push(fetch(host, &[buffer], &[inst], replaced));
                }
            }
            continue;
        }
        let is_quiet = host.def(inst).has(Trait::Pure) && host.inst(inst).regions.is_empty();
        match &mut open {
            Some((_, later)) if is_quiet => later.extend(host.results_of(inst).iter().copied()),
            _ => open = None,
        }
        kept.push(inst);
    }
    host.set_insts(at, kept);
}

/// Returns a fetch of what another one reads, and of what a load reads.
fn joined(host: &mut Function, earlier: Inst, load: Inst, replaced: &mut HashMap<Value, Value>) -> Inst {
    let buffers: Vec<Value> = host.operands(earlier).iter().copied().chain([host.operands(load)[0]]).collect();
    fetch(host, &buffers, &[earlier, load], replaced)
}

/// Makes a fetch whose results stand for those of other ops.
fn fetch(host: &mut Function, buffers: &[Value], instead: &[Inst], replaced: &mut HashMap<Value, Value>) -> Inst {
    let old: Vec<Value> = instead.iter().flat_map(|&inst| host.results_of(inst).to_vec()).collect();
    let types: Vec<_> = old.iter().map(|&value| host.ty(value).clone()).collect();
    let mut data: InstData = host.inst(instead[0]).clone();
    data.kind = OpKind::Fetch;
    data.operands = buffers.iter().copied().collect();
    data.attrs.clear();
    let made = host.add_inst(data, types);
    let new = host.results_of(made).to_vec();
    for value in replaced.values_mut() {
        if let Some(position) = old.iter().position(|known| known == value) {
            *value = new[position];
        }
    }
    replaced.extend(old.into_iter().zip(new));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_one_place_are_one() {
        let text = "host @main(%a: buffer<i64>, %b: buffer<i1>, %c: buffer<i64>) {
          %zero = constant dense<0> : i64
          %holds = load %b[%zero] : (buffer<i1>, i64) -> i1
          %first = constant dense<0> : i64
          %n = load %a[%first] : (buffer<i64>, i64) -> i64
          assert %holds, %n, site = 1 : (i1, i64)
          %m = load %c[%zero] : (buffer<i64>, i64) -> i64
          bind_dim %m, dim = [M] : (i64)
          return
        }";
        let mut host = disc_ir::parse(text).unwrap_or_else(|errors| panic!("{}", errors[0])).functions.remove(0);
        fetch_scalars(&mut host);
        let text = host.to_string();
        assert_eq!(text.matches("= fetch ").count(), 2, "{text}");
        assert!(text.contains("fetch %b, %a : (buffer<i1>, buffer<i64>) -> (i1, i64)"), "{text}");
        assert!(!text.contains("load"), "{text}");
        disc_ir::parse(&text).unwrap_or_else(|errors| panic!("{}", errors[0]));
    }
}
