//! Declares compositions: the macro, what it makes, and the call by name.
use super::given::Given;
use crate::emit::{Emitter, Operand};
use disc_ir::{
    Diagnostic, Value,
    ops::{AttrDef, DTypeClass},
};

/// The number of values that an operand stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    One,
    /// Present or not, at any position.
    Maybe,
    /// Any number; only the last operand.
    Many,
    /// A value, or a number that takes the element type of the values beside it.
    Scalar,
    /// A scalar, or nothing.
    MaybeScalar,
    /// Any number of scalars, each present or not; only the last operand.
    Scalars,
}

#[derive(Clone, Copy, Debug)]
pub struct OperandDef {
    pub name: &'static str,
    pub arity: Arity,
    pub class: DTypeClass,
}

/// A composition's declaration.
#[derive(Clone, Copy)]
pub struct CompositionDef {
    pub name: &'static str,
    pub doc: &'static str,
    pub operands: &'static [OperandDef],
    pub attrs: &'static [AttrDef],
    pub results: &'static [&'static str],
    pub(super) emit: fn(&Emitter<'_>, &Given<'_>) -> Composed,
}

/// The results of a composition, in the order of its declaration.
pub type Composed = Result<Vec<Value>, Diagnostic>;

/// Maps the arity of a declaration to the type of its field.
macro_rules! operand_type {
    (one) => { disc_ir::Value };
    (maybe) => { Option<disc_ir::Value> };
    (many) => { Vec<disc_ir::Value> };
    (scalar) => { $crate::emit::Operand };
    (maybe_scalar) => { Option<$crate::emit::Operand> };
    (scalars) => { Vec<Option<$crate::emit::Operand>> };
}

macro_rules! arity {
    (one) => {
        $crate::compose::Arity::One
    };
    (maybe) => {
        $crate::compose::Arity::Maybe
    };
    (many) => {
        $crate::compose::Arity::Many
    };
    (scalar) => {
        $crate::compose::Arity::Scalar
    };
    (maybe_scalar) => {
        $crate::compose::Arity::MaybeScalar
    };
    (scalars) => {
        $crate::compose::Arity::Scalars
    };
}

/// Declares one composition; see `normalization.rs` for the exemplar.
///
/// `Name = "name"(operands) { attributes } -> (results) in body;` Operands are `name: one(CLASS)`,
/// `maybe(CLASS)`, `many(CLASS)`, `scalar(CLASS)`, `maybe_scalar(CLASS)` or `scalars(CLASS)`;
/// attributes are `name: Type`, where the type is one of [`super::attribute`]. The body takes the
/// emitter and the struct that the macro makes, and destructures it: an attribute that it does not
/// read is a warning of the compiler.
macro_rules! composition {
    ($(#[doc = $doc:literal])+
     $Name:ident = $name:literal ( $( $opd:ident : $arity:ident ( $class:expr ) ),* $(,)? )
     $( { $( $attr:ident : $ty:ty ),* $(,)? } )?
     -> ( $( $res:ident ),* ) in $body:path;) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug)]
        pub struct $Name {
            $( pub $opd: operand_type!($arity), )*
            $( $( pub $attr: $ty, )* )?
        }

        impl $Name {
            pub(super) const DEF: $crate::compose::CompositionDef = $crate::compose::CompositionDef {
                name: $name,
                doc: concat!($($doc, "\n"),+),
                operands: &[$( $crate::compose::OperandDef { name: stringify!($opd), arity: arity!($arity), class: $class } ),*],
                attrs: &[$( $( disc_ir::ops::AttrDef {
                    name: stringify!($attr),
                    kind: <$ty as $crate::compose::attribute::Attribute>::KIND,
                    required: <$ty as $crate::compose::attribute::Attribute>::REQUIRED,
                } ),* )?],
                results: &[$( stringify!($res) ),*],
                emit: |b, given| {
                    let this = $Name {
                        $( $opd: given.operand(stringify!($opd))?, )*
                        $( $( $attr: given.attribute(stringify!($attr))?, )* )?
                    };
                    $crate::compose::Composition::emit(this, b)
                },
            };
        }

        impl $crate::compose::Composition for $Name {
            fn emit(self, b: &$crate::emit::Emitter<'_>) -> $crate::compose::Composed {
                $body(b, self)
            }
        }
    };
}

/// Lists the compositions of each family.
macro_rules! composition_table {
    ($( $family:ident :: { $( $Name:ident ),* $(,)? } ),* $(,)?) => {
        $( pub use $family::{ $( $Name ),* }; )*

        /// Every composition.
        pub static COMPOSITIONS: &[CompositionDef] = &[$( $( $family::$Name::DEF, )* )*];

        /// The families, each with the names of its compositions.
        pub static FAMILIES: &[(&str, &[&str])] = &[$( (stringify!($family), &[$( $family::$Name::DEF.name ),*]) ),*];
    };
}

/// Operands and attributes of a composition, ready to be emitted.
pub trait Composition {
    /// Emits the ops.
    ///
    /// # Errors
    /// A constraint of the composition that does not hold.
    fn emit(self, b: &Emitter<'_>) -> Composed;
}

/// An operand of a call by name: absent, a value, or a number.
pub type Argument = Option<Operand>;
