//! Defines the compiler's intermediate representation: symbolic dims, types, the op table, graphs,
//! text, verifier and interpreter.
//!
//! It is not a pass framework and knows no target. Everything that a later stage uses is expressed
//! in this representation, which prints and parses back to itself.
//!
//! Invariants:
//! - One op table ([`ops`]): parser, printer, builder, verifier, docs and Python read it; no op is
//!   described anywhere else.
//! - Sizes are [`dim::Dim`] expressions inside types; facts about them are in [`dim::Facts`] of the
//!   function.
//! - Nothing here panics on user input: failures are [`diag::Diagnostic`]s.
pub mod attr;
pub mod binding;
pub mod build;
pub mod diag;
pub mod dim;
pub mod fragment;
pub mod generate;
pub mod graph;
pub mod infer;
pub mod interp;
pub mod layout;
pub mod lines;
pub mod literal;
pub mod ops;
pub mod text;
pub mod types;
pub mod variants;
pub mod verify;

pub use attr::Attr;
pub use build::Builder;
pub use diag::{Code, Diagnostic};
pub use dim::{Dim, Facts, Solver, Symbol};
pub use graph::{Block, Function, FunctionKind, Grid, Inst, Module, Store, Value};
pub use lines::{Line, Lines, Origin};
pub use literal::Literal;
pub use ops::{FusionKind, OpDef, OpKind};
pub use text::parse;
pub use types::{DType, Space, TensorType, Type};
pub use verify::verify;
