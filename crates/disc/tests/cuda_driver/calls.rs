//! Tests the order of calls, contexts, streams, weights and late errors.
use crate::{
    child::{in_child, is_child},
    common::*,
    graphs::SEVERAL,
};
use disc::{
    Options,
    ral::{SessionState, Weight},
};
use std::{ffi::c_void, sync::Arc};

/// Takes rows by numbers that are checked.
const ROWS: &str = "func @main(%x: tensor<[N]xf32>, %i: tensor<[M]xi64>) -> tensor<[M]xf32> {
  %y = gather %x, %i, offset_dims = [], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1, slice_sizes = [1], bounds = check : (tensor<[N]xf32>, tensor<[M]xi64>) -> tensor<[M]xf32>
  return %y : tensor<[M]xf32>
}";

#[test]
fn a_call_that_was_made_before_loads_and_allocates_nothing_lasting() {
    let driver = driver();
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    let mut session = new_session(0);
    assert_eq!(run(&executable, &mut session, &[1.0, 2.0]).unwrap(), [1.0 + added, 2.0 + added]);
    let first = driver.fake.calls();
    for expected in ["cuStreamCreate", "cuModuleLoadDataEx", "cuModuleGetFunction"] {
        assert_eq!(first.iter().filter(|call| *call == expected).count(), 1, "{expected} in {first:?}");
    }
    assert_eq!(run(&executable, &mut session, &[3.0]).unwrap(), [3.0 + added]);
    let is_context = |call: &String| call.starts_with("cuCtx");
    let second: Vec<String> = driver.fake.calls().into_iter().filter(|call| !is_context(call)).collect();
    let upload = ["cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync_v2"];
    let launch = ["cuMemAllocFromPoolAsync", "cuLaunchKernel", "cuStreamSynchronize"];
    let back = ["cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuMemFreeAsync", "cuMemFreeAsync"];
    assert_eq!(second, [&upload[..], &launch, &back].concat());
}

#[test]
fn the_context_of_the_thread_is_current_again() {
    let _driver = driver();
    let (text, _) = new_program();
    let executable = load(&text, "cuda:1").unwrap();
    // Nothing was current before.
    run(&executable, &mut new_session(1), &[1.0]).unwrap();
    assert_eq!(
        symbol::<Current>(c"cuCtxGetCurrent").map(|current| {
            let mut context = std::ptr::null_mut();
            // SAFETY: writes one address.
            (unsafe { current(&mut context) }, context.is_null())
        }),
        Some((0, true))
    );
}

#[test]
fn the_context_that_was_current_is_current_again() {
    let _driver = driver();
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    let mut session = new_session(0);
    let push: unsafe extern "C" fn(*mut c_void) -> u32 = symbol(c"cuCtxPushCurrent_v2").unwrap();
    let current: Current = symbol(c"cuCtxGetCurrent").unwrap();
    let (other, mut found) = (std::ptr::without_provenance_mut(2), std::ptr::null_mut());
    // SAFETY: the second context of the fake driver.
    assert_eq!(unsafe { push(other) }, 0);
    assert_eq!(run(&executable, &mut session, &[1.0]).unwrap(), [1.0 + added]);
    // SAFETY: writes one address.
    assert_eq!((unsafe { current(&mut found) }, found), (0, other));
    pop_context();
}

#[test]
fn weights_are_read_once_their_stream_has_written_them() {
    let _driver = driver();
    let text = "weight @w : tensor<3xf32>
func @main(%x: tensor<[N]xf32>) -> tensor<3xf32> {
  %w = weight @w : tensor<3xf32>
  return %w : tensor<3xf32>
}";
    let device = cuda(0);
    let values = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
    let at = device.alloc(16).unwrap();
    let copy: unsafe extern "C" fn(u64, *const c_void, usize, *mut c_void) -> u32 = symbol(c"cuMemcpyHtoDAsync_v2").unwrap();
    let push: unsafe extern "C" fn(*mut c_void) -> u32 = symbol(c"cuCtxPushCurrent_v2").unwrap();
    // SAFETY: the first context, 16 bytes of the device, the default stream: nobody waits for it.
    let copied = unsafe {
        push(std::ptr::without_provenance_mut(1));
        copy(at.as_ptr().expose_provenance() as u64, values.as_ptr().cast(), 16, std::ptr::null_mut())
    };
    pop_context();
    assert_eq!(copied, 0);
    // At an odd address they are copied, when the executable is made.
    let data = at.as_ptr().wrapping_add(4);
    // SAFETY: 12 bytes of the device, which live as long as the test.
    let weight = unsafe { Weight::borrowed(data, disc::ral::DType::F32, vec![3], Arc::new(())) }.on_device(device.kind());
    let executable =
        disc::compile_text(text, &options("cuda:0")).unwrap().load(vec![("w".into(), weight)], &options("cuda:0")).unwrap();
    assert_eq!(run(&executable, &mut new_session(0), &[0.0]).unwrap(), [2.0, 3.0, 4.0]);
    drop(executable);
    // SAFETY: memory of this device.
    unsafe { device.free(at, 16) };
}

