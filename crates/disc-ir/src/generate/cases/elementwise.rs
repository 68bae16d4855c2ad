//! Makes programs of element-wise ops: every form that the attributes give, on elements of every
//! kind.
use super::{
    Draw,
    sketch::{Made, Sketch},
};
use crate::{
    attr::{Attr, AttrKind},
    graph::Value,
    ops::{DTypeClass, Domain, OpKind},
    types::DType,
};

/// An op on inputs of one shape, with every word of its attribute.
pub(super) fn plain(s: &mut Sketch) -> Made<Vec<Value>> {
    let (def, plane) = (s.kind.def(), s.plane());
    let draws = def.math.map_or([Draw::Any; 2], |math| math.drawn.map(draw));
    let operands: Vec<Value> = (0..def.operands.len())
        .map(|i| {
            let dtype = if def.operands[i].class == DTypeClass::BOOL { DType::I1 } else { s.dtype };
            s.input(draws[i.min(1)], &plane, dtype)
        })
        .collect();
    let Some(attr) = def.attrs.first() else { return Ok(vec![s.op(s.kind, &operands, &[])?]) };
    let AttrKind::Enum(words) = attr.kind else { panic!("`{}` has a recipe of its own", def.name) };
    words.iter().map(|&word| s.op(s.kind, &operands, &[(attr.name, Attr::Enum(word))])).collect()
}

/// Returns the elements of an operand of a math function.
fn draw(domain: Domain) -> Draw {
    match domain {
        Domain::All => Draw::Any,
        Domain::Orders => Draw::Orders,
        Domain::AboveOne => Draw::AboveOne,
    }
}

/// Converts to every element type that the op admits.
pub(super) fn conversions(s: &mut Sketch) -> Made<Vec<Value>> {
    let x = s.input(Draw::Any, &s.plane(), s.dtype);
    let fits = |to: &DType| s.kind != OpKind::BitcastConvert || (to.size() == s.dtype.size() && *to != DType::I1);
    let types: Vec<DType> = DType::ALL.into_iter().filter(fits).collect();
    types.into_iter().map(|to| s.op(s.kind, &[x], &[("dtype", to.into())])).collect()
}
