//! Lowers ops on each element.
use super::super::row::{Items, Lower, Row, one, sizes};
use crate::{
    compose::{Elu, LeakyRelu, Softplus},
    emit::Operand,
    sizes::{Arithmetic, Sizes},
};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] = &[
    ("Abs", Lower::Map(OpKind::Abs)),
    ("Acos", Lower::Map(OpKind::Acos)),
    ("Acosh", Lower::Map(OpKind::Acosh)),
    ("Asin", Lower::Map(OpKind::Asin)),
    ("Asinh", Lower::Map(OpKind::Asinh)),
    ("Atan", Lower::Map(OpKind::Atan)),
    ("Atanh", Lower::Map(OpKind::Atanh)),
    ("BesselI1e", Lower::Map(OpKind::BesselI1e)),
    ("Ceil", Lower::Map(OpKind::Ceil)),
    ("Cos", Lower::Map(OpKind::Cosine)),
    ("Cosh", Lower::Map(OpKind::Cosh)),
    ("Digamma", Lower::Row(digamma)),
    ("Erf", Lower::Map(OpKind::Erf)),
    ("Erfc", Lower::Map(OpKind::Erfc)),
    ("Erfinv", Lower::Map(OpKind::ErfInv)),
    ("Exp", Lower::Map(OpKind::Exponential)),
    ("Expm1", Lower::Map(OpKind::ExponentialMinusOne)),
    ("Floor", Lower::Map(OpKind::Floor)),
    ("Invert", Lower::Map(OpKind::Not)),
    ("IsFinite", Lower::Map(OpKind::IsFinite)),
    ("IsInf", Lower::Map(OpKind::IsInf)),
    ("IsNan", Lower::Map(OpKind::IsNan)),
    ("Lgamma", Lower::Map(OpKind::Lgamma)),
    ("Log", Lower::Map(OpKind::Log)),
    ("Log1p", Lower::Map(OpKind::LogPlusOne)),
    ("LogicalNot", Lower::Row(logical_not)),
    ("Neg", Lower::Row(negate)),
    ("Rint", Lower::Map(OpKind::RoundNearestEven)),
    ("Round", Lower::Row(round)),
    ("Rsqrt", Lower::Map(OpKind::Rsqrt)),
    ("Sigmoid", Lower::Map(OpKind::Logistic)),
    ("Sign", Lower::Map(OpKind::Sign)),
    ("Sin", Lower::Map(OpKind::Sine)),
    ("Sinh", Lower::Map(OpKind::Sinh)),
    ("Sqrt", Lower::Map(OpKind::Sqrt)),
    ("Tan", Lower::Map(OpKind::Tan)),
    ("Tanh", Lower::Map(OpKind::Tanh)),
    ("Atan2", Lower::Map(OpKind::Atan2)),
    ("BitwiseAnd", Lower::Map(OpKind::And)),
    ("BitwiseOr", Lower::Map(OpKind::Or)),
    ("BitwiseXor", Lower::Map(OpKind::Xor)),
    ("LogicalAnd", Lower::Map(OpKind::And)),
    ("LogicalOr", Lower::Map(OpKind::Or)),
    ("NextAfter", Lower::Map(OpKind::NextAfter)),
    ("Polygamma", Lower::Map(OpKind::Polygamma)),
    ("Pow", Lower::Map(OpKind::Power)),
    ("RealDiv", Lower::Map(OpKind::Divide)),
    ("TruncateDiv", Lower::Map(OpKind::Divide)),
    ("TruncateMod", Lower::Map(OpKind::Remainder)),
    ("Zeta", Lower::Map(OpKind::Zeta)),
    ("Add", Lower::Sized(Arithmetic::Add, OpKind::Add)),
    ("AddV2", Lower::Sized(Arithmetic::Add, OpKind::Add)),
    ("Sub", Lower::Sized(Arithmetic::Sub, OpKind::Subtract)),
    ("Mul", Lower::Sized(Arithmetic::Mul, OpKind::Multiply)),
    ("Maximum", Lower::Sized(Arithmetic::Max, OpKind::Maximum)),
    ("Minimum", Lower::Sized(Arithmetic::Min, OpKind::Minimum)),
    ("Equal", Lower::Compare(Arithmetic::Equal, "EQ")),
    ("NotEqual", Lower::Compare(Arithmetic::NotEqual, "NE")),
    ("Less", Lower::Compare(Arithmetic::Less, "LT")),
    ("LessEqual", Lower::Compare(Arithmetic::LessEqual, "LE")),
    ("Greater", Lower::Compare(Arithmetic::Greater, "GT")),
    ("GreaterEqual", Lower::Compare(Arithmetic::GreaterEqual, "GE")),
    ("Identity", Lower::Row(identity)),
    ("IdentityN", Lower::Row(identity)),
    ("PreventGradient", Lower::Row(identity)),
    ("Snapshot", Lower::Row(identity)),
    ("StopGradient", Lower::Row(identity)),
    ("CheckNumerics", Lower::Row(identity)),
    ("PlaceholderWithDefault", Lower::Row(identity)),
    ("AddN", Lower::Row(add_all)),
    ("BiasAdd", Lower::Row(bias_add)),
    ("Cast", Lower::Row(cast)),
    ("ClipByValue", Lower::Row(clip)),
    ("Div", Lower::Map(OpKind::Divide)),
    ("DivNoNan", Lower::Row(divide_no_nan)),
    ("Elu", Lower::Row(elu)),
    ("FloorDiv", Lower::Row(floor_divide)),
    ("FloorMod", Lower::Row(floor_remainder)),
    ("Inv", Lower::Row(reciprocal)),
    ("LeakyRelu", Lower::Row(leaky_relu)),
    ("Mod", Lower::Map(OpKind::Remainder)),
    ("MulNoNan", Lower::Row(multiply_no_nan)),
    ("Reciprocal", Lower::Row(reciprocal)),
    ("Relu", Lower::Row(relu)),
    ("Relu6", Lower::Row(relu6)),
    ("Select", Lower::Row(select_rows)),
    ("SelectV2", Lower::Row(select)),
    ("Selu", Lower::Row(selu)),
    ("Softplus", Lower::Row(softplus)),
    ("Softsign", Lower::Row(softsign)),
    ("Square", Lower::Row(square)),
    ("SquaredDifference", Lower::Row(squared_difference)),
    ("Xdivy", Lower::Row(zero_or_divide)),
    ("Xlog1py", Lower::Row(zero_or_log_plus_one)),
    ("Xlogy", Lower::Row(zero_or_log)),
];

