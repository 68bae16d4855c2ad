//! Writes the groups into the block as `fusion` ops.
//!
//! Invariants: a value that leaves a group is a result of its op; only the region sees the others.
//! A free op that an op outside of groups reads becomes a group; a view that only groups read,
//! which compute through it, is dropped.
use super::{
    binders::Binders,
    form::views_member,
    grouping::Group,
    legality::{Role, roles},
    plan,
};
use disc_ir::{Block, Builder, Diagnostic, Function, FusionKind, Inst, OpKind, Solver, Type, Value, ops::Trait};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
    sync::Arc,
};

/// A node of the new block: a group, or an op without one.
struct Node {
    kind: Option<FusionKind>,
    /// The members of a group, or the one op.
    insts: Vec<Inst>,
    /// The values it reads: for a group, the inputs of its region.
    inputs: Vec<Value>,
    /// The ops of a group's region: its members, and copies of the free ops and views that they
    /// need.
    sequence: Vec<Inst>,
    /// The position of its last op.
    position: usize,
}

/// Replaces the ops of `block` by one `fusion` op per group, in dependence order.
pub(super) fn rewrite(function: &mut Function, block: Block, groups: Vec<Group>, solver: &Arc<Solver>) -> Result<(), Diagnostic> {
    let source = function.clone();
    let old = source.insts(block).to_vec();
    let roles = roles(&source, solver, block);
    let mut plan = Plan {
        source: &source,
        positions: old.iter().enumerate().map(|(i, &inst)| (inst, i)).collect(),
        roles: &roles,
        binders: Binders::of_block(&source, block),
        nodes: Vec::new(),
        maker: HashMap::new(),
        read: HashSet::new(),
    };
    groups.into_iter().for_each(|group| plan.add_group(group.kind, group.insts));
    for &inst in old.iter().filter(|&inst| roles[inst] == Role::Outside) {
        plan.add(Node { kind: None, insts: vec![inst], inputs: uses(&source, inst), sequence: Vec::new(), position: 0 });
    }
    plan.read_all();
    let order = plan.order();
    plan.write(function, block, &order, solver)
}

/// The values that an op and its regions use.
fn uses(function: &Function, inst: Inst) -> Vec<Value> {
    let mut found = function.operands(inst).to_vec();
    for &region in &function.inst(inst).regions {
        found.extend(function.walk(region).into_iter().flat_map(|inner| function.operands(inner).to_vec()));
    }
    found
}

struct Plan<'f> {
    source: &'f Function,
    positions: HashMap<Inst, usize>,
    roles: &'f HashMap<Inst, Role>,
    binders: Binders,
    nodes: Vec<Node>,
    /// The node that computes an op's results for other nodes.
    maker: HashMap<Inst, usize>,
    /// The values that nodes read.
    read: HashSet<Value>,
}

