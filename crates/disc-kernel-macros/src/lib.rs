//! Defines `expr!`, which emits the ops of an expression through a kernel builder.
mod expand;

use proc_macro::TokenStream;

/// Emits an expression's ops through a builder, from left to right, each after its operands.
///
/// Operators are the builder's methods (`*` is `mul`, `<` is `compare`), and an integer is its
/// constant `int`. So are the calls `select`, `min`, `max`, `fma`; `convert` and `widen`, whose
/// second argument is Rust; and `int`, `dim`, `float`, `zero`, which take Rust only. Other code,
/// such as a name, a field or a block, gives a value of the kernel.
///
/// ```
/// # use disc_kernel_macros::expr;
/// # struct Builder(Vec<String>);
/// # impl Builder {
/// #     fn op(&mut self, op: String) -> usize { self.0.push(op); self.0.len() - 1 }
/// #     fn int(&mut self, value: i64) -> usize { self.op(format!("{value}")) }
/// #     fn mul(&mut self, a: usize, b: usize) -> usize { self.op(format!("%{a} * %{b}")) }
/// #     fn add(&mut self, a: usize, b: usize) -> usize { self.op(format!("%{a} + %{b}")) }
/// # }
/// # let mut kb = Builder(Vec::new());
/// # let (row, column) = (kb.op("row".into()), kb.op("column".into()));
/// let position = expr!(kb, row * 8 + column);
/// assert_eq!(kb.0, ["row", "column", "8", "%0 * %2", "%3 + %1"]);
/// # assert_eq!(position, 4);
/// ```
///
/// A form that is none of these is an error at its place:
///
/// ```compile_fail
/// # use disc_kernel_macros::expr;
/// # struct Builder;
/// # impl Builder { fn and(&mut self, a: bool, b: bool) -> bool { a & b } }
/// let (mut kb, mask) = (Builder, true);
/// expr!(kb, mask && mask);
/// ```
#[proc_macro]
pub fn expr(input: TokenStream) -> TokenStream {
    expand::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
