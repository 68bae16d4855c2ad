//! Eliminates common subexpressions.
//!
//! Two ops are equal if their kind, operands, attributes, result types and regions are. Types are
//! compared as written: the pass `unify-dims` gives equal dims one form before.
//!
//! Invariants:
//! - The op that stays dominates the one that goes: it is earlier in the same block or in an
//!   enclosing one.
//! - Ops that may fail are merged too: if the first one fails, the second is never reached. Ops
//!   that read or write memory are not.
use crate::pass::{PassCx, PassDef};
use disc_ir::{
    Attr, Block, Diagnostic, Function, FunctionKind, Inst, Literal, Module, OpKind, Type, Value, ops::Stage, ops::Trait,
};
use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
};

/// Replaces an op by an equal earlier one.
pub static PASS: PassDef = PassDef {
    name: "cse",
    doc: "Replaces an op by an earlier one of the same kind, operands, attributes, types and regions.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let functions = module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func);
    Ok(functions.map(|function| merge_equal(function, cx).len()).sum())
}

/// Merges equal ops; returns the replacements of removed results.
pub(crate) fn merge_equal(function: &mut Function, cx: &mut PassCx) -> HashMap<Value, Value> {
    let mut scope = Scope::default();
    merge_block(function, function.body, &mut scope, cx);
    scope.replaced
}

/// The ops that can be reused: those of this block and of enclosing ones.
#[derive(Default)]
struct Scope {
    known: HashMap<Vec<Token>, Inst>,
    replaced: HashMap<Value, Value>,
}

fn merge_block(function: &mut Function, block: Block, scope: &mut Scope, cx: &mut PassCx) {
    let mut kept = Vec::with_capacity(function.insts(block).len());
    let mut added = Vec::new();
    for inst in function.insts(block).to_vec() {
        for operand in &mut function.inst_mut(inst).operands {
            *operand = scope.replaced.get(operand).copied().unwrap_or(*operand);
        }
        for region in function.inst(inst).regions.clone() {
            merge_block(function, region, scope, cx);
        }
        let key = can_merge(function, inst).then(|| key(function, inst));
        let same = key.as_ref().and_then(|key| scope.known.get(key)).copied();
        match same.filter(|_| cx.spend()) {
            Some(first) => {
                let results = function.results_of(inst).iter().copied().zip(function.results_of(first).to_vec());
                scope.replaced.extend(results);
            }
            None => {
                if let Some(key) = key {
                    added.push(key.clone());
                    scope.known.entry(key).or_insert(inst);
                }
                kept.push(inst);
            }
        }
    }
    added.iter().for_each(|key| {
        if block != function.body {
            scope.known.remove(key);
        }
    });
    function.set_insts(block, kept);
}

fn can_merge(function: &Function, inst: Inst) -> bool {
    let def = function.def(inst);
    (def.has(Trait::Pure) || def.has(Trait::MayFail)) && !def.has(Trait::Reads) && !def.has(Trait::Writes)
}

/// A piece of the key of an op.
#[derive(PartialEq, Eq, Hash, Clone)]
enum Token {
    Op(OpKind),
    Value(Value),
    /// A value of the current region, by number.
    Local(usize),
    Attr(Option<AttrKey>),
    Type(Type),
    Block(usize),
}

/// An attribute; numbers are compared by their bits.
#[derive(Clone)]
struct AttrKey(Attr);

impl PartialEq for AttrKey {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Attr::Float(a), Attr::Float(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        }
    }
}

impl Eq for AttrKey {}

impl Hash for AttrKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Attr::Int(value) => value.hash(state),
            Attr::Float(value) => value.to_bits().hash(state),
            Attr::Bool(value) => value.hash(state),
            Attr::Enum(word) => word.hash(state),
            Attr::Str(text) | Attr::Symbol(text) => text.hash(state),
            Attr::DType(dtype) => dtype.hash(state),
            Attr::Type(ty) => ty.hash(state),
            Attr::Ints(values) => values.hash(state),
            Attr::Dim(dim) => dim.hash(state),
            Attr::Dims(dims) => dims.hash(state),
            Attr::Literal(Literal { dtype, bytes, .. }) => (dtype, bytes).hash(state),
        }
    }
}

fn key(function: &Function, inst: Inst) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(8);
    describe(function, inst, &mut HashMap::new(), &mut tokens);
    tokens.extend(function.results_of(inst).iter().map(|&result| Token::Type(function.ty(result).clone())));
    tokens
}

fn describe(function: &Function, inst: Inst, locals: &mut HashMap<Value, usize>, tokens: &mut Vec<Token>) {
    let data = function.inst(inst);
    tokens.push(Token::Op(data.kind));
    let mut operands = data.operands.clone();
    if data.kind.def().has(Trait::Commutative) && locals.is_empty() {
        operands.sort_unstable();
    }
    tokens.extend(operands.iter().map(|value| locals.get(value).map_or(Token::Value(*value), |&n| Token::Local(n))));
    tokens.extend(data.attrs.iter().map(|attr| Token::Attr(attr.clone().map(AttrKey))));
    for &region in &data.regions {
        let arguments = function.arguments(region);
        tokens.push(Token::Block(arguments.len()));
        for &argument in arguments {
            locals.insert(argument, locals.len());
            tokens.push(Token::Type(function.ty(argument).clone()));
        }
        for &inner in function.insts(region) {
            describe(function, inner, locals, tokens);
            for &result in function.results_of(inner) {
                locals.insert(result, locals.len());
                tokens.push(Token::Type(function.ty(result).clone()));
            }
        }
        tokens.push(Token::Block(usize::MAX));
    }
}
