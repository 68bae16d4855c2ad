//! Folds transposes of operands into the dimension numbers of a matmul.
use super::arithmetic::operands;
use crate::{
    analysis::query::Query,
    rules::rewrite::{Rewriter, Rule, as_ints, rule},
};
use disc_ir::{Attr, Inst, OpKind, Value};

pub(super) const RULES: &[Rule] = &[
    rule(
        "dot-transposed-left",
        "dot(transpose(x), y) => dot(x, y), if the order of the result's dimensions stays",
        OpKind::DotGeneral,
        |rw, i| transposed(rw, i, 0),
    ),
    rule(
        "dot-transposed-right",
        "dot(x, transpose(y)) => dot(x, y), if the order of the result's dimensions stays",
        OpKind::DotGeneral,
        |rw, i| transposed(rw, i, 1),
    ),
];

const BATCHING: [&str; 2] = ["lhs_batching_dims", "rhs_batching_dims"];
const CONTRACTING: [&str; 2] = ["lhs_contracting_dims", "rhs_contracting_dims"];

/// The dimensions of the result follow the lists (batch) and the operands (free). Renumbering keeps
/// the order of the lists; the free dimensions keep theirs if they ascend in the operand of the
/// transpose too.
fn transposed(rw: &mut Rewriter<'_>, inst: Inst, side: usize) -> Option<Value> {
    let mut values: [Value; 2] = operands(rw, inst);
    let transpose = rw.f.made_by(values[side], OpKind::Transpose)?;
    let order = rw.f.axes(transpose, "dims");
    let renumbered = |name: &str| -> Vec<usize> { rw.f.axes(inst, name).iter().map(|&axis| order[axis]).collect() };
    let (batching, contracting) = (renumbered(BATCHING[side]), renumbered(CONTRACTING[side]));
    let rest = order.iter().filter(|axis| !batching.contains(axis) && !contracting.contains(axis));
    // Several contracted dimensions are summed as one if they are adjacent; a transpose that makes
    // them adjacent is worth its cost.
    let side_by_side = |dims: &[usize]| dims.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let scatters = side_by_side(&rw.f.axes(inst, CONTRACTING[side])) && !side_by_side(&contracting);
    if !rest.is_sorted() || scatters {
        return None;
    }
    values[side] = rw.f.operands(transpose)[0];
    let mut attrs = rw.f.inst(inst).attrs.clone();
    let def = rw.f.def(inst);
    for (name, axes) in [(BATCHING[side], batching), (CONTRACTING[side], contracting)] {
        let slot = &mut attrs[def.attr_position(name).expect("an attribute of the op")];
        if slot.is_some() {
            *slot = Some(Attr::Ints(as_ints(&axes)));
        }
    }
    rw.build(|b| b.op(OpKind::DotGeneral).operands(&values).attrs(attrs).value())
}