/// The factor and the scale of self-normalising units (Klambauer et al. 2017).
const SELU: (f64, f64) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);

fn identity(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["message", "shape"]);
    Ok(row.inputs.to_vec())
}

fn logical_not(row: &Row<'_, '_>) -> Items {
    if let Some([only]) = row.all_sizes().as_deref()
        && let Some(numbers) = only.numbers()
    {
        let dims = numbers.iter().map(|&truth| Dim::from(i64::from(truth == 0))).collect();
        return sizes(Sizes { dims, ..(*only).clone() });
    }
    one(row.b.op(OpKind::Not, &[row.tensor(0)?])?)
}

fn negate(row: &Row<'_, '_>) -> Items {
    match row.all_sizes().as_deref() {
        Some([only]) => sizes(Sizes { dims: only.dims.iter().map(|dim| -dim).collect(), ..(*only).clone() }),
        _ => one(row.b.neg(row.tensor(0)?)?),
    }
}

/// The digamma function, NaN at 0, where it has no limit.
fn digamma(row: &Row<'_, '_>) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    let nan = b.full(f64::NAN, &[], b.dtype(x))?;
    one(b.select(b.compare("EQ", x, 0)?, nan, b.op(OpKind::Digamma, &[x])?)?)
}

fn round(row: &Row<'_, '_>) -> Items {
    let x = row.tensor(0)?;
    one(if row.b.dtype(x).is_float() { row.b.op(OpKind::RoundNearestEven, &[x])? } else { x })
}

fn add_all(row: &Row<'_, '_>) -> Items {
    let all = row.tensors()?;
    let Some((&first, rest)) = all.split_first() else {
        return Err(Diagnostic::new(Code::E1004, "expected at least one input"));
    };
    one(rest.iter().try_fold(first, |sum, &x| row.b.add(sum, x))?)
}

