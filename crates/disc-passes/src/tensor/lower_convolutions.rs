//! Lowers convolutions to matmuls with patches (im2col), for the matmul schedules.
//!
//! If windows have one element and do not skip any, the input is its own patch matrix. Convolutions
//! with few features per group stay, by output or by input: a matmul would have a row or two, and
//! short sums.
//!
//! Layouts other than features-first are normalised first ([`layouts`]), then dilated inputs, as in
//! transposed convolutions ([`transposed`]).
//!
//! Invariant: padding takes part as zeros, as in the convolution; sums are in another order.
mod layouts;
mod transposed;
pub(crate) mod winograd;

use crate::{
    analysis::{call_invariant::CallInvariant, query::Query},
    pass::{PassCx, PassDef},
    rules::rewrite::{Rewriter, visit},
};
use disc_ir::{Attr, Diagnostic, Dim, FunctionKind, Inst, Module, OpKind, Solver, Type, Value, ops::Stage};
use std::sync::Arc;

/// Rewrites convolutions as matmuls.
pub static PASS: PassDef = PassDef {
    name: "lower-convolutions",
    doc: "Lowers convolutions with enough features per group to matmuls of the kernel with patches of the input (im2col).",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

/// Convolutions with fewer output features per group stay, if input features per group are at most
/// this many.
const FEW_FEATURES: i64 = 8;
const FEW_CHANNELS: i64 = 16;
/// The bound of output features without groups.
const ENOUGH_FEATURES: i64 = 4;

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let mut made = 0;
    for function in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func) {
        let solver = Arc::new(Solver::new(&function.facts));
        let mut turned = layouts::Transposes::default();
        made += visit(function, &solver, &mut |rw, inst| {
            let value = turned.rewrite(rw, inst).filter(|_| cx.spend_on("features-first"));
            rw.take_error().map(|()| value)
        })?;
        made += visit(function, &solver, &mut |rw, inst| {
            let whole = transposed::phases(rw, inst).filter(|_| cx.spend_on("phases"));
            rw.take_error().map(|()| whole)
        })?;
        let fixed = CallInvariant::of(function);
        made += visit(function, &solver, &mut |rw, inst| {
            let Some(convolution) = Convolution::of(rw, inst).filter(|_| cx.spend()) else { return Ok(None) };
            let mut product = convolution.product(rw, inst);
            if cx.options.winograd && fixed.contains(convolution.kernel) && fixed.depends_on_weights(convolution.kernel) {
                product = product.and_then(|product| convolution.winograd(rw, inst, product, cx));
            }
            rw.take_error().map(|()| product)
        })?;
    }
    Ok(made)
}

/// The parameters of a convolution that becomes a matmul.
struct Convolution {
    input: Value,
    kernel: Value,
    groups: i64,
    /// The kernel's axes: output features, input features, then the spatial ones.
    kernel_axes: Vec<usize>,
    windows: Vec<Dim>,
}

impl Convolution {
    /// Returns `None` for other ops and for convolutions that stay.
    fn of(rw: &Rewriter<'_>, inst: Inst) -> Option<Self> {
        if rw.f.kind_of(inst) != OpKind::Convolution {
            return None;
        }
        let [input, kernel] = rw.f.operands(inst)[..] else { return None };
        let groups = rw.f.int(inst, "feature_group_count").max(1);
        let kernel_axes = kernel_axes(rw, inst);
        let features = rw.f.shape(kernel)[kernel_axes[0]].as_const();
        let straight = kernel_axes.is_sorted();
        let channels = rw.f.shape(kernel)[kernel_axes[1]].as_const();
        let enough = match channels {
            Some(channels) if channels > FEW_CHANNELS && !is_one_place(rw, inst) => 1,
            Some(_) if groups > 1 => FEW_FEATURES,
            _ => ENOUGH_FEATURES,
        };
        // A dynamic number of features is assumed to be large.
        let few = features.map_or(groups > 1, |features| features / groups < enough || features % groups != 0);
        let float = rw.f.ty(input).dtype().is_float();
        let spread = rw.f.ints(inst, "lhs_dilation").iter().any(|&apart| apart > 1);
        if spread || !is_plain(rw, inst) || !float || few || rw.f.int(inst, "batch_group_count") > 1 || (groups > 1 && !straight)
        {
            return None;
        }
        let windows = kernel_axes[2..].iter().map(|&axis| rw.f.shape(kernel)[axis].clone()).collect();
        Some(Self { input, kernel, groups, kernel_axes, windows })
    }

