//! Describes a convolution, and what is computed of its sums, as a graph of the library's ops.
//!
//! Sums are in f32, and stay so until the end of the graph: the result is rounded once.
use super::{
    descriptor::Descriptor,
    functions::{self, CudnnError, Functions, Handle, attribute as at, kind, ty},
    shape::{Shape, Tensor},
};
use disc_abi::{Activation, DType};
use std::ffi::c_int;

/// The names of the tensors in memory: input, filter, bias and result.
pub(super) const NAMES: [i64; 4] = [1, 2, 3, 4];
/// The name of the first tensor that is not in memory.
const VIRTUAL: i64 = 10;

/// The graph of a shape, with the descriptors that it is made of: the library may refer to them.
pub(super) struct Graph {
    pub(super) whole: Descriptor,
    _parts: Vec<Descriptor>,
}

/// Makes the graph of a shape.
///
/// # Errors
/// A convolution that the library has no ops for, too.
pub(super) fn graph(functions: Functions, library: Handle, shape: &Shape) -> Result<Graph, CudnnError> {
    let [input, filter, bias, result] = NAMES;
    let [of_input, of_result, of_bias] = shape.dtypes.map(data_type);
    let own = |name, of: Tensor, data_type| tensor(functions, name, of, data_type, shape.alignment, false);
    let (input, filter) = (own(input, shape.input, of_input)?, own(filter, shape.filter, of_input)?);
    let adds_bias = shape.has_bias.then_some(functions::ADD);
    let is_relu = (shape.activation == Activation::Relu).then_some(functions::RELU);
    let rest: Vec<c_int> = adds_bias.into_iter().chain(is_relu).collect();
    let mut last = VIRTUAL;
    // The value after the convolution, and after each function: the last one is the result.
    let mut value = |is_last: bool| {
        last += 1;
        match is_last {
            true => own(result, shape.result, of_result),
            false => tensor(functions, last, shape.result, functions::F32, shape.alignment, true),
        }
    };
    let mut values = vec![value(rest.is_empty())?];
    let [how, first] = forward(functions, shape, [&input, &filter, &values[0]])?;
    let (mut parts, mut ops) = (vec![input, filter, how], vec![first]);
    let bias = if shape.has_bias { Some(own(bias, shape.bias(), of_bias)?) } else { None };
    for (number, &mode) in rest.iter().enumerate() {
        let next = value(number + 1 == rest.len())?;
        let right = bias.as_ref().filter(|_| mode == functions::ADD);
        let [how, op] = pointwise(functions, mode, &values[number], right, &next)?;
        parts.push(how);
        ops.push(op);
        values.push(next);
    }
    let whole = Descriptor::new(functions, kind::OPERATION_GRAPH)?;
    // SAFETY: a handle.
    unsafe { whole.set(at::GRAPH_HANDLE, ty::HANDLE, &[library])? };
    whole.set_descriptors(at::GRAPH_OPERATIONS, &ops.iter().collect::<Vec<_>>())?;
    let whole = whole.finalized()?;
    parts.extend(ops.into_iter().chain(values).chain(bias));
    Ok(Graph { whole, _parts: parts })
}

/// Returns the library's number of an element type, by its code.
fn data_type(code: u8) -> c_int {
    match DType::from_code(code) {
        Some(DType::F16) => functions::F16,
        Some(DType::BF16) => functions::BF16,
        _ => functions::F32,
    }
}

fn tensor(
    functions: Functions,
    name: i64,
    of: Tensor,
    data_type: c_int,
    alignment: usize,
    is_virtual: bool,
) -> Result<Descriptor, CudnnError> {
    let made = Descriptor::new(functions, kind::TENSOR)?;
    made.set_word(at::TENSOR_DATA_TYPE, ty::DATA_TYPE, data_type)?;
    made.set_integers(at::TENSOR_SIZES, &of.sizes)?;
    made.set_integers(at::TENSOR_STRIDES, &of.strides)?;
    made.set_integers(at::TENSOR_NAME, &[name])?;
    made.set_integers(at::TENSOR_ALIGNMENT, &[alignment as i64])?;
    made.set_flag(at::TENSOR_IS_VIRTUAL, is_virtual)?;
    made.finalized()
}

/// Describes only the convolution: its window, and the op.
fn forward(
    functions: Functions,
    shape: &Shape,
    [input, filter, result]: [&Descriptor; 3],
) -> Result<[Descriptor; 2], CudnnError> {
    let how = Descriptor::new(functions, kind::CONVOLUTION)?;
    how.set_integers(at::CONVOLUTION_SPATIAL_DIMS, &[2])?;
    how.set_word(at::CONVOLUTION_COMPUTE_TYPE, ty::DATA_TYPE, functions::F32)?;
    how.set_word(at::CONVOLUTION_MODE, ty::CONVOLUTION_MODE, functions::CROSS_CORRELATION)?;
    how.set_integers(at::CONVOLUTION_PADDING_LOW, &shape.padding_low)?;
    how.set_integers(at::CONVOLUTION_PADDING_HIGH, &shape.padding_high)?;
    how.set_integers(at::CONVOLUTION_DILATIONS, &shape.dilations)?;
    how.set_integers(at::CONVOLUTION_STRIDES, &shape.window_strides)?;
    let how = how.finalized()?;
    let made = Descriptor::new(functions, kind::CONVOLUTION_FORWARD)?;
    made.set_descriptors(at::FORWARD_INPUT, &[input])?;
    made.set_descriptors(at::FORWARD_FILTER, &[filter])?;
    made.set_descriptors(at::FORWARD_RESULT, &[result])?;
    made.set_descriptors(at::FORWARD_CONVOLUTION, &[&how])?;
    made.set_float(at::FORWARD_ALPHA, 1.0)?;
    made.set_float(at::FORWARD_BETA, 0.0)?;
    Ok([how, made.finalized()?])
}

/// Describes a function of elements: its name, and the op.
fn pointwise(
    functions: Functions,
    mode: c_int,
    left: &Descriptor,
    right: Option<&Descriptor>,
    result: &Descriptor,
) -> Result<[Descriptor; 2], CudnnError> {
    let how = Descriptor::new(functions, kind::POINTWISE)?;
    how.set_word(at::POINTWISE_MODE, ty::POINTWISE_MODE, mode)?;
    how.set_word(at::POINTWISE_PRECISION, ty::DATA_TYPE, functions::F32)?;
    if mode == functions::RELU {
        how.set_word(at::POINTWISE_NAN_PROPAGATION, ty::NAN_PROPAGATION, functions::PROPAGATE_NAN)?;
    }
    let how = how.finalized()?;
    let made = Descriptor::new(functions, kind::POINTWISE_OPERATION)?;
    made.set_descriptors(at::OPERATION_POINTWISE, &[&how])?;
    made.set_descriptors(at::OPERATION_LEFT, &[left])?;
    if let Some(right) = right {
        made.set_descriptors(at::OPERATION_RIGHT, &[right])?;
    }
    made.set_descriptors(at::OPERATION_RESULT, &[result])?;
    Ok([how, made.finalized()?])
}
