//! Evaluates ops of kernels. A vector is a tensor of its lanes, a scalar a tensor of rank 0; memory
//! is checked at every access.
use super::{
    Tensor,
    call::Call,
    elementwise::Function,
    machine::{Evaluated, Machine, Val},
    memory::Buffer,
    scalar::{Scalar, round},
    table::{Eval, eval},
    tensor::count,
    tiles::{Elements, product},
};
use crate::{
    diag::Diagnostic,
    fragment::{REGISTER_ROW_BYTES, Role, Tile},
    ops::OpKind,
    types::{DType, Type},
};

/// The mask of a memory access, lane by lane.
fn is_on(mask: Option<&Tensor>, lane: usize) -> bool {
    mask.is_none_or(|mask| mask.at(lane).is_true())
}

/// The element that a lane accesses.
fn element(index: &Tensor, lane: usize) -> i64 {
    let value = |i| index.at(i).as_int() as i64;
    if index.dims().is_empty() { value(0) + lane as i64 } else { value(lane) }
}

fn mask<'c>(call: &'c Call<'_>, position: usize) -> Result<Option<&'c Tensor>, Diagnostic> {
    (call.args.len() > position).then(|| call.tensor(position)).transpose()
}

/// Checks the alignment that an access states, if it accesses anything.
fn check_alignment(call: &Call<'_>, buffer: &Buffer, index: &Tensor, mask: Option<&Tensor>) -> Result<(), Diagnostic> {
    let (first, bytes) = (element(index, 0), call.int("align", 1));
    let is_accessed = mask.is_none_or(|mask| (0..mask.len()).any(|lane| mask.at(lane).is_true()));
    match !is_accessed || buffer.is_aligned(first, bytes) {
        true => Ok(()),
        false => Err(call.malformed(format!("element {first} of the buffer starts at no multiple of {bytes} bytes"))),
    }
}

pub(super) fn load(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (buffer, index, mask) = (call.buffer(0)?, call.tensor(1)?, mask(call, 2)?);
    check_alignment(call, buffer, index, mask)?;
    let mut result = Tensor::zeros(call.dtype(), call.shape());
    for lane in (0..result.len()).filter(|&lane| is_on(mask, lane)) {
        result.set_element(lane, machine.memory.read(buffer, element(index, lane))?);
    }
    Ok(vec![result.into()])
}

pub(super) fn store(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (buffer, index, value, mask) = (call.buffer(0)?, call.tensor(1)?, call.tensor(2)?, mask(call, 3)?);
    check_alignment(call, buffer, index, mask)?;
    machine.charge(value.len() as u64)?;
    for lane in (0..value.len()).filter(|&lane| is_on(mask, lane)) {
        machine.memory.write(buffer, element(index, lane), value.element(lane))?;
    }
    Ok(Vec::new())
}

/// The number of the element of a buffer that an element of a tile register is.
fn element_of_tile(call: &Call<'_>, dtype: DType, lane: usize) -> Result<i64, Diagnostic> {
    let columns = REGISTER_ROW_BYTES / dtype.size();
    Ok(call.int_operand(1)? + (lane / columns) as i64 * call.int_operand(2)? + (lane % columns) as i64)
}

pub(super) fn load_tile(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let buffer = call.buffer(0)?;
    let mut result = Tensor::zeros(call.dtype(), call.shape());
    for lane in 0..result.len() {
        result.set_element(lane, machine.memory.read(buffer, element_of_tile(call, call.dtype(), lane)?)?);
    }
    Ok(vec![result.into()])
}

pub(super) fn store_tile(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (buffer, value) = (call.buffer(0)?, call.tensor(3)?);
    machine.charge(value.len() as u64)?;
    for lane in 0..value.len() {
        machine.memory.write(buffer, element_of_tile(call, value.dtype(), lane)?, value.element(lane))?;
    }
    Ok(Vec::new())
}

