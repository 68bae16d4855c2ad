//! Gives result-type functions their inputs, and the checks that many of them share.
//!
//! Result-type functions are most of the verifier: they return the result types, and the facts that
//! the op implies, or the violated constraint. The rules of the op table (numbers of operands,
//! attribute forms, element types) are checked before they run.
use crate::{
    attr::Attr,
    diag::{Code, Diagnostic},
    dim::{Dim, Solver},
    literal::Literal,
    ops::OpDef,
    types::{DType, TensorType, Type},
};

/// The types of a region's arguments and of its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionType {
    pub arguments: Vec<Type>,
    pub results: Vec<Type>,
}

/// The inputs of a result-type function.
#[derive(Clone, Copy)]
pub struct InferCx<'a> {
    pub def: &'static OpDef,
    pub operands: &'a [Type],
    pub attrs: &'a [Option<Attr>],
    pub regions: &'a [RegionType],
    /// The result types that the text or the caller states. Ops whose result is not a function of
    /// their inputs (`reshape`, `iota`) need them.
    pub declared: Option<&'a [Type]>,
    pub solver: &'a Solver,
}

pub type Inferred = Result<Vec<Type>, Diagnostic>;

impl<'a> InferCx<'a> {
    /// A violation of constraint (C`number`) of the op's doc.
    pub fn error(&self, code: Code, number: u32, message: impl std::fmt::Display) -> Diagnostic {
        Diagnostic::new(code, format!("(C{number}) {message}")).in_op(self.def.name)
    }

