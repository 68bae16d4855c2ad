//! Every failure is an error with its code and names, and the next call with the same session
//! works.

use crate::harness::*;
use disc_abi::{Context, KernelFn, STATUS_FAILED, STATUS_OK, Tensor};
use disc_ral::*;
use std::ptr;

/// Runs an entry that fails, twice, then a good one with the same session. Returns the error.
fn fails(function: disc_abi::EntryFn) -> Error {
    let x = HostTensor::new(&[2, 3], &[1.0_f32; 6]).unwrap();
    let bad = executable(function, double_meta(), vec![site("E0123", "`B` is {0}, expected {1}", 2)]);
    let good = executable(double, double_meta(), Vec::new());
    let mut session = bad.session();
    let error = run(&bad, &mut session, &[x.as_input()]).err().unwrap();
    assert_eq!(run(&bad, &mut session, &[x.as_input()]).err().unwrap(), error);
    let outputs = run(&good, &mut session, &[x.as_input()]).unwrap();
    assert_eq!(outputs.tensor(0).unwrap().elements::<f32>().unwrap(), [2.0; 6]);
    error
}

unsafe extern "C" fn fails_at_site(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: two values; the second failure is a consequence.
    unsafe {
        let status = (runtime(ctx).fail)(ctx, 1, [7, 8].as_ptr(), 2);
        (runtime(ctx).fail)(ctx, 9, ptr::null(), 0);
        status
    }
}

#[test]
fn a_failure_at_a_site_has_the_sites_message() {
    let error = fails(fails_at_site);
    assert_eq!(error.to_string(), "E0123: `B` is 7, expected 8");
    assert_eq!((&*error.op, error.dims, error.values), ("op at E0123", vec!["B".to_owned()], vec![7, 8]));
}

unsafe extern "C" fn unknown_site(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: no values.
    unsafe { (runtime(ctx).fail)(ctx, 77, ptr::null(), 0) }
}

unsafe extern "C" fn no_reason(_: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    5
}

unsafe extern "C" fn no_output(_: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    STATUS_OK
}

unsafe extern "C" fn ignores_a_failure(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: no values.
    unsafe { (runtime(ctx).fail)(ctx, 1, [1, 2].as_ptr(), 2) };
    STATUS_OK
}

unsafe extern "C" fn wrong_output(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: one size.
    unsafe { (runtime(ctx).alloc_output)(ctx, 0, u32::from(DType::F64.code()), 1, [3].as_ptr()) };
    STATUS_FAILED
}

unsafe extern "C" fn aliases_without_leave(_: *mut Context, inputs: *const Tensor, outputs: *mut Tensor) -> i32 {
    // SAFETY: one input and one output.
    unsafe {
        (*outputs).data = (*inputs).data;
        (*outputs).flags = disc_abi::FLAG_WRITTEN | disc_abi::FLAG_ALIAS;
    }
    STATUS_OK
}

#[test]
fn a_broken_contract_is_an_internal_error() {
    for (function, message) in [
        (unknown_site as disc_abi::EntryFn, "source site 77"),
        (no_reason, "`double` returned status 5 without a reason"),
        (no_output, "`double` made no output 0 (`y`)"),
        (wrong_output, "output 0 was made as f64 of rank 1, its signature is f32 of rank 2"),
        (aliases_without_leave, "output 0 (`y`) of `double` must not alias"),
    ] {
        let error = fails(function);
        assert_eq!(error.code, code::INTERNAL);
        assert!(error.message.contains(message), "{error}");
    }
    assert_eq!(fails(ignores_a_failure).code, "E0123");
}

unsafe extern "C" fn huge_arena(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: a plain request.
    assert!(unsafe { (runtime(ctx).alloc)(ctx, 1 << 60) }.is_null());
    STATUS_FAILED
}

unsafe extern "C" fn negative_arena(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: a plain request.
    assert!(unsafe { (runtime(ctx).alloc)(ctx, i64::MIN) }.is_null());
    STATUS_FAILED
}

unsafe extern "C" fn nothing(_: *const u64, _: i64, _: i64, _: *mut u8) -> i32 {
    STATUS_OK
}

