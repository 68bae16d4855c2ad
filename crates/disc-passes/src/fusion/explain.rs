//! Explains the fusion plan to people and tools: the groups; a reason for each value that goes from
//! one group to another through memory; and a reason for each two independent groups that read one
//! tensor.
//!
//! It reads a module at the fused stage and decides nothing. A reason is derived from types and
//! facts: the first obstacle to fusing the two groups.
mod horizontal;

use super::{
    form::{Rejection, shown},
    legality::{Role, role},
    pairing, plan,
};
use crate::analysis::cost_model::CostModel;
use disc_ir::{
    Block, Dim, Function, FusionKind, Inst, Lines, Module, OpKind, Origin, Solver, Value, dim::Fact, lines::origins,
    text::value_names,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    sync::Arc,
};

pub use horizontal::HorizontalPair;

/// The groups of one function, and the obstacles to fewer groups.
#[derive(Clone, Debug)]
pub struct FusionPlan {
    pub function: Arc<str>,
    /// The function that this is a variant of, and the facts under which it runs.
    pub of: Option<(Arc<str>, Vec<Fact>)>,
    /// The groups in the order in which they run.
    pub groups: Vec<PlannedGroup>,
    pub edges: Vec<Edge>,
    pub siblings: Vec<HorizontalPair>,
}

/// A group, which becomes one kernel.
#[derive(Clone, Debug)]
pub struct PlannedGroup {
    pub kind: FusionKind,
    /// The ops in order, except free ones.
    pub ops: Vec<&'static str>,
    /// The results, with their types.
    pub results: Vec<String>,
    /// The decision that a reduction group carries, in words.
    pub plan: Option<String>,
    /// The lines of the model that it computes, as far as they are known: the first of them.
    pub lines: Vec<String>,
}

/// A value that one group computes and another one reads.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Numbers of groups.
    pub from: usize,
    pub to: usize,
    pub value: String,
    pub reason: Reason,
}

/// An obstacle to fusing two groups.
#[derive(Clone, Debug)]
pub enum Reason {
    /// These facts would have to hold, and are not known.
    MissingFacts(Vec<Fact>),
    /// Fusing them would not be faster.
    Cost(String),
    /// No schedule computes both.
    Schedule(String),
}

/// The plans of a module at the fused stage, one for each function that has groups. The model is
/// that of the passes which made the groups.
pub fn explain(module: &Module, model: &dyn CostModel) -> Vec<FusionPlan> {
    let plans = module.functions.iter().map(|function| {
        let solver = Solver::new(&function.facts);
        let (names, plan) = (value_names(function), FusionPlan::new(module, function));
        let mut explaining = Explainer { function, lines: &module.lines, solver, model, names, plan, makers: HashMap::new() };
        explaining.block(function.body);
        explaining.plan
    });
    plans.filter(|plan| !plan.groups.is_empty()).collect()
}

impl FusionPlan {
    fn new(module: &Module, function: &Function) -> Self {
        let entry = function.variant_of.as_ref().and_then(|name| module.function(name));
        let of = entry.map(|entry| (entry.name.clone(), function.guard(entry)));
        Self { function: function.name.clone(), of, groups: Vec::new(), edges: Vec::new(), siblings: Vec::new() }
    }

    /// The number of groups of each kind.
    pub fn kinds(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        self.groups.iter().for_each(|group| *counts.entry(group.kind.name()).or_default() += 1);
        counts
    }
}

