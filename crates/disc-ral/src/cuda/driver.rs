//! Finds the functions of the CUDA driver in this process, and turns their results into errors.
//!
//! The types are cudarc's. Its functions are not called: each of them panics where the driver lacks
//! it, and an unknown result of a newer driver has no value in its enum.

use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode,
    CUlaunchConfig, CUmemPoolProps, CUmemoryPool, CUmodule, CUstream,
};
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fmt,
    sync::OnceLock,
};

/// The oldest driver that has all functions: that of CUDA 12.0.
const OLDEST_DRIVER: c_int = 12_000;

/// A failure of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaError {
    /// The function that failed.
    pub function: &'static str,
    /// The driver's number of the failure; 0 where it was not asked.
    pub status: u32,
    /// Its name in the driver's words, such as `CUDA_ERROR_OUT_OF_MEMORY`, with its description.
    pub text: String,
    /// The description without the name.
    pub(super) summary: &'static str,
}

impl CudaError {
    /// Makes an error that the driver was not asked about.
    pub(super) fn new(function: &'static str, text: impl Into<String>) -> Self {
        Self { function, status: 0, text: text.into(), summary: "it was not asked" }
    }

    /// Returns true after failures that end the context: each later call of the process fails too.
    pub(super) fn is_sticky(&self) -> bool {
        use sys::cudaError_enum as E;
        const STICKY: [E; 12] = [
            E::CUDA_ERROR_DEINITIALIZED,
            E::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            E::CUDA_ERROR_ECC_UNCORRECTABLE,
            E::CUDA_ERROR_ILLEGAL_ADDRESS,
            E::CUDA_ERROR_LAUNCH_TIMEOUT,
            E::CUDA_ERROR_ASSERT,
            E::CUDA_ERROR_HARDWARE_STACK_ERROR,
            E::CUDA_ERROR_ILLEGAL_INSTRUCTION,
            E::CUDA_ERROR_MISALIGNED_ADDRESS,
            E::CUDA_ERROR_INVALID_ADDRESS_SPACE,
            E::CUDA_ERROR_INVALID_PC,
            E::CUDA_ERROR_LAUNCH_FAILED,
        ];
        STICKY.iter().any(|&status| status as u32 == self.status)
    }

    /// Returns true for failures of finding the driver or its devices.
    pub(super) fn is_start(&self) -> bool {
        self.status == 0 || ["cuInit", "cuDriverGetVersion", "cuDeviceGetCount"].contains(&self.function)
    }

    /// Returns true if the driver does not take the form or the version of some code.
    pub(super) fn is_about_code(&self) -> bool {
        use sys::cudaError_enum as E;
        const REFUSED: [E; 4] = [
            E::CUDA_ERROR_INVALID_IMAGE,
            E::CUDA_ERROR_NO_BINARY_FOR_GPU,
            E::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            E::CUDA_ERROR_INVALID_SOURCE,
        ];
        REFUSED.iter().any(|&status| status as u32 == self.status)
    }

    /// Returns true if the device has no more memory.
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.status == sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY as u32
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.function, self.text)
    }
}

impl std::error::Error for CudaError {}

