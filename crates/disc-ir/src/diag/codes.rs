//! The table of error codes: docs/errors.md and `disc explain` are made from it.
use std::fmt;

/// What a code means.
#[derive(Clone, Copy, Debug)]
pub struct CodeDoc {
    pub code: Code,
    pub title: &'static str,
    pub doc: &'static str,
}

macro_rules! codes {
    ($( $(#[doc = $doc:literal])+ $code:ident = $title:literal; )*) => {
        /// The number of an error, stable across releases.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $( $(#[doc = $doc])+ $code, )* }

        /// Every code, in order.
        pub static CODES: &[CodeDoc] = &[$( CodeDoc { code: Code::$code, title: $title, doc: concat!($($doc, "\n"),+) }, )*];

        impl fmt::Display for Code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $( Code::$code => stringify!($code), )* })
            }
        }
    };
}

codes! {
    /// The text is not well formed: an unexpected character or word, or an end that came too early.
    E0101 = "syntax error";
    /// An op, type, attribute or enum word that does not exist.
    E0102 = "unknown name";
    /// A value, function, weight or dim is used before or without its definition.
    E0103 = "undefined name";
    /// A name is defined twice.
    E0104 = "duplicate definition";
    /// Nesting, literals or expressions beyond what the parser accepts.
    E0105 = "limit exceeded";
    /// The number of operands, results or regions differs from the op's declaration.
    E0201 = "wrong number";
    /// An attribute is missing, given twice, or of the wrong form.
    E0202 = "bad attribute";
    /// Sizes that must be equal are not, or cannot be proved equal.
    E0203 = "sizes differ";
    /// An element type that the op does not admit, or two that must agree and do not.
    E0204 = "element types differ";
    /// The declared result type is not the one that the op has.
    E0205 = "result type differs";
    /// An axis or a permutation out of range, or named twice.
    E0206 = "bad axis";
    /// A rank that the op does not admit.
    E0207 = "bad rank";
    /// An op that is not legal at this stage.
    E0208 = "op at the wrong stage";
    /// A constraint of an op that no other code names; the message cites its number.
    E0209 = "constraint violated";
    /// A value is used where it does not dominate, or in a region it does not belong to.
    E0210 = "value out of scope";
    /// An invariant of a stage does not hold; this is an error of the compiler, not of the program.
    E0211 = "invariant violated";
    /// Facts that contradict each other.
    E0212 = "contradicting facts";
    /// A block that does not end in `return`, or goes on after one.
    E0213 = "malformed block";
    /// Parameters or results that such a function cannot have, or an op outside the part of a kernel where it belongs.
    E0214 = "malformed function";
    /// A function that calls itself, directly or through others.
    E0215 = "recursive call";
    /// An op of the framework that has no translation.
    E0401 = "unsupported op";
    /// The model depends on something that a compiled module cannot express.
    E0402 = "unsupported model";
    /// The model fixes a dim that was declared dynamic.
    E0403 = "dim is fixed by the model";
    /// Generating or loading code failed; this is an error of the compiler.
    E0501 = "code generation failed";
    /// A target that does not exist, or that this machine cannot run.
    E0502 = "bad target";
    /// A call passed the wrong number of inputs, or an input of the wrong kind.
    E0601 = "bad input";
    /// A call passed sizes that the signature does not admit.
    E0602 = "size outside the signature";
    /// An index out of range.
    E0603 = "index out of range";
    /// An assertion of the program failed.
    E0604 = "assertion failed";
    /// Memory could not be had.
    E0605 = "out of memory";
    /// The interpreter met a program that it cannot run within its limits.
    E0606 = "execution limit";
    /// The caller gave no memory for an output, or memory that cannot be used.
    E0607 = "bad output memory";
    /// Weights that do not fit the module: their number, type or sizes.
    E0608 = "bad weights";
    /// Generated code and runtime disagree; this is an error of disc, not of the model.
    E0609 = "contract broken at run time";
    /// A package is damaged, or of another version.
    E0701 = "bad package";
}
