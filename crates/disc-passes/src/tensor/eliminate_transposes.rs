//! Eliminates transposes whose consumers are reductions, gathers or transposes:
//! `sum(exp(transpose(x)))` sums in the layout of `x`.
//!
//! A *region* is the set of elementwise ops, slices and concatenations after a transpose, up to the
//! ops that end it: reductions, gathers of single elements, and transposes. If no other op needs a
//! value of the region, it is computed in the layout of the transpose's operand; its reductions and
//! gathers get other dimension numbers, and its final transposes cancel or merge with the first
//! one. A region that another op needs stays, since its transpose would only move.
//!
//! Invariant: a reduction that depends on the order of its elements keeps that order.
mod region;

use crate::{
    analysis::query::Query,
    pass::{PassCx, PassDef},
    rules::rewrite::as_ints,
};
use disc_ir::{Attr, Block, Builder, Diagnostic, Function, FunctionKind, Inst, Module, OpKind, Solver, Type, Value, ops::Stage};
use region::{Ends, Region};
use std::{collections::HashMap, sync::Arc};

/// Computes regions after transposes in the layout of the operand.
pub static PASS: PassDef = PassDef {
    name: "eliminate-transposes",
    doc: "Eliminates transposes whose consumers are reductions, gathers or transposes, by computing the ops in between in \
          the layout of the input.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut changes = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let solver = Arc::new(Solver::new(&function.facts));
        let regions = function.walk(function.body).into_iter().flat_map(|inst| function.inst(inst).regions.to_vec());
        for block in regions.chain([function.body]).collect::<Vec<_>>() {
            // Each rewritten region leaves fewer transposes of whole tensors.
            while let Some(region) = Region::next(function, &solver, block).filter(|_| cx.spend()) {
                undo(function, &solver, block, &region)?;
                changes += 1;
            }
        }
    }
    Ok(changes)
}

/// Rebuilds the ops of a region in the layout of the operand.
fn undo(function: &mut Function, solver: &Arc<Solver>, block: Block, region: &Region) -> Result<(), Diagnostic> {
    let insts = function.insts(block).to_vec();
    function.set_insts(block, Vec::with_capacity(insts.len()));
    let mut writer = Writer { function, solver, block, order: &region.order, lies: HashMap::new() };
    let mut replaced = HashMap::new();
    for inst in insts {
        if region.is_transpose(inst) {
            let [operand, result] = [writer.function.operands(inst)[0], writer.function.result(inst)];
            writer.lies.insert(result, operand);
        } else if region.is_inside(inst) {
            let value = writer.inside(inst)?;
            writer.function.inherit_name(writer.function.result(inst), value);
            writer.lies.insert(writer.function.result(inst), value);
        } else if let Some(ends) = region.end(inst) {
            let values = writer.end(inst, ends)?;
            replaced.extend(writer.function.results_of(inst).iter().copied().zip(values));
        } else {
            writer.function.append(block, inst);
        }
    }
    function.replace_uses(&replaced);
    Ok(())
}

struct Writer<'f> {
    function: &'f mut Function,
    solver: &'f Arc<Solver>,
    block: Block,
    /// Dimension `i` of a value of the region is dimension `order[i]` in memory.
    order: &'f [usize],
    /// The rebuilt values of the region.
    lies: HashMap<Value, Value>,
}

