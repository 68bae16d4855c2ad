//! Defines the form of an op's declaration, and the macros that write it.
//!
//! Invariant: a declaration is plain data, a result-type function and, of a math function, the
//! function of numbers; it never looks at a graph.
use super::{OpKind, class::DTypeClass, math::MathDef};
use crate::{
    attr::AttrKind,
    infer::{InferCx, Inferred},
};

/// The stages of the pipeline, in order. Control flow, constants and element-wise ops live in
/// several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Tensors as the framework gave them.
    Tensor,
    /// Every value is placed on host or device.
    Placed,
    /// Ops are grouped; each group becomes a kernel.
    Fused,
    /// Groups read and write buffers of one arena.
    Buffer,
    /// Kernels and a host program.
    Kernel,
}

impl Stage {
    pub const ALL: [Stage; 5] = [Stage::Tensor, Stage::Placed, Stage::Fused, Stage::Buffer, Stage::Kernel];

    pub fn name(self) -> &'static str {
        match self {
            Stage::Tensor => "tensor",
            Stage::Placed => "placed",
            Stage::Fused => "fused",
            Stage::Buffer => "buffer",
            Stage::Kernel => "kernel",
        }
    }

    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// The places where an op is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stages {
    /// On tensors, in functions up to the buffer stage.
    Tensor,
    /// On vectors and buffers, in kernels and host programs.
    Kernel,
    /// On tensors and, with the same meaning per lane, on vectors.
    Both,
    /// In the stages named, in a function or host program.
    Only(&'static [Stage]),
}

/// The number of operands or results that a declared one stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    One,
    /// Present or not; only the last.
    Optional,
    /// Any number. Several such groups of one op have equally many.
    Many,
}

#[derive(Clone, Copy, Debug)]
pub struct OperandDef {
    pub name: &'static str,
    pub arity: Arity,
    pub class: DTypeClass,
}

pub type ResultDef = OperandDef;

#[derive(Clone, Copy, Debug)]
pub struct AttrDef {
    pub name: &'static str,
    pub kind: AttrKind,
    pub required: bool,
}

/// A property of an op that passes may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// No effect and no failure: may be removed, repeated and moved.
    Pure,
    /// Fails for some values of its operands; may be repeated, not removed.
    MayFail,
    /// Reads memory that other ops write.
    Reads,
    /// Writes memory, or has another effect.
    Writes,
    /// Result element `i` depends only on element `i` of the operands; all shapes are equal.
    Elementwise,
    /// Result elements are elements of the operands (or a fill value), chosen by index.
    Movement,
    /// `f(a, b) = f(b, a)`.
    Commutative,
    /// `f(f(a, b), c) = f(a, f(b, c))`, up to rounding.
    Associative,
    /// Ends a block.
    Terminator,
}

/// An op's declaration.
#[derive(Clone, Copy)]
pub struct OpDef {
    pub kind: OpKind,
    pub name: &'static str,
    pub doc: &'static str,
    pub operands: &'static [OperandDef],
    pub attrs: &'static [AttrDef],
    pub results: &'static [ResultDef],
    /// The names of its regions.
    pub regions: &'static [&'static str],
    pub traits: &'static [Trait],
    pub stages: Stages,
    pub infer: fn(&InferCx<'_>) -> Inferred,
    /// The function of numbers, of an op that kernels have as arithmetic only: see
    /// [`crate::math_function`].
    pub math: Option<MathDef>,
}

impl OpDef {
    pub fn has(&self, wanted: Trait) -> bool {
        self.traits.contains(&wanted)
    }

    pub fn attr_position(&self, name: &str) -> Option<usize> {
        self.attrs.iter().position(|a| a.name == name)
    }

    /// Returns the ranges of `count` operands that belong to each declared operand; `None` if the
    /// number does not fit.
    pub fn operand_groups(&self, count: usize) -> Option<Vec<std::ops::Range<usize>>> {
        groups(self.operands, count)
    }

    /// As [`OpDef::operand_groups`], for results.
    pub fn result_groups(&self, count: usize) -> Option<Vec<std::ops::Range<usize>>> {
        groups(self.results, count)
    }
}

