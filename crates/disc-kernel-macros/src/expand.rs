//! Expands an expression into a block with one statement for each op.
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    BinOp, Error, Expr, ExprCall, Ident, Lit, Result, Token, UnOp,
    parse::{Parse, ParseStream},
    spanned::Spanned,
};

/// Methods of the builder whose arguments are all values of the kernel.
const OF_VALUES: &[&str] = &["select", "min", "max", "fma"];
/// Methods whose first argument is a value, and whose others are Rust.
const OF_ONE_VALUE: &[&str] = &["convert", "widen"];
/// Methods whose arguments are Rust.
const OF_NONE: &[&str] = &["int", "dim", "float", "zero"];

/// The arguments of the macro: a builder and an expression.
struct Input {
    builder: Expr,
    value: Expr,
}

impl Parse for Input {
    fn parse(input: ParseStream) -> Result<Self> {
        let builder: Expr = input.parse()?;
        if !is_place(&builder) {
            return Err(Error::new_spanned(builder, "the builder is not a place: expected a name or a field, such as `self.kb`"));
        }
        input.parse::<Token![,]>()?;
        Ok(Self { builder, value: input.parse()? })
    }
}

/// Writes the block that emits the ops of `input`.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let Input { builder, value } = syn::parse2(input)?;
    let mut ops = Ops { builder, statements: Vec::new() };
    let value = ops.value(&value)?;
    let statements = ops.statements;
    Ok(if statements.is_empty() { value } else { quote!({ #(#statements)* #value }) })
}

struct Ops {
    builder: Expr,
    /// A `let` for each op that is an operand of another one, in their order.
    statements: Vec<TokenStream>,
}

impl Ops {
    /// Returns Rust code of the value: a call for an op, after the statements of its operands.
    fn value(&mut self, value: &Expr) -> Result<TokenStream> {
        match value {
            Expr::Paren(inner) => self.value(&inner.expr),
            Expr::Group(inner) => self.value(&inner.expr),
            Expr::Binary(op) => {
                let (left, right) = (self.operand(&op.left)?, self.operand(&op.right)?);
                let (method, direction) = operator(&op.op)?;
                Ok(self.method(method, op.op.span(), direction.into_iter().chain([left, right])))
            }
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => Ok(self.method("int", number.span(), [quote!(#number)])),
                other => Err(Error::new_spanned(other, "no constant of kernels: expected an integer, `float(..)` or `zero(..)`")),
            },
            Expr::Unary(negative) if matches!((&negative.op, &*negative.expr), (UnOp::Neg(_), Expr::Lit(_))) => {
                Ok(self.method("int", negative.span(), [quote!(#negative)]))
            }
            Expr::Unary(not) if matches!(not.op, UnOp::Not(_)) => {
                let operand = self.operand(&not.expr)?;
                Ok(self.method("not", not.op.span(), [operand]))
            }
            Expr::Unary(op) if !matches!(op.op, UnOp::Deref(_)) => {
                Err(Error::new_spanned(op, "no op of kernels: expected `!` or a binary operator, as in `0 - x`"))
            }
            Expr::Call(call) => self.call(call),
            leaf => Ok(quote!(#leaf)),
        }
    }

    /// Returns a value that a later op may use: the name of an op's result, or a place.
    fn operand(&mut self, value: &Expr) -> Result<TokenStream> {
        let code = self.value(value)?;
        if is_place(value) {
            return Ok(code);
        }
        let name = format_ident!("value{}", self.statements.len(), span = Span::mixed_site());
        self.statements.push(quote_spanned!(value.span()=> let #name = #code;));
        Ok(quote!(#name))
    }

    fn call(&mut self, call: &ExprCall) -> Result<TokenStream> {
        let name = match &*call.func {
            Expr::Path(path) => path.path.get_ident(),
            _ => None,
        };
        let text = name.map(Ident::to_string).unwrap_or_default();
        let among = |names: &[&str]| names.contains(&text.as_str());
        let values = match call.args.len() {
            all if among(OF_VALUES) => all,
            _ if among(OF_ONE_VALUE) => 1,
            _ if among(OF_NONE) => 0,
            _ => {
                let known = [OF_VALUES, OF_ONE_VALUE, OF_NONE].concat().join(", ");
                let message = format!("no op of kernels: expected {known}, or a block around Rust code");
                return Err(Error::new_spanned(call, message));
            }
        };
        let mut arguments = Vec::new();
        for (number, argument) in call.args.iter().enumerate() {
            arguments.push(if number < values { self.operand(argument)? } else { quote!(#argument) });
        }
        Ok(self.method(&text, call.func.span(), arguments))
    }

    fn method(&self, name: &str, span: Span, arguments: impl IntoIterator<Item = TokenStream>) -> TokenStream {
        let (builder, name, arguments) = (&self.builder, Ident::new(name, span), arguments.into_iter());
        quote_spanned!(span=> #builder.#name(#(#arguments),*))
    }
}

/// Returns the method of an operator, and the direction of a comparison.
fn operator(op: &BinOp) -> Result<(&'static str, Option<TokenStream>)> {
    let direction = match op {
        BinOp::Add(_) => return Ok(("add", None)),
        BinOp::Sub(_) => return Ok(("sub", None)),
        BinOp::Mul(_) => return Ok(("mul", None)),
        BinOp::Div(_) => return Ok(("div", None)),
        BinOp::Rem(_) => return Ok(("rem", None)),
        BinOp::BitAnd(_) => return Ok(("and", None)),
        BinOp::BitOr(_) => return Ok(("or", None)),
        BinOp::BitXor(_) => return Ok(("xor", None)),
        BinOp::Lt(_) => "LT",
        BinOp::Le(_) => "LE",
        BinOp::Gt(_) => "GT",
        BinOp::Ge(_) => "GE",
        BinOp::Eq(_) => "EQ",
        BinOp::Ne(_) => "NE",
        other => return Err(Error::new_spanned(other, "no op of kernels: expected + - * / % & | ^ or a comparison")),
    };
    Ok(("compare", Some(quote!(#direction))))
}

/// Returns true for a name, a field of a place, or an element of one: reading it runs no code.
fn is_place(value: &Expr) -> bool {
    match value {
        Expr::Path(_) => true,
        Expr::Field(field) => is_place(&field.base),
        Expr::Index(element) => is_place(&element.expr) && (is_place(&element.index) || matches!(*element.index, Expr::Lit(_))),
        Expr::Unary(op) => matches!(op.op, UnOp::Deref(_)) && is_place(&op.expr),
        Expr::Paren(inner) => is_place(&inner.expr),
        _ => false,
    }
}
