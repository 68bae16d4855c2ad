//! Verifies blocks, scopes, and the single definition of values.
//!
//! Invariants:
//! - Every block ends in `return`, and has no other.
//! - An operand is defined earlier in the same block, or in a block around it.
//! - Every op is listed once, every region belongs to one op, every value names its true origin.
//! - An op has one slot per declared attribute, and one region per declared one.
//! - Regions are nested at most [`MAX_NESTING`] deep.
use super::Check;
use crate::{
    diag::Code,
    graph::{Block, Inst, Source, Value},
    ops::OpKind,
    text::limits::MAX_NESTING,
};
use std::collections::HashSet;

/// Checks the tree of blocks. Returns false if part of it is broken.
pub(super) fn check(cx: &mut Check<'_>) -> bool {
    let mut walk =
        Walk { visible: vec![false; cx.function.value_count()], insts: HashSet::new(), blocks: HashSet::new(), depth: 0 };
    let before = cx.errors.len();
    walk.block(cx, cx.function.body, None);
    cx.errors.len() == before
}

struct Walk {
    visible: Vec<bool>,
    insts: HashSet<Inst>,
    blocks: HashSet<Block>,
    depth: usize,
}

impl Walk {
    fn block(&mut self, cx: &mut Check<'_>, block: Block, owner: Option<Inst>) {
        let function = cx.function;
        let place = owner.and_then(|inst| function.inst(inst).span).or(function.span);
        if !self.blocks.insert(block) {
            return cx.error(Code::E0211, place, "a region belongs to two ops");
        }
        if self.depth > MAX_NESTING {
            return cx.error(Code::E0105, place, format!("regions are nested more than {MAX_NESTING} deep"));
        }
        let mut defined = function.arguments(block).to_vec();
        self.define(cx, &defined, |i| Source::Argument(block, i));
        self.depth += 1;
        for &inst in function.insts(block) {
            self.inst(cx, inst);
            let results = function.results_of(inst);
            self.define(cx, results, |i| Source::Result(inst, i));
            defined.extend_from_slice(results);
        }
        self.depth -= 1;
        self.end(cx, block, owner);
        defined.iter().for_each(|value| self.visible[value.index()] = false);
    }

    fn define(&mut self, cx: &mut Check<'_>, values: &[Value], source: impl Fn(u32) -> Source) {
        for (i, &value) in values.iter().enumerate() {
            self.visible[value.index()] = true;
            if cx.function.source(value) != source(i as u32) {
                cx.error(Code::E0211, None, format!("{} does not come from where it is listed", name(cx, value)));
            }
        }
    }

    fn inst(&mut self, cx: &mut Check<'_>, inst: Inst) {
        let data = cx.function.inst(inst);
        let def = data.kind.def();
        if !self.insts.insert(inst) {
            return cx.op_error(Code::E0211, inst, "the op is listed twice");
        }
        for &operand in &data.operands {
            if !self.visible[operand.index()] {
                let message = format!("{} is used where it is not defined: earlier, or in a block around", name(cx, operand));
                cx.op_error(Code::E0210, inst, message);
            }
        }
        if data.attrs.len() != def.attrs.len() {
            cx.op_error(Code::E0211, inst, format!("{} slots for {} attributes", data.attrs.len(), def.attrs.len()));
        }
        if data.regions.len() != def.regions.len() {
            cx.op_error(Code::E0201, inst, format!("{} regions, expected {}", data.regions.len(), def.regions.len()));
        }
        for &region in &data.regions {
            self.block(cx, region, Some(inst));
        }
    }

    fn end(&self, cx: &mut Check<'_>, block: Block, owner: Option<Inst>) {
        let insts = cx.function.insts(block);
        let is_return = |inst: &Inst| cx.function.kind_of(*inst) == OpKind::Return;
        if !insts.last().is_some_and(is_return) {
            let place = insts.last().copied().or(owner);
            let what = owner.map_or("the body".to_owned(), |inst| format!("a region of `{}`", cx.function.def(inst).name));
            let message = format!("{what} does not end in `return`");
            return match place {
                Some(inst) => cx.error(Code::E0213, cx.function.inst(inst).span, message),
                None => cx.error(Code::E0213, None, message),
            };
        }
        if let Some(&early) = insts[..insts.len() - 1].iter().find(|inst| is_return(inst)) {
            cx.op_error(Code::E0213, early, "ops follow in the same block");
        }
    }
}

/// Returns the name of a value in messages.
pub(super) fn name(cx: &Check<'_>, value: Value) -> String {
    match cx.function.name_of(value) {
        Some(name) => format!("`%{name}`"),
        None => "a value without a name".into(),
    }
}