impl fmt::Display for FusionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.groups.len();
        let kinds: Vec<String> = self.kinds().iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        write!(f, "@{}", self.function)?;
        if let Some((entry, facts)) = &self.of {
            let facts: Vec<String> = facts.iter().map(ToString::to_string).collect();
            write!(f, ", a variant of @{entry} where {}", facts.join(" and "))?;
        }
        writeln!(f, ": {count} group{} ({})", if count == 1 { "" } else { "s" }, kinds.join(", "))?;
        for (number, group) in self.groups.iter().enumerate() {
            writeln!(f, "  g{number} {}: {} -> {}", group.kind, group.ops.join(", "), group.results.join(", "))?;
            group.plan.iter().try_for_each(|plan| writeln!(f, "    {plan}"))?;
            if !group.lines.is_empty() {
                writeln!(f, "    at {}", group.lines.join(", "))?;
            }
        }
        for edge in &self.edges {
            writeln!(f, "  g{} -> g{} by {}: {}", edge.from, edge.to, edge.value, edge.reason)?;
        }
        for HorizontalPair { groups: [first, second], value, reason } in &self.siblings {
            writeln!(f, "  g{first} and g{second} read {value}: {reason}")?;
        }
        Ok(())
    }
}

impl Reason {
    /// A stable word for the reason, for tools.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::MissingFacts(_) => "missing-facts",
            Reason::Cost(_) => "cost",
            Reason::Schedule(_) => "schedule",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::MissingFacts(facts) => {
                let facts: Vec<String> = facts.iter().map(|fact| format!("`{fact}`")).collect();
                write!(f, "missing fact{} {}", if facts.len() == 1 { "" } else { "s" }, facts.join(" and "))
            }
            Reason::Cost(why) | Reason::Schedule(why) => f.write_str(why),
        }
    }
}

struct Explainer<'f> {
    function: &'f Function,
    lines: &'f Lines,
    solver: Solver,
    model: &'f dyn CostModel,
    names: HashMap<Value, String>,
    plan: FusionPlan,
    /// The number of the group that makes a value; true if a view is in between.
    makers: HashMap<Value, (usize, bool)>,
}

