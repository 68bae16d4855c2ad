//! Parses signatures of ops, and checks the stated types after `:` against those of the operands.
use super::{
    Parser,
    cursor::{Parsed, error},
    types::{self, Fresh},
};
use crate::{
    diag::{Code, Diagnostic, Span},
    dim::{Dim, Solver},
    infer::{InferCx, infer_op},
    ops::{Arity, OpDef, OpKind},
    types::{TensorType, Type},
};

/// The types that the text states.
pub(super) struct Signature {
    pub(super) stated: Stated,
    /// Symbols of `?` in it are newer than this.
    mark: u64,
}

pub(super) enum Stated {
    Nothing,
    /// One type for all operands and results.
    All(Type),
    Lists {
        operands: Vec<Type>,
        results: Option<Vec<Type>>,
    },
}

impl Parser<'_> {
    /// Parses `: T`, `: (T, U)`, `: T, U`, `: (T) -> U`, `: -> U`, or an absent signature.
    pub(super) fn signature(&mut self) -> Parsed<Signature> {
        let mark = self.fresh.mark();
        if !self.cursor.eat(":") {
            return Ok(Signature { stated: Stated::Nothing, mark });
        }
        let mut operands = if self.cursor.at("->") { Vec::new() } else { self.types()? };
        let is_one = operands.len() == 1 && !self.last_was_list;
        if self.cursor.eat("->") {
            let results = Some(self.types()?);
            return Ok(Signature { stated: Stated::Lists { operands, results }, mark });
        }
        if is_one && !self.cursor.at(",") {
            return Ok(Signature { stated: Stated::All(operands.remove(0)), mark });
        }
        while self.cursor.eat(",") {
            operands.push(types::parse(&mut self.cursor, &mut self.fresh)?);
        }
        Ok(Signature { stated: Stated::Lists { operands, results: None }, mark })
    }

    /// One type, or a list in parentheses.
    pub(super) fn types(&mut self) -> Parsed<Vec<Type>> {
        self.last_was_list = self.cursor.at("(");
        if !self.last_was_list {
            return Ok(vec![types::parse(&mut self.cursor, &mut self.fresh)?]);
        }
        let found = self.list("(", ")", |parser| {
            let ty = types::parse(&mut parser.cursor, &mut parser.fresh)?;
            parser.skip_attribute_dictionary()?;
            Ok(ty)
        });
        self.last_was_list = true;
        found
    }
}

impl Signature {
    /// Checks the stated operand types. Returns the result types if they are stated. `?` stands for
    /// any size of an operand.
    pub(super) fn check(
        self,
        def: &'static OpDef,
        operands: &[(Type, Span)],
        named: usize,
        cx: (&Fresh<'_>, &Solver),
        place: Span,
    ) -> Parsed<Option<Vec<Type>>> {
        let (mark, (fresh, solver)) = (self.mark, cx);
        let (stated, results) = match self.stated {
            Stated::Nothing => return Ok(None),
            Stated::All(ty) => {
                let count = if named > 0 { named } else { def.results.iter().filter(|r| r.arity == Arity::One).count() };
                if operands.is_empty() && count == 0 {
                    let message = format!("the signature is {ty}, but there is neither an operand nor a result");
                    return Err(error(Code::E0201, place, message).in_op(def.name));
                }
                (vec![ty.clone(); operands.len()], Some(vec![ty; count]))
            }
            // StableHLO's form of `select` states the type of the predicate and that of the
            // choices.
            Stated::Lists { operands: stated, results: None } if def.kind == OpKind::Select && stated.len() == 2 => {
                (vec![stated[0].clone(), stated[1].clone(), stated[1].clone()], Some(vec![stated[1].clone()]))
            }
            Stated::Lists { operands, results: None } => (operands, def.results.is_empty().then(Vec::new)),
            Stated::Lists { operands, results } => (operands, results),
        };
        if stated.len() != operands.len() {
            let message = format!("the signature has {} operand types, the op {} operands", stated.len(), operands.len());
            return Err(error(Code::E0201, place, message).in_op(def.name));
        }
        for (stated, (actual, place)) in stated.iter().zip(operands) {
            if !admits(stated, actual, &|dim| fresh.is_since(mark, dim), solver) {
                let message = format!("the operand has type {actual}, the signature says {stated}");
                return Err(error(Code::E0204, *place, message).in_op(def.name));
            }
        }
        Ok(results)
    }

    /// Returns true if a `?` of this signature is in `ty`.
    pub(super) fn is_open(mark: u64, fresh: &Fresh<'_>, ty: &Type) -> bool {
        ty.shaped().is_some_and(|shaped| shaped.dims.iter().any(|dim| fresh.is_since(mark, dim)))
    }

    pub(super) fn mark(&self) -> u64 {
        self.mark
    }
}

/// Returns true if a value of type `actual` may be used where the text states `stated`: sizes are
/// equal by the facts, or stated as `?`.
fn admits(stated: &Type, actual: &Type, is_open: &dyn Fn(&Dim) -> bool, solver: &Solver) -> bool {
    let shapes = |a: &TensorType, b: &TensorType| {
        let same = |(x, y): (&Dim, &Dim)| x == y || is_open(x) || solver.equal(x, y);
        a.dtype == b.dtype && a.rank() == b.rank() && a.dims.iter().zip(&b.dims).all(same)
    };
    match (stated, actual) {
        (Type::Tensor(a), Type::Tensor(b)) => shapes(a, b),
        (Type::Buffer { tensor: a, space: s }, Type::Buffer { tensor: b, space: t }) => s == t && shapes(a, b),
        (a, b) => a == b,
    }
}

/// Completes result types as far as they can be inferred: sizes stated as `?` take the inferred
/// ones, if the op determines them.
pub(super) fn complete(
    cx: &InferCx<'_>,
    stated: Option<Vec<Type>>,
    mark: u64,
    fresh: &Fresh<'_>,
) -> Result<Vec<Type>, Diagnostic> {
    let Some(mut stated) = stated else { return infer_op(&InferCx { declared: None, ..*cx }) };
    if !stated.iter().any(|ty| Signature::is_open(mark, fresh, ty)) {
        return Ok(stated);
    }
    let Ok(inferred) = infer_op(&InferCx { declared: None, ..*cx }) else { return Ok(stated) };
    if inferred.len() == stated.len() {
        stated.iter_mut().zip(&inferred).for_each(|(ty, known)| fill(ty, known, &|dim| fresh.is_since(mark, dim)));
    }
    Ok(stated)
}

fn fill(ty: &mut Type, known: &Type, is_open: &dyn Fn(&Dim) -> bool) {
    let (Type::Tensor(tensor) | Type::Buffer { tensor, .. }, Some(known)) = (ty, known.shaped()) else { return };
    if tensor.rank() == known.rank() {
        let sizes = tensor.dims.iter_mut().zip(&known.dims).filter(|(size, _)| is_open(size));
        sizes.for_each(|(size, known)| *size = known.clone());
    }
}