    fn product(&self, rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
        let batch = rw.f.shape(self.input)[0].clone();
        let (result, spatial) = (rw.f.ty(rw.f.result(inst)).clone(), self.windows.len());
        let mut kernel = reversed(rw, inst, self.kernel, &self.kernel_axes)?;
        let mut input = self.input;
        let mut axes = self.kernel_axes.clone();
        // The dimensions of batches and groups.
        let mut batches = vec![batch];
        if self.groups > 1 {
            kernel = split(rw, kernel, 0, self.groups)?;
            input = split(rw, input, 1, self.groups)?;
            batches.push(Dim::constant(self.groups));
            axes.iter_mut().for_each(|axis| *axis += 1);
        }
        let lead = batches.len();
        let (patches, taps) =
            if are_own_patches(rw, inst, &self.windows) { (input, 0) } else { (self.patches(rw, inst, input)?, spatial) };
        if taps == 0 {
            // Window dimensions of size 1 are not summed over.
            kernel = drop_ones(rw, kernel, &axes[2..])?;
            let dropped = axes.split_off(2);
            axes.iter_mut().for_each(|axis| *axis -= dropped.iter().filter(|&other| other < axis).count());
        }
        let shape: Vec<Dim> = batches[..1].iter().chain(rw.f.shape(kernel)).cloned().collect();
        let dtype = rw.f.ty(kernel).dtype();
        let dims: Vec<i64> = (1..shape.len() as i64).collect();
        let repeated = Type::tensor(shape, dtype);
        let kernel =
            rw.build(|b| b.op(OpKind::BroadcastInDim).operands(&[kernel]).attr("dims", dims).result(repeated).value())?;
        let numbers = |range: std::ops::Range<usize>| range.map(|axis| axis as i64).collect::<Vec<_>>();
        axes.iter_mut().for_each(|axis| *axis += 1);
        let kernel_sums: Vec<i64> = axes[1..].iter().map(|&axis| axis as i64).collect();
        let dtype_attr = rw.f.attr(inst, "dtype").cloned();
        let product = rw.build(|b| {
            let mut request = b
                .op(OpKind::DotGeneral)
                .operands(&[kernel, patches])
                .attr("lhs_batching_dims", numbers(0..lead))
                .attr("rhs_batching_dims", numbers(0..lead))
                .attr("lhs_contracting_dims", kernel_sums)
                .attr("rhs_contracting_dims", numbers(lead..lead + 1 + taps));
            if let Some(dtype) = dtype_attr {
                request = request.attr("dtype", dtype);
            }
            request.value()
        })?;
        if self.groups == 1 {
            return Some(product);
        }
        let Type::Tensor(result) = result else { return None };
        rw.reshape(product, result.dims.iter().cloned())
    }

    fn patches(&self, rw: &mut Rewriter<'_>, inst: Inst, input: Value) -> Option<Value> {
        let names = [
            ("window_strides", "window_strides"),
            ("rhs_dilation", "window_dilations"),
            ("padding_low", "padding_low"),
            ("padding_high", "padding_high"),
        ];
        let attrs: Vec<(&str, Attr)> =
            names.iter().filter_map(|(from, to)| rw.f.attr(inst, from).map(|attr| (*to, attr.clone()))).collect();
        let windows = self.windows.clone();
        rw.build(|b| {
            let mut request = b.op(OpKind::Im2col).operands(&[input]).attr("window_dimensions", windows);
            for (name, attr) in attrs {
                request = request.attr(name, attr);
            }
            request.value()
        })
    }
}

/// The axes of the input or the output: batch, features, then the spatial ones.
fn order(rw: &Rewriter<'_>, inst: Inst, side: &str) -> Vec<usize> {
    let first = ["batch", "feature"].map(|role| rw.f.int(inst, &format!("{side}_{role}_dimension")) as usize);
    first.into_iter().chain(rw.f.axes(inst, &format!("{side}_spatial_dimensions"))).collect()
}

/// Returns true if input and output are channels first.
fn is_plain(rw: &Rewriter<'_>, inst: Inst) -> bool {
    ["input", "output"].iter().all(|side| order(rw, inst, side).is_sorted())
}

/// Returns true if the result has one spatial position, so that the matmul would have one column.
fn is_one_place(rw: &Rewriter<'_>, inst: Inst) -> bool {
    let shape = rw.f.shape(rw.f.result(inst));
    order(rw, inst, "output").into_iter().skip(2).all(|axis| shape[axis].is_const(1))
}

/// Returns true if every window is one element, and there is one for each element of the input.
fn are_own_patches(rw: &Rewriter<'_>, inst: Inst, windows: &[Dim]) -> bool {
    let ones = |name: &str| rw.f.ints(inst, name).iter().all(|&factor| factor == 1);
    let none = |name: &str| rw.f.dims(inst, name).iter().all(|padding| padding.is_const(0));
    windows.iter().all(|window| window.is_const(1))
        && ones("window_strides")
        && ones("lhs_dilation")
        && none("padding_low")
        && none("padding_high")
}

/// The kernel's axes: output features, input features, then the spatial ones.
fn kernel_axes(rw: &Rewriter<'_>, inst: Inst) -> Vec<usize> {
    let features = ["output", "input"].map(|side| rw.f.int(inst, &format!("kernel_{side}_feature_dimension")) as usize);
    features.into_iter().chain(rw.f.axes(inst, "kernel_spatial_dimensions")).collect()
}

/// Reverses the kernel along the axes where the convolution reads it backwards.
fn reversed(rw: &mut Rewriter<'_>, inst: Inst, kernel: Value, axes: &[usize]) -> Option<Value> {
    let flags = rw.f.ints(inst, "window_reversal").to_vec();
    let turned = flags.iter().zip(&axes[2..]).filter(|(flag, _)| **flag != 0);
    let dims: Vec<i64> = turned.map(|(_, &axis)| axis as i64).collect();
    match dims[..] {
        [] => Some(kernel),
        _ => rw.build(|b| b.op(OpKind::Reverse).operands(&[kernel]).attr("dims", dims).value()),
    }
}

/// Splits dimension `axis` into `parts` equal parts.
fn split(rw: &mut Rewriter<'_>, value: Value, axis: usize, parts: i64) -> Option<Value> {
    let mut dims = rw.f.shape(value).to_vec();
    let rest = dims[axis].floor_div(&Dim::constant(parts));
    dims.splice(axis..axis + 1, [Dim::constant(parts), rest]);
    rw.reshape(value, dims)
}

/// Drops these dimensions, which have size 1.
fn drop_ones(rw: &mut Rewriter<'_>, value: Value, axes: &[usize]) -> Option<Value> {
    let dims = rw.f.shape(value).iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    let dims: Vec<Dim> = dims.map(|(_, dim)| dim.clone()).collect();
    if axes.is_empty() { Some(value) } else { rw.reshape(value, dims) }
}
