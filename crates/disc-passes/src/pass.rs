//! Declares passes and runs them.
//!
//! Invariants:
//! - A pass changes a module and returns the number of its changes; it never prints and never
//!   measures time.
//! - A pass asks [`PassCx::spend`] before each optional rewrite, so that fuel finds the rewrite
//!   that breaks a program.
//! - After every pass the module is well formed at the stage where the pass ends; the manager
//!   checks that in debug builds and on request.
use crate::options::Options;
use disc_ir::{Diagnostic, Module, ops::Stage, verify::verify};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

/// A pass, declared once; `fold_branches.rs` is the exemplar.
#[derive(Clone, Copy, Debug)]
pub struct PassDef {
    /// The name on command lines and in dumps; also the name of its file and of its filetest.
    pub name: &'static str,
    /// The description in docs/passes.md.
    pub doc: &'static str,
    /// The stage that it takes, and the one that it leaves.
    pub stages: (Stage, Stage),
    pub run: fn(&mut Module, &mut PassCx) -> Result<usize, Diagnostic>,
}

/// The context of a pass: options, fuel and records.
#[derive(Clone, Debug, Default)]
pub struct PassCx {
    pub options: Options,
    /// The number of applications of each rule.
    pub hits: BTreeMap<&'static str, usize>,
    /// The latest rewrite.
    pub last: Option<Rewrite>,
    /// The recipe of each prepared weight, as text, and the weight's name. Two programs may share a
    /// weight of one recipe.
    pub recipes: HashMap<String, Arc<str>>,
    /// The steps of the pipeline after the current pass, for passes that try them on a copy.
    pub remaining: &'static [&'static PassDef],
    /// The current pass.
    pass: &'static str,
    spent: u64,
}

/// A rewrite that fuel paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    pub pass: &'static str,
    /// Its rule, in a pass that has rules.
    pub rule: Option<&'static str>,
}

impl PassCx {
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Takes fuel for one more rewrite; returns false if none is left.
    pub fn spend(&mut self) -> bool {
        self.pay(None)
    }

    /// As [`PassCx::spend`], for a rewrite with a name of its own.
    pub fn spend_on(&mut self, rule: &'static str) -> bool {
        let left = self.pay(Some(rule));
        if left {
            *self.hits.entry(rule).or_default() += 1;
        }
        left
    }

    /// The number of rewrites made so far.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    fn pay(&mut self, rule: Option<&'static str>) -> bool {
        let left = self.options.fuel.is_none_or(|fuel| self.spent < fuel);
        if left {
            self.spent += 1;
            self.last = Some(Rewrite { pass: self.pass, rule });
        }
        left
    }
}

/// One run of a pass.
#[derive(Clone, Debug)]
pub struct PassRecord {
    pub name: &'static str,
    pub changes: usize,
    /// The number of applications of each of its rules.
    pub rules: BTreeMap<&'static str, usize>,
    pub time: Duration,
    /// The module afterwards, if dumps were requested.
    pub dump: Option<String>,
}

/// Checks a module at a stage.
pub type Verify = fn(&Module, Stage) -> Result<(), Diagnostic>;

/// Runs passes and keeps records.
pub struct PassManager {
    /// The pipeline that the passes are steps of; empty for passes that run on their own.
    pub steps: &'static [&'static PassDef],
    pub cx: PassCx,
    pub records: Vec<PassRecord>,
    /// Renders the module after each pass.
    pub dump: Option<fn(&Module) -> String>,
    /// Checks the module after each pass, at the stage where the pass ends.
    pub verify: Option<Verify>,
}

impl Default for PassManager {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

/// Returns the first error of the verifier.
pub fn well_formed(module: &Module, stage: Stage) -> Result<(), Diagnostic> {
    verify(module, stage).map_err(|mut found| found.swap_remove(0))
}

impl PassManager {
    /// Makes a manager that verifies after each pass in debug builds.
    pub fn new(options: Options) -> Self {
        let verify = cfg!(debug_assertions).then_some(well_formed as Verify);
        Self { steps: &[], cx: PassCx::new(options), records: Vec::new(), dump: None, verify }
    }

    /// Runs one pass.
    ///
    /// # Errors
    /// Those of the pass, and a violated invariant after it, with the name of the pass.
    pub fn run(&mut self, module: &mut Module, pass: &PassDef) -> Result<usize, Diagnostic> {
        let span = tracing::debug_span!("pass", name = pass.name);
        let _entered = span.enter();
        self.cx.pass = pass.name;
        let next = self.steps.iter().position(|step| step.name == pass.name).map_or(self.steps.len(), |place| place + 1);
        self.cx.remaining = &self.steps[next..];
        let hits = self.cx.hits.clone();
        let start = Instant::now();
        let changes = (pass.run)(module, &mut self.cx)?;
        let time = start.elapsed();
        tracing::debug!(changes, ?time);
        if let Some(verify) = self.verify {
            verify(module, pass.stages.1).map_err(|e| e.note(format!("after pass `{}`", pass.name)))?;
        }
        let dump = self.dump.map(|render| render(module));
        let rules = self.cx.hits.iter().map(|(&rule, &count)| (rule, count - hits.get(rule).unwrap_or(&0)));
        let rules = rules.filter(|&(_, count)| count > 0).collect();
        self.records.push(PassRecord { name: pass.name, changes, rules, time, dump });
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuel_limits_rewrites_and_hits_count_those_made() {
        let mut cx = PassCx::new(Options { fuel: Some(2), ..Options::default() });
        assert!(cx.spend() && cx.spend_on("a") && !cx.spend_on("a") && !cx.spend());
        assert_eq!((cx.hits["a"], cx.spent(), cx.last), (1, 2, Some(Rewrite { pass: "", rule: Some("a") })));
    }

    #[test]
    fn a_record_has_the_rules_of_its_run() {
        let stages = (Stage::Tensor, Stage::Tensor);
        let pass = PassDef {
            name: "p",
            doc: "",
            stages,
            run: |_, cx| Ok(usize::from(cx.spend_on("a")) + usize::from(cx.spend_on("b"))),
        };
        let mut manager = PassManager::new(Options { fuel: Some(3), ..Options::default() });
        manager.run(&mut Module::default(), &pass).unwrap();
        manager.run(&mut Module::default(), &pass).unwrap();
        let rules: Vec<_> = manager.records.iter().map(|record| record.rules.clone().into_iter().collect::<Vec<_>>()).collect();
        assert_eq!(rules, [vec![("a", 1), ("b", 1)], vec![("a", 1)]]);
    }

    #[test]
    fn a_violated_invariant_names_the_pass() {
        let pass = PassDef { name: "p", doc: "", stages: (Stage::Tensor, Stage::Tensor), run: |_, _| Ok(3) };
        let mut manager = PassManager::default();
        assert_eq!(manager.run(&mut Module::default(), &pass), Ok(3));
        assert_eq!((manager.records[0].name, manager.records[0].changes), ("p", 3));
        manager.verify = Some(|_, _| Err(Diagnostic::new(disc_ir::Code::E0211, "broken")));
        let error = manager.run(&mut Module::default(), &pass).unwrap_err();
        assert_eq!(error.notes, ["after pass `p`"]);
    }
}
