//! Computes a matmul in memory of the device.
use crate::{
    descriptions::{Layout, Matmul},
    status::{INVALID_VALUE, NOT_SUPPORTED},
};
use disc_fake_library::{DeviceMemory, Status, note};
use std::ffi::c_void;

const RELU: u32 = 2;
const BIAS: u32 = 4;
const GELU: u32 = 32;
/// The epilogues that there are: plain, and with or without a bias.
const EPILOGUES: [u32; 6] = [1, BIAS, RELU, RELU | BIAS, GELU, GELU | BIAS];

/// A matmul that a stream will compute.
pub(crate) struct Job {
    pub(crate) matmul: Matmul,
    /// Of `a`, `b`, `c` and `d`.
    pub(crate) layouts: [Layout; 4],
    /// Of `a`, `b`, `d` and the bias.
    pub(crate) addresses: [u64; 4],
    pub(crate) sums: usize,
}

impl Matmul {
    pub(crate) fn has_bias(&self) -> bool {
        self.epilogue & BIAS != 0
    }

    fn apply(&self, x: f32) -> f32 {
        if self.epilogue & RELU != 0 {
            return x.max(0.0);
        }
        if self.epilogue & GELU != 0 {
            let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            return 0.5 * x * (1.0 + inner.tanh());
        }
        x
    }
}

/// Checks that matrices belong together. Returns the terms of a sum.
///
/// # Errors
/// Matrices that do not, or what the library does not compute.
pub(crate) fn check(matmul: &Matmul, [a, b, c, d]: &[Layout; 4]) -> Result<usize, Status> {
    let sizes = |layout: &Layout, transposed: bool| {
        if transposed { [layout.columns, layout.rows] } else { [layout.rows, layout.columns] }
    };
    let ([rows, sums], [other, columns]) = (sizes(a, matmul.transposed[0]), sizes(b, matmul.transposed[1]));
    let is_one_type = [b, c, d].into_iter().all(|layout| (layout.element, layout.batches) == (a.element, a.batches));
    if sums != other || [d.rows, d.columns] != [rows, columns] || c != d || !is_one_type {
        return Err(INVALID_VALUE);
    }
    if EPILOGUES.contains(&matmul.epilogue) { Ok(sums) } else { Err(NOT_SUPPORTED) }
}

/// Computes a [`Job`], which it frees.
///
/// # Safety
/// `data` is a job, which nobody else uses.
pub(crate) unsafe extern "C" fn run(data: *mut c_void, memory: *const DeviceMemory) -> u32 {
    // SAFETY: the caller's promise.
    let (job, memory) = unsafe { (Box::from_raw(data.cast::<Job>()), &*memory) };
    let done = (0..job.layouts[3].batches).try_for_each(|batch| one(&job, batch, memory));
    if done.is_ok() {
        note("computed");
    }
    done.err().unwrap_or(0)
}

/// Rounds a number to 10 bits after the point, towards 0.
fn tf32(value: f32) -> f32 {
    const DROPPED: u32 = (1 << 13) - 1;
    f32::from_bits(value.to_bits() & !DROPPED)
}

/// Computes the matrix of one batch.
fn one(job: &Job, batch: i32, memory: &DeviceMemory) -> Result<(), u32> {
    let [a, b, _, d] = &job.layouts;
    let element = d.element;
    let start =
        |layout: &Layout, at: u64| at.wrapping_add_signed(i64::from(batch) * layout.batch_stride * element.bytes() as i64);
    let read = |layout: &Layout, at: u64| {
        let count = (layout.columns - 1) * layout.stride + layout.rows;
        let mut values = element.read(&memory.read(start(layout, at), count * element.bytes())?);
        if job.matmul.is_tf32 {
            values.iter_mut().for_each(|value| *value = tf32(*value));
        }
        Ok::<_, u32>(values)
    };
    let (left, right) = (read(a, job.addresses[0])?, read(b, job.addresses[1])?);
    let bias = match job.matmul.has_bias() {
        true => element.read(&memory.read(job.addresses[3], d.rows * element.bytes())?),
        false => vec![0.0; d.rows],
    };
    let at = |layout: &Layout, transposed: bool, row: usize, column: usize| {
        if transposed { row * layout.stride + column } else { column * layout.stride + row }
    };
    let [of_a, of_b] = job.matmul.transposed;
    for column in 0..d.columns {
        let values: Vec<f32> = (0..d.rows)
            .map(|row| {
                let terms = (0..job.sums).map(|k| left[at(a, of_a, row, k)] * right[at(b, of_b, k, column)]);
                job.matmul.apply(terms.sum::<f32>() + bias[row])
            })
            .collect();
        let to = start(d, job.addresses[2]) + (column * d.stride * element.bytes()) as u64;
        memory.write(to, &element.written(&values))?;
    }
    Ok(())
}
