//! Reads the operands and attributes of a call by name, and checks them against the declaration.
use super::{
    attribute::Attribute,
    declare::{Argument, Arity, CompositionDef, OperandDef},
};
use crate::emit::{Emitter, Operand};
use disc_ir::{Attr, Code, Diagnostic, Value, ops::AttrDef, text::closest};

/// The operands and attributes of a call by name.
pub(super) struct Given<'a> {
    def: &'static CompositionDef,
    operands: &'a [Argument],
    attrs: &'a [(&'static str, Attr)],
}

impl<'a> Given<'a> {
    /// Checks numbers, element types and attributes.
    pub(super) fn new(
        b: &Emitter<'_>,
        def: &'static CompositionDef,
        operands: &'a [Argument],
        attrs: &'a [(&'static str, Attr)],
    ) -> Result<Self, Diagnostic> {
        let given = Self { def, operands, attrs };
        given.check_operands(b)?;
        given.check_attributes()?;
        Ok(given)
    }

    fn check_operands(&self, b: &Emitter<'_>) -> Result<(), Diagnostic> {
        let (declared, came) = (self.def.operands, self.operands.len());
        let has_many = declared.last().is_some_and(|last| matches!(last.arity, Arity::Many | Arity::Scalars));
        let needed =
            declared.iter().rposition(|operand| matches!(operand.arity, Arity::One | Arity::Scalar)).map_or(0, |i| i + 1);
        if came < needed || (came > declared.len() && !has_many) {
            let names: Vec<&str> = declared.iter().map(|operand| operand.name).collect();
            return Err(self.error(Code::E0201, format!("{came} operands, expected ({})", names.join(", "))));
        }
        for (position, argument) in self.operands.iter().enumerate() {
            let operand = declared.get(position).or(declared.last()).unwrap_or_else(|| unreachable!("checked above"));
            self.check_operand(b, operand, argument)?;
        }
        Ok(())
    }

    fn check_operand(&self, b: &Emitter<'_>, operand: &OperandDef, argument: &Argument) -> Result<(), Diagnostic> {
        let name = operand.name;
        match argument {
            None if matches!(operand.arity, Arity::Maybe | Arity::MaybeScalar | Arity::Scalars) => Ok(()),
            None => Err(self.error(Code::E0201, format!("operand `{name}` is needed"))),
            Some(Operand::Value(value)) if operand.class.contains(b.dtype(*value)) => Ok(()),
            Some(Operand::Value(value)) => {
                let (came, expected) = (b.dtype(*value), operand.class.describe());
                Err(self.error(Code::E0204, format!("operand `{name}` has element type {came}, expected {expected}")))
            }
            Some(_) if matches!(operand.arity, Arity::Scalar | Arity::MaybeScalar | Arity::Scalars) => Ok(()),
            Some(_) => Err(self.error(Code::E0201, format!("operand `{name}` is a number, expected a tensor"))),
        }
    }

    fn check_attributes(&self) -> Result<(), Diagnostic> {
        for (name, attr) in self.attrs {
            let Some(declared) = self.def.attrs.iter().find(|declared| declared.name == *name) else {
                return Err(self.unknown(name));
            };
            if !declared.kind.admits(attr) {
                let message = format!("attribute `{name}` must be {}", declared.kind.describe());
                return Err(self.error(Code::E0202, message));
            }
        }
        let is_missing = |declared: &&AttrDef| declared.required && !self.attrs.iter().any(|(name, _)| *name == declared.name);
        match self.def.attrs.iter().find(is_missing) {
            Some(missing) => Err(self.error(Code::E0202, format!("attribute `{}` is needed", missing.name))),
            None => Ok(()),
        }
    }

    fn unknown(&self, name: &str) -> Diagnostic {
        let error = self.error(Code::E0202, format!("there is no attribute `{name}`"));
        match closest(name, self.def.attrs.iter().map(|declared| declared.name)) {
            Some(near) => error.help(format!("is `{near}` meant?")),
            None => error,
        }
    }

    fn error(&self, code: Code, message: String) -> Diagnostic {
        Diagnostic::new(code, message).in_op(self.def.name)
    }

    /// Returns an operand in the type of its field.
    pub(super) fn operand<T: FromOperand>(&self, name: &str) -> Result<T, Diagnostic> {
        let position = self.def.operands.iter().position(|operand| operand.name == name).unwrap_or(self.operands.len());
        let rest = self.operands.get(position..).unwrap_or_default();
        T::read(rest).ok_or_else(|| self.error(Code::E0201, format!("operand `{name}` is needed")))
    }

    /// Returns an attribute in the type of its field.
    pub(super) fn attribute<T: Attribute>(&self, name: &str) -> Result<T, Diagnostic> {
        let found = self.attrs.iter().find(|(given, _)| *given == name);
        let value = found.map_or_else(T::absent, |(_, attr)| T::read(attr));
        value.ok_or_else(|| self.error(Code::E0202, format!("attribute `{name}` must be {}", T::KIND.describe())))
    }
}

/// A type of fields that hold operands.
pub(super) trait FromOperand: Sized {
    /// Reads the operand that comes first; `None` for one of another form.
    fn read(rest: &[Argument]) -> Option<Self>;
}

impl FromOperand for Value {
    fn read(rest: &[Argument]) -> Option<Self> {
        match rest.first() {
            Some(Some(Operand::Value(value))) => Some(*value),
            _ => None,
        }
    }
}

impl FromOperand for Option<Value> {
    fn read(rest: &[Argument]) -> Option<Self> {
        match rest.first() {
            Some(Some(_)) => Value::read(rest).map(Some),
            _ => Some(None),
        }
    }
}

impl FromOperand for Vec<Value> {
    fn read(rest: &[Argument]) -> Option<Self> {
        rest.iter().map(|argument| Value::read(std::slice::from_ref(argument))).collect()
    }
}

impl FromOperand for Option<Operand> {
    fn read(rest: &[Argument]) -> Option<Self> {
        Some(rest.first().cloned().flatten())
    }
}

impl FromOperand for Vec<Option<Operand>> {
    fn read(rest: &[Argument]) -> Option<Self> {
        Some(rest.to_vec())
    }
}

impl FromOperand for Operand {
    fn read(rest: &[Argument]) -> Option<Self> {
        rest.first().cloned().flatten()
    }
}