impl Writer<'_> {
    fn builder(&mut self) -> Builder<'_> {
        Builder::at(self.function, self.block, Arc::clone(self.solver))
    }

    /// Builds the successor of an op.
    fn builder_of(&mut self, inst: Inst) -> Builder<'_> {
        let origin = self.function.inst(inst).origin;
        let mut builder = self.builder();
        builder.origin = origin;
        builder
    }

    /// Permutes a list with one entry per dimension into memory order.
    fn turned<T: Clone>(&self, list: &[T]) -> Vec<T> {
        let mut turned = list.to_vec();
        self.order.iter().zip(list).for_each(|(&axis, entry)| turned[axis] = entry.clone());
        turned
    }

    fn axes(&self, inst: Inst, name: &str) -> Vec<usize> {
        self.function.axes(inst, name).into_iter().map(|axis| self.order[axis]).collect()
    }

    /// The operand of a rebuilt op: a rebuilt value, a value equal for all elements, or one rebuilt
    /// in this order.
    fn operand(&mut self, value: Value) -> Result<Value, Diagnostic> {
        if let Some(&known) = self.lies.get(&value) {
            return Ok(known);
        }
        if self.function.shape(value).is_empty() {
            return Ok(value);
        }
        let made = match self.function.defining(value) {
            Some(inst) => self.inside(inst)?,
            None => panic!("what a region reads is of it, or can be written in its order"),
        };
        self.lies.insert(value, made);
        Ok(made)
    }

    /// Rebuilds an op whose result has the dimensions of the region.
    fn inside(&mut self, inst: Inst) -> Result<Value, Diagnostic> {
        let (kind, span) = (self.function.kind_of(inst), self.function.inst(inst).span);
        let shape = self.function.shape(self.function.result(inst)).to_vec();
        let ty = Type::tensor(self.turned(&shape), self.function.ty(self.function.result(inst)).dtype());
        let attrs = self.attrs(inst);
        let from = self.function.operands(inst).to_vec();
        let reads_whole = !matches!(kind, OpKind::BroadcastInDim);
        let mut operands = Vec::with_capacity(from.len());
        for operand in from {
            operands.push(if reads_whole { self.operand(operand)? } else { operand });
        }
        let mut builder = self.builder_of(inst);
        let request = builder.op(kind).operands(&operands).attrs(attrs).span(span);
        match kind {
            OpKind::BroadcastInDim | OpKind::Iota | OpKind::Constant => request.result(ty).value(),
            _ => request.value(),
        }
    }

    /// The attributes of an op of the region with renumbered dimensions.
    fn attrs(&self, inst: Inst) -> Vec<Option<Attr>> {
        let (function, def) = (&*self.function, self.function.def(inst));
        let mut attrs = function.inst(inst).attrs.to_vec();
        let lists: &[&str] = match function.kind_of(inst) {
            OpKind::Slice => &["start", "limit", "strides"],
            OpKind::Pad => &["low", "high", "interior"],
            OpKind::BroadcastInDim | OpKind::Reverse | OpKind::Iota | OpKind::Concatenate => &[],
            _ => return attrs,
        };
        for name in lists {
            let attr = &mut attrs[def.attr_position(name).expect("an attribute of the op")];
            match attr {
                Some(Attr::Dims(dims)) => *attr = Some(Attr::from(self.turned(dims))),
                Some(Attr::Ints(ints)) => *attr = Some(Attr::from(self.turned(ints))),
                _ => {}
            }
        }
        if let Some(position) = def.attr_position("dims") {
            attrs[position] = Some(Attr::from(as_ints(&self.axes(inst, "dims"))));
        }
        if let Some(position) = def.attr_position("dim") {
            attrs[position] = Some(Attr::Int(self.order[function.int(inst, "dim") as usize] as i64));
        }
        attrs
    }

    /// Rebuilds an op that ends a region, and returns the replacements of its results.
    fn end(&mut self, inst: Inst, ends: Ends) -> Result<Vec<Value>, Diagnostic> {
        match ends {
            Ends::Transpose => {
                let order = self.axes(inst, "dims");
                let operand = self.operand(self.function.operands(inst)[0])?;
                Ok(vec![self.transpose(operand, &order)?])
            }
            Ends::Gather => self.gather(inst).map(|value| vec![value]),
            Ends::Reduce => self.reduce(inst),
        }
    }

    fn transpose(&mut self, value: Value, order: &[usize]) -> Result<Value, Diagnostic> {
        if order.is_sorted() {
            return Ok(value);
        }
        self.builder().op(OpKind::Transpose).operands(&[value]).attr("dims", as_ints(order)).value()
    }

    fn gather(&mut self, inst: Inst) -> Result<Value, Diagnostic> {
        let (def, sizes) = (self.function.def(inst), self.function.dims(inst, "slice_sizes").to_vec());
        let (collapsed, indexed) = (self.axes(inst, "collapsed_slice_dims"), self.axes(inst, "start_index_map"));
        let batching = self.axes(inst, "operand_batching_dims").into_iter();
        let mut pairs: Vec<(usize, i64)> =
            batching.zip(self.function.ints(inst, "start_indices_batching_dims").iter().copied()).collect();
        pairs.sort_unstable();
        let mut attrs = self.function.inst(inst).attrs.to_vec();
        let mut set = |name: &str, value: Attr| attrs[def.attr_position(name).expect("an attribute of the op")] = Some(value);
        set("slice_sizes", Attr::from(self.turned(&sizes)));
        set("collapsed_slice_dims", Attr::from(as_ints(&sorted(collapsed))));
        set("start_index_map", Attr::from(as_ints(&indexed)));
        if !pairs.is_empty() {
            let (operand, indices): (Vec<i64>, Vec<i64>) = pairs.into_iter().map(|(axis, with)| (axis as i64, with)).unzip();
            set("operand_batching_dims", Attr::from(operand));
            set("start_indices_batching_dims", Attr::from(indices));
        }
        let &[operand, indices] = self.function.operands(inst) else { panic!("a gather has two operands") };
        let (operand, span) = (self.operand(operand)?, self.function.inst(inst).span);
        self.builder_of(inst).op(OpKind::Gather).operands(&[operand, indices]).attrs(attrs).span(span).value()
    }

    /// Reduces the same dimensions, and restores the order of the kept ones.
    fn reduce(&mut self, inst: Inst) -> Result<Vec<Value>, Diagnostic> {
        let reduced = self.axes(inst, "dims");
        let body = self.function.inst(inst).regions[0];
        let mut operands = self.function.operands(inst).to_vec();
        let inputs = operands.len() / 2;
        for operand in &mut operands[..inputs] {
            *operand = self.operand(*operand)?;
        }
        let span = self.function.inst(inst).span;
        let dims = as_ints(&sorted(reduced.clone()));
        let mut builder = self.builder_of(inst);
        let made = builder.op(OpKind::Reduce).operands(&operands).region(body).attr("dims", dims).span(span).build()?;
        let kept: Vec<usize> = self.order.iter().copied().filter(|axis| !reduced.contains(axis)).collect();
        let lies = sorted(kept.clone());
        let order: Vec<usize> =
            kept.iter().map(|axis| lies.iter().position(|other| other == axis).expect("the same axes")).collect();
        let results = self.function.results_of(made).to_vec();
        results.into_iter().map(|result| self.transpose(result, &order)).collect()
    }
}

fn sorted(mut axes: Vec<usize>) -> Vec<usize> {
    axes.sort_unstable();
    axes
}