#[test]
fn an_index_that_is_wrong_is_an_error_of_the_next_call_or_of_who_waits() {
    let driver = driver();
    let executable = load(ROWS, "cuda:0").unwrap();
    let device = cuda(0);
    let x = There::new(&device, &[1.0_f32, 2.0, 3.0].map(f32::to_le_bytes).concat());
    let good = There::new(&device, &[2_i64, 0].map(i64::to_le_bytes).concat());
    let bad = There::new(&device, &[2_i64, 7].map(i64::to_le_bytes).concat());
    let result = There::new(&device, &[0; 8]);
    let mut session = new_session(0);
    let (f32s, i64s) = (disc::ral::DType::F32, disc::ral::DType::I64);
    let call = |session: &mut SessionState, indices: &There| {
        let inputs = [x.tensor(f32s, &[3]), indices.tensor(i64s, &[2])];
        executable.run(0, session, &inputs, &mut Into(&result))
    };
    call(&mut session, &good).unwrap();
    driver.fake.calls();
    call(&mut session, &bad).unwrap();
    let waits = driver.fake.calls();
    assert!(!waits.iter().any(|call| call.contains("Synchronize") || call.contains("DtoH")), "a call waits: {waits:?}");
    let error = session.synchronize().unwrap_err();
    assert_eq!(error.code(), "E0603", "{error}");
    assert!(error.to_string().contains("7") && error.to_string().contains("earlier call"), "{error}");
    session.synchronize().unwrap();

    call(&mut session, &bad).unwrap();
    // The fake driver runs what was launched when somebody waits for it.
    device.queue().sync().unwrap();
    let synchronize: unsafe extern "C" fn() -> u32 = symbol(c"cuCtxSynchronize").unwrap();
    let push: unsafe extern "C" fn(*mut c_void) -> u32 = symbol(c"cuCtxPushCurrent_v2").unwrap();
    // SAFETY: the first context of the fake driver.
    assert_eq!(unsafe { (push(std::ptr::without_provenance_mut(1)), synchronize()) }, (0, 0));
    pop_context();
    let error = call(&mut session, &good).unwrap_err();
    assert_eq!(&*error.code(), "E0603", "{error}");
    call(&mut session, &good).unwrap();
    session.synchronize().unwrap();
    assert_eq!(result.values(), [3.0, 1.0]);
}

#[test]
fn a_call_that_waits_has_its_own_errors() {
    let _driver = driver();
    let options = Options { check: disc::Check::Sync, ..options("cuda:0") };
    let executable = disc::compile_text(ROWS, &options).unwrap().load(Vec::new(), &options).unwrap();
    let device = cuda(0);
    let x = There::new(&device, &[1.0_f32, 2.0].map(f32::to_le_bytes).concat());
    let bad = There::new(&device, &5_i64.to_le_bytes());
    let result = There::new(&device, &[0; 4]);
    let inputs = [x.tensor(disc::ral::DType::F32, &[2]), bad.tensor(disc::ral::DType::I64, &[1])];
    let error = executable.run(0, &mut new_session(0), &inputs, &mut Into(&result)).unwrap_err();
    assert!(error.code() == "E0603" && !error.to_string().contains("earlier call"), "{error}");
}

#[test]
fn the_environment_asks_all_calls_to_wait_and_for_no_graphs() {
    if !is_child() {
        let variables = [("DISC_CHECK", "sync"), ("DISC_CUDA_GRAPHS", "0")];
        return in_child("calls::the_environment_asks_all_calls_to_wait_and_for_no_graphs", &variables);
    }
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let device = cuda(0);
    let (x, y) = (There::new(&device, &[0; 24]), There::new(&device, &[0; 12]));
    let mut session = new_session(0);
    for _ in 0..5 {
        driver.fake.calls();
        executable.run(0, &mut session, &[x.tensor(disc::ral::DType::F32, &[2, 3])], &mut Into(&y)).unwrap();
        let calls = driver.fake.calls();
        assert!(calls.iter().any(|call| call == "cuStreamSynchronize"), "{calls:?}");
        assert!(!calls.iter().any(|call| call.contains("Graph")), "{calls:?}");
    }
}

#[test]
fn calls_follow_the_streams_of_their_caller() {
    let driver = driver();
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    let device = cuda(0);
    let (x, y) = (There::new(&device, &1.0_f32.to_le_bytes()), There::new(&device, &[0; 4]));
    let mut session = new_session(0);
    let f32s = disc::ral::DType::F32;
    // The legacy default stream, then the session's own: each call reads what the one before wrote.
    session.use_stream(Some(0));
    executable.run(0, &mut session, &[x.tensor(f32s, &[1])], &mut Into(&y)).unwrap();
    driver.fake.calls();
    session.use_stream(None);
    executable.run(0, &mut session, &[y.tensor(f32s, &[1])], &mut Into(&x)).unwrap();
    let moved = driver.fake.calls();
    let order: Vec<&str> = moved
        .iter()
        .map(String::as_str)
        .filter(|call| ["cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernel"].contains(call))
        .collect();
    assert_eq!(order, ["cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernel"]);
    session.synchronize().unwrap();
    assert_eq!(x.values(), [1.0 + 2.0 * added]);
}
