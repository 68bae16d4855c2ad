//! Every dim is bound.
//!
//! Invariants:
//! - A symbol that a type, an attribute or a fact mentions is bound by the parameters: one of their sizes determines it, alone (`[B]`) or with
//!   others that are bound (`[2*B + S]`). A size that is more than a symbol, and every fact, is also a check at the entry of a call.
//! - A dim of a type is representable; its constant sizes multiply to less than 2^62 bytes.
use super::{
    Check,
    matching::{MOST_ROUNDS, solvable},
};
use crate::{
    attr::Attr,
    diag::{Code, Span},
    dim::{Dim, Symbol},
    graph::Function,
    text::limits::{MAX_RANK, fits},
    types::{TensorType, Type},
};
use std::collections::BTreeSet;

pub(super) fn check(cx: &mut Check<'_>) {
    let function = cx.function;
    let mut seen = Seen { bound: bound(function), reported: BTreeSet::new() };
    for ty in function.parameters().iter().map(|&p| function.ty(p)).chain(&function.results) {
        seen.check_type(cx, ty, function.span);
    }
    for fact in function.facts.iter() {
        let mut symbols = Vec::new();
        fact.visit_symbols(&mut |symbol| symbols.push(symbol.clone()));
        symbols.iter().for_each(|symbol| seen.check_dim(cx, &Dim::symbol(symbol), function.span));
    }
    for inst in function.walk(function.body) {
        let data = function.inst(inst);
        let arguments = data.regions.iter().flat_map(|&region| function.arguments(region));
        for &value in data.results.iter().chain(arguments) {
            seen.check_type(cx, function.ty(value), data.span);
        }
        for attr in data.attrs.iter().flatten() {
            match attr {
                Attr::Dim(dim) => seen.check_dim(cx, dim, data.span),
                Attr::Dims(dims) => dims.iter().for_each(|dim| seen.check_dim(cx, dim, data.span)),
                Attr::Type(ty) => seen.check_type(cx, ty, data.span),
                _ => {}
            }
        }
    }
}

/// The symbols that the sizes of the parameters determine.
fn bound(function: &Function) -> BTreeSet<Symbol> {
    let mut bound: BTreeSet<Symbol> = function.bound_symbols().into_iter().collect();
    let sizes = function.parameters().iter().filter_map(|&p| function.ty(p).shaped()).flat_map(|t| &t.dims);
    let mut open: Vec<&Dim> = sizes.filter(|dim| dim.as_const().is_none() && dim.as_symbol().is_none()).collect();
    for _ in 0..MOST_ROUNDS {
        let before = bound.len();
        open.retain(|dim| match solvable(dim, &bound) {
            Some(found) => !bound.insert(found.symbol),
            None => true,
        });
        if bound.len() == before {
            break;
        }
    }
    bound
}

struct Seen {
    bound: BTreeSet<Symbol>,
    reported: BTreeSet<Symbol>,
}

impl Seen {
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
            let message = format!("the dim {symbol} is not bound: the size of no parameter determines it");
            cx.report(
                crate::Diagnostic::new(Code::E0103, message).at(place).help(format!("give a parameter the size [{symbol}]")),
            );
            self.reported.insert(symbol);
        }
    }
}
