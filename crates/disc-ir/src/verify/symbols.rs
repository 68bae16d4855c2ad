//! Verifies that every dim is bound.
//!
//! Invariants:
//! - A symbol that a type or an attribute mentions is bound by the parameters, or by a `bind_dim`
//!   that comes before in the same block or in one around it. Of the parameters, one size
//!   determines it, alone (`[B]`) or with others that are bound (`[2*B + S]`). A size that is more
//!   than a symbol, and every fact, is also a check: at the entry of a call, or where the last of
//!   its dims is bound.
//! - The symbols of a kernel are those of the host program that launches it, which gives it the
//!   values that its code needs; so are those of routines.
//! - A dim is bound once.
//! - A dim of a type is representable; its constant sizes multiply to less than 2^62 bytes.
use super::Check;
use crate::{
    attr::Attr,
    diag::{Code, Span},
    dim::{Dim, Symbol},
    graph::{Block, FunctionKind, Inst},
    ops::OpKind,
    text::limits::{MAX_RANK, fits},
    types::{TensorType, Type},
};
use std::collections::BTreeSet;

pub(super) fn check(cx: &mut Check<'_>) {
    let function = cx.function;
    let later = function.data_dims().into_iter().collect();
    let mut seen = Seen { bound: function.bound_symbols().into_iter().collect(), later, reported: BTreeSet::new() };
    if matches!(function.kind, FunctionKind::Kernel | FunctionKind::Routine) {
        let types = function.parameters().iter().filter_map(|&parameter| function.ty(parameter).shaped());
        seen.bound.extend(types.flat_map(|tensor| &tensor.dims).flat_map(Dim::symbols));
        seen.bound.extend(cx.module.symbols_of(function));
    }
    for &parameter in function.parameters() {
        seen.check_type(cx, function.ty(parameter), function.span);
    }
    seen.facts(cx);
    seen.block(cx, function.body);
}

struct Seen {
    bound: BTreeSet<Symbol>,
    /// The dims that ops bind.
    later: BTreeSet<Symbol>,
    reported: BTreeSet<Symbol>,
}

impl Seen {
    /// A fact may be about dims that ops bind.
    fn facts(&mut self, cx: &mut Check<'_>) {
        let before = self.bound.clone();
        self.bound.extend(self.later.iter().cloned());
        for fact in cx.function.facts.iter() {
            let mut symbols = Vec::new();
            fact.visit_symbols(&mut |symbol| symbols.push(symbol.clone()));
            symbols.iter().for_each(|symbol| self.check_dim(cx, &Dim::symbol(symbol), cx.function.span));
        }
        self.bound = before;
    }

    fn block(&mut self, cx: &mut Check<'_>, block: Block) {
        let function = cx.function;
        let mut here: Vec<Symbol> = Vec::new();
        for &inst in function.insts(block) {
            here.extend(self.binds(cx, inst));
            self.inst(cx, inst);
        }
        if block == function.body {
            function.results.iter().for_each(|ty| self.check_type(cx, ty, function.span));
        }
        self.bound.retain(|symbol| !here.contains(symbol));
    }

    /// The dims that an op binds, from here on.
    fn binds(&mut self, cx: &mut Check<'_>, inst: Inst) -> Vec<Symbol> {
        let rule = if cx.function.kind_of(inst) == OpKind::LayoutArena { "C1" } else { "C2" };
        let mut bound = Vec::new();
        for symbol in cx.function.bound_by(inst) {
            if self.bound.contains(symbol) || !self.later.remove(symbol) {
                cx.op_error(Code::E0104, inst, format!("({rule}) the dim {symbol} is bound already"));
                continue;
            }
            self.bound.insert(symbol.clone());
            bound.push(symbol.clone());
        }
        bound
    }

    fn inst(&mut self, cx: &mut Check<'_>, inst: Inst) {
        let function = cx.function;
        let data = function.inst(inst);
        self.check_region_sizes(cx, inst);
        for attr in data.attrs.iter().flatten() {
            match attr {
                Attr::Dim(dim) => self.check_dim(cx, dim, data.span),
                Attr::Dims(dims) => dims.iter().for_each(|dim| self.check_dim(cx, dim, data.span)),
                Attr::Type(ty) => self.check_type(cx, ty, data.span),
                _ => {}
            }
        }
        for &region in &data.regions {
            function.arguments(region).iter().for_each(|&value| self.check_type(cx, function.ty(value), data.span));
            self.block(cx, region);
        }
        data.results.iter().for_each(|&value| self.check_type(cx, function.ty(value), data.span));
    }

    /// A result of an op with regions has a size that is known before the op, not one that a region
    /// binds.
    fn check_region_sizes(&mut self, cx: &mut Check<'_>, inst: Inst) {
        let function = cx.function;
        let regions = &function.inst(inst).regions;
        let inside: Vec<Symbol> = regions
            .iter()
            .flat_map(|&region| function.walk(region))
            .flat_map(|inner| function.bound_by(inner).cloned())
            .collect();
        let types = function.results_of(inst).iter().filter_map(|&value| function.ty(value).shaped());
        let sizes: Vec<Symbol> = types.flat_map(|tensor| &tensor.dims).flat_map(Dim::symbols).collect();
        let name = function.def(inst).name;
        for symbol in sizes.into_iter().filter(|symbol| inside.contains(symbol)) {
            if self.reported.insert(symbol.clone()) {
                let message = format!("a result of `{name}` has the size {symbol}, which is bound inside of a region of it");
                let help = format!(
                    "give the result a size that is known before, and the count beside it; bind {symbol} behind the `{name}`, and slice"
                );
                cx.report(crate::Diagnostic::new(Code::E0103, message).at(function.inst(inst).span).help(help));
            }
        }
    }

    fn check_type(&mut self, cx: &mut Check<'_>, ty: &Type, place: Option<Span>) {
        let Some(TensorType { dims, dtype }) = ty.shaped() else { return };
        if dims.len() > MAX_RANK {
            cx.error(Code::E0105, place, format!("a type of {} dimensions; {MAX_RANK} are the limit", dims.len()));
        }
        if !fits(dims.iter().filter_map(Dim::as_const), *dtype) {
            cx.error(Code::E0105, place, format!("the constant sizes of {ty} multiply to 2^62 bytes or more"));
        }
        if let Some(size) = dims.iter().filter_map(Dim::as_const).find(|size| *size < 0) {
            cx.error(Code::E0209, place, format!("a size of {size} in {ty}; sizes are 0 or more"));
        }
        dims.iter().for_each(|dim| self.check_dim(cx, dim, place));
    }

    fn check_dim(&mut self, cx: &mut Check<'_>, dim: &Dim, place: Option<Span>) {
        if let Some(defect) = dim.defect() {
            return cx.error(Code::E0105, place, defect.to_string());
        }
        let mut unbound = None;
        dim.visit_symbols(&mut |symbol| {
            if unbound.is_none() && !self.bound.contains(symbol) && !self.reported.contains(symbol) {
                unbound = Some(symbol.clone());
            }
        });
        if let Some(symbol) = unbound {
            let ops_bind_it = cx.function.data_dims().contains(&symbol);
            let (message, help) = match ops_bind_it {
                true => ("the op that binds it is not before, in this block or one around it", "move the `bind_dim`".to_owned()),
                false => ("the size of no parameter determines it", format!("give a parameter the size [{symbol}]")),
            };
            let message = format!("the dim {symbol} is not bound: {message}");
            cx.report(crate::Diagnostic::new(Code::E0103, message).at(place).help(help));
            self.reported.insert(symbol);
        }
    }
}
