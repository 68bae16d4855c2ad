//! Runs models that disc compiled: the runtime, without compiler, framework and Python.
//!
//! A [`Package`] is a compiled model in one file. A [`Session`] runs its entries, one call at a
//! time; any number of sessions run at once, and share code and weights. A [`Tensor`] borrows
//! memory of the program, or is a result that owns its memory.
//!
//! ```no_run
//! use disc_ral::{Package, Session, SessionOptions, Tensor};
//!
//! let package = Package::open("model.discpkg")?;
//! for input in package.entry("main")?.inputs() {
//!     println!("{}: {} [{}]", input.name(), input.dtype(), input.dims().join(", "));
//! }
//!
//! let options = SessionOptions { threads: Some(4), ..Default::default() };
//! let mut session = Session::new(&package, options)?;
//! let (sizes, elements) = ([2, 3], [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! let outputs = session.run("main", &[Tensor::new(&sizes, &elements)?])?;
//! println!("{:?}: {:?}", outputs[0].sizes(), outputs[0].elements::<f32>()?);
//! # Ok::<(), disc_ral::Error>(())
//! ```
//!
//! # Threads
//!
//! A package is `Send + Sync`, a session `Send`: a server opens the package once, and gives each of
//! its workers a session. The threads of all sessions are one pool; [`SessionOptions::threads`]
//! limits those of a call.
//!
//! # Memory
//!
//! Weights are pages of the file, which all sessions and processes share. [`Session::run_into`]
//! writes results to memory of the caller: after a call or two of the same sizes, such a call
//! allocates little more than its lists. [`Session::run_strided`] takes tensors of any layout.
//!
//! # Failures
//!
//! Every failure is an [`Error`] with a code ([`code`]) and a message that names the entry, the
//! input or the part of the package. Nothing aborts the process, and after a failure the next call
//! works.
//!
//! # Trust
//!
//! A package holds native code, which runs in this process. [`OpenOptions::require_signature`]
//! refuses packages that the owner of a key did not sign.
//!
//! # Front ends
//!
//! [`Executable`], [`Code`], [`Weight`] and what they need are for front ends of the compiler,
//! which run code that is in no file, on tensors of a framework. A server needs none of it. The
//! runtime does not know the compiler and its IR: the two meet in [`disc_abi`] and in
//! [`ModuleMeta`]. `docs/runtime.md` is the contract in prose.
//!
//! Invariants: nothing aborts the process, every failure is an [`Error`] and the next call works;
//! no panic crosses into generated code; a call allocates nothing after warm-up except its outputs.

#![deny(missing_docs)]

/// Tests the code of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust.md")]
mod guide {}

mod arena;
mod bind;
mod cache_directory;
mod call;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod deferred;
mod device;
mod devices;
mod error;
mod executable;
mod failure;
mod gemm;
mod host;
mod kernel_names;
mod layout_arena;
mod library;
mod meta;
mod package;
mod pool;
mod profile;
mod session_state;
mod staging;
mod strided;
mod temporary_file;
mod tensor;
mod weights;

pub use bind::check_overlaps;
pub use cache_directory::{cache_directory, is_private};
pub use cpu::{Cpu, Prefault};
#[cfg(feature = "cuda")]
pub use cuda::CudaError;
pub use deferred::Deferred;
pub use device::{Device, Fault, GridCall, Image, Kernels, Launch, LaunchFailure, Queue, QueueMemory, Threads};
pub use devices::{Backend, DeviceError, DeviceName, Refusal, devices, host_device, open_device, register_backend};
pub use disc_abi::{DEVICE_CPU, DEVICE_CUDA, DType};
pub use error::{AllocError, Error, code};
pub use executable::{Code, Executable, ExecutableOptions};
pub use gemm::{Decision, GemmDispatch, GemmKey, GemmLibrary, GemmMatrices, Matrix, OnDecision, OneDnn, Policy, Way};
pub use host::{Element, HostOutput, HostOutputs, HostTensor};
pub use library::Library;
pub use meta::{BlobMeta, EntryMeta, InputMeta, ModuleMeta, OutputMeta, Site, WeightMeta};
pub use package::{
    Archive, Entry, EntryInfo, FORMAT_VERSION, IR, InputInfo, InputRole, MANIFEST, Manifest, NewPart, OpenOptions, OutputInfo,
    OutputRole, PART_ALIGN, Package, Part, PartInfo, Port, SIGNATURE, Session, SessionOptions, Source, StoredTensor, TargetInfo,
    Tensor, VERIFIED, Verify, WEIGHTS, checksum, read_archive, read_safetensors, sign, write_archive, write_atomically,
    write_safetensors,
};
pub use pool::{MAX_THREADS, default_threads, pin_workers, started_workers};
pub use profile::{LaunchNames, LaunchObserver, LaunchRecord, TRACE};
pub use session_state::SessionState;
pub use strided::with_contiguous;
pub use temporary_file::TemporaryFile;
pub use tensor::{OutputAllocator, OutputError, TensorRef, bytes_of};
pub use weights::{Blobs, Prepared, Weight, WeightState};
