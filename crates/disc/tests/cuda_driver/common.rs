//! Loads the driver, programs and memory of the device for these tests.
use crate::fake_cuda::FakeCuda;
use disc::{
    Error, Executable, Options,
    ral::{Device, DeviceName, HostOutput, HostOutputs, HostTensor, SessionState, TensorRef, open_device},
};
use std::{
    ffi::c_void,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

/// The driver, which one test uses at a time.
pub(crate) struct Driver {
    pub(crate) fake: &'static FakeCuda,
    _alone: MutexGuard<'static, ()>,
}

pub(crate) fn driver() -> Driver {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let fake = FakeCuda::load();
    fake.forget();
    fake.calls();
    Driver { fake, _alone: alone }
}

pub(crate) fn options(device: &str) -> Options {
    Options { device: Some(device.into()), ..Options::default() }
}

pub(crate) fn load(text: &str, device: &str) -> Result<Executable, Error> {
    disc::compile_text(text, &options(device))?.load(Vec::new(), &options(device))
}

/// Returns a program that no test had before, so that its kernels are not loaded yet.
pub(crate) fn new_program() -> (String, f32) {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let added = NEXT.fetch_add(1, Ordering::Relaxed) as f32;
    let text = format!(
        "func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {{
  %c = constant dense<{added:?}> : tensor<f32>
  %b = broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<[N]xf32>
  %y = add %x, %b : tensor<[N]xf32>
  return %y : tensor<[N]xf32>
}}"
    );
    (text, added)
}

pub(crate) fn floats(values: &[f32]) -> HostTensor {
    let mut tensor = HostTensor::zeros(disc::ral::DType::F32, &[values.len() as i64]).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor.bytes_mut().copy_from_slice(&bytes);
    tensor
}

pub(crate) fn values(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

pub(crate) fn new_session(number: u32) -> SessionState {
    SessionState::new(&cuda(number))
}

/// Runs a program on one tensor of the host.
pub(crate) fn run(executable: &Executable, session: &mut SessionState, input: &[f32]) -> Result<Vec<f32>, Error> {
    let input = floats(input);
    let mut outputs = HostOutputs::new();
    executable.run(0, session, &[input.as_input()], &mut outputs)?;
    match outputs.get(0) {
        Some(HostOutput::Fresh(tensor)) => Ok(values(tensor.bytes())),
        _ => panic!("the output is in memory of its own"),
    }
}

pub(crate) type Current = unsafe extern "C" fn(*mut *mut c_void) -> u32;

/// Finds a function of the driver.
pub(crate) fn symbol<F: Copy>(name: &std::ffi::CStr) -> Option<F> {
    // SAFETY: the driver was loaded for the whole process.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: the caller names the function's type.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

/// Ends the use of the thread's current context.
pub(crate) fn pop_context() {
    let pop: Current = symbol(c"cuCtxPopCurrent_v2").unwrap();
    let mut popped = std::ptr::null_mut();
    // SAFETY: writes one address.
    assert_eq!(unsafe { pop(&mut popped) }, 0);
}

/// Device memory with values.
pub(crate) struct There {
    device: Arc<dyn Device>,
    at: std::ptr::NonNull<u8>,
    bytes: usize,
}

impl There {
    pub(crate) fn new(device: &Arc<dyn Device>, bytes: &[u8]) -> Self {
        let there = Self { device: Arc::clone(device), at: device.alloc(bytes.len().max(1)).unwrap(), bytes: bytes.len() };
        // SAFETY: new memory of this many bytes.
        unsafe { device.queue().upload(there.at.as_ptr(), bytes.as_ptr(), bytes.len()) }.unwrap();
        there
    }

    pub(crate) fn tensor<'t>(&self, dtype: disc::ral::DType, sizes: &'t [i64]) -> TensorRef<'t> {
        // SAFETY: memory that lives as long as this.
        unsafe { TensorRef::from_raw(self.at.as_ptr().cast(), dtype, sizes) }.on_device(self.device.kind())
    }

    pub(crate) fn values(&self) -> Vec<f32> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: memory of this many bytes.
        unsafe { self.device.queue().download(bytes.as_mut_ptr(), self.at.as_ptr(), self.bytes) }.unwrap();
        values(&bytes)
    }
}

impl Drop for There {
    fn drop(&mut self) {
        // SAFETY: memory of this device.
        unsafe { self.device.free(self.at, self.bytes) };
    }
}

/// Gives one block of device memory as the output.
pub(crate) struct Into<'t>(pub(crate) &'t There);

impl disc::ral::OutputAllocator for Into<'_> {
    fn alloc(&mut self, _: usize, _: disc::ral::DType, _: &[i64]) -> Result<*mut u8, disc::ral::OutputError> {
        Ok(self.0.at.as_ptr())
    }

    fn alias(&mut self, _: usize, _: usize, _: TensorRef<'_>) -> Result<(), disc::ral::OutputError> {
        Err(disc::ral::OutputError("no view is expected".into()))
    }
}

pub(crate) fn cuda(number: u32) -> Arc<dyn Device> {
    open_device(&format!("cuda:{number}").parse::<DeviceName>().unwrap()).unwrap()
}
