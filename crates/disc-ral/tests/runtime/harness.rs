//! Builds modules out of Rust functions, with helpers for those functions.

use disc_abi::{Context, EntryFn, KernelFn, Runtime, STATUS_OK, Tensor};
use disc_ral::*;
use std::sync::Arc;

/// An input with these dims.
pub(crate) fn input(name: &str, dtype: DType, dims: &[&str]) -> InputMeta {
    InputMeta { name: name.into(), dtype, dims: texts(dims), host: false, written: false }
}

pub(crate) fn output(name: &str, dtype: DType, dims: &[&str]) -> OutputMeta {
    OutputMeta { name: name.into(), dtype, dims: texts(dims), host: false, alias: None }
}

fn texts(dims: &[&str]) -> Vec<String> {
    dims.iter().map(|&dim| dim.to_owned()).collect()
}

pub(crate) fn entry(name: &str, inputs: Vec<InputMeta>, outputs: Vec<OutputMeta>) -> EntryMeta {
    EntryMeta { name: name.into(), symbol: name.into(), inputs, outputs, constraints: Vec::new(), temporary_bytes: None }
}

pub(crate) fn site(code: &str, template: &str, kernel_values: usize) -> Site {
    let op = format!("op at {code}");
    Site { code: code.into(), op, template: template.into(), dims: texts(&["B"]), kernel_values }
}

/// An executable of one entry.
pub(crate) fn executable(function: EntryFn, entry: EntryMeta, sites: Vec<Site>) -> Executable {
    let meta = ModuleMeta { entries: vec![entry], sites, ..ModuleMeta::default() };
    // SAFETY: the tests' entries keep the contract, or break it in the way that the test is about.
    let code = unsafe { Code::from_functions(vec![function], Vec::new()) };
    Executable::new(Cpu::device(), code, Arc::new(meta), Vec::new(), ExecutableOptions::default()).unwrap()
}

/// An executable whose entry runs without inputs and outputs.
pub(crate) fn plain(function: EntryFn) -> Executable {
    executable(function, entry("f", Vec::new(), Vec::new()), Vec::new())
}

/// Runs entry 0. Returns its outputs.
pub(crate) fn run(executable: &Executable, session: &mut SessionState, inputs: &[TensorRef<'_>]) -> Result<HostOutputs, Error> {
    let mut outputs = HostOutputs::new();
    executable.run(0, session, inputs, &mut outputs)?;
    Ok(outputs)
}

pub(crate) fn runtime<'a>(ctx: *mut Context) -> &'a Runtime {
    // SAFETY: the context of the call that is going on.
    unsafe { &*(*ctx).runtime }
}

/// Launches without scratch.
pub(crate) fn launch(ctx: *mut Context, kernel: KernelFn, args: &[u64], units: i64, cost: i64) -> i32 {
    // SAFETY: the kernel reads these arguments.
    unsafe { (runtime(ctx).launch)(ctx, kernel.into(), args.as_ptr(), units, cost, 0) }
}

pub(crate) fn address<T>(of: &T) -> u64 {
    (&raw const *of).expose_provenance() as u64
}

/// Argument `index` of a kernel, as a shared reference.
///
/// # Safety
/// The argument is the address of a live `T`.
pub(crate) unsafe fn argument<'a, T>(args: *const u64, index: usize) -> &'a T {
    // SAFETY: the caller's promise.
    unsafe { &*std::ptr::with_exposed_provenance(*args.add(index) as usize) }
}

/// Copies input 0 (contiguous f32) to output 0, doubled; the entry of many tests.
pub(crate) unsafe extern "C" fn double(ctx: *mut Context, inputs: *const Tensor, _outputs: *mut Tensor) -> i32 {
    // SAFETY: the signature has one f32 input and one output of its shape.
    unsafe {
        let x = &*inputs;
        assert!(x.strides.is_null(), "the tests pass contiguous inputs here");
        let sizes = std::slice::from_raw_parts(x.sizes, x.rank as usize);
        let y = (runtime(ctx).alloc_output)(ctx, 0, u32::from(x.dtype), x.rank, x.sizes).cast::<f32>();
        if y.is_null() {
            return disc_abi::STATUS_FAILED;
        }
        for index in 0..sizes.iter().product::<i64>() as usize {
            y.add(index).write(2.0 * x.data.cast::<f32>().add(index).read());
        }
        STATUS_OK
    }
}

pub(crate) fn double_meta() -> EntryMeta {
    entry("double", vec![input("x", DType::F32, &["B", "3"])], vec![output("y", DType::F32, &["B", "3"])])
}
