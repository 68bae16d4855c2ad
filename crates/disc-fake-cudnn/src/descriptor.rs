//! Represents descriptors: a kind, and attributes by their numbers.
use crate::status::{ATTRIBUTE_TYPE, BAD_PARAM, NOT_FINALIZED};
use disc_fake_library::Status;
use std::{collections::BTreeMap, ffi::c_void, sync::Arc};

/// The kinds of descriptors, by their numbers in the library's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pointwise = 0,
    Convolution = 1,
    Engine = 2,
    EngineConfig = 3,
    Heuristics = 4,
    ExecutionPlan = 5,
    ConvolutionForward = 10,
    PointwiseOperation = 13,
    OperationGraph = 15,
    VariantPack = 16,
    Tensor = 17,
}

/// The types of attributes that the library's header has.
const HANDLE: i32 = 0;
const BOOLEAN: i32 = 2;
const INT64: i32 = 3;
const FLOAT: i32 = 4;
const POINTER: i32 = 6;
const DESCRIPTOR: i32 = 15;

impl Kind {
    pub(crate) fn of(number: i32) -> Option<Self> {
        use Kind::*;
        let all = [
            Pointwise,
            Convolution,
            Engine,
            EngineConfig,
            Heuristics,
            ExecutionPlan,
            ConvolutionForward,
            PointwiseOperation,
            OperationGraph,
            VariantPack,
            Tensor,
        ];
        all.into_iter().find(|&kind| kind as i32 == number)
    }

    /// Returns the attributes that may be set, with their types.
    fn attributes(self) -> &'static [(i32, i32)] {
        match self {
            // Mode, type of numbers, NaN propagation.
            Self::Pointwise => &[(0, 14), (1, 1), (2, 10)],
            // Type of numbers, mode, dilations, strides, padding after and before, dimensions.
            Self::Convolution => &[(100, 1), (101, 7), (102, INT64), (103, INT64), (104, INT64), (105, INT64), (106, INT64)],
            Self::Engine | Self::EngineConfig => &[],
            // Mode, graph.
            Self::Heuristics => &[(200, 8), (201, DESCRIPTOR)],
            Self::ExecutionPlan => &[(400, HANDLE), (401, DESCRIPTOR)],
            // Factors, convolution, filter, input, result.
            Self::ConvolutionForward => {
                &[(700, FLOAT), (701, FLOAT), (702, DESCRIPTOR), (703, DESCRIPTOR), (704, DESCRIPTOR), (705, DESCRIPTOR)]
            }
            // Function, operands, result.
            Self::PointwiseOperation => &[(750, DESCRIPTOR), (751, DESCRIPTOR), (752, DESCRIPTOR), (753, DESCRIPTOR)],
            Self::OperationGraph => &[(800, HANDLE), (801, DESCRIPTOR)],
            // Names, addresses, memory to work in.
            Self::VariantPack => &[(1000, INT64), (1001, POINTER), (1003, POINTER)],
            // Alignment, type, sizes, strides, name, and whether it is in memory.
            Self::Tensor => &[(900, INT64), (901, 1), (902, INT64), (903, INT64), (906, INT64), (907, BOOLEAN)],
        }
    }

    /// Returns the attributes that may be left out.
    fn optional(self) -> &'static [i32] {
        match self {
            Self::Pointwise => &[2],
            Self::PointwiseOperation => &[752],
            _ => &[],
        }
    }
}

/// The values of an attribute.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// Numbers, addresses and words of any width.
    Numbers(Vec<i64>),
    Float(f32),
    Descriptors(Vec<Arc<Descriptor>>),
}

/// A descriptor.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub(crate) kind: Kind,
    pub(crate) is_final: bool,
    attributes: BTreeMap<i32, Values>,
    /// The number of the engine, and the graph that it is for: of what heuristics filled.
    pub(crate) engine: Option<(i64, Arc<Descriptor>)>,
}

impl Descriptor {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, is_final: false, attributes: BTreeMap::new(), engine: None }
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// An attribute that the kind does not have, or of another type; a descriptor that is final.
    ///
    /// # Safety
    /// `from` is so many values of the type; descriptors are live.
    pub(crate) unsafe fn set(&mut self, attribute: i32, ty: i32, count: i64, from: *const c_void) -> Result<(), Status> {
        let known = self.kind.attributes().iter().find(|(number, _)| *number == attribute).ok_or(BAD_PARAM)?;
        let count = usize::try_from(count).map_err(|_| BAD_PARAM)?;
        if self.is_final || count == 0 || from.is_null() {
            return Err(BAD_PARAM);
        }
        if known.1 != ty {
            return Err(ATTRIBUTE_TYPE);
        }
        // SAFETY: the caller's promise.
        let values = unsafe {
            match ty {
                HANDLE | POINTER | INT64 => Values::Numbers(std::slice::from_raw_parts(from.cast::<i64>(), count).to_vec()),
                BOOLEAN => Values::Numbers(vec![i64::from(*from.cast::<u8>())]),
                FLOAT => Values::Float(*from.cast::<f32>()),
                DESCRIPTOR => Values::Descriptors(finals(std::slice::from_raw_parts(from.cast(), count))?),
                _ => Values::Numbers(vec![i64::from(*from.cast::<i32>())]),
            }
        };
        self.attributes.insert(attribute, values);
        Ok(())
    }

    /// Returns true if all attributes are there that the kind needs.
    pub(crate) fn is_whole(&self) -> bool {
        let needed = self.kind.attributes().iter().filter(|(number, _)| !self.kind.optional().contains(number));
        needed.into_iter().all(|(number, _)| self.attributes.contains_key(number))
    }

    /// Returns the numbers of an attribute.
    pub(crate) fn numbers(&self, attribute: i32) -> Result<&[i64], Status> {
        match self.attributes.get(&attribute) {
            Some(Values::Numbers(numbers)) => Ok(numbers),
            _ => Err(BAD_PARAM),
        }
    }

    /// Returns the one number of an attribute.
    pub(crate) fn number(&self, attribute: i32) -> Result<i64, Status> {
        self.numbers(attribute)?.first().copied().ok_or(BAD_PARAM)
    }

    pub(crate) fn float(&self, attribute: i32) -> Result<f32, Status> {
        match self.attributes.get(&attribute) {
            Some(Values::Float(value)) => Ok(*value),
            _ => Err(BAD_PARAM),
        }
    }

    pub(crate) fn descriptors(&self, attribute: i32) -> Result<&[Arc<Self>], Status> {
        match self.attributes.get(&attribute) {
            Some(Values::Descriptors(descriptors)) => Ok(descriptors),
            _ => Err(BAD_PARAM),
        }
    }

    /// Returns the one descriptor of an attribute, which is of a kind.
    pub(crate) fn descriptor(&self, attribute: i32, kind: Kind) -> Result<&Arc<Self>, Status> {
        self.descriptors(attribute)?.first().filter(|found| found.kind == kind).ok_or(BAD_PARAM)
    }
}

/// Returns copies of descriptors that are final.
///
/// # Safety
/// The handles are live descriptors.
unsafe fn finals(handles: &[*const Descriptor]) -> Result<Vec<Arc<Descriptor>>, Status> {
    let copy = |&handle: &*const Descriptor| {
        // SAFETY: the caller's promise.
        let found = unsafe { handle.as_ref() }.ok_or(BAD_PARAM)?;
        if found.is_final { Ok(Arc::new(found.clone())) } else { Err(NOT_FINALIZED) }
    };
    handles.iter().map(copy).collect()
}