/// Adds a bias to the features, which are the last axis, or axis 1.
fn bias_add(row: &Row<'_, '_>) -> Items {
    let (b, x, bias) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let is_first = row.attrs.text("data_format", "NHWC")?.starts_with("NC");
    let axis = if is_first { 1 } else { b.rank(x).saturating_sub(1) };
    b.size_of(x, axis)?;
    one(b.add(x, b.broadcast(bias, &b.shape(x), &[axis])?)?)
}

fn cast(row: &Row<'_, '_>) -> Items {
    row.attrs.ignore(&["Truncate"]);
    let dtype = row.attrs.dtype("DstT")?;
    if let Some([only]) = row.all_sizes().as_deref()
        && only.dtype != DType::I1
        && let Some(same) = only.cast(dtype)
    {
        return sizes(same);
    }
    one(row.b.convert(row.tensor(0)?, dtype)?)
}

fn clip(row: &Row<'_, '_>) -> Items {
    let (low, high) = (row.tensor(1)?, row.tensor(2)?);
    one(row.b.minimum(row.b.maximum(row.tensor(0)?, low)?, high)?)
}

fn reciprocal(row: &Row<'_, '_>) -> Items {
    let x = row.tensor(0)?;
    one(row.b.div(row.b.full(1, &row.b.shape(x), row.b.dtype(x))?, x)?)
}

fn square(row: &Row<'_, '_>) -> Items {
    let x = row.tensor(0)?;
    one(row.b.mul(x, x)?)
}

fn squared_difference(row: &Row<'_, '_>) -> Items {
    let difference = row.b.sub(row.tensor(0)?, row.tensor(1)?)?;
    one(row.b.mul(difference, difference)?)
}

/// The quotient rounded down: of integers the truncated one, less one where it was rounded up.
fn floor_divide(row: &Row<'_, '_>) -> Items {
    if let Some(found) = row.arithmetic(Arithmetic::FloorDiv) {
        return sizes(found);
    }
    let (b, x, y) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let quotient = b.div(x, y)?;
    if b.dtype(x).is_float() {
        return one(b.op(OpKind::Floor, &[quotient])?);
    }
    if !b.dtype(x).is_signed_integer() {
        return one(quotient);
    }
    let rest = b.map(OpKind::Remainder, &[x, y])?;
    let is_lower = differs_in_sign(row, rest, y)?;
    one(b.select(is_lower, b.sub(quotient, 1)?, quotient)?)
}

/// The remainder with the sign of the divisor.
fn floor_remainder(row: &Row<'_, '_>) -> Items {
    if let Some(found) = row.arithmetic(Arithmetic::FloorMod) {
        return sizes(found);
    }
    let (b, x, y) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let rest = b.map(OpKind::Remainder, &[x, y])?;
    if !b.dtype(x).is_float() && !b.dtype(x).is_signed_integer() {
        return one(rest);
    }
    let differs = differs_in_sign(row, rest, y)?;
    one(b.select(differs, b.add(rest, y)?, rest)?)
}

/// Returns true where `rest` is not 0 and its sign is not that of `y`.
fn differs_in_sign(row: &Row<'_, '_>, rest: Value, y: Value) -> Result<Value, Diagnostic> {
    let b = row.b;
    let is_rest = b.compare("NE", rest, 0)?;
    let (rest, y) = (b.compare("LT", rest, 0)?, b.compare("LT", y, 0)?);
    b.map(OpKind::And, &[is_rest, b.map(OpKind::Xor, &[rest, y])?])
}

/// `x / y`, and 0 where `y` is 0.
fn divide_no_nan(row: &Row<'_, '_>) -> Items {
    let (b, x, y) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let zero = b.full(0, &[], b.dtype(x))?;
    one(b.select(b.compare("EQ", y, 0)?, zero, b.div(x, y)?)?)
}