unsafe extern "C" fn huge_scratch(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: the kernel reads no arguments.
    unsafe { (runtime(ctx).launch)(ctx, (nothing as KernelFn).into(), ptr::null(), 10, 1_000_000, 1 << 55) }
}

unsafe extern "C" fn huge_output(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: two sizes.
    unsafe { (runtime(ctx).alloc_output)(ctx, 0, u32::from(DType::F32.code()), 2, [1 << 50, 3].as_ptr()) };
    STATUS_FAILED
}

unsafe extern "C" fn overflowing_output(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: two sizes.
    unsafe { (runtime(ctx).alloc_output)(ctx, 0, u32::from(DType::F32.code()), 2, [1 << 62, 3].as_ptr()) };
    STATUS_FAILED
}

#[test]
fn memory_that_does_not_exist_is_an_error() {
    for (function, code, message) in [
        (huge_arena as disc_abi::EntryFn, code::OUT_OF_MEMORY, "1152921504606846976 bytes for temporary memory"),
        (negative_arena, code::OUT_OF_MEMORY, "the size is negative"),
        (huge_scratch, code::OUT_OF_MEMORY, "bytes for kernel scratch: this process may have"),
        (huge_output, code::OUTPUT, "output 0 (`y`): [1125899906842624, 3] f32 bytes for a host tensor"),
        (overflowing_output, code::OUTPUT, "output 0 (`y`): sizes [4611686018427387904, 3] do not fit into memory"),
    ] {
        let error = fails(function);
        assert_eq!(error.code, code);
        assert!(error.message.contains(message), "{error}");
    }
}

type Alloc = fn() -> Result<*mut u8, OutputError>;

/// An allocator that misbehaves.
struct Bad(Alloc);

impl OutputAllocator for Bad {
    fn alloc(&mut self, _: usize, _: DType, _: &[i64]) -> Result<*mut u8, OutputError> {
        (self.0)()
    }

    fn alias(&mut self, _: usize, _: usize, _: TensorRef<'_>) -> Result<(), OutputError> {
        unreachable!("nothing aliases here")
    }
}

#[test]
fn an_allocator_that_fails_or_panics_is_an_error() {
    let x = HostTensor::new(&[2, 3], &[1.0_f32; 6]).unwrap();
    let executable = executable(double, double_meta(), Vec::new());
    let mut session = executable.session();
    let cases: [(Alloc, &str, &str); 4] = [
        (|| Err(OutputError("the buffer is too small".into())), code::OUTPUT, "output 0 (`y`): the buffer is too small"),
        (|| Ok(ptr::null_mut()), code::OUTPUT, "output 0 (`y`): no memory came for 24 bytes"),
        (|| Ok(ptr::without_provenance_mut(66)), code::OUTPUT, "output 0 (`y`): the memory is not aligned to 4 bytes"),
        (|| panic!("the framework is gone"), code::INTERNAL, "the runtime panicked: the framework is gone"),
    ];
    for (alloc, code, message) in cases {
        let error = executable.run(0, &mut session, &[x.as_input()], &mut Bad(alloc)).unwrap_err();
        assert_eq!((&*error.code, &*error.message), (code, message));
        run(&executable, &mut session, &[x.as_input()]).unwrap();
    }
}

