//! Loads compiled code and runs it: the runtime abstraction layer. `docs/runtime.md` is the
//! contract in prose.
//!
//! It does not know the compiler and its IR; the two meet in [`disc_abi`] and in [`ModuleMeta`].
//!
//! Invariants: nothing aborts the process, every failure is a [`Error`] and the next call works;
//! no panic crosses into generated code; a call allocates nothing after warm-up except its outputs.

mod arena;
mod bind;
mod call;
mod cpu;
mod device;
mod devices;
mod error;
mod executable;
mod failure;
mod gemm;
mod host;
mod layout_arena;
mod library;
mod meta;
mod package;
mod pool;
mod profile;
mod session_state;
mod strided;
mod tensor;
mod weights;

pub use bind::check_overlaps;
pub use cpu::{Cpu, Prefault};
pub use device::{Device, Fault, Launch, LaunchFailure, Queue, Threads};
pub use devices::{DeviceError, DeviceName, devices, host_device, open_device};
pub use disc_abi::DType;
pub use error::{AllocError, Error, code};
pub use executable::{Code, Executable, ExecutableOptions};
pub use gemm::{Decision, GemmDispatch, GemmKey, GemmLibrary, GemmMatrices, Matrix, OnDecision, OneDnn, Policy, Way};
pub use host::{Element, HostOutput, HostOutputs, HostTensor};
pub use library::Library;
pub use meta::{BlobMeta, EntryMeta, InputMeta, ModuleMeta, OutputMeta, Site, WeightMeta};
pub use package::{
    Entry, EntryInfo, FORMAT_VERSION, IR, InputInfo, MANIFEST, Manifest, NewPart, OpenOptions, OutputInfo, PART_ALIGN, Package,
    Part, PartInfo, SIGNATURE, Session, SessionOptions, Source, TargetInfo, Tensor, Verify, WEIGHTS, checksum, has_feature,
    read_archive, sign, write_archive,
};
pub use pool::{MAX_THREADS, default_threads, pin_workers, started_workers};
pub use profile::LaunchRecord;
pub use session_state::SessionState;
pub use strided::with_contiguous;
pub use tensor::{OutputAllocator, OutputError, TensorRef, bytes_of};
pub use weights::{Blobs, Prepared, Weight, WeightState};
