//! Lowers the buffer stage to the kernel stage: each group becomes kernels and launches.
//!
//! Groups of one structure share their kernels, so a model of twelve equal layers has the kernels
//! of one. Entries share them if they state the same facts. A variant shares those that come out
//! equal to its function's; a variant whose groups all do is dropped.
//!
//! Invariants: a reduction group follows the plan that its op carries, and one without a plan is an
//! error of the compiler. A group that the scheduler has no schedule for is computed by loops,
//! output by output, and a note says why.
use super::{
    dedup::{self, Dedup},
    dispatch::{Workspace, place},
    fetches,
    group::{GroupCode, RestCode, WayCode, structure},
    signature::Signature,
    ways::write_group,
};
use crate::{
    kernel::{self, Site},
    schedule::{self, Choices, Group, Request, Rest, Scheduler, Versioned, scheduler},
    target::{Compilation, Target},
};
use disc_ir::{
    Attr, Block, Diagnostic, Function, FunctionKind, FusionKind, Inst, Module, OpKind, Origin, Solver, Value, graph::PREPARE,
    lines::origins,
};
use disc_passes::{
    analysis::query::Query,
    fusion::{ReductionPlan, plan},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// A module of kernels and host programs, with what its messages need.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub module: Module,
    /// Site number `i + 1` is entry `i`.
    pub sites: Vec<Site>,
    /// The checks of each host program at entry.
    pub signatures: Vec<(Arc<str>, Signature)>,
    /// For each host program, the launches of each kind of group in one call; a loop counts once.
    pub launches: Vec<(Arc<str>, HashMap<FusionKind, usize>)>,
    /// Groups that did not get the schedule of their kind, and why.
    pub notes: Vec<String>,
    /// By the group of kernels (`k3`), the ops of the source program that they compute.
    pub origins: BTreeMap<String, BTreeSet<Origin>>,
}

/// Lowers every host program of a module at the buffer stage.
///
/// # Errors
/// A target without schedules; none else for a module that satisfies the invariants of its stage.
pub fn lower(module: Module, targets: &Compilation) -> Result<Program, Diagnostic> {
    lower_with(module, targets, Choices::default())
}

/// As [`lower`], with choices of the user.
///
/// # Errors
/// As [`lower`].
pub fn lower_with(module: Module, targets: &Compilation, choices: Choices) -> Result<Program, Diagnostic> {
    let mut lowering = Lowering {
        target: targets.device(),
        scheduler: scheduler(targets.device()),
        choices,
        kernels: Vec::new(),
        known: HashMap::new(),
        alike: module.functions.iter().any(|function| function.variant_of.is_some()).then(Dedup::default),
        is_variant: false,
        sites: Vec::new(),
        notes: Vec::new(),
        origins: BTreeMap::new(),
        workspace: None,
    };
    let mut functions = Vec::new();
    let mut launches: Vec<(Arc<str>, HashMap<FusionKind, usize>)> = Vec::new();
    let mut signatures = Vec::new();
    for mut function in module.functions {
        if function.kind == FunctionKind::Host {
            let (kernels, sites, notes) = (lowering.kernels.len(), lowering.sites.len(), lowering.notes.len());
            lowering.is_variant = function.variant_of.is_some();
            let solver = Arc::new(Solver::new(&function.facts));
            let mut counts = HashMap::new();
            let signature = Signature::of(&function, lowering.sites.len() as i64 + 1);
            lowering.sites.extend(signature.sites(&function));
            let body = function.body;
            lowering.workspace = Workspace::of(&function);
            if !lowering.target.is_cpu() {
                // Memory of a device is not the host's.
                fetches::fetch_scalars(&mut function);
            }
            lowering.block(&mut function, body, &solver, &mut counts)?;
            if let Some(workspace) = lowering.workspace.take() {
                workspace.make_room(&mut function);
            }
            let of_entry = launches.iter().find(|(name, _)| Some(name) == function.variant_of.as_ref());
            if lowering.kernels.len() == kernels && of_entry.is_some_and(|(_, of_entry)| *of_entry == counts) {
                lowering.sites.truncate(sites);
                lowering.notes.truncate(notes);
                continue;
            }
            signatures.push((function.name.clone(), signature));
            launches.push((function.name.clone(), counts));
        }
        functions.push(function);
    }
    functions.extend(lowering.kernels);
    Ok(Program {
        module: Module { functions, weights: module.weights, lines: module.lines },
        sites: lowering.sites,
        signatures,
        launches,
        notes: lowering.notes,
        origins: lowering.origins,
    })
}