/// Declares the functions that are called, by the names that the driver exports.
macro_rules! functions {
    (
        required {
            $($(#[doc = $doc:literal])* $method:ident = $symbol:literal($($name:ident: $ty:ty),*);)*
        }
        $(optional $group:ident {
            $($(#[doc = $more_doc:literal])* $more:ident = $more_symbol:literal($($more_name:ident: $more_ty:ty),*);)*
        })*
    ) => {
        /// The functions of the driver.
        pub(super) struct Driver {
            $($method: unsafe extern "C" fn($($ty),*) -> c_uint,)*
            $($($more: Option<unsafe extern "C" fn($($more_ty),*) -> c_uint>,)*)*
        }

        impl Driver {
            /// Finds all functions.
            fn find() -> Result<Self, CudaError> {
                $(let $method = find(concat!($symbol, "\0").as_bytes(), $symbol)?;)*
                $($(let $more = find(concat!($more_symbol, "\0").as_bytes(), $more_symbol).ok();)*)*
                Ok(Self { $($method,)* $($($more,)*)* })
            }

            $(
                /// Returns true if the driver has all functions of this group.
                pub(super) fn $group(&self) -> bool {
                    $(self.$more.is_some())&&*
                }

                $(
                    $(#[doc = $more_doc])*
                    ///
                    /// # Safety
                    /// As the driver's function.
                    pub(super) unsafe fn $more(&self, $($more_name: $more_ty),*) -> Result<(), CudaError> {
                        let Some(function) = self.$more else { return Err(missing($more_symbol)) };
                        // SAFETY: the caller's promise.
                        match unsafe { function($($more_name),*) } {
                            0 => Ok(()),
                            status => Err(error($more_symbol, status)),
                        }
                    }
                )*
            )*

            $(
                $(#[doc = $doc])*
                ///
                /// # Safety
                /// As the driver's function.
                #[allow(clippy::too_many_arguments, reason = "the driver's function has them")]
                pub(super) unsafe fn $method(&self, $($name: $ty),*) -> Result<(), CudaError> {
                    // SAFETY: the caller's promise.
                    match unsafe { (self.$method)($($name),*) } {
                        0 => Ok(()),
                        status => Err(error($symbol, status)),
                    }
                }
            )*
        }
    };
}

functions! {
    required {
        /// Starts the driver.
        init = "cuInit"(flags: c_uint);
        /// Writes 1000 times the major and 10 times the minor version of CUDA.
        version = "cuDriverGetVersion"(version: *mut c_int);

        device_count = "cuDeviceGetCount"(count: *mut c_int);
        device = "cuDeviceGet"(device: *mut CUdevice, ordinal: c_int);
        device_name = "cuDeviceGetName"(name: *mut c_char, bytes: c_int, device: CUdevice);
        device_attribute = "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: CUdevice);

        retain_primary_context = "cuDevicePrimaryCtxRetain"(context: *mut CUcontext, device: CUdevice);
        current_context = "cuCtxGetCurrent"(context: *mut CUcontext);
        push_context = "cuCtxPushCurrent_v2"(context: CUcontext);
        pop_context = "cuCtxPopCurrent_v2"(context: *mut CUcontext);
        synchronize_context = "cuCtxSynchronize"();

        alloc = "cuMemAlloc_v2"(at: *mut CUdeviceptr, bytes: usize);
        free = "cuMemFree_v2"(at: CUdeviceptr);
        alloc_host = "cuMemHostAlloc"(at: *mut *mut c_void, bytes: usize, flags: c_uint);
        free_host = "cuMemFreeHost"(at: *mut c_void);
        address_of_host = "cuMemHostGetDevicePointer_v2"(address: *mut CUdeviceptr, at: *mut c_void, flags: c_uint);
        upload = "cuMemcpyHtoDAsync_v2"(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
        download = "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
        copy = "cuMemcpyDtoDAsync_v2"(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);

        create_stream = "cuStreamCreate"(stream: *mut CUstream, flags: c_uint);
        destroy_stream = "cuStreamDestroy_v2"(stream: CUstream);
        synchronize_stream = "cuStreamSynchronize"(stream: CUstream);
        wait_for_event = "cuStreamWaitEvent"(stream: CUstream, event: CUevent, flags: c_uint);
        create_event = "cuEventCreate"(event: *mut CUevent, flags: c_uint);
        destroy_event = "cuEventDestroy_v2"(event: CUevent);
        synchronize_event = "cuEventSynchronize"(event: CUevent);
        record_event = "cuEventRecord"(event: CUevent, stream: CUstream);

        load_module = "cuModuleLoadDataEx"(module: *mut CUmodule, image: *const c_void, options: c_uint,
            names: *mut c_int, values: *mut *mut c_void);
        function = "cuModuleGetFunction"(function: *mut CUfunction, module: CUmodule, name: *const c_char);
        set_function_attribute = "cuFuncSetAttribute"(function: CUfunction, attribute: c_int, value: c_int);
        blocks_of_processor = "cuOccupancyMaxActiveBlocksPerMultiprocessor"(blocks: *mut c_int, function: CUfunction,
            threads: c_int, shared: usize);
        create_graph = "cuGraphCreate"(graph: *mut CUgraph, flags: c_uint);
        destroy_graph = "cuGraphDestroy"(graph: CUgraph);
        add_kernel_node = "cuGraphAddKernelNode_v2"(node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode,
            count: usize, parameters: *const CUDA_KERNEL_NODE_PARAMS);
        instantiate_graph = "cuGraphInstantiateWithFlags"(instance: *mut CUgraphExec, graph: CUgraph, flags: u64);
        destroy_instance = "cuGraphExecDestroy"(instance: CUgraphExec);
        set_kernel_node = "cuGraphExecKernelNodeSetParams_v2"(instance: CUgraphExec, node: CUgraphNode,
            parameters: *const CUDA_KERNEL_NODE_PARAMS);
        launch_graph = "cuGraphLaunch"(instance: CUgraphExec, stream: CUstream);

        launch = "cuLaunchKernel"(function: CUfunction, blocks_x: c_uint, blocks_y: c_uint, blocks_z: c_uint,
            threads_x: c_uint, threads_y: c_uint, threads_z: c_uint, shared: c_uint, stream: CUstream,
            parameters: *mut *mut c_void, extra: *mut *mut c_void);
    }
    optional has_pools {
        create_pool = "cuMemPoolCreate"(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps);
        set_pool_attribute = "cuMemPoolSetAttribute"(pool: CUmemoryPool, attribute: c_int, value: *mut c_void);
        trim_pool = "cuMemPoolTrimTo"(pool: CUmemoryPool, kept: usize);
        alloc_ordered = "cuMemAllocFromPoolAsync"(at: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream);
        free_ordered = "cuMemFreeAsync"(at: CUdeviceptr, stream: CUstream);
        /// Writes the status of a capture: 0 for none.
        is_capturing = "cuStreamIsCapturing"(stream: CUstream, status: *mut c_uint);
    }
    optional has_launch_attributes {
        launch_with = "cuLaunchKernelEx"(launch: *const CUlaunchConfig, function: CUfunction, parameters: *mut *mut c_void,
            extra: *mut *mut c_void);
    }
}

/// Finds a function of the driver.
fn find<F: Copy>(name: &[u8], symbol: &'static str) -> Result<F, CudaError> {
    // SAFETY: the caller found the library.
    let library = unsafe { sys::culib() };
    // SAFETY: the tables above have the types of the driver's header.
    let function = unsafe { library.get::<F>(name) };
    function.map(|function| *function).map_err(|_| missing(symbol))
}

fn missing(symbol: &'static str) -> CudaError {
    CudaError::new(symbol, "the driver of this machine does not have this function")
}

impl Driver {
    /// Returns the driver, which is started at the first call; an error is the same at each call.
    pub(super) fn get() -> Result<&'static Self, CudaError> {
        static DRIVER: OnceLock<Result<Driver, CudaError>> = OnceLock::new();
        DRIVER.get_or_init(Self::start).as_ref().map_err(Clone::clone)
    }

    fn start() -> Result<Self, CudaError> {
        // SAFETY: loads the library, whose constructors run in any process that uses it.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::new("cuInit", "there is no CUDA driver: libcuda.so.1 cannot be loaded"));
        }
        let driver = Self::find()?;
        let mut version = 0;
        // SAFETY: starts the driver, and writes one number.
        unsafe {
            driver.init(0)?;
            driver.version(&mut version)?;
        }
        if version < OLDEST_DRIVER {
            let (found, oldest) = (shown(version), shown(OLDEST_DRIVER));
            return Err(CudaError::new("cuInit", format!("the driver is for CUDA {found}, the oldest that works is {oldest}")));
        }
        Ok(driver)
    }
}

/// Describes a failure in the driver's words.
fn error(function: &'static str, status: c_uint) -> CudaError {
    type Ask = unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_uint;
    let words = |name: &[u8], symbol| {
        let ask: Ask = find(name, symbol).ok()?;
        let mut text = std::ptr::null();
        // SAFETY: the driver writes the address of a constant.
        let known = unsafe { ask(status, &mut text) } == 0 && !text.is_null();
        // SAFETY: as above.
        let text: &'static CStr = if known { unsafe { CStr::from_ptr(text) } } else { return None };
        text.to_str().ok()
    };
    let name = words(b"cuGetErrorName\0", "cuGetErrorName").map_or_else(|| format!("error {status}"), str::to_owned);
    let summary = words(b"cuGetErrorString\0", "cuGetErrorString").unwrap_or("an unknown error");
    CudaError { function, status, text: format!("{name} ({summary})"), summary }
}

/// Formats the driver's number of a version of CUDA.
fn shown(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
