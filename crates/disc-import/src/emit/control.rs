//! Emits what depends on data or on other ops: facts, checks, bound sizes, branches, loops.
use super::{Emitter, Operand};
use disc_ir::{
    Attr, Block, Code, DType, Diagnostic, Dim, OpKind, Symbol, Type, Value,
    dim::{Fact, FactError},
};

type Emitted = Result<Value, Diagnostic>;

/// The sign of a relation of sizes.
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

    /// Adds a fact to the function.
    ///
    /// # Errors
    /// It contradicts others.
    pub fn state(&self, fact: Fact) -> Result<(), Diagnostic> {
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
            _ => self.state(sign.fact(left, right)),
        }
    }

    /// Fails the call unless a condition on data holds.
    ///
    /// # Errors
    /// None for values of this function.
    pub fn require_true(&self, condition: impl Into<Operand>, message: &str) -> Result<(), Diagnostic> {
        let condition = self.lift(condition, DType::I1)?;
        self.with(|b| b.op(OpKind::Assert).operands(&[condition]).attr("message", Attr::Str(message.into())).build()).map(drop)
    }

    /// Makes a dim of a scalar of type i64. A name is taken once, as another region may have bound
    /// the same.
    ///
    /// # Errors
    /// `size` is not a scalar of type i64.
    pub fn bind_dim(&self, size: Value, name: Option<&str>) -> Result<Dim, Diagnostic> {
        let symbol = {
            let bound = &mut self.learned.borrow_mut().bound;
            let free = name.map(Symbol::new).filter(|symbol| !bound.contains(symbol));
            let symbol = free.unwrap_or_else(|| Symbol::new(format!("size_{}", bound.len() + 1)));
            bound.insert(symbol.clone());
            symbol
        };
        let dim = Dim::symbol(symbol);
        self.with(|b| b.op(OpKind::BindDim).operands(&[size]).attr("dim", Attr::Dim(dim.clone())).build())?;
        Ok(dim)
    }

    /// The row-major positions of the true elements, of type i64.
    ///
    /// # Errors
    /// `mask` is not of truth values.
    pub fn places(&self, mask: Value) -> Emitted {
        let block = self.with(|b| b.block);
        if let Some(&(known, _)) = self.learned.borrow().places.get(&mask).filter(|(_, of)| *of == block) {
            return Ok(known);
        }
        let flat = self.reshape(mask, &[Dim::product(self.shape(mask))])?;
        let count = self.sum(self.convert(flat, DType::I64)?, &[0], false)?;
        let ty = Type::tensor([self.bind_dim(count, None)?], DType::I64);
        let found = self.request(OpKind::Nonzero, &[flat], |r| r.result(ty))?;
        self.learned.borrow_mut().places.insert(mask, (found, block));
        Ok(found)
    }

    /// The coordinates of row-major positions, one value per axis.
    ///
    /// # Errors
    /// None for positions of type i64.
    pub fn coordinates(&self, places: Value, shape: &[Dim]) -> Result<Vec<Value>, Diagnostic> {
        let mut places = places;
        let mut parts = Vec::with_capacity(shape.len());
        for (axis, size) in shape.iter().enumerate().rev() {
            let size = self.lift(size, DType::I64)?;
            parts.push(if axis > 0 { self.map(OpKind::Remainder, &[places, size])? } else { places });
            if axis > 0 {
                places = self.div(places, size)?;
            }
        }
        parts.reverse();
        Ok(parts)
    }

    /// `then()` where the condition, a scalar of type i1, holds, else `otherwise()`; both give
    /// values of the same types.
    ///
    /// # Errors
    /// Those of the sides, or other types.
    pub fn branch(
        &self,
        condition: Value,
        then: impl FnOnce() -> Result<Vec<Value>, Diagnostic>,
        otherwise: impl FnOnce() -> Result<Vec<Value>, Diagnostic>,
    ) -> Result<Vec<Value>, Diagnostic> {
        let regions = [self.region([], |_| then())?, self.region([], |_| otherwise())?];
        self.with_regions(OpKind::If, &[condition], &regions)
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