/// Returns true if a group writes a result over an input, of which it replaces a part.
fn updates_part(host: &Function, group: &Function, memory: &[Value]) -> bool {
    let (inputs, outputs) = memory.split_at(group.parameters().len());
    group.returned(group.body).iter().zip(outputs).any(|(&result, output)| {
        let updated = group.defining(result).filter(|&inst| group.kind_of(inst) == OpKind::DynamicUpdateSlice);
        let input = updated.map(|inst| group.operands(inst)[0]);
        let position = input.and_then(|input| group.parameters().iter().position(|&parameter| parameter == input));
        position.is_some_and(|position| place(host, inputs[position]) == place(host, *output))
    })
}

/// Gives the launches among the ops of a block from a position on their origin.
fn mark_launches(host: &mut Function, block: Block, from: usize, origin: Option<Origin>) {
    let insts = host.insts(block)[from..].to_vec();
    for inst in insts {
        if matches!(host.kind_of(inst), OpKind::Launch | OpKind::LaunchGrid | OpKind::LibraryConvolution | OpKind::LibraryGemm) {
            host.inst_mut(inst).origin = origin;
        }
        for region in host.inst(inst).regions.clone() {
            mark_launches(host, region, 0, origin);
        }
    }
}

struct Lowering<'t> {
    /// The target of kernels; a host program is the same for all.
    target: &'t Target,
    scheduler: &'static dyn Scheduler,
    choices: Choices,
    kernels: Vec<Function>,
    /// The launches of group structures that were met already.
    known: HashMap<String, GroupCode>,
    /// The same by what came out, where the module has variants.
    alike: Option<Dedup>,
    /// True if the host program is a variant of another one.
    is_variant: bool,
    /// That of the host program which is being lowered.
    workspace: Option<Workspace>,
    sites: Vec<Site>,
    notes: Vec<String>,
    origins: BTreeMap<String, BTreeSet<Origin>>,
}