/// Multiplies tiles that one thread holds.
pub(super) fn multiply_tiles(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let tile = Tile::from_name(call.word("tile")).filter(|tile| tile.warp() == 1);
    let tile = tile.ok_or_else(|| call.malformed("the threads of a warp hold this tile".into()))?;
    let elements = |operand, role| Ok::<_, Diagnostic>(Elements::of(tile, role, &[call.tensor(operand)?]));
    let operands = [elements(0, Role::A)?, elements(1, Role::B)?, elements(2, Role::C)?];
    machine.charge(tile.sizes().iter().map(|&size| u64::from(size)).product())?;
    Ok(vec![product(tile, &operands, 0, call.dtype()).into()])
}

pub(super) fn view(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    Ok(vec![Val::Buffer(call.buffer(0)?.view(call.int_operand(1)?, call.shape())?)])
}

pub(super) fn scratch(machine: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (count, size) = (count(&call.shape()).unwrap_or(usize::MAX), call.dtype().size());
    let bytes = count.saturating_mul(size) as u64;
    // Parts of scratch start at multiples of 64 bytes.
    machine.use_scratch(bytes.next_multiple_of(64))?;
    machine.reserve_bytes(bytes)?;
    Ok(vec![Val::Buffer(machine.memory.fresh(call.dtype(), call.shape()))])
}

pub(super) fn prefetch(_: &mut Machine<'_>, _: &Call<'_>) -> Evaluated {
    Ok(Vec::new())
}

pub(super) fn splat(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let value = call.tensor(0)?.at(0);
    Ok(vec![Tensor::from_fn(call.dtype(), call.shape(), |_| value).into()])
}

pub(super) fn lanes(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    Ok(vec![Tensor::from_fn(call.dtype(), call.shape(), |lane| Scalar::Int(lane as i128)).into()])
}

pub(super) fn lane_mask(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let count = i128::from(call.int_operand(0)?);
    let is_on = |lane| Scalar::Int(((lane as i128) < count).into());
    Ok(vec![Tensor::from_fn(call.dtype(), call.shape(), is_on).into()])
}

pub(super) fn extract_lane(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let value = call.tensor(0)?.at(call.axis("lane"));
    Ok(vec![Tensor::from_fn(call.dtype(), call.shape(), |_| value).into()])
}

pub(super) fn reduce_lanes(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (operand, name) = (call.tensor(0)?, call.word("applies"));
    let lanes = match OpKind::from_name(name).map(eval) {
        Some(Eval::Lanes(lanes)) if lanes.is_binary() => lanes,
        _ => return Err(call.malformed(format!("`{name}` combines no lanes"))),
    };
    let dtype = operand.dtype();
    let mut values: Vec<Scalar> = (0..operand.len()).map(|lane| operand.at(lane)).collect();
    while values.len() > 1 {
        let upper = values.split_off(values.len().div_ceil(2));
        values.iter_mut().zip(upper).for_each(|(low, high)| *low = round(dtype, lanes.combine(dtype, *low, high)));
    }
    Ok(vec![Tensor::from_fn(dtype, Vec::new(), |_| values[0]).into()])
}

pub(super) fn transpose_lanes(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let rows = call.tensors(0..call.args.len())?;
    let column = |lane| Tensor::from_fn(call.dtype(), call.shape(), |row| rows[row].at(lane)).into();
    Ok((0..rows.len()).map(column).collect())
}

pub(super) fn unzip_lanes(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let both = call.tensors(0..2)?;
    let count = both[0].len();
    let lanes = |first: usize| {
        let from = move |lane: usize| (2 * lane + first) % count;
        Tensor::from_fn(call.dtype(), call.shape(), |lane| both[(2 * lane + first) / count].at(from(lane))).into()
    };
    Ok(vec![lanes(0), lanes(1)])
}

pub(super) fn zip_lanes(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let both = call.tensors(0..2)?;
    let count = both[0].len();
    let lanes =
        |first: usize| Tensor::from_fn(call.dtype(), call.shape(), |lane| both[(first + lane) % 2].at((first + lane) / 2)).into();
    Ok(vec![lanes(0), lanes(count)])
}

pub(super) fn pick_lanes(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let (both, places) = (call.tensors(0..2)?, call.tensor(2)?.to_i64s());
    let count = both[0].len();
    let picked = |lane: usize| {
        let place = places[lane].rem_euclid(2 * count as i64) as usize;
        both[place / count].at(place % count)
    };
    Ok(vec![Tensor::from_fn(call.dtype(), call.shape(), picked).into()])
}

