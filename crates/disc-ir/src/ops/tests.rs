//! Tests of the op table and of result-type functions.
//!
//! Most go through [`Op`], which states an op as the builder would see it.
use super::*;
use crate::{
    attr::Attr,
    dim::{Dim, Facts, Solver},
    infer::{InferCx, RegionType, infer_op},
    types::{DType, Type},
};
use std::collections::HashSet;

mod body;
mod constraints;
mod shapes;

/// An op with its inputs, to be inferred.
struct Op {
    kind: OpKind,
    operands: Vec<Type>,
    attrs: Vec<Option<Attr>>,
    regions: Vec<RegionType>,
    declared: Option<Vec<Type>>,
}

fn op(kind: OpKind, operands: &[&str]) -> Op {
    let attrs = vec![None; kind.def().attrs.len()];
    Op { kind, operands: operands.iter().map(|text| ty(text)).collect(), attrs, regions: Vec::new(), declared: None }
}

impl Op {
    fn attr(mut self, name: &str, value: impl Into<Attr>) -> Self {
        let position = self.kind.def().attr_position(name).expect("the op has the attribute");
        self.attrs[position] = Some(value.into());
        self
    }

    fn ints(self, name: &str, values: &[i64]) -> Self {
        self.attr(name, values.to_vec())
    }

    /// Dims as text, separated by commas.
    fn dims(self, name: &str, text: &str) -> Self {
        self.attr(name, dims(text))
    }

    fn region(mut self, arguments: &[&str], results: &[&str]) -> Self {
        let types = |texts: &[&str]| texts.iter().map(|text| ty(text)).collect();
        self.regions.push(RegionType { arguments: types(arguments), results: types(results) });
        self
    }

    fn declared(mut self, types: &[&str]) -> Self {
        self.declared = Some(types.iter().map(|text| ty(text)).collect());
        self
    }

    fn infer(&self) -> Result<Vec<Type>, String> {
        let solver = Solver::new(&Facts::default());
        let cx = InferCx {
            def: self.kind.def(),
            operands: &self.operands,
            attrs: &self.attrs,
            regions: &self.regions,
            declared: self.declared.as_deref(),
            solver: &solver,
        };
        infer_op(&cx).map_err(|e| e.to_string())
    }

    /// The result types, in the form of [`ty`].
    #[track_caller]
    fn gives(&self, results: &[&str]) {
        let wanted: Vec<Type> = results.iter().map(|text| ty(text)).collect();
        assert_eq!(self.infer(), Ok(wanted));
    }

    /// Asserts that the message has the number of the constraint, and these words.
    #[track_caller]
    fn fails(&self, number: u32, words: &str) {
        let error = self.infer().expect_err("the constraint is violated");
        assert!(error.contains(&format!("(C{number})")) && error.contains(words), "{error}");
    }
}

/// Dims, separated by commas.
fn dims(text: &str) -> Vec<Dim> {
    let mut rest = text.trim();
    let mut dims = Vec::new();
    while !rest.is_empty() {
        let (dim, length) = Dim::parse_prefix(rest).expect("a dim");
        dims.push(dim);
        rest = rest[length..].trim_start_matches([',', ' ']);
    }
    dims
}

/// A tensor type: `f32`, `f32[2,B]`.
fn ty(text: &str) -> Type {
    let (dtype, shape) = text.split_once('[').map_or((text, ""), |(dtype, rest)| (dtype, rest.trim_end_matches(']')));
    Type::tensor(dims(shape), DType::from_name(dtype).expect("an element type"))
}

#[test]
fn the_table_is_in_the_order_of_the_kinds_and_names_are_unique() {
    for (i, def) in OPS.iter().enumerate() {
        assert_eq!(def.kind as usize, i, "{}", def.name);
        assert_eq!(OpKind::from_name(def.name), Some(def.kind));
    }
    assert_eq!(OPS.iter().map(|def| def.name).collect::<HashSet<_>>().len(), OPS.len());
    assert_eq!(FAMILIES.iter().map(|(_, kinds)| kinds.len()).sum::<usize>(), OPS.len());
}

#[test]
fn constraints_are_numbered_from_one_without_gaps() {
    for def in OPS {
        let numbers: Vec<usize> =
            def.doc.lines().filter_map(|line| line.trim().strip_prefix("(C")?.split(')').next()?.parse().ok()).collect();
        assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>(), "{}", def.name);
    }
}

#[test]
fn an_op_that_is_pure_has_no_other_effect() {
    for def in OPS.iter().filter(|def| def.has(Trait::Pure)) {
        let other = [Trait::MayFail, Trait::Reads, Trait::Writes].into_iter().find(|&t| def.has(t));
        assert_eq!(other, None, "{}", def.name);
    }
}

#[test]
fn the_docs_name_every_op_attribute_and_region() {
    let docs = docs();
    for def in OPS {
        let section = docs.split(&format!("\n### {}\n", def.name)).nth(1).expect("a section");
        let section = section.split("\n### ").next().expect("its text");
        let names =
            def.attrs.iter().map(|a| a.name).chain(def.operands.iter().map(|o| o.name)).chain(def.regions.iter().copied());
        names.for_each(|name| assert!(section.contains(&format!("`{name}`")), "{} {name}", def.name));
    }
}

/// Ops on floats take every float, those on integers every integer, and those that move elements
/// any element; or their docs say why not.
#[test]
fn an_op_that_admits_fewer_types_says_why() {
    use DTypeClass as C;
    let whole = [C::ANY, C::NUMBER, C::FLOAT, C::INTEGER, C::BITS, C::BOOL];
    let on_tensors = |def: &&OpDef| matches!(def.stages, Stages::Tensor | Stages::Both | Stages::Only(_));
    for def in OPS.iter().filter(on_tensors) {
        let moves = def.has(Trait::Movement) || matches!(def.kind, OpKind::Iota | OpKind::Compare | OpKind::BitcastConvert);
        let data = def.operands.first().or(def.results.first());
        let is_whole = def.operands.iter().chain(def.results).all(|operand| whole.contains(&operand.class));
        let is_any = !moves || data.is_some_and(|operand| operand.class == C::ANY);
        assert_eq!(is_whole && is_any, !def.doc.contains("Not for"), "{}", def.name);
    }
}
