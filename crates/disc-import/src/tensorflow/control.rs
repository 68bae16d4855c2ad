//! Lowers loops and branches on data, whose bodies are functions of the library.
use super::{
    graph::{Body, Edge},
    lower::returned,
    region::Region,
    row::{Items, Row},
};
use crate::{
    emit::Emitter,
    sizes::{Item, List},
};
use disc_ir::{Code, DType, Diagnostic, Dim, Type, Value};

/// The ops of this file.
pub(super) const OPS: &[&str] = &["If", "StatelessIf", "StatelessWhile", "While"];

/// The attributes of an op that name functions.
pub(super) fn functions(op: &str) -> &'static [&'static str] {
    match op {
        "If" | "StatelessIf" => &["then_branch", "else_branch"],
        _ => &["cond", "body"],
    }
}

pub(super) fn lower(region: &Region<'_, '_>, row: &Row<'_, '_>, op: &str) -> Items {
    row.attrs.ignore(&["output_shapes", "parallel_iterations"]);
    match op {
        "If" | "StatelessIf" => branch(region, row),
        _ => repeat(region, row),
    }
}

/// Runs one of two functions; a condition that is known chooses here.
fn branch(region: &Region<'_, '_>, row: &Row<'_, '_>) -> Items {
    let (then, other) = (row.attrs.function("then_branch")?, row.attrs.function("else_branch")?);
    let arguments = row.inputs.get(1..).unwrap_or_default();
    if let Some(truth) = row.list(0).and_then(crate::sizes::Sizes::number) {
        return region.function(row.b, if truth != 0 { then } else { other }, arguments);
    }
    let b = row.b;
    let pred = row.tensor(0)?;
    let pred = if b.dtype(pred) == DType::I1 { pred } else { b.convert(pred, DType::I1)? };
    if b.rank(pred) != 0 {
        return Err(Diagnostic::new(Code::E1004, "expected a condition without axes"));
    }
    let values = |name: &str| {
        let items = region.function(b, name, arguments)?;
        items.iter().map(|item| item.tensor(b)).collect::<Result<Vec<Value>, Diagnostic>>()
    };
    Ok(b.branch(pred, || values(then), || values(other))?.into_iter().map(Item::Tensor).collect())
}

/// Runs a function as long as another one says. What the body returns as it got it is no value of
/// the loop: lists of sizes and weights keep what is known about them.
fn repeat(region: &Region<'_, '_>, row: &Row<'_, '_>) -> Items {
    let (cond, body) = (row.attrs.function("cond")?, row.attrs.function("body")?);
    let (b, kept) = (row.b, kept(region, body)?);
    if kept.len() != row.inputs.len() {
        return Err(Diagnostic::new(Code::E1004, format!("a body of {} results for {} inputs", kept.len(), row.inputs.len())));
    }
    let inits = with_types(region, row, body, &kept)?;
    let carried = |items: &[Item]| -> Result<Vec<Value>, Diagnostic> {
        items.iter().zip(&kept).filter(|(_, kept)| !**kept).map(|(item, _)| item.tensor(b)).collect()
    };
    let with = |values: &[Value]| restored(&inits, &kept, values);
    let more = |values: &[Value]| match region.function(b, cond, &with(values))?.first() {
        Some(item) => item.tensor(b),
        None => Err(Diagnostic::new(Code::E1004, "a condition without a result")),
    };
    let step = |values: &[Value]| carried(&region.function(b, body, &with(values))?);
    let values = b.repeat(&carried(&inits)?, more, step)?;
    Ok(with(&values))
}

/// Items with the values of a loop where the loop has some.
fn restored(items: &[Item], kept: &[bool], values: &[Value]) -> Vec<Item> {
    let mut values = values.iter();
    let item = |(item, kept): (&Item, &bool)| match (item, if *kept { None } else { values.next() }) {
        (_, None) => item.clone(),
        (Item::List(_), Some(&value)) => Item::List(List::Stored(value)),
        (_, Some(&value)) => Item::Tensor(value),
    };
    items.iter().zip(kept).map(item).collect()
}

/// True for each argument that a body returns as it is.
fn kept(region: &Region<'_, '_>, body: &str) -> Result<Vec<bool>, Diagnostic> {
    let (_, function) = region.library.find(body)?;
    let body = Body::of_function(function)?;
    let is_kept = |(i, &edge): (usize, &Edge)| Ok(source(&body, edge)? == Edge::Argument(i));
    returned(&body, function)?.iter().enumerate().map(is_kept).collect()
}

/// The origin of an edge, under nodes that change nothing.
fn source(body: &Body<'_>, mut edge: Edge) -> Result<Edge, Diagnostic> {
    for _ in 0..body.nodes.len() {
        let Edge::Output { node, .. } = edge else { return Ok(edge) };
        match body.inputs(node)?.first() {
            Some(&input) if body.node(node)?.op == "Identity" => edge = input,
            _ => return Ok(edge),
        }
    }
    Ok(edge)
}

/// The first values of a loop. A list that was reserved without the shape of its elements gets the
/// shape that the body stores: the body is lowered once for that, and that code dropped.
fn with_types(region: &Region<'_, '_>, row: &Row<'_, '_>, body: &str, kept: &[bool]) -> Result<Vec<Item>, Diagnostic> {
    let b = row.b;
    let is_open = |item: &Item| matches!(item, Item::List(List::Reserved { .. }));
    let mut inits = row.inputs.to_vec();
    if !inits.iter().zip(kept).any(|(item, kept)| !kept && is_open(item)) {
        return Ok(inits);
    }
    let known = |item: &Item, kept: &bool| !kept && !is_open(item);
    let values = inits.iter().zip(kept).filter(|(item, kept)| known(item, kept)).map(|(item, _)| item.tensor(b));
    let values = values.collect::<Result<Vec<Value>, Diagnostic>>()?;
    let mut found: Vec<Option<Type>> = Vec::new();
    b.probe(&values, |arguments| {
        let without: Vec<bool> = inits.iter().zip(kept).map(|(item, kept)| !known(item, kept)).collect();
        let items = region.function(b, body, &restored(&inits, &without, arguments))?;
        found = items.iter().map(|item| stored_type(b, item)).collect();
        Ok(())
    })?;
    for (item, ty) in inits.iter_mut().zip(found) {
        if is_open(item)
            && let Some(Type::Tensor(ty)) = ty
        {
            *item = Item::List(List::Stored(b.full(0, &ty.dims, ty.dtype)?));
        }
    }
    Ok(inits)
}

fn stored_type(b: &Emitter<'_>, item: &Item) -> Option<Type> {
    match item {
        Item::List(List::Stored(value)) => {
            let dims: Vec<Dim> = b.shape(*value);
            Some(Type::tensor(dims, b.dtype(*value)))
        }
        _ => None,
    }
}
