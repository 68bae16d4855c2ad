//! Writing the groups into the block, as `fusion` ops.
//!
//! Invariant: a value that leaves a group is a result of its op; everything else of the group is seen by its region only.
use super::{
    grouping::Group,
    legality::{Role, role},
};
use disc_ir::{Attr, Block, Builder, Diagnostic, Function, Inst, OpKind, Solver, Type, Value, ops::Trait};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
    sync::Arc,
};

/// Something that stays in the block: a group, or an op without one.
struct Node {
    group: Option<Group>,
    insts: Vec<Inst>,
    /// Where its first op was; decides among nodes that are ready.
    position: usize,
}

/// Replaces the ops of `block` by one `fusion` op per group, in an order that respects what each needs.
pub(super) fn rewrite(function: &mut Function, block: Block, groups: Vec<Group>, solver: &Arc<Solver>) -> Result<(), Diagnostic> {
    let old = function.insts(block).to_vec();
    let positions: HashMap<Inst, usize> = old.iter().enumerate().map(|(i, &inst)| (inst, i)).collect();
    let free: HashSet<Inst> = old.iter().copied().filter(|&i| role(function, solver, i) == Role::Free).collect();
    let mut nodes = Vec::new();
    let mut node_of: HashMap<Inst, usize> = HashMap::new();
    let mut add = |insts: Vec<Inst>, group: Option<Group>, node_of: &mut HashMap<Inst, usize>| {
        let position = insts.iter().map(|i| positions[i]).max().unwrap_or(0);
        node_of.extend(insts.iter().map(|&i| (i, nodes.len())));
        nodes.push(Node { group, insts, position });
    };
    for group in groups {
        add(group.insts.clone(), Some(group), &mut node_of);
    }
    for &inst in &old {
        if !free.contains(&inst) && !node_of.contains_key(&inst) {
            add(vec![inst], None, &mut node_of);
        }
    }
    // A free op that something outside of groups reads has to be computed: it becomes a group.
    let read_in_memory: HashSet<Value> =
        nodes.iter().filter(|n| n.group.is_none()).flat_map(|n| uses(function, n.insts[0])).collect();
    for &inst in &old {
        if free.contains(&inst) && function.results_of(inst).iter().any(|r| read_in_memory.contains(r)) {
            let group = Group { kind: "loop", insts: vec![inst] };
            let position = positions[&inst];
            node_of.insert(inst, nodes.len());
            nodes.push(Node { group: Some(group), insts: vec![inst], position });
        }
    }
    let order = order(function, &nodes, &node_of, &free);
    write(function, block, nodes, &order, &free, solver)
}

/// The values that an op uses, those of its regions included.
fn uses(function: &Function, inst: Inst) -> Vec<Value> {
    let mut found = function.operands(inst).to_vec();
    for &region in &function.inst(inst).regions {
        found.extend(function.walk(region).into_iter().flat_map(|inner| function.operands(inner).to_vec()));
    }
    found
}