    pub fn ty(&self, index: usize) -> &'a Type {
        &self.operands[index]
    }

    /// The operand at `index` as a tensor.
    pub fn tensor(&self, index: usize) -> Result<&'a TensorType, Diagnostic> {
        let ty = &self.operands[index];
        ty.as_tensor().ok_or_else(|| {
            let message = format!("operand {index} has type {ty}, expected a tensor");
            Diagnostic::new(Code::E0208, message).in_op(self.def.name)
        })
    }

    /// The one declared result as a tensor.
    pub fn declared_tensor(&self) -> Result<&'a TensorType, Diagnostic> {
        match self.declared {
            Some([Type::Tensor(tensor)]) => Ok(tensor),
            _ => Err(Diagnostic::new(Code::E0205, "the result type must be stated, and be a tensor").in_op(self.def.name)),
        }
    }

    fn attr(&self, name: &str) -> Option<&'a Attr> {
        let position = self.def.attrs.iter().position(|a| a.name == name);
        position.and_then(|i| self.attrs[i].as_ref())
    }

    /// Returns true if an optional attribute is present.
    pub fn has(&self, name: &str) -> bool {
        self.attr(name).is_some()
    }

    pub fn int(&self, name: &str) -> i64 {
        match self.attr(name) {
            Some(Attr::Int(value)) => *value,
            _ => 0,
        }
    }

    pub fn bool(&self, name: &str) -> bool {
        matches!(self.attr(name), Some(Attr::Bool(true)))
    }

    pub fn word(&self, name: &str) -> &'static str {
        match self.attr(name) {
            Some(Attr::Enum(word)) => word,
            _ => "",
        }
    }

    pub fn ints(&self, name: &str) -> &'a [i64] {
        match self.attr(name) {
            Some(Attr::Ints(values)) => values,
            _ => &[],
        }
    }

    pub fn dims(&self, name: &str) -> &'a [Dim] {
        match self.attr(name) {
            Some(Attr::Dims(values)) => values,
            _ => &[],
        }
    }

    pub fn dim(&self, name: &str) -> Option<&'a Dim> {
        match self.attr(name) {
            Some(Attr::Dim(value)) => Some(value),
            _ => None,
        }
    }

    pub fn literal(&self, name: &str) -> Option<&'a Literal> {
        match self.attr(name) {
            Some(Attr::Literal(value)) => Some(value),
            _ => None,
        }
    }

    pub fn dtype(&self, name: &str) -> Option<DType> {
        match self.attr(name) {
            Some(Attr::DType(value)) => Some(*value),
            _ => None,
        }
    }

    /// An axis of a tensor of this rank.
    pub fn axis(&self, number: u32, axis: i64, rank: usize) -> Result<usize, Diagnostic> {
        let found = usize::try_from(axis).ok().filter(|&a| a < rank);
        found.ok_or_else(|| self.error(Code::E0206, number, format!("axis {axis} is not in [0, {rank})")))
    }

    /// Distinct axes of a tensor of this rank.
    pub fn axes(&self, number: u32, axes: &[i64], rank: usize) -> Result<Vec<usize>, Diagnostic> {
        let found = axes.iter().map(|&a| self.axis(number, a, rank)).collect::<Result<Vec<_>, _>>()?;
        match (1..found.len()).find(|&i| found[..i].contains(&found[i])) {
            Some(i) => Err(self.error(Code::E0206, number, format!("axis {} is named twice", found[i]))),
            None => Ok(found),
        }
    }

    /// Checks that two sizes are equal by the facts; `what` names both, as "dimension 0 of `lhs` is
    /// {a}, of `rhs` is {b}".
    pub fn equal(&self, number: u32, a: &Dim, b: &Dim, what: impl FnOnce() -> String) -> Result<(), Diagnostic> {
        if self.solver.equal(a, b) {
            return Ok(());
        }
        let error = self.error(Code::E0203, number, format!("{}: [{a}] and [{b}]", what()));
        Err(match (a.as_const(), b.as_const(), self.solver.missing_fact(a, b)) {
            (Some(_), Some(_), _) => error,
            (_, _, Some(fact)) => error.note("no fact relates them").help(format!("add `where {fact}`")),
            _ => error.note("they are never equal"),
        })
    }

    /// Checks that two shapes are equal by the facts; `a` and `b` have their names in messages.
    pub fn equal_shapes(&self, number: u32, a: (&str, &[Dim]), b: (&str, &[Dim])) -> Result<(), Diagnostic> {
        if a.1.len() != b.1.len() {
            let message = format!("{} has rank {}, {} has rank {}", named(a.0), a.1.len(), named(b.0), b.1.len());
            return Err(self.error(Code::E0207, number, message));
        }
        a.1.iter().zip(b.1).enumerate().try_for_each(|(i, (x, y))| {
            self.equal(number, x, y, || format!("dimension {i} of {} and of {} differ", named(a.0), named(b.0)))
        })
    }

    /// Checks that two types are equal by the facts.
    pub fn equal_types(&self, number: u32, a: (&str, &Type), b: (&str, &Type)) -> Result<(), Diagnostic> {
        let mismatch =
            || self.error(Code::E0204, number, format!("{} has type {}, {} has type {}", named(a.0), a.1, named(b.0), b.1));
        match (a.1, b.1) {
            (Type::Tensor(x), Type::Tensor(y)) | (Type::Buffer { tensor: x, .. }, Type::Buffer { tensor: y, .. }) => {
                if x.dtype != y.dtype {
                    return Err(mismatch());
                }
                self.equal_shapes(number, (a.0, &x.dims), (b.0, &y.dims))
            }
            (x, y) if x == y => Ok(()),
            _ => Err(mismatch()),
        }
    }

    /// Returns the name of the operand at `index` in messages.
    pub fn operand_name(&self, index: usize) -> &'static str {
        let last = self.def.operands.len() - 1;
        self.def.operands[index.min(last)].name
    }
}

/// Puts a name in backticks; a description stays unquoted.
fn named(what: &str) -> String {
    if what.contains([' ', '`']) { what.to_owned() } else { format!("`{what}`") }
}