impl Lowering<'_> {
    fn block(
        &mut self,
        host: &mut Function,
        block: Block,
        solver: &Arc<Solver>,
        counts: &mut HashMap<FusionKind, usize>,
    ) -> Result<(), Diagnostic> {
        let insts = host.insts(block).to_vec();
        host.set_insts(block, Vec::new());
        for inst in insts {
            if host.kind_of(inst) == OpKind::Fusion {
                self.group(host, block, inst, solver, counts)?;
                continue;
            }
            for region in host.inst(inst).regions.clone() {
                self.block(host, region, solver, counts)?;
            }
            self.number_assert(host, inst);
            host.append(block, inst);
        }
        Ok(())
    }

    /// Gives the message of an `assert` a site.
    fn number_assert(&mut self, host: &mut Function, inst: Inst) {
        if host.kind_of(inst) != OpKind::Assert {
            return;
        }
        let message = match &host.inst(inst).attrs[0] {
            Some(Attr::Str(message)) => message.to_string(),
            _ => "the assertion does not hold".into(),
        };
        let about = OpKind::Assert.def().attr_position("about").and_then(|i| host.inst(inst).attrs[i].as_ref());
        let is_size = matches!(about, Some(Attr::Enum("size")));
        let code = if is_size { disc_ir::Code::E0602 } else { disc_ir::Code::E0604 };
        self.sites.push(Site { code, op: "assert".into(), message, kernel_values: 0 });
        let position = OpKind::Assert.def().attr_position("site").expect("`assert` has a site");
        host.inst_mut(inst).attrs[position] = Some(Attr::Int(self.sites.len() as i64));
    }

    fn group(
        &mut self,
        host: &mut Function,
        block: Block,
        inst: Inst,
        solver: &Arc<Solver>,
        counts: &mut HashMap<FusionKind, usize>,
    ) -> Result<(), Diagnostic> {
        let kind = FusionKind::of(host, inst).expect("a group has a kind");
        let function = schedule::extract(host, inst);
        let memory = host.operands(inst).to_vec();
        let inputs = function.parameters().len();
        let is_update = kind == FusionKind::Pointwise && updates_part(host, &function, &memory);
        let form = if is_update { "update" } else { kind.name() };
        // Equal groups have equal plans, unless somebody wrote another one into the text.
        let decision = plan::ATTRIBUTES.map(|name| host.attr(inst, name));
        let key = format!("{} {decision:?}", structure(&function, form));
        if !self.known.contains_key(&key) {
            let variant = if self.is_variant { "variant_" } else { "" };
            let name = format!("k{}_{variant}{form}", self.known.len());
            let first_site = self.sites.len() as i64 + 1;
            let tf32 = self.choices.tf32;
            let whole = Group { first_site, tf32, ..Group::new(&function, solver.clone(), &name, self.target) };
            let is_reduction = kind == FusionKind::Reduction;
            let decided = is_reduction.then(|| ReductionPlan::read(host, inst, &function, solver)).transpose()?;
            let request = Request { kind, plan: decided.as_ref(), is_update, offers: self.choices.offers };
            let (scheduled, reason) = self.scheduler.schedule(&whole, request)?;
            self.notes.extend(reason.map(|reason| format!("{name}: {reason}")));
            let known = self.keep(scheduled, &name);
            self.known.insert(key.clone(), known);
        }
        *counts.entry(kind).or_default() += self.known[&key].otherwise.len();
        // Code that runs once, when weights are loaded, is no part of a call.
        let groups = if *host.name == *PREPARE { BTreeSet::new() } else { self.known[&key].groups() };
        let last = self.note_origins(&function, &groups);
        let before = host.insts(block).len();
        let code = &self.known[&key];
        write_group(host, block, code, memory.split_at(inputs), &mut self.workspace, solver)?;
        mark_launches(host, block, before, last);
        Ok(())
    }

    /// Notes the origins of a group's ops for its kernels, which other groups may have in common
    /// with it. Returns that of the last op.
    fn note_origins(&mut self, function: &Function, groups: &BTreeSet<String>) -> Option<Origin> {
        let found = origins(function, &function.walk(function.body));
        for group in groups.iter().filter(|_| !found.is_empty()) {
            self.origins.entry(group.clone()).or_default().extend(&found);
        }
        found.last().copied()
    }

    /// Takes the kernels of a group; for a variant, those that another group has already.
    fn keep(&mut self, scheduled: Versioned, name: &str) -> GroupCode {
        let text = self.alike.is_some().then(|| dedup::text(&scheduled, name));
        let shared = self.alike.as_ref().zip(text.as_ref()).and_then(|(alike, text)| alike.find(text));
        if let Some(known) = shared.filter(|_| self.is_variant) {
            return known;
        }
        let known = self.take(scheduled);
        if let (Some(alike), Some(text)) = (&mut self.alike, text) {
            alike.insert(text, known.clone());
        }
        known
    }

    /// Takes the kernels of a group and of the part of it that a library leaves.
    fn take(&mut self, scheduled: Versioned) -> GroupCode {
        let Versioned { mut versions, mut otherwise, library } = scheduled;
        let codes = versions.iter_mut().map(|version| &mut version.code);
        for code in codes.chain([&mut otherwise]) {
            for mut made in std::mem::take(&mut code.kernels) {
                kernel::optimize(&mut made);
                self.kernels.push(made);
            }
            self.sites.append(&mut code.sites);
        }
        let mut rest = |Rest { inputs, products, code }| RestCode { inputs, products, code: self.take(code) };
        let library = library.into_iter().map(|way| WayCode { offers: way.offers, rest: way.rest.map(&mut rest) });
        GroupCode { library: library.collect(), versions, otherwise: otherwise.launches }
    }
}