/// The nodes in an order that respects what each needs; among those that are ready, the earliest in the program.
fn order(function: &Function, nodes: &[Node], node_of: &HashMap<Inst, usize>, free: &HashSet<Inst>) -> Vec<usize> {
    let mut needs: Vec<HashSet<usize>> = vec![HashSet::new(); nodes.len()];
    let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (n, node) in nodes.iter().enumerate() {
        let mut stack: Vec<Value> = node.insts.iter().flat_map(|&i| uses(function, i)).collect();
        let mut seen = HashSet::new();
        while let Some(value) = stack.pop() {
            let Some(inst) = function.defining(value).filter(|&i| seen.insert(i)) else { continue };
            match node_of.get(&inst) {
                // A materialised free op is copied into groups all the same; only what reads memory waits for it.
                Some(&source) if source != n && (!free.contains(&inst) || node.group.is_none()) => {
                    if needs[n].insert(source) {
                        needed_by[source].push(n);
                    }
                }
                Some(&source) if source == n && !free.contains(&inst) => {}
                _ => stack.extend(function.operands(inst)),
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<(usize, usize)>> =
        (0..nodes.len()).filter(|&n| needs[n].is_empty()).map(|n| Reverse((nodes[n].position, n))).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse((_, n))) = ready.pop() {
        order.push(n);
        for &next in &needed_by[n] {
            needs[next].remove(&n);
            if needs[next].is_empty() {
                ready.push(Reverse((nodes[next].position, next)));
            }
        }
    }
    assert_eq!(order.len(), nodes.len(), "groups form no cycle");
    order
}

fn write(
    function: &mut Function,
    block: Block,
    nodes: Vec<Node>,
    order: &[usize],
    free: &HashSet<Inst>,
    solver: &Arc<Solver>,
) -> Result<(), Diagnostic> {
    let source = function.clone();
    let leaving = leaving(&source, &nodes, free);
    let mut replaced: HashMap<Value, Value> = HashMap::new();
    function.set_insts(block, Vec::new());
    for &n in order {
        let node = &nodes[n];
        let Some(group) = &node.group else {
            function.append(block, node.insts[0]);
            continue;
        };
        let mut copy = Copy {
            source: &source,
            free,
            inputs: Vec::new(),
            sequence: Vec::new(),
            seen: HashSet::new(),
            members: node.insts.iter().copied().collect(),
        };
        node.insts.iter().for_each(|&inst| copy.visit(inst));
        let outputs: Vec<Value> =
            node.insts.iter().flat_map(|&i| source.results_of(i)).copied().filter(|v| leaving.contains(v)).collect();
        if outputs.is_empty() {
            continue;
        }
        let region = function.add_block();
        let mut map: HashMap<Value, Value> = HashMap::new();
        for &input in &copy.inputs {
            let argument = function.add_argument(region, source.ty(input).clone());
            if let Some(name) = source.name_of(input) {
                function.set_name(argument, name.clone());
            }
            map.insert(input, argument);
        }
        for &inst in &copy.sequence {
            let made = function.import(&source, inst, &mut map);
            function.append(region, made);
        }
        let inputs: Vec<Value> = copy.inputs.iter().map(|v| replaced.get(v).copied().unwrap_or(*v)).collect();
        let returned: Vec<Value> = outputs.iter().map(|v| map[v]).collect();
        Builder::at(function, region, solver.clone()).ret(&returned)?;
        let types: Vec<Type> = outputs.iter().map(|&v| source.ty(v).clone()).collect();
        let mut builder = Builder::at(function, block, solver.clone());
        let fused = builder
            .op(OpKind::Fusion)
            .operands(&inputs)
            .attr("kind", Attr::Enum(group.kind))
            .region(region)
            .results(types)
            .build()?;
        for (position, &output) in outputs.iter().enumerate() {
            let result = function.results_of(fused)[position];
            if let Some(name) = source.name_of(output) {
                function.set_name(result, name.clone());
            }
            replaced.insert(output, result);
        }
    }
    function.replace_uses(&replaced);
    Ok(())
}

/// The values of groups that others read, and those of ops that may fail: what fails has to be computed.
fn leaving(function: &Function, nodes: &[Node], free: &HashSet<Inst>) -> HashSet<Value> {
    let mut found = HashSet::new();
    let uses_of = function.use_counts();
    for &inst in nodes.iter().flat_map(|n| &n.insts).filter(|&&i| function.def(i).has(Trait::MayFail)) {
        found.extend(function.results_of(inst).iter().copied().filter(|r| uses_of[r.index()] == 0));
    }
    for node in nodes {
        let members: HashSet<Inst> = node.insts.iter().copied().collect();
        let mut stack: Vec<Value> = node.insts.iter().flat_map(|&i| uses(function, i)).collect();
        let mut seen = HashSet::new();
        while let Some(value) = stack.pop() {
            let Some(inst) = function.defining(value) else { continue };
            if members.contains(&inst) {
                continue;
            }
            match free.contains(&inst) {
                // Groups copy free ops and so read what those read; other ops read their result itself.
                true if node.group.is_some() => {
                    if seen.insert(inst) {
                        stack.extend(function.operands(inst));
                    }
                }
                _ => {
                    found.insert(value);
                }
            }
        }
    }
    found
}

/// What a group's region holds: its members, and copies of the free ops that they need.
struct Copy<'f> {
    source: &'f Function,
    free: &'f HashSet<Inst>,
    members: HashSet<Inst>,
    inputs: Vec<Value>,
    sequence: Vec<Inst>,
    seen: HashSet<Inst>,
}

impl Copy<'_> {
    fn visit(&mut self, inst: Inst) {
        if !self.seen.insert(inst) {
            return;
        }
        for value in uses(self.source, inst) {
            if self.is_inner(inst, value) {
                continue;
            }
            match self.source.defining(value) {
                Some(source) if self.members.contains(&source) || self.free.contains(&source) => self.visit(source),
                _ if !self.inputs.contains(&value) => self.inputs.push(value),
                _ => {}
            }
        }
        self.sequence.push(inst);
    }

    /// Whether a value belongs to a region of `inst`.
    fn is_inner(&self, inst: Inst, value: Value) -> bool {
        let inside = |&region: &Block| {
            self.source.arguments(region).contains(&value)
                || self.source.walk(region).iter().any(|&i| self.source.results_of(i).contains(&value))
        };
        self.source.inst(inst).regions.iter().any(inside)
    }
}