impl Plan<'_> {
    fn add(&mut self, mut node: Node) {
        node.position = node.insts.iter().map(|i| self.positions[i]).max().unwrap_or(0);
        self.maker.extend(node.insts.iter().map(|&inst| (inst, self.nodes.len())));
        self.nodes.push(node);
    }

    fn add_group(&mut self, kind: FusionKind, insts: Vec<Inst>) {
        let role = |inst: Inst| self.roles.get(&inst).copied();
        let mut copy = RegionOps {
            source: self.source,
            role: &role,
            members: insts.iter().copied().collect(),
            inputs: Vec::new(),
            sequence: Vec::new(),
            seen: HashSet::new(),
        };
        insts.iter().for_each(|&inst| copy.visit(inst));
        let (inputs, sequence) = (copy.inputs, copy.sequence);
        self.add(Node { kind: Some(kind), insts, inputs, sequence, position: 0 });
    }

    /// Makes nodes of the free ops and views that nodes read, and collects all values that are
    /// read.
    fn read_all(&mut self) {
        let mut stack: Vec<Value> = self.nodes.iter().flat_map(|node| node.inputs.iter().copied()).collect();
        while let Some(value) = stack.pop() {
            if !self.read.insert(value) {
                continue;
            }
            let Some(inst) = self.source.defining(value).filter(|inst| !self.maker.contains_key(inst)) else { continue };
            match self.roles.get(&inst) {
                Some(Role::Free) => self.add_group(FusionKind::Pointwise, vec![inst]),
                Some(Role::View) => {
                    let inputs = self.source.operands(inst).to_vec();
                    self.add(Node { kind: None, insts: vec![inst], inputs, sequence: Vec::new(), position: 0 });
                }
                _ => continue,
            }
            stack.extend(&self.nodes.last().expect("just added").inputs);
        }
    }

    /// The positions by which nodes are wanted: their own, or that of an earlier node which needs
    /// them. A group may have a last op far after the others.
    fn wanted_by(&self, needs: &[HashSet<usize>], needed_by: &[Vec<usize>]) -> Vec<usize> {
        let mut positions: Vec<usize> = self.nodes.iter().map(|node| node.position).collect();
        let mut waits: Vec<usize> = needed_by.iter().map(Vec::len).collect();
        let mut done: Vec<usize> = (0..positions.len()).filter(|&n| waits[n] == 0).collect();
        while let Some(n) = done.pop() {
            for &source in &needs[n] {
                positions[source] = positions[source].min(positions[n]);
                waits[source] -= 1;
                if waits[source] == 0 {
                    done.push(source);
                }
            }
        }
        positions
    }

    /// Sorts the nodes topologically; of those that are ready, the one that is wanted first
    /// comes first.
    fn order(&self) -> Vec<usize> {
        let nodes = &self.nodes;
        let mut needs: Vec<HashSet<usize>> = vec![HashSet::new(); nodes.len()];
        let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        for (n, node) in nodes.iter().enumerate() {
            let made = node.inputs.iter().filter_map(|&v| self.source.defining(v));
            let bound = node.sequence.iter().chain(&node.insts).flat_map(|&inst| self.binders.of(self.source, inst));
            for &source in made.chain(bound).filter_map(|inst| self.maker.get(&inst)).filter(|&&source| source != n) {
                if needs[n].insert(source) {
                    needed_by[source].push(n);
                }
            }
        }
        let positions = self.wanted_by(&needs, &needed_by);
        let mut ready: BinaryHeap<Reverse<(usize, usize)>> =
            (0..nodes.len()).filter(|&n| needs[n].is_empty()).map(|n| Reverse((positions[n], n))).collect();
        let mut order = Vec::with_capacity(nodes.len());
        while let Some(Reverse((_, n))) = ready.pop() {
            order.push(n);
            for &next in &needed_by[n] {
                needs[next].remove(&n);
                if needs[next].is_empty() {
                    ready.push(Reverse((positions[next], next)));
                }
            }
        }
        assert_eq!(order.len(), nodes.len(), "groups form no cycle");
        order
    }

    fn write(&self, function: &mut Function, block: Block, order: &[usize], solver: &Arc<Solver>) -> Result<(), Diagnostic> {
        let uses = self.source.use_counts();
        let mut replaced: HashMap<Value, Value> = HashMap::new();
        function.set_insts(block, Vec::new());
        for &n in order {
            let node = &self.nodes[n];
            let Some(kind) = node.kind else {
                function.append(block, node.insts[0]);
                continue;
            };
            // An op that may fail is computed even if nothing reads it.
            let leaves = |inst: Inst, v: Value| {
                self.read.contains(&v) || self.source.def(inst).has(Trait::MayFail) && uses[v.index()] == 0
            };
            let results = node.insts.iter().flat_map(|&i| self.source.results_of(i).iter().map(move |&v| (i, v)));
            let outputs: Vec<Value> = results.filter(|&(i, v)| leaves(i, v)).map(|(_, v)| v).collect();
            if outputs.is_empty() {
                continue;
            }
            let inputs: Vec<Value> = node.inputs.iter().map(|v| replaced.get(v).copied().unwrap_or(*v)).collect();
            let region = self.region(function, node, &outputs, solver)?;
            let types: Vec<Type> = outputs.iter().map(|&v| self.source.ty(v).clone()).collect();
            let mut builder = Builder::at(function, block, solver.clone());
            let op = builder.op(OpKind::Fusion).operands(&inputs).attr("kind", kind).region(region);
            let fused = op.results(types).build()?;
            plan::decide(function, fused, solver)?;
            for (position, &output) in outputs.iter().enumerate() {
                let result = function.results_of(fused)[position];
                if let Some(name) = self.source.name_of(output) {
                    function.set_name(result, name.clone());
                }
                replaced.insert(output, result);
            }
        }
        function.replace_uses(&replaced);
        Ok(())
    }

    /// Builds the region of a group.
    fn region(&self, function: &mut Function, node: &Node, outputs: &[Value], solver: &Arc<Solver>) -> Result<Block, Diagnostic> {
        let region = function.add_block();
        let mut map: HashMap<Value, Value> = HashMap::new();
        for &input in &node.inputs {
            let argument = function.add_argument(region, self.source.ty(input).clone());
            if let Some(name) = self.source.name_of(input) {
                function.set_name(argument, name.clone());
            }
            map.insert(input, argument);
        }
        for &inst in &node.sequence {
            let made = function.import(self.source, inst, &mut map);
            function.append(region, made);
        }
        let returned: Vec<Value> = outputs.iter().map(|v| map[v]).collect();
        Builder::at(function, region, solver.clone()).ret(&returned)?;
        Ok(region)
    }
}

/// Collects the ops of a group's region.
struct RegionOps<'f> {
    source: &'f Function,
    role: &'f dyn Fn(Inst) -> Option<Role>,
    members: HashSet<Inst>,
    inputs: Vec<Value>,
    sequence: Vec<Inst>,
    seen: HashSet<Inst>,
}

impl RegionOps<'_> {
    fn visit(&mut self, inst: Inst) {
        if !self.seen.insert(inst) {
            return;
        }
        for value in uses(self.source, inst) {
            if self.is_inner(inst, value) {
                continue;
            }
            match self.source.defining(value) {
                Some(source) if self.is_inside(source) => self.visit(source),
                _ if !self.inputs.contains(&value) => self.inputs.push(value),
                _ => {}
            }
        }
        self.sequence.push(inst);
    }

    /// Returns true if the region computes an op: a member, a free op, or a view of a member's
    /// result.
    fn is_inside(&self, inst: Inst) -> bool {
        match (self.role)(inst) {
            _ if self.members.contains(&inst) => true,
            Some(Role::Free) => true,
            Some(Role::View) => views_member(self.source, &self.members, self.role, inst),
            _ => false,
        }
    }

    /// Returns true if a value belongs to a region of `inst`.
    fn is_inner(&self, inst: Inst, value: Value) -> bool {
        let inside = |&region: &Block| {
            self.source.arguments(region).contains(&value)
                || self.source.walk(region).iter().any(|&i| self.source.results_of(i).contains(&value))
        };
        self.source.inst(inst).regions.iter().any(inside)
    }
}
