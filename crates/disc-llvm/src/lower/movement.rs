//! Lowers constants and the values of dims.
use super::{Lowering, bind::Scope, kernel::vector_or_scalar};
use crate::{
    Error,
    emit::{Emit, Emitted, Val},
};
use disc_ir::{
    Attr, DType, Dim, Inst, Literal, Symbol,
    dim::{Defect, DimLowering},
    fragment::is_tile_register,
};
use inkwell::IntPredicate;
use std::collections::HashMap;

impl<'c> Lowering<'_, 'c> {
    pub(super) fn constant(&mut self, inst: Inst) -> Result<(), Error> {
        let (_, lanes) = self.vector_type(self.function.result(inst))?;
        let Some(Attr::Literal(literal)) = &self.function.inst(inst).attrs[0] else {
            return Err(self.error(inst, "needs a literal".to_owned()));
        };
        if is_tile_register(self.function.ty(self.function.result(inst))) {
            return self.zero_tile(inst, literal);
        }
        let element = |lane: u32| self.emit.element(literal, lane as usize);
        let value = match literal.splat {
            true => vector_or_scalar(&vec![element(0); lanes as usize]),
            false if literal.stored_len() == lanes as usize => vector_or_scalar(&(0..lanes).map(element).collect::<Vec<_>>()),
            false => return Err(self.error(inst, format!("has {} elements for {lanes} lanes", literal.stored_len()))),
        };
        self.define(inst, value);
        Ok(())
    }

    pub(super) fn dim(&mut self, inst: Inst) -> Result<(), Error> {
        let Some(Attr::Dim(dim)) = &self.function.inst(inst).attrs[0] else {
            return Err(self.error(inst, "needs a dim".to_owned()));
        };
        let value = self.dim_value(dim)?;
        let dtype = self.function.ty(self.function.result(inst)).dtype();
        let value = self.emit.resize(value, dtype.bits(), true)?;
        self.define(inst, value);
        Ok(())
    }

    /// Returns the value of an expression, as `i64`. A host program computes each expression once,
    /// where it dominates all uses.
    pub(super) fn dim_value(&mut self, dim: &Dim) -> Emitted<'c> {
        if self.host.is_none() {
            return dim.lower(&mut Dims { emit: self.emit, symbols: &self.symbols, scopes: &mut [Scope::default()] });
        }
        let scope = self.scope_of(dim);
        let here = self.go_to_scope(scope)?;
        let mut dims = Dims { emit: self.emit, symbols: &self.symbols, scopes: &mut self.scopes[..=scope] };
        let value = dim.lower(&mut dims);
        self.emit.builder.position_at_end(here);
        value
    }
}

impl<'c> Emit<'c> {
    fn element(&self, literal: &Literal, index: usize) -> Val<'c> {
        match literal.dtype {
            DType::F32 | DType::F64 => self.const_float(literal.dtype, 1, literal.f64_at(index)),
            DType::F16 | DType::BF16 => {
                let at = if literal.splat { 0 } else { 2 * index };
                let bits = u16::from_le_bytes([literal.bytes[at], literal.bytes[at + 1]]);
                self.const_int(16, 1, i64::from(bits))
            }
            DType::I1 => self.const_int(1, 1, i64::from(literal.i64_at(index) != 0)),
            dtype => self.const_int(dtype.bits(), 1, literal.i64_at(index)),
        }
    }
}

/// Evaluates dims in 64-bit arithmetic, for given values of the symbols.
struct Dims<'e, 'c> {
    emit: &'e Emit<'c>,
    symbols: &'e HashMap<Symbol, Val<'c>>,
    /// The enclosing scopes, the innermost last: new values belong to it.
    scopes: &'e mut [Scope<'c>],
}

impl<'c> DimLowering for Dims<'_, 'c> {
    type Value = Val<'c>;
    type Error = Error;

    fn constant(&mut self, value: i64) -> Emitted<'c> {
        Ok(self.emit.i64(value).into())
    }
    fn symbol(&mut self, symbol: &Symbol) -> Emitted<'c> {
        self.symbols.get(symbol).copied().ok_or_else(|| Error::Emit(format!("the dim {symbol} has no value here")))
    }
    fn add(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.add(a, b)
    }
    fn sub(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.sub(a, b)
    }
    fn mul(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.mul(a, b)
    }
    fn floor_div(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.floor_divide(a, b)
    }
    fn modulo(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.floor_modulo(a, b)
    }
    fn min(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.select(self.emit.icmp(IntPredicate::SLT, a, b)?, a, b)
    }
    fn max(&mut self, a: Val<'c>, b: Val<'c>) -> Emitted<'c> {
        self.emit.select(self.emit.icmp(IntPredicate::SGT, a, b)?, a, b)
    }
    fn invalid(&mut self, defect: Defect) -> Error {
        Error::Emit(defect.to_string())
    }
    fn known(&mut self, dim: &Dim) -> Option<Val<'c>> {
        self.scopes.iter().find_map(|scope| scope.dims.get(dim)).copied()
    }
    fn keep(&mut self, dim: &Dim, value: &Val<'c>) {
        let scope = self.scopes.last_mut().expect("there is a scope");
        scope.dims.insert(dim.clone(), *value);
    }
}
