//! Computes a convolution in memory of the device.
use crate::{
    engines,
    graph::{Graph, Tensor},
};
use disc_fake_library::{DeviceMemory, note};
use std::ffi::c_void;

/// A convolution that a stream will compute.
pub(crate) struct Job {
    pub(crate) graph: Graph,
    pub(crate) engine: i64,
    /// The address of each tensor, by its name.
    pub(crate) addresses: Vec<(i64, u64)>,
}

/// Computes a [`Job`], which it frees.
///
/// # Safety
/// `data` is a job, which nobody else uses.
pub(crate) unsafe extern "C" fn run(data: *mut c_void, memory: *const DeviceMemory) -> u32 {
    // SAFETY: the caller's promise.
    let (job, memory) = unsafe { (Box::from_raw(data.cast::<Job>()), &*memory) };
    let done = job.compute(memory);
    if done.is_ok() {
        note(engines::name(job.engine));
    }
    done.err().unwrap_or(0)
}

/// Rounds a number to 10 bits after the point, towards 0.
fn tf32(value: f32) -> f32 {
    const DROPPED: u32 = (1 << 13) - 1;
    f32::from_bits(value.to_bits() & !DROPPED)
}

/// The elements of a tensor.
struct Elements {
    tensor: Tensor,
    values: Vec<f32>,
}

impl Elements {
    fn at(&self, position: [i64; 4]) -> f32 {
        self.values[offset(&self.tensor, position)]
    }
}

fn offset(tensor: &Tensor, position: [i64; 4]) -> usize {
    position.iter().zip(&tensor.strides).map(|(at, stride)| at * stride).sum::<i64>() as usize
}

/// Returns how many elements there are from the first to the last one.
fn span(tensor: &Tensor) -> usize {
    offset(tensor, tensor.sizes.map(|size| size - 1)) + 1
}

impl Job {
    fn address(&self, tensor: &Tensor) -> u64 {
        self.addresses.iter().find(|(name, _)| *name == tensor.name).map_or(0, |(_, address)| *address)
    }

    fn read(&self, tensor: Tensor, memory: &DeviceMemory) -> Result<Elements, u32> {
        let bytes = memory.read(self.address(&tensor), span(&tensor) * tensor.element.bytes())?;
        Ok(Elements { tensor, values: tensor.element.read(&bytes) })
    }

    fn compute(&self, memory: &DeviceMemory) -> Result<(), u32> {
        let graph = &self.graph;
        let (mut input, mut filter) = (self.read(graph.input, memory)?, self.read(graph.filter, memory)?);
        if engines::rounds(self.engine, graph) {
            input.values.iter_mut().chain(&mut filter.values).for_each(|value| *value = tf32(*value));
        }
        let bias = graph.bias.map(|bias| self.read(bias, memory)).transpose()?;
        let result = graph.result;
        let [batches, features, height, width] = result.sizes;
        // A result has no gaps: each of its elements is written.
        let mut values = vec![0.0; span(&result)];
        for batch in 0..batches {
            for feature in 0..features {
                for (row, column) in (0..height).flat_map(|row| (0..width).map(move |column| (row, column))) {
                    let mut sum = self.sum(&input, &filter, batch, feature, [row, column]);
                    sum += bias.as_ref().map_or(0.0, |bias| bias.at([0, feature, 0, 0]));
                    let value = if graph.has_relu && sum < 0.0 { 0.0 } else { sum };
                    values[offset(&result, [batch, feature, row, column])] = value;
                }
            }
        }
        memory.write(self.address(&result), &result.element.written(&values))
    }

    /// Returns the sum of one place.
    fn sum(&self, input: &Elements, filter: &Elements, batch: i64, feature: i64, place: [i64; 2]) -> f32 {
        let graph = &self.graph;
        let [features, in_group, height, width] = filter.tensor.sizes;
        let per_group = features / (input.tensor.sizes[1] / in_group);
        let first = feature / per_group * in_group;
        let mut sum = 0.0;
        for channel in 0..in_group {
            for tap in (0..height).flat_map(|row| (0..width).map(move |column| [row, column])) {
                let from: [i64; 2] = std::array::from_fn(|axis| {
                    place[axis] * graph.strides[axis] + tap[axis] * graph.dilations[axis] - graph.padding_low[axis]
                });
                if (0..2).all(|axis| (0..input.tensor.sizes[2 + axis]).contains(&from[axis])) {
                    let x = input.at([batch, first + channel, from[0], from[1]]);
                    sum += x * filter.at([feature, channel, tap[0], tap[1]]);
                }
            }
        }
        sum
    }
}