/// Infers the result types of an op: checks everything that its declaration states, then calls its
/// result-type function.
///
/// # Errors
/// The first violated rule, naming the op; `declared` types that differ from the inferred ones are
/// one.
pub fn infer_op(cx: &InferCx<'_>) -> Inferred {
    let def = cx.def;
    check_operands(cx)?;
    for (attr, slot) in def.attrs.iter().zip(cx.attrs) {
        match slot {
            Some(value) if attr.kind.admits(value) => {}
            Some(_) => return Err(bad_attr(def, format!("attribute `{}` must be {}", attr.name, attr.kind.describe()))),
            None if attr.required => return Err(bad_attr(def, format!("attribute `{}` is missing", attr.name))),
            None => {}
        }
    }
    check_results(cx)?;
    let types = (def.infer)(cx)?;
    let Some(declared) = cx.declared else { return Ok(types) };
    if declared.len() != types.len() {
        let message = format!("{} results are named, the op has {}", declared.len(), types.len());
        return Err(Diagnostic::new(Code::E0201, message).in_op(def.name));
    }
    for (stated, inferred) in declared.iter().zip(&types) {
        if !same_by_facts(cx.solver, stated, inferred) {
            let message = format!("the stated result type is {stated}, the op's is {inferred}");
            return Err(Diagnostic::new(Code::E0205, message).in_op(def.name));
        }
    }
    Ok(declared.to_vec())
}

fn bad_attr(def: &OpDef, message: String) -> Diagnostic {
    Diagnostic::new(Code::E0202, message).in_op(def.name)
}

fn check_operands(cx: &InferCx<'_>) -> Result<(), Diagnostic> {
    let def = cx.def;
    let Some(groups) = def.operand_groups(cx.operands.len()) else {
        let names: Vec<&str> = def.operands.iter().map(|o| o.name).collect();
        let message = format!("{} operands do not fit ({})", cx.operands.len(), names.join(", "));
        return Err(Diagnostic::new(Code::E0201, message).in_op(def.name));
    };
    for (operand, group) in def.operands.iter().zip(groups) {
        if let Some(ty) = cx.operands[group].iter().find(|ty| !operand.class.contains(ty.dtype())) {
            let message = format!("`{}` has type {ty}, expected element type: {}", operand.name, operand.class.describe());
            return Err(Diagnostic::new(Code::E0204, message).in_op(def.name));
        }
    }
    if cx.regions.len() != def.regions.len() {
        let message = format!("{} regions, expected {}", cx.regions.len(), def.regions.len());
        return Err(Diagnostic::new(Code::E0201, message).in_op(def.name));
    }
    Ok(())
}

/// Checks that the stated results fit the declaration in number and element type.
fn check_results(cx: &InferCx<'_>) -> Result<(), Diagnostic> {
    let (def, Some(declared)) = (cx.def, cx.declared) else { return Ok(()) };
    let Some(groups) = def.result_groups(declared.len()) else {
        let message = format!("{} results do not fit, the op has {}", declared.len(), def.results.len());
        return Err(Diagnostic::new(Code::E0201, message).in_op(def.name));
    };
    for (result, group) in def.results.iter().zip(groups) {
        if let Some(ty) = declared[group].iter().find(|ty| !result.class.contains(ty.dtype())) {
            let message = format!("`{}` has type {ty}, expected element type: {}", result.name, result.class.describe());
            return Err(Diagnostic::new(Code::E0204, message).in_op(def.name));
        }
    }
    Ok(())
}

/// Returns true if two types are equal by the facts.
pub fn same_by_facts(solver: &Solver, a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Tensor(x), Type::Tensor(y)) => same_shaped(solver, x, y),
        (Type::Buffer { tensor: x, space: s }, Type::Buffer { tensor: y, space: t }) => s == t && same_shaped(solver, x, y),
        _ => a == b,
    }
}

fn same_shaped(solver: &Solver, a: &TensorType, b: &TensorType) -> bool {
    a.dtype == b.dtype && a.rank() == b.rank() && a.dims.iter().zip(&b.dims).all(|(x, y)| solver.equal(x, y))
}
