//! States relations of sizes, and emits loops.
use super::Emitter;
use disc_ir::{
    Attr, Block, Code, DType, Diagnostic, Dim, OpKind, Type, Value,
    dim::{Fact, FactError},
};

type Emitted = Result<Value, Diagnostic>;

/// A relation of sizes that a fact can state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    Eq,
    Le,
    Ge,
}

impl Sign {
    fn text(self) -> &'static str {
        match self {
            Sign::Eq => "==",
            Sign::Le => "<=",
            Sign::Ge => ">=",
        }
    }

    fn holds(self, left: i64, right: i64) -> bool {
        match self {
            Sign::Eq => left == right,
            Sign::Le => left <= right,
            Sign::Ge => left >= right,
        }
    }

    fn fact(self, left: &Dim, right: &Dim) -> Fact {
        match self {
            Sign::Eq => Fact::Equal(left.clone(), right.clone()),
            Sign::Le => Fact::less_equal(left, right),
            Sign::Ge => Fact::less_equal(right, left),
        }
    }
}

impl Emitter<'_> {
    /// Returns true if two sizes are known to be equal.
    pub fn equal(&self, left: &Dim, right: &Dim) -> bool {
        left == right || (left.as_const().is_none() || right.as_const().is_none()) && self.with(|b| b.solver().equal(left, right))
    }

    /// Returns true if one size is known to be less than another.
    pub fn is_less(&self, left: &Dim, right: &Dim) -> bool {
        match (left.as_const(), right.as_const()) {
            (Some(left), Some(right)) => left < right,
            _ => self.with(|b| b.solver().less_than(left, right)),
        }
    }

    /// Adds a fact to the function.
    ///
    /// # Errors
    /// It contradicts others.
    pub fn state(&self, fact: Fact) -> Result<(), Diagnostic> {
        self.state_as(fact.to_string(), fact)
    }

    fn state_as(&self, text: String, fact: Fact) -> Result<(), Diagnostic> {
        self.note_stated(text);
        self.with(|b| b.add_fact(fact)).map_err(|error: FactError| Diagnostic::new(Code::E0212, error.to_string()))
    }

    /// States a relation of sizes that the op needs, unless it is known.
    ///
    /// # Errors
    /// The sizes are numbers that do not fit, or the fact contradicts others.
    pub fn require(&self, left: &Dim, sign: Sign, right: &Dim) -> Result<(), Diagnostic> {
        if sign == Sign::Eq && self.equal(left, right) {
            return Ok(());
        }
        match (left.as_const(), right.as_const()) {
            (Some(a), Some(b)) if sign.holds(a, b) => Ok(()),
            (Some(a), Some(b)) => {
                let message = format!("sizes {a} and {b} do not fit: expected {a} {} {b}", sign.text());
                Err(Diagnostic::new(Code::E0203, message))
            }
            _ => self.state_as(format!("{left} {} {right}", sign.text()), sign.fact(left, right)),
        }
    }

    /// Fails the call unless a scalar of type i1 holds.
    ///
    /// # Errors
    /// Another type.
    pub fn require_true(&self, condition: Value, message: &str) -> Result<(), Diagnostic> {
        self.with(|b| b.op(OpKind::Assert).operands(&[condition]).attr("message", Attr::Str(message.into())).build()).map(drop)
    }

    /// `values = step(values)` as long as `more(values)` holds, a scalar of type i1; the types of
    /// the values stay.
    ///
    /// # Errors
    /// Those of the bodies, or other types.
    pub fn repeat(
        &self,
        inits: &[Value],
        more: impl FnOnce(&[Value]) -> Emitted,
        step: impl FnOnce(&[Value]) -> Result<Vec<Value>, Diagnostic>,
    ) -> Result<Vec<Value>, Diagnostic> {
        let types: Vec<Type> = self.with(|b| inits.iter().map(|&x| b.function.ty(x).clone()).collect());
        let cond = self.region(types.clone(), |values| Ok(vec![more(values)?]))?;
        let regions = [cond, self.region(types, step)?];
        self.with_regions(OpKind::While, inits, &regions)
    }

    /// `values = step(i, values)` for each `i` below the size `count`; the types of the values
    /// stay.
    ///
    /// # Errors Those of the body, or other types.
    pub fn count(
        &self,
        count: &Dim,
        inits: &[Value],
        step: impl FnOnce(Value, &[Value]) -> Result<Vec<Value>, Diagnostic>,
    ) -> Result<Vec<Value>, Diagnostic> {
        let (last, one) = (self.lift(count, DType::I64)?, self.lift(1, DType::I64)?);
        let first = [&[self.lift(0, DType::I64)?], inits].concat();
        let ends = |values: &[Value]| self.compare("LT", counter(values)?, last);
        let mut results = self.repeat(&first, ends, |values| {
            let i = counter(values)?;
            Ok([vec![self.add(i, one)?], step(i, &values[1..])?].concat())
        })?;
        results.remove(0);
        Ok(results)
    }

    /// The results of one of two bodies, whose types are equal.
    ///
    /// # Errors
    /// Those of the bodies, or other types.
    pub fn branch(
        &self,
        pred: Value,
        then: impl FnOnce() -> Result<Vec<Value>, Diagnostic>,
        otherwise: impl FnOnce() -> Result<Vec<Value>, Diagnostic>,
    ) -> Result<Vec<Value>, Diagnostic> {
        let then = self.region([], |_| then())?;
        let otherwise = self.region([], |_| otherwise())?;
        self.with_regions(OpKind::If, &[pred], &[then, otherwise])
    }

    /// Emits a body on values of these types where nothing reads it: its types are what is wanted.
    ///
    /// # Errors
    /// Those of the body.
    pub fn probe(&self, like: &[Value], body: impl FnOnce(&[Value]) -> Result<(), Diagnostic>) -> Result<(), Diagnostic> {
        let types: Vec<Type> = self.with(|b| like.iter().map(|&x| b.function.ty(x).clone()).collect());
        self.region(types, |values| body(values).map(|()| Vec::new())).map(drop)
    }

    fn region(
        &self,
        arguments: impl IntoIterator<Item = Type>,
        fill: impl FnOnce(&[Value]) -> Result<Vec<Value>, Diagnostic>,
    ) -> Result<Block, Diagnostic> {
        let (block, outer, values) = self.with(|b| {
            let block = b.function.add_block();
            let values: Vec<Value> = arguments.into_iter().map(|ty| b.function.add_argument(block, ty)).collect();
            (block, std::mem::replace(&mut b.block, block), values)
        });
        let filled = fill(&values).and_then(|results| self.with(|b| b.ret(&results)));
        self.with(|b| b.block = outer);
        filled.map(|_| block)
    }

    fn with_regions(&self, kind: OpKind, operands: &[Value], regions: &[Block]) -> Result<Vec<Value>, Diagnostic> {
        self.with(|b| {
            let request = b.op(kind).operands(operands);
            let inst = regions.iter().fold(request, |r, &region| r.region(region)).build()?;
            Ok(b.function.results_of(inst).to_vec())
        })
    }
}

fn counter(values: &[Value]) -> Emitted {
    values.first().copied().ok_or_else(|| Diagnostic::new(Code::E0211, "a counted loop without a counter"))
}