pub(super) fn recast_lanes(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    Ok(vec![Tensor::new(call.dtype(), call.shape(), call.tensor(0)?.bytes().to_vec())?.into()])
}

pub(super) fn dot_lanes(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    let elements = call.attr_dtype("elements")?;
    let a_elements = call.attr_dtype("a_elements").unwrap_or(elements);
    dots(call, [a_elements, elements], |lane| [lane, lane])
}

pub(super) fn dot_pairs(_: &mut Machine<'_>, call: &Call<'_>) -> Evaluated {
    // Of the four lanes of a block, the higher bit tells the row and the lower one the column.
    let lanes = |lane: usize| [lane / 4 * 2 + lane / 2 % 2, lane / 4 * 2 + lane % 2];
    dots(call, [call.attr_dtype("elements")?; 2], lanes)
}

/// Adds to each lane of the sums the products of the elements that two lanes hold; `lanes` gives
/// the number of that in `a` and that in `b`.
fn dots(call: &Call<'_>, elements: [DType; 2], lanes: impl Fn(usize) -> [usize; 2]) -> Evaluated {
    let sum = call.tensor(2)?;
    let held = |side: usize| {
        let tensor = call.tensor(side)?;
        let count = tensor.bytes().len() / elements[side].size();
        Tensor::new(elements[side], vec![count as i64], tensor.bytes().to_vec())
    };
    let (a, b) = (held(0)?, held(1)?);
    let per_lane = b.len() / call.tensor(1)?.len();
    let lane = |lane: usize| {
        let [row, column] = lanes(lane).map(|lane| lane * per_lane);
        (0..per_lane).fold(sum.at(lane), |sum, i| match (a.at(row + i), b.at(column + i), sum) {
            (Scalar::Int(a), Scalar::Int(b), Scalar::Int(sum)) => round(DType::I32, Scalar::Int(a * b + sum)),
            (a, b, sum) => Scalar::Float((a.as_f64() as f32).mul_add(b.as_f64() as f32, sum.as_f64() as f32).into()),
        })
    };
    Ok(vec![Tensor::from_fn(call.dtype(), call.shape(), lane).into()])
}

pub(super) fn fma(_: &Call<'_>, dtype: DType) -> Function {
    Box::new(move |x| match (x[0], x[1], x[2]) {
        (Scalar::Int(a), Scalar::Int(b), Scalar::Int(c)) => Scalar::Int(a.wrapping_mul(b).wrapping_add(c)),
        (a, b, c) if dtype == DType::F64 => Scalar::Float(a.as_f64().mul_add(b.as_f64(), c.as_f64())),
        (a, b, c) => Scalar::Float((a.as_f64() as f32).mul_add(b.as_f64() as f32, c.as_f64() as f32).into()),
    })
}

pub(super) fn scale_by_power(_: &Call<'_>, dtype: DType) -> Function {
    Box::new(move |x| {
        let (value, exponent) = (x[0].as_f64(), x[1].as_f64());
        // In f64 a power of f32 is exact; one of f64 may be none as a whole, and its first half
        // makes no denormal number.
        let half = if dtype == DType::F32 { exponent } else { (exponent / 2.0).trunc() };
        Scalar::Float(value * half.exp2() * (exponent - half).exp2())
    })
}

pub(super) fn for_<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let (lower, upper, step) = (call.int_operand(0)?, call.int_operand(1)?, call.int_operand(2)?);
    let Type::Vector { dtype, .. } = call.function.ty(call.data.operands[0]) else {
        return Err(call.malformed("the bounds are not scalars".into()));
    };
    if step <= 0 {
        return Err(call.malformed(format!("a step of {step}")));
    }
    let (body, mut carried) = (call.region(0)?, call.args[3..].to_vec());
    let mut index = lower;
    while index < upper {
        machine.charge(1)?;
        let scalar = Tensor::from_fn(*dtype, Vec::new(), |_| Scalar::Int(index.into()));
        carried = machine.run_block(body, std::iter::once(scalar.into()).chain(carried).collect())?;
        index = index.saturating_add(step);
    }
    Ok(carried)
}
