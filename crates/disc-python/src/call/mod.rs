//! Reads tensors of Python without a copy, and calls compiled modules.
//!
//! Nothing here knows the compiler. torch is found by the interface of its tensor type, never
//! imported.
mod arguments;
mod attributes;
mod buffer;
mod device_tensor;
mod dlpack;
mod executable;
mod held;
mod kind;
mod memory;
mod meta;
mod outputs;
mod owned;
mod place;
mod profile;
mod read;
mod stream;
mod tensor_watch;
mod torch_calls;
mod torch_flags;
mod torch_functions;
mod torch_memory;
mod torch_profiler;
mod watch;
mod weights;

pub(crate) use arguments::Arguments;
pub(crate) use device_tensor::PyDeviceTensor;
pub(crate) use executable::{PyExecutable, load_code};
pub(crate) use held::hold;
pub(crate) use outputs::Objects;
pub(crate) use profile::PyProfiler;
pub(crate) use tensor_watch::TensorWatch;
pub(crate) use torch_calls::PlainCalls;
pub(crate) use torch_flags::TorchFlags;
pub(crate) use torch_functions::TorchModes;
pub(crate) use torch_memory::use_torch_memory;
pub(crate) use watch::PyWatch;
pub(crate) use weights::read as read_weights;