fn groups(defs: &[OperandDef], count: usize) -> Option<Vec<std::ops::Range<usize>>> {
    let single = defs.iter().filter(|d| d.arity == Arity::One).count();
    let many = defs.iter().filter(|d| d.arity == Arity::Many).count();
    let optional = defs.iter().filter(|d| d.arity == Arity::Optional).count();
    let rest = count.checked_sub(single)?;
    let (each, present) = match many {
        0 => (0, (rest <= optional).then_some(rest)?),
        _ => ((rest % many == 0).then_some(rest / many)?, 0),
    };
    let mut start = 0;
    let mut optionals = present;
    let ranges = defs.iter().map(|def| {
        let length = match def.arity {
            Arity::One => 1,
            Arity::Many => each,
            Arity::Optional => {
                let here = optionals.min(1);
                optionals -= here;
                here
            }
        };
        start += length;
        start - length..start
    });
    Some(ranges.collect())
}

pub(super) const fn one(class: DTypeClass) -> (Arity, DTypeClass) {
    (Arity::One, class)
}

pub(super) const fn opt(class: DTypeClass) -> (Arity, DTypeClass) {
    (Arity::Optional, class)
}

pub(super) const fn many(class: DTypeClass) -> (Arity, DTypeClass) {
    (Arity::Many, class)
}

pub(super) const fn required(kind: AttrKind) -> (AttrKind, bool) {
    (kind, true)
}

pub(super) const fn optional(kind: AttrKind) -> (AttrKind, bool) {
    (kind, false)
}

/// An optional field of a declaration.
macro_rules! field {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// Declares one op; see `elementwise.rs` for the exemplar.
///
/// `Kind = "name"(operands) { attributes } regions [names] -> (results) traits [..] stages .. infer
/// f, is math;` Operands and results are `name:
/// one(CLASS)`, `many(CLASS)` or `opt(CLASS)`; attributes are `name:
/// required(KIND)` or `optional(KIND)`.
macro_rules! op {
    ($(#[doc = $doc:expr])+
     $Kind:ident = $name:literal ( $( $opd:ident : $spec:expr ),* $(,)? )
     $( { $( $attr:ident : $akind:expr ),* $(,)? } )?
     $( regions [ $( $region:literal ),* ] )?
     -> ( $( $res:ident : $rspec:expr ),* )
     traits [ $( $tr:ident ),* ] stages $stages:expr, infer $infer:expr $(, is $math:expr)?;) => {
        #[allow(non_upper_case_globals, reason = "named as the op, so that the table can list both")]
        pub(super) const $Kind: $crate::ops::OpDef = $crate::ops::OpDef {
            kind: $crate::ops::OpKind::$Kind,
            name: $name,
            doc: concat!($($doc, "\n"),+),
            operands: &[$( $crate::ops::OperandDef { name: stringify!($opd), arity: $spec.0, class: $spec.1 } ),*],
            attrs: &[$($( $crate::ops::AttrDef { name: stringify!($attr), kind: $akind.0, required: $akind.1 } ),*)?],
            results: &[$( $crate::ops::OperandDef { name: stringify!($res), arity: $rspec.0, class: $rspec.1 } ),*],
            regions: &[$($($region),*)?],
            traits: &[$( $crate::ops::Trait::$tr ),*],
            stages: $stages,
            infer: $infer,
            math: field!($($math)?),
        };
    };
}

/// Lists the ops: makes [`OpKind`] and the table.
macro_rules! op_table {
    ($( $family:ident :: { $( $Op:ident ),* $(,)? } ),* $(,)?) => {
        /// An op of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum OpKind { $($( $Op, )*)* }

        /// Every op.
        pub static OPS: &[OpDef] = &[$($( $family::$Op, )*)*];

        /// The pattern of a family's ops.
        macro_rules! family {
            $( ($family) => { $( $crate::ops::OpKind::$Op )|* }; )*
        }

        /// The families, each with its ops.
        pub static FAMILIES: &[(&str, &[OpKind])] = &[$( (stringify!($family), &[$( OpKind::$Op ),*]) ),*];

        impl OpKind {
            pub fn def(self) -> &'static OpDef {
                &OPS[self as usize]
            }

            pub fn name(self) -> &'static str {
                self.def().name
            }

            pub fn from_name(name: &str) -> Option<OpKind> {
                OPS.iter().find(|def| def.name == name).map(|def| def.kind)
            }
        }
    };
}
