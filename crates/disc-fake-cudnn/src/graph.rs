//! Reads a graph of ops as a convolution with what is computed of its sums.
use crate::{
    descriptor::{Descriptor, Kind},
    status::{BAD_PARAM, GRAPH_PATTERN, SHAPE_MISMATCH},
};
use disc_fake_library::{Element, Status};
use std::sync::Arc;

const ADD: i64 = 0;
const RELU: i64 = 100;

/// A tensor: batch, features, height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) name: i64,
    pub(crate) element: Element,
    pub(crate) sizes: [i64; 4],
    pub(crate) strides: [i64; 4],
    pub(crate) alignment: i64,
    pub(crate) is_virtual: bool,
}

/// A convolution, a bias and `max(x, 0)` after it.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) input: Tensor,
    pub(crate) filter: Tensor,
    pub(crate) bias: Option<Tensor>,
    pub(crate) result: Tensor,
    pub(crate) has_relu: bool,
    pub(crate) strides: [i64; 2],
    pub(crate) dilations: [i64; 2],
    pub(crate) padding_low: [i64; 2],
    pub(crate) padding_high: [i64; 2],
}

impl Tensor {
    pub(crate) fn of(descriptor: &Descriptor) -> Result<Self, Status> {
        let element = match descriptor.number(901)? {
            0 => Element::F32,
            2 => Element::F16,
            9 => Element::BF16,
            _ => return Err(BAD_PARAM),
        };
        let four = |attribute| descriptor.numbers(attribute)?.try_into().map_err(|_| BAD_PARAM);
        let (sizes, strides): ([i64; 4], [i64; 4]) = (four(902)?, four(903)?);
        let (alignment, is_virtual) = (descriptor.number(900)?, descriptor.number(907)? == 1);
        if sizes.iter().chain(&strides).any(|&number| number < 1) || alignment.count_ones() != 1 {
            return Err(BAD_PARAM);
        }
        Ok(Self { name: descriptor.number(906)?, element, sizes, strides, alignment, is_virtual })
    }

    /// Returns true if features are the last dimension in memory.
    pub(crate) fn is_features_last(&self) -> bool {
        self.sizes[1] > 1 && self.strides[1] == 1
    }
}

impl Graph {
    /// Reads a graph.
    ///
    /// # Errors
    /// Ops that do not follow each other, sizes that do not agree, or what the library has no
    /// engine for.
    pub(crate) fn of(descriptor: &Descriptor) -> Result<Self, Status> {
        let (first, rest) = descriptor.descriptors(801)?.split_first().ok_or(BAD_PARAM)?;
        if first.kind != Kind::ConvolutionForward {
            return Err(GRAPH_PATTERN);
        }
        let mut graph = Self::convolution(first)?;
        for op in rest {
            graph.follow(op)?;
        }
        // There are engines for several ops, for an even number of features.
        let is_fused = !rest.is_empty();
        let is_in_memory = ![graph.input, graph.filter, graph.result].iter().any(|tensor| tensor.is_virtual);
        if !is_in_memory || is_fused && graph.result.sizes[1] % 2 == 1 {
            return Err(GRAPH_PATTERN);
        }
        Ok(graph)
    }

    fn convolution(op: &Descriptor) -> Result<Self, Status> {
        let how = op.descriptor(702, Kind::Convolution)?;
        let tensor = |attribute| Tensor::of(op.descriptor(attribute, Kind::Tensor)?);
        let two = |attribute| -> Result<[i64; 2], Status> { how.numbers(attribute)?.try_into().map_err(|_| BAD_PARAM) };
        let graph = Self {
            input: tensor(704)?,
            filter: tensor(703)?,
            bias: None,
            result: tensor(705)?,
            has_relu: false,
            strides: two(103)?,
            dilations: two(102)?,
            padding_low: two(105)?,
            padding_high: two(104)?,
        };
        // Factors of 1 and 0; sums in f32; a filter that is not reversed; two dimensions.
        let is_plain = op.float(700)? == 1.0 && op.float(701)? == 0.0;
        if !is_plain || [how.number(100)?, how.number(101)?, how.number(106)?] != [0, 1, 2] {
            return Err(BAD_PARAM);
        }
        let (input, filter, result) = (graph.input.sizes, graph.filter.sizes, graph.result.sizes);
        let places = (0..2).map(|axis| {
            let window = (filter[2 + axis] - 1) * graph.dilations[axis] + 1;
            let room = input[2 + axis] + graph.padding_low[axis] + graph.padding_high[axis] - window;
            if room < 0 { 0 } else { room / graph.strides[axis] + 1 }
        });
        let groups = input[1] / filter[1];
        let agrees = groups * filter[1] == input[1] && filter[0] % groups == 0 && [input[0], filter[0]] == result[..2];
        if !agrees || !places.eq(result[2..].iter().copied()) || graph.input.element != graph.filter.element {
            return Err(SHAPE_MISMATCH);
        }
        Ok(graph)
    }

    /// Adds an op that reads the result so far.
    fn follow(&mut self, op: &Arc<Descriptor>) -> Result<(), Status> {
        if op.kind != Kind::PointwiseOperation {
            return Err(GRAPH_PATTERN);
        }
        let (how, left) = (op.descriptor(750, Kind::Pointwise)?, Tensor::of(op.descriptor(751, Kind::Tensor)?)?);
        let right = op.descriptor(752, Kind::Tensor).ok().map(|right| Tensor::of(right)).transpose()?;
        let result = Tensor::of(op.descriptor(753, Kind::Tensor)?)?;
        // Values between ops are in f32.
        let is_next = left == self.result && left.is_virtual && left.element == Element::F32;
        match (how.number(0)?, right) {
            _ if !is_next || result.sizes != left.sizes || how.number(1)? != 0 => return Err(BAD_PARAM),
            (ADD, Some(bias)) if self.bias.is_none() && !self.has_relu => {
                if bias.sizes != [1, left.sizes[1], 1, 1] || bias.is_virtual {
                    return Err(SHAPE_MISMATCH);
                }
                self.bias = Some(bias);
            }
            // A NaN stays one.
            (RELU, None) if !self.has_relu && how.number(2)? == 1 => self.has_relu = true,
            _ => return Err(GRAPH_PATTERN),
        }
        self.result = result;
        Ok(())
    }

    /// Returns the tensors in memory.
    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        [Some(self.input), Some(self.filter), self.bias, Some(self.result)].into_iter().flatten().collect()
    }
}
