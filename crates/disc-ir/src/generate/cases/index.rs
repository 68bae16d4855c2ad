//! Makes programs of ops that read or write at data-dependent indices: inside and outside the
//! tensor, clamped and checked.
use super::{
    Draw,
    sketch::{Made, Sketch},
};
use crate::{attr::Attr, dim::Dim, graph::Value, ops::OpKind, types::DType};

/// Returns the type of the indices: the integer types alternate.
fn index_type(s: &Sketch) -> DType {
    const TYPES: [DType; 8] = [DType::I64, DType::I32, DType::U8, DType::I8, DType::I64, DType::U32, DType::I16, DType::U64];
    TYPES[s.dtype as usize % TYPES.len()]
}

/// Returns `check` in the last case of each three: indices out of range fail the call.
fn bounds(s: &Sketch, words: [&'static str; 2]) -> &'static str {
    words[usize::from(matches!(s.dtype, DType::F32 | DType::I8 | DType::I64 | DType::U16))]
}

fn starts(s: &mut Sketch) -> [Value; 2] {
    let dtype = index_type(s);
    [s.input(Draw::Indices, &[], dtype), s.input(Draw::Indices, &[], dtype)]
}

pub(super) fn dynamic_slice(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let x = s.input(Draw::Any, &[a.clone(), b.clone()], s.dtype);
    let [i, j] = starts(s);
    let half = |dim: &Dim| dim.floor_div(&Dim::constant(2));
    let word = bounds(s, ["clamp", "check"]);
    let mut part = |sizes: [Dim; 2]| {
        let attrs = [("sizes", sizes.to_vec().into()), ("bounds", word.into())];
        s.op(OpKind::DynamicSlice, &[x, i, j], &attrs)
    };
    Ok(vec![part([half(&a), half(&b)])?, part([a, Dim::constant(0)])?])
}

pub(super) fn dynamic_update_slice(s: &mut Sketch) -> Made<Vec<Value>> {
    let [a, b] = s.plane();
    let x = s.input(Draw::Any, &[a.clone(), b.clone()], s.dtype);
    let half = b.floor_div(&Dim::constant(2));
    let update = s.input(Draw::Any, &[a, half], s.dtype);
    let [i, j] = starts(s);
    let word = bounds(s, ["clamp", "check"]);
    Ok(vec![s.op(OpKind::DynamicUpdateSlice, &[x, update, i, j], &[("bounds", word.into())])?])
}

/// Rows of a table; and elements by index vectors of two.
pub(super) fn gather(s: &mut Sketch) -> Made<Vec<Value>> {
    let ([a, b], c) = (s.plane(), s.size(2));
    if c.as_const().is_none() {
        s.some(&a);
        s.some(&b);
    }
    let table = s.input(Draw::Any, &[a, b.clone()], s.dtype);
    let (dtype, one) = (index_type(s), Dim::constant(1));
    let rows = s.input(Draw::Indices, std::slice::from_ref(&c), dtype);
    let pairs = s.input(Draw::Indices, &[c, Dim::constant(2)], dtype);
    if table_is_empty(s, table) {
        // An empty table has no row to take, so nothing is taken.
        let attrs = gather_attrs(vec![0, 1], vec![], vec![0], 1, vec![Dim::constant(0), b]);
        let none = s.input(Draw::Indices, &[Dim::constant(0)], dtype);
        let attrs = [attrs, vec![("offset_dims", vec![1, 2].into())]].concat();
        return Ok(vec![s.op(OpKind::Gather, &[table, none], &attrs)?]);
    }
    let word = bounds(s, ["clamp", "check"]);
    let mut take = |indices, attrs: Vec<(&'static str, Attr)>| {
        s.op(OpKind::Gather, &[table, indices], &[attrs, vec![("bounds", word.into())]].concat())
    };
    Ok(vec![
        take(rows, gather_attrs(vec![1], vec![0], vec![0], 1, vec![one.clone(), b]))?,
        take(pairs, gather_attrs(vec![], vec![0, 1], vec![1, 0], 1, vec![one.clone(), one.clone()]))?,
        take(rows, gather_attrs(vec![0], vec![0], vec![0], 1, vec![one.clone(), one]))?,
    ])
}

fn table_is_empty(s: &Sketch, table: Value) -> bool {
    s.function.ty(table).as_tensor().is_some_and(|t| t.dims.iter().any(|d| d.is_const(0)))
}

fn gather_attrs(
    offsets: Vec<i64>,
    collapsed: Vec<i64>,
    map: Vec<i64>,
    vector_dim: i64,
    sizes: Vec<Dim>,
) -> Vec<(&'static str, Attr)> {
    vec![
        ("offset_dims", offsets.into()),
        ("collapsed_slice_dims", collapsed.into()),
        ("start_index_map", map.into()),
        ("index_vector_dim", Attr::Int(vector_dim)),
        ("slice_sizes", sizes.into()),
    ]
}

/// Rows that are added (or combined as bits), and rows that replace others.
pub(super) fn scatter(s: &mut Sketch) -> Made<Vec<Value>> {
    let ([a, b], c) = (s.plane(), s.size(2));
    let draw = if s.dtype.is_float() { Draw::Summands } else { Draw::Any };
    let table = s.input(draw, &[a, b.clone()], s.dtype);
    let dtype = index_type(s);
    let rows = s.input(Draw::Indices, std::slice::from_ref(&c), dtype);
    let updates = s.input(draw, &[c, b], s.dtype);
    let add = if OpKind::Add.def().operands[0].class.contains(s.dtype) { OpKind::Add } else { OpKind::Xor };
    let attrs = [
        ("update_window_dims", vec![1].into()),
        ("inserted_window_dims", vec![0].into()),
        ("scatter_dims_to_operand_dims", vec![0].into()),
        ("index_vector_dim", Attr::Int(1)),
        ("bounds", bounds(s, ["skip", "check"]).into()),
    ];
    let combine = s.combiner(add, s.dtype)?;
    let scalar = s.function.ty(table).with_dtype(s.dtype);
    let scalar = crate::types::Type::tensor([], scalar.dtype());
    let replace = s.build(|b| b.region([scalar.clone(), scalar], |b, args| b.ret(&args[1..]).map(drop)))?;
    let mut into = |body| Ok(s.ops(OpKind::Scatter, &[table, rows, updates], &attrs, &[body], None)?[0]);
    Ok(vec![into(combine)?, into(replace)?])
}
