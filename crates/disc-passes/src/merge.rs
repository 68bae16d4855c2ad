//! One product instead of several that read the same rows: query, key and value of attention.
//!
//! Not a step of the pipeline: it saves reading the rows again, and costs the ops that would have joined each product.
//!
//! Invariant: only matrices that no call changes are put side by side, so that the pass `prepare` can do it once.
use crate::{
    fixed::Fixed,
    pass::{PassCx, PassDef},
    query::Query,
    rewrite::{Rewriter, visit},
};
use disc_ir::{Diagnostic, Dim, Function, FunctionKind, Inst, Module, OpKind, Solver, Value, ops::Stage};
use std::{collections::HashMap, sync::Arc};

/// Merges products of one left operand with several matrices of weights.
pub static PASS: PassDef = PassDef {
    name: "merge-dots",
    doc: "Merges products of one left operand with several matrices of weights into one, whose columns are sliced. Not a step of the pipeline.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut merged = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let fixed = Fixed::of(function);
        let mut groups = groups(function, &fixed);
        groups.retain(|group| group.dots.len() > 1 && cx.spend());
        if groups.is_empty() {
            continue;
        }
        fixed_first(function, &fixed);
        let solver = Arc::new(Solver::new(&function.facts));
        merged += visit(function, &solver, &mut |rw, inst| {
            let found = groups.iter_mut().find_map(|group| {
                let place = group.dots.iter().position(|&dot| dot == inst)?;
                Some((group, place))
            });
            let part = found.and_then(|(group, place)| part(rw, group, place));
            rw.take_error().map(|()| part)
        })?;
    }
    Ok(merged)
}

/// Products that can be one.
struct Group {
    dots: Vec<Inst>,
    columns: Vec<i64>,
    column_axis: usize,
    /// The product of all, once it is made.
    whole: Option<Value>,
}

fn groups(function: &Function, fixed: &Fixed) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut of: HashMap<(Value, usize, String), usize> = HashMap::new();
    for &inst in function.insts(function.body) {
        let Some((column_axis, columns)) = matrix(function, inst, fixed) else { continue };
        let [left, right] = function.operands(inst)[..] else { continue };
        // Element types and the rest of the attributes must agree; their text does if they do.
        let rest = format!("{} {:?}", function.ty(right).dtype(), function.inst(inst).attrs);
        let index = *of.entry((left, column_axis, rest)).or_insert_with(|| {
            groups.push(Group { dots: Vec::new(), columns: Vec::new(), column_axis, whole: None });
            groups.len() - 1
        });
        groups[index].dots.push(inst);
        groups[index].columns.push(columns);
    }
    groups
}

/// The axis and the number of columns of a right operand that can be merged.
fn matrix(function: &Function, inst: Inst, fixed: &Fixed) -> Option<(usize, i64)> {
    if function.kind_of(inst) != OpKind::DotGeneral || function.attr(inst, "packed_columns").is_some() {
        return None;
    }
    let right = *function.operands(inst).get(1)?;
    let [summed] = function.axes(inst, "rhs_contracting_dims")[..] else { return None };
    let [a, b] = function.ty(right).as_tensor()?.static_dims()?[..] else { return None };
    let whole = function.ints(inst, "rhs_batching_dims").is_empty() && fixed.depends_on_weights(right);
    whole.then_some(if summed == 0 { (1, b) } else { (0, a) })
}

/// Moves what no call changes to the front, so that a later matrix can be used by an earlier product.
fn fixed_first(function: &mut Function, fixed: &Fixed) {
    let is_fixed = |inst: &Inst| {
        let results = function.results_of(*inst);
        !results.is_empty() && results.iter().all(|&value| fixed.contains(value))
    };
    let (mut first, rest): (Vec<Inst>, Vec<Inst>) = function.insts(function.body).iter().copied().partition(is_fixed);
    first.extend(rest);
    function.set_insts(function.body, first);
}

/// The columns of the whole product that are those of one.
fn part(rw: &mut Rewriter<'_>, group: &mut Group, place: usize) -> Option<Value> {
    let inst = group.dots[place];
    let whole = match group.whole {
        Some(whole) => whole,
        None => {
            let left = rw.f.operands(inst)[0];
            let rights: Vec<Value> = group.dots.iter().map(|&dot| rw.f.operands(dot)[1]).collect();
            let attrs = rw.f.inst(inst).attrs.clone();
            let axis = group.column_axis as i64;
            let right = rw.build(|b| b.op(OpKind::Concatenate).operands(&rights).attr("dim", axis).value())?;
            let whole = rw.build(|b| b.op(OpKind::DotGeneral).operands(&[left, right]).attrs(attrs).value())?;
            *group.whole.insert(whole)
        }
    };
    let from: i64 = group.columns[..place].iter().sum();
    let mut limit = rw.f.shape(whole).to_vec();
    let mut start = vec![Dim::constant(0); limit.len()];
    *start.last_mut()? = Dim::constant(from);
    *limit.last_mut()? = Dim::constant(from + group.columns[place]);
    rw.build(|b| b.op(OpKind::Slice).operands(&[whole]).attr("start", start).attr("limit", limit).value())
}
