//! Evaluates sizes that memory depends on so that overflow shows.
//!
//! Dims are evaluated with wrapping arithmetic, so sizes of about 2^32 each, which an empty tensor
//! may have, could give a small number of bytes. Sizes that are allocated or compared are therefore
//! evaluated a second time, in `f64`, which does not wrap: if a value exceeds 2^62, or results from
//! one by an operation that does not commute with wrapping, the size becomes `i64::MAX`, which no
//! allocation can satisfy.
use super::{Lowering, bind::Scope};
use crate::{
    Error,
    emit::{Emit, Emitted, Val},
};
use disc_ir::{
    DType, Dim, Symbol,
    dim::{Defect, DimLowering},
};
use inkwell::{FloatPredicate, values::InstructionOpcode};
use std::collections::HashMap;

const LIMIT: f64 = (1_u64 << 62) as f64;

impl<'c> Lowering<'_, 'c> {
    /// Returns the value of an expression in a host program, or `i64::MAX`.
    pub(super) fn bounded_value(&mut self, dim: &Dim) -> Emitted<'c> {
        if dim.as_const().is_some() || dim.as_symbol().is_some() {
            return self.dim_value(dim);
        }
        let scope = self.scope_of(dim);
        if let Some(&value) = self.scopes[scope].bounded.get(dim) {
            return Ok(value);
        }
        let value = self.dim_value(dim)?;
        let here = self.go_to_scope(scope)?;
        let mut estimates = Estimates { emit: self.emit, symbols: &self.symbols, scopes: &mut self.scopes[..=scope] };
        let estimate = dim.lower(&mut estimates)?;
        let value = self.emit.select(self.emit.is_small(estimate)?, value, self.emit.i64(i64::MAX).into())?;
        self.emit.builder.position_at_end(here);
        self.scopes[scope].bounded.insert(dim.clone(), value);
        Ok(value)
    }
}

impl<'c> Emit<'c> {
    fn is_small(&self, estimate: Val<'c>) -> Emitted<'c> {
        let size = self.intrinsic("llvm.fabs", &[estimate])?;
        self.fcmp(FloatPredicate::OLT, size, self.const_float(DType::F64, 1, LIMIT))
    }
}

/// Dims in `f64`. NaN stands for a value whose exact calculation would have wrapped.
struct Estimates<'e, 'c> {
    emit: &'e Emit<'c>,
    symbols: &'e HashMap<Symbol, Val<'c>>,
    /// The enclosing scopes, the innermost last: new values belong to it.
    scopes: &'e mut [Scope<'c>],
}

impl<'c> Estimates<'_, 'c> {
    fn float(&self, value: f64) -> Val<'c> {
        self.emit.const_float(DType::F64, 1, value)
    }

    /// Returns the operand of an operation that does not commute with wrapping.
    fn exact(&self, value: Val<'c>) -> Emitted<'c> {
        self.emit.select(self.emit.is_small(value)?, value, self.float(f64::NAN))
    }

    /// Selects the operand for which `predicate` holds against the other; NaN if either is NaN.
    fn choose(&self, predicate: FloatPredicate, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        let (a, b) = (self.exact(a)?, self.exact(b)?);
        let chosen = self.emit.select(self.emit.fcmp(predicate, a, b)?, a, b)?;
        let unknown = self.emit.fcmp(FloatPredicate::UNO, a, b)?;
        self.emit.select(unknown, self.float(f64::NAN), chosen)
    }
}

impl<'c> DimLowering for Estimates<'_, 'c> {
    type Value = Val<'c>;
    type Error = Error;

    fn constant(&mut self, value: i64) -> Emitted<'c> {
        Ok(self.float(value as f64))
    }
    fn symbol(&mut self, symbol: &Symbol) -> Emitted<'c> {
        let value =
            self.symbols.get(symbol).copied().ok_or_else(|| Error::Emit(format!("the dim {symbol} has no value here")))?;
        self.emit.cast(InstructionOpcode::SIToFP, value, self.emit.ty(DType::F64, 1))
    }
    fn add(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.binary(InstructionOpcode::FAdd, a, b)
    }
    fn sub(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.binary(InstructionOpcode::FSub, a, b)
    }
    fn mul(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.binary(InstructionOpcode::FMul, a, b)
    }
    fn floor_div(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        let (a, b) = (self.exact(a)?, self.exact(b)?);
        let quotient = self.emit.binary(InstructionOpcode::FDiv, a, b)?;
        let quotient = self.emit.intrinsic("llvm.floor", &[quotient])?;
        self.emit.select(self.emit.fcmp(FloatPredicate::OEQ, b, self.float(0.0))?, self.float(0.0), quotient)
    }
    fn modulo(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        let quotient = self.floor_div(a, b)?;
        let whole = self.mul(quotient, b)?;
        let rest = self.sub(a, whole)?;
        self.emit.select(self.emit.fcmp(FloatPredicate::OEQ, b, self.float(0.0))?, self.float(0.0), rest)
    }
    fn min(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.choose(FloatPredicate::OLT, a, b)
    }
    fn max(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.choose(FloatPredicate::OGT, a, b)
    }
    fn invalid(&mut self, defect: Defect) -> Error {
        Error::Emit(defect.to_string())
    }
    fn known(&mut self, dim: &Dim) -> Option<Val<'c>> {
        self.scopes.iter().find_map(|scope| scope.estimates.get(dim)).copied()
    }
    fn keep(&mut self, dim: &Dim, value: &Val<'c>) {
        let scope = self.scopes.last_mut().expect("there is a scope");
        scope.estimates.insert(dim.clone(), *value);
    }
}