/// `x * y`, and 0 where `y` is 0.
fn multiply_no_nan(row: &Row<'_, '_>) -> Items {
    let (b, x, y) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let zero = b.full(0, &[], b.dtype(x))?;
    one(b.select(b.compare("EQ", y, 0)?, zero, b.mul(x, y)?)?)
}

fn zero_or_divide(row: &Row<'_, '_>) -> Items {
    let quotient = row.b.div(row.tensor(0)?, row.tensor(1)?)?;
    zero_where_x_is(row, quotient)
}

fn zero_or_log(row: &Row<'_, '_>) -> Items {
    let log = row.b.op(OpKind::Log, &[row.tensor(1)?])?;
    zero_where_x_is(row, row.b.mul(row.tensor(0)?, log)?)
}

fn zero_or_log_plus_one(row: &Row<'_, '_>) -> Items {
    let log = row.b.op(OpKind::LogPlusOne, &[row.tensor(1)?])?;
    zero_where_x_is(row, row.b.mul(row.tensor(0)?, log)?)
}

fn zero_where_x_is(row: &Row<'_, '_>, result: Value) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    let zero = b.full(0, &[], b.dtype(x))?;
    one(b.select(b.compare("EQ", x, 0)?, zero, result)?)
}

fn relu(row: &Row<'_, '_>) -> Items {
    one(row.b.maximum(row.tensor(0)?, 0)?)
}

fn relu6(row: &Row<'_, '_>) -> Items {
    one(row.b.minimum(row.b.maximum(row.tensor(0)?, 0)?, 6)?)
}

fn elu(row: &Row<'_, '_>) -> Items {
    one(row.compose(Elu { x: row.tensor(0)?, alpha: 1.0, scale: 1.0, input_scale: 1.0 })?)
}

fn selu(row: &Row<'_, '_>) -> Items {
    let (alpha, scale) = SELU;
    one(row.compose(Elu { x: row.tensor(0)?, alpha, scale, input_scale: 1.0 })?)
}

fn leaky_relu(row: &Row<'_, '_>) -> Items {
    one(row.compose(LeakyRelu { x: row.tensor(0)?, slope: Operand::Float(row.attrs.float("alpha", 0.2)?) })?)
}

fn softplus(row: &Row<'_, '_>) -> Items {
    one(row.compose(Softplus { x: row.tensor(0)?, beta: Operand::Int(1), threshold: Operand::Int(20) })?)
}

fn softsign(row: &Row<'_, '_>) -> Items {
    let (b, x) = (row.b, row.tensor(0)?);
    one(b.div(x, b.add(b.op(OpKind::Abs, &[x])?, 1)?)?)
}

fn select(row: &Row<'_, '_>) -> Items {
    if let Some([pred, x, y]) = row.all_sizes().as_deref()
        && let Some(truths) = pred.numbers()
        && let Some(chosen) = chosen(&truths, x, y)
    {
        return sizes(chosen);
    }
    one(row.b.select(row.tensor(0)?, row.tensor(1)?, row.tensor(2)?)?)
}

/// The sizes of two lists that truth values choose.
fn chosen(truths: &[i64], x: &Sizes, y: &Sizes) -> Option<Sizes> {
    let count = [truths.len(), x.dims.len(), y.dims.len()].into_iter().max()?;
    let at = |dims: &[Dim], i: usize| dims.get(if dims.len() == 1 { 0 } else { i }).cloned();
    let truth = |i: usize| truths.get(if truths.len() == 1 { 0 } else { i });
    let dims = (0..count).map(|i| if *truth(i)? != 0 { at(&x.dims, i) } else { at(&y.dims, i) });
    Some(Sizes { dtype: x.dtype, dims: dims.collect::<Option<_>>()?, is_scalar: x.is_scalar && y.is_scalar && truths.len() == 1 })
}

/// The first version of `where`: a condition of one axis chooses rows.
fn select_rows(row: &Row<'_, '_>) -> Items {
    let (b, pred, x) = (row.b, row.tensor(0)?, row.tensor(1)?);
    let is_of_rows = b.rank(pred) == 1 && b.rank(x) > 1;
    let pred = if is_of_rows { b.broadcast(pred, &b.shape(x), &[0])? } else { pred };
    one(b.select(pred, x, row.tensor(2)?)?)
}