#[test]
fn wrong_inputs_are_named() {
    let x = HostTensor::new(&[2, 3], &[1.0_f32; 6]).unwrap();
    let wide = HostTensor::zeros(DType::F64, &[2, 3]).unwrap();
    let flat = HostTensor::zeros(DType::F32, &[6]).unwrap();
    // SAFETY: no element is accessed: the calls fail.
    let (null, odd, negative, far) = unsafe {
        (
            TensorRef::from_raw(ptr::null_mut(), DType::F32, &[2, 3]),
            TensorRef::from_raw(ptr::without_provenance_mut(6), DType::F32, &[2, 3]),
            TensorRef::from_raw(ptr::without_provenance_mut(64), DType::F32, &[-2, 3]),
            TensorRef::from_raw(ptr::without_provenance_mut(64), DType::F32, &[2, 3]).strides(&[i64::MAX, i64::MAX]),
        )
    };
    let executable = executable(double, double_meta(), Vec::new());
    let mut session = executable.session();
    for (inputs, code, message) in [
        (vec![], code::BAD_INPUT, "`double` expects 1 inputs (x), 0 came"),
        (vec![x.as_input(); 2], code::BAD_INPUT, "`double` expects 1 inputs (x), 2 came"),
        (vec![wide.as_input()], code::BAD_INPUT, "input 0 (`x`) must have dtype f32, not f64"),
        (vec![flat.as_input()], code::BAD_INPUT, "input 0 (`x`) must have rank 2 [B, 3], not rank 1 [6]"),
        (vec![x.as_input().on_device(1)], code::BAD_INPUT, "input 0 (`x`) must be on device kind 0, not 1"),
        (vec![null], code::BAD_INPUT, "input 0 (`x`) has no memory for its sizes [2, 3]"),
        (vec![odd], code::BAD_INPUT, "input 0 (`x`) is not aligned to its element size of 4 bytes"),
        (vec![negative], code::BAD_INPUT, "input 0 (`x`) has sizes [-2, 3], which are negative or do not fit into memory"),
        (vec![x.as_input().strides(&[1])], code::BAD_INPUT, "input 0 (`x`) has 1 strides for 2 sizes"),
        (
            vec![far],
            code::BAD_INPUT,
            "input 0 (`x`) has strides [9223372036854775807, 9223372036854775807] beyond the address space",
        ),
    ] {
        let error = run(&executable, &mut session, &inputs).err().unwrap();
        assert_eq!((&*error.code, &*error.message), (code, message));
        run(&executable, &mut session, &[x.as_input()]).unwrap();
    }
    let error = executable.run(1, &mut session, &[], &mut HostOutputs::new()).unwrap_err();
    assert_eq!((&*error.code, &*error.message), (code::INTERNAL, "the module has 1 entries, no number 1"));
}

#[test]
fn a_read_only_input_is_not_written() {
    let mut meta = double_meta();
    meta.inputs[0].written = true;
    let executable = executable(double, meta, Vec::new());
    let mut x = HostTensor::new(&[1, 3], &[1.0_f32; 3]).unwrap();
    let mut session = executable.session();
    let error = run(&executable, &mut session, &[x.as_input()]).err().unwrap();
    assert_eq!(error.to_string(), "E0601: input 0 (`x`) is written by the model, but its memory is read-only");
    run(&executable, &mut session, &[x.as_written_input()]).unwrap();
}

#[test]
fn a_written_input_shares_no_memory_with_another_one() {
    let mut meta = double_meta();
    meta.inputs[0].written = true;
    meta.inputs.push(input("y", DType::F32, &["S"]));
    let executable = executable(double, meta, Vec::new());
    let mut memory = HostTensor::zeros(DType::F32, &[6]).unwrap();
    let at = memory.bytes_mut().as_mut_ptr();
    // SAFETY: parts of the tensor, which nobody else uses.
    let part = |first: usize, sizes: &'static [i64]| unsafe { TensorRef::from_raw(at.add(4 * first).cast(), DType::F32, sizes) };
    let mut session = executable.session();
    let mut call = |x: TensorRef<'_>, y: TensorRef<'_>| run(&executable, &mut session, &[x.writable(), y]).map(drop);
    let error = call(part(0, &[1, 3]), part(2, &[2])).unwrap_err();
    let message = "E0601: input 0 (`x`) is written by the model, and shares memory with input 1 (`y`)";
    assert_eq!(error.to_string(), message);
    // Backwards from the third element.
    assert_eq!(call(part(0, &[1, 3]), part(4, &[2]).strides(&[-2])).unwrap_err().to_string(), message);
    call(part(0, &[1, 3]), part(3, &[2])).unwrap();
    call(part(3, &[1, 3]), part(0, &[3])).unwrap();
    // Without elements nothing is shared.
    call(part(0, &[1, 3]), part(1, &[0])).unwrap();
}