impl Explainer<'_> {
    fn block(&mut self, block: Block) {
        let mut groups: HashMap<usize, Inst> = HashMap::new();
        // The groups that a value needs.
        let mut needs: HashMap<Value, HashSet<usize>> = HashMap::new();
        for &inst in self.function.insts(block) {
            let regions = self.function.inst(inst).regions.iter().flat_map(|&region| self.function.walk(region));
            let read = regions.chain([inst]).flat_map(|inner| self.function.operands(inner).to_vec());
            let mut needed: HashSet<usize> = read.filter_map(|value| needs.get(&value)).flatten().copied().collect();
            for &region in &self.function.inst(inst).regions {
                if self.function.kind_of(inst) != OpKind::Fusion {
                    self.block(region);
                }
            }
            match self.function.kind_of(inst) {
                OpKind::Fusion => {
                    let number = self.plan.groups.len();
                    groups.insert(number, inst);
                    self.edges_to(number, inst, &groups);
                    self.horizontal_pairs_of(number, inst, &groups, &needed);
                    self.add_group(number, inst);
                    needed.insert(number);
                }
                OpKind::Reshape => {
                    if let Some(&(maker, _)) = self.makers.get(&self.function.operands(inst)[0]) {
                        self.makers.insert(self.function.result(inst), (maker, true));
                    }
                }
                _ => {}
            }
            needs.extend(self.function.results_of(inst).iter().map(|&result| (result, needed.clone())));
        }
    }

    fn add_group(&mut self, number: usize, inst: Inst) {
        let function = self.function;
        let inner = members(function, inst);
        let is_work = |&&i: &&Inst| !matches!(role(function, &self.solver, i), Role::Free | Role::Outside | Role::View);
        let named = |&i: &Inst| function.def(i).name;
        let mut ops: Vec<&str> = inner.iter().filter(is_work).map(named).collect();
        if ops.is_empty() {
            ops = inner.iter().filter(|&&i| function.kind_of(i) != OpKind::Return).map(named).collect();
        }
        let origins: BTreeSet<Origin> = origins(function, &inner).into_iter().collect();
        let results = function.results_of(inst);
        let typed = results.iter().map(|&value| format!("{}: {}", self.name(value), function.ty(value)));
        self.plan.groups.push(PlannedGroup {
            kind: kind(function, inst),
            ops,
            results: typed.collect(),
            plan: plan::in_words(function, inst),
            lines: self.lines.first_of(origins),
        });
        self.makers.extend(results.iter().map(|&value| (value, (number, false))));
    }

    /// Adds the edges from earlier groups of the block to this one, each value once.
    fn edges_to(&mut self, number: usize, inst: Inst, groups: &HashMap<usize, Inst>) {
        let mut seen = HashSet::new();
        let operands = self.function.operands(inst).iter().filter(|&&operand| seen.insert(operand));
        let read: Vec<(Value, usize, bool)> =
            operands.filter_map(|&operand| self.makers.get(&operand).map(|&(from, viewed)| (operand, from, viewed))).collect();
        let sources: HashSet<usize> = read.iter().map(|&(_, from, _)| from).collect();
        for (operand, from, viewed) in read {
            let value = self.name(operand);
            let reason = match (groups.get(&from), self.between(from, &sources)) {
                (None, _) => Reason::Schedule(format!("g{number} is in a branch or a loop that g{from} is not in")),
                (_, Some(middle)) => Reason::Schedule(format!("g{middle} is between: it needs g{from}, and g{number} needs it")),
                (Some(&maker), None) => self.apart(maker, inst, viewed.then_some(&*value)),
            };
            self.plan.edges.push(Edge { from, to: number, value, reason });
        }
    }

    /// The obstacle to fusing two groups of a block that are adjacent except for a view.
    fn apart(&self, maker: Inst, user: Inst, view: Option<&str>) -> Reason {
        match view {
            _ if self.is_walked(maker) && self.is_walked(user) => self.refused(maker, user),
            Some(view) => Reason::Schedule(format!("{view} is another view of memory that has to be written first")),
            None => self.reason(maker, user),
        }
    }

    /// Returns true if a group is pointwise, a reduction or a scan.
    fn is_walked(&self, group: Inst) -> bool {
        let is_scan = |&inst: &Inst| self.function.kind_of(inst) == OpKind::Cumulative;
        matches!(kind(self.function, group), FusionKind::Pointwise | FusionKind::Reduction)
            || members(self.function, group).iter().any(is_scan)
    }

    fn reason(&self, maker: Inst, user: Inst) -> Reason {
        let (first, second) = (kind(self.function, maker), kind(self.function, user));
        if let Some(alone) = [maker, user].into_iter().find(|&inst| kind(self.function, inst) == FusionKind::Standalone) {
            return Reason::Schedule(format!("`{}` has a kernel of its own", self.main_op(alone)));
        }
        if second == FusionKind::Matmul {
            let what = if first == FusionKind::Matmul {
                "a product does not take in another one"
            } else {
                "a product reads its operands from memory"
            };
            return Reason::Schedule(what.into());
        }
        if matches!(second, FusionKind::Convolution | FusionKind::Pooling) {
            return Reason::Schedule(format!("a {second} reads its operands from memory"));
        }
        Reason::Schedule(format!("no schedule computes this {first} group and this {second} group together"))
    }

    /// The obstacle to fusing two groups of pointwise ops and reductions.
    fn refused(&self, maker: Inst, user: Inst) -> Reason {
        match pairing::form(self.function, (&self.solver, self.model), maker, user) {
            Err(why) => self.because(why, maker, user),
            Ok(_) if self.only_repeats(maker) => Reason::Cost(
                "what is repeated is written first: in place it would be walked in short steps, or divided for each use".into(),
            ),
            Ok(_) => Reason::Cost("they could be one, but each was joined with others first".into()),
        }
    }

    /// Turns a rejection into a reason: missing facts, a cost, or the lack of a schedule.
    fn because(&self, why: Rejection, maker: Inst, user: Inst) -> Reason {
        match why {
            Rejection::Shapes(a, b) => {
                let unequal: Vec<(&Dim, &Dim)> = a.iter().zip(&b).filter(|(x, y)| !self.solver.equal(x, y)).collect();
                let facts: Option<Vec<Fact>> = unequal.iter().map(|(x, y)| self.solver.missing_fact(x, y)).collect();
                match facts {
                    _ if is_reordered(&a, &b) => {
                        Reason::Schedule(format!("{} and {} have their dimensions in different orders", shown(&a), shown(&b)))
                    }
                    Some(facts) if a.len() == b.len() && self.would_do(&facts, maker, user) => Reason::MissingFacts(facts),
                    _ => Reason::Schedule(format!("{} and {} are computed over different shapes", shown(&a), shown(&b))),
                }
            }
            why @ (Rejection::Recomputed(_)
            | Rejection::Large
            | Rejection::Scans
            | Rejection::LiveProducts
            | Rejection::StoredUpdate
            | Rejection::ShortPieces(_)
            | Rejection::Repeats
            | Rejection::Strided
            | Rejection::Division) => Reason::Cost(why.to_string()),
            why => Reason::Schedule(why.to_string()),
        }
    }

    /// Returns true if a group computes nothing.
    fn only_repeats(&self, group: Inst) -> bool {
        let is_free = |&inst: &Inst| matches!(role(self.function, &self.solver, inst), Role::Free | Role::Outside);
        members(self.function, group).iter().all(is_free)
    }

    /// Returns true if the two groups fuse once these facts hold. A size of 1 is no sensible fact:
    /// it removes the reduction or broadcast itself.
    fn would_do(&self, facts: &[Fact], maker: Inst, user: Inst) -> bool {
        let is_one = |fact: &Fact| matches!(fact, Fact::Equal(a, b) if a.is_const(1) || b.is_const(1));
        let mut known = self.function.facts.clone();
        let are_new = !facts.is_empty() && !facts.iter().any(is_one) && facts.iter().all(|fact| known.add(fact.clone()).is_ok());
        are_new && pairing::form(self.function, (&Solver::new(&known), self.model), maker, user).is_ok()
    }

    /// A group on a path from group `from` to one of the `sources` of another; it is itself a
    /// source.
    fn between(&self, from: usize, sources: &HashSet<usize>) -> Option<usize> {
        let leads = |before: usize, group: usize| self.plan.edges.iter().any(|edge| edge.from == before && edge.to == group);
        let mut reached = HashSet::from([from]);
        (from + 1..self.plan.groups.len()).find(|&group| {
            let reachable = reached.iter().any(|&before| leads(before, group));
            reached.extend(reachable.then_some(group));
            reachable && sources.contains(&group)
        })
    }

    fn main_op(&self, inst: Inst) -> &'static str {
        let inner = members(self.function, inst);
        let single = inner.iter().find(|&&i| matches!(role(self.function, &self.solver, i), Role::Standalone | Role::Scan));
        single.map_or("fusion", |&i| self.function.def(i).name)
    }

    fn name(&self, value: Value) -> String {
        format!("%{}", self.names.get(&value).expect("every value of the block has a name"))
    }
}

/// The ops of a group, including those of nested groups.
fn members(function: &Function, group: Inst) -> Vec<Inst> {
    let inner = function.insts(function.inst(group).regions[0]).iter();
    let expanded =
        inner.flat_map(|&inst| if function.kind_of(inst) == OpKind::Fusion { members(function, inst) } else { vec![inst] });
    expanded.collect()
}

fn kind(function: &Function, group: Inst) -> FusionKind {
    FusionKind::of(function, group).expect("an op that is a group has a kind")
}

/// Returns true if two shapes have the same sizes in another order.
fn is_reordered(a: &[Dim], b: &[Dim]) -> bool {
    let sorted = |dims: &[Dim]| {
        let mut dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
        dims.sort_unstable();
        dims
    };
    a != b && sorted(a) == sorted(b)
}
