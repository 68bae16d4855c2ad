//! Tests how the device `cuda:N` uses the driver: the order of calls, contexts, streams, failures
//! of every function, late errors, and drivers that are old, incomplete or missing.
mod fake_cuda;

use disc::{
    Error, Executable, Options,
    ral::{Device, DeviceName, HostOutput, HostOutputs, HostTensor, SessionState, TensorRef, open_device},
};
use fake_cuda::FakeCuda;
use std::{
    collections::BTreeMap,
    ffi::c_void,
    process::Command,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

/// The driver, which one test uses at a time.
struct Driver {
    fake: &'static FakeCuda,
    _alone: MutexGuard<'static, ()>,
}

fn driver() -> Driver {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let fake = FakeCuda::load();
    fake.forget();
    fake.calls();
    Driver { fake, _alone: alone }
}

fn options(device: &str) -> Options {
    Options { device: Some(device.into()), ..Options::default() }
}

fn load(text: &str, device: &str) -> Result<Executable, Error> {
    disc::compile_text(text, &options(device))?.load(Vec::new(), &options(device))
}

/// Returns a program that no test had before, so that its kernels are not loaded yet.
fn new_program() -> (String, f32) {
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

/// Takes rows by numbers that are checked.
const ROWS: &str = "func @main(%x: tensor<[N]xf32>, %i: tensor<[M]xi64>) -> tensor<[M]xf32> {
  %y = gather %x, %i, offset_dims = [], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1, slice_sizes = [1], bounds = check : (tensor<[N]xf32>, tensor<[M]xi64>) -> tensor<[M]xf32>
  return %y : tensor<[M]xf32>
}";

fn floats(values: &[f32]) -> HostTensor {
    let mut tensor = HostTensor::zeros(disc::ral::DType::F32, &[values.len() as i64]).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor.bytes_mut().copy_from_slice(&bytes);
    tensor
}

fn values(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn new_session(number: u32) -> SessionState {
    SessionState::new(&cuda(number))
}

/// Runs a program on one tensor of the host.
fn run(executable: &Executable, session: &mut SessionState, input: &[f32]) -> Result<Vec<f32>, Error> {
    let input = floats(input);
    let mut outputs = HostOutputs::new();
    executable.run(0, session, &[input.as_input()], &mut outputs)?;
    match outputs.get(0) {
        Some(HostOutput::Fresh(tensor)) => Ok(values(tensor.bytes())),
        _ => panic!("the output is in memory of its own"),
    }
}

#[test]
fn a_call_that_was_made_before_loads_and_allocates_nothing_lasting() {
    let driver = driver();
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    let mut session = new_session(0);
    assert_eq!(run(&executable, &mut session, &[1.0, 2.0]).unwrap(), [1.0 + added, 2.0 + added]);
    let first = driver.fake.calls();
    for expected in ["cuStreamCreate", "cuEventCreate", "cuMemHostAlloc", "cuModuleLoadDataEx", "cuModuleGetFunction"] {
        assert_eq!(first.iter().filter(|call| *call == expected).count(), 1, "{expected} in {first:?}");
    }
    assert_eq!(run(&executable, &mut session, &[3.0]).unwrap(), [3.0 + added]);
    let is_context = |call: &String| call.starts_with("cuCtx");
    let second: Vec<String> = driver.fake.calls().into_iter().filter(|call| !is_context(call)).collect();
    let upload = ["cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"];
    let launch = ["cuMemAlloc_v2", "cuLaunchKernel", "cuStreamSynchronize"];
    let back = ["cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuMemFree_v2", "cuMemFree_v2"];
    assert_eq!(second, [&upload[..], &launch, &back].concat());
}

/// Rows without their sums, added up: several launches.
const SEVERAL: &str = "func @main(%x: tensor<[N]x[M]xf32>) -> tensor<[M]xf32> {
  %zero = constant dense<0.0> : tensor<f32>
  %s = reduce %x, %zero, dims = [1] : (tensor<[N]x[M]xf32>, tensor<f32>) -> tensor<[N]xf32> applies add
  %b = broadcast_in_dim %s, dims = [0] : (tensor<[N]xf32>) -> tensor<[N]x[M]xf32>
  %d = subtract %x, %b : tensor<[N]x[M]xf32>
  %t = reduce %d, %zero, dims = [0] : (tensor<[N]x[M]xf32>, tensor<f32>) -> tensor<[M]xf32> applies add
  return %t : tensor<[M]xf32>
}";

#[test]
fn calls_that_come_again_start_as_a_graph() {
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let device = cuda(0);
    let mut session = new_session(0);
    let f32s = disc::ral::DType::F32;
    let mut call = |rows: usize, first: f32| {
        let elements: Vec<f32> = (0..rows * 3).map(|number| number as f32 + first).collect();
        let x = There::new(&device, &elements.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
        let y = There::new(&device, &[0; 12]);
        driver.fake.calls();
        executable.run(0, &mut session, &[x.tensor(f32s, &[rows as i64, 3])], &mut Into(&y)).unwrap();
        let calls = driver.fake.calls();
        session.synchronize().unwrap();
        let sums: Vec<f32> = elements.chunks(3).map(|row| row.iter().sum()).collect();
        let column = |column: usize| elements.chunks(3).zip(&sums).map(|(row, sum)| row[column] - sum).sum::<f32>();
        assert_eq!(y.values(), [column(0), column(1), column(2)]);
        let count = |name: &str| calls.iter().filter(|call| *call == name).count();
        ["cuLaunchKernel", "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch"].map(count)
    };
    let [launches, ..] = call(4, 0.0);
    assert!(launches >= 2, "{launches}");
    assert_eq!(call(5, 1.0), [launches, 0, 0, 0]);
    assert_eq!(call(4, 2.0), [launches, 0, 0, 0]);
    assert_eq!(call(4, 3.0), [0, 1, 0, 1]);
    assert_eq!(call(5, 4.0), [launches, 0, 0, 0]);
    for number in 0..3 {
        let [single, made, changed, started] = call(4, number as f32);
        // Nodes that name memory of the caller are changed, if it has moved.
        assert!((single, made, started) == (0, 0, 1) && changed <= 2, "{changed}");
    }
    assert_eq!(call(5, 5.0), [0, 1, 0, 1]);
    // Graphs are bounded.
    for rows in 6..20 {
        for _ in 0..3 {
            call(rows, 0.0);
        }
    }
    assert!(driver.fake.alive("graphs") <= 2 * 8);
    drop(session);
    assert_eq!(driver.fake.alive("graphs"), 0);
}

#[test]
fn functions_of_graphs_may_fail() {
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let functions = [
        "cuGraphCreate",
        "cuGraphAddKernelNode_v2",
        "cuGraphInstantiateWithFlags",
        "cuGraphExecKernelNodeSetParams_v2",
        "cuGraphLaunch",
    ];
    for function in functions {
        let mut session = new_session(0);
        let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        // SAFETY: memory of the tensor.
        let x = unsafe { TensorRef::from_raw(x.as_input().data(), x.dtype(), &[2, 3]) };
        let mut failed = 0;
        for call in 0..6 {
            if call == 2 {
                driver.fake.fail(function, 0, 999);
            }
            let mut outputs = HostOutputs::new();
            match executable.run(0, &mut session, &[x], &mut outputs) {
                Ok(()) => match outputs.get(0) {
                    Some(HostOutput::Fresh(tensor)) => assert_eq!(values(tensor.bytes()), [-16.0, -14.0, -12.0]),
                    _ => panic!("the output is in memory of its own"),
                },
                Err(error) => {
                    assert!(error.to_string().contains(function), "{function}: {error}");
                    failed += 1;
                }
            }
        }
        let is_tolerated = ["cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags"].contains(&function);
        assert!(!driver.fake.forget() || function.contains("SetParams"), "{function} was not called");
        assert!(failed <= usize::from(!is_tolerated), "{function} failed {failed} calls");
        drop(session);
    }
    assert_eq!(driver.fake.alive("graphs"), 0);
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

type Current = unsafe extern "C" fn(*mut *mut c_void) -> u32;

/// Finds a function of the driver.
fn symbol<F: Copy>(name: &std::ffi::CStr) -> Option<F> {
    // SAFETY: the driver was loaded for the whole process.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: the caller names the function's type.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

/// Ends the use of the thread's current context.
fn pop_context() {
    let pop: Current = symbol(c"cuCtxPopCurrent_v2").unwrap();
    let mut popped = std::ptr::null_mut();
    // SAFETY: writes one address.
    assert_eq!(unsafe { pop(&mut popped) }, 0);
}

#[test]
fn every_function_may_fail_and_the_next_call_works() {
    let driver = driver();
    // What is freed has no failure that anybody could act on; some functions serve that too.
    const QUIET: [&str; 8] = [
        "cuMemFree_v2",
        "cuMemFreeHost",
        "cuStreamDestroy_v2",
        "cuEventDestroy_v2",
        "cuCtxPopCurrent_v2",
        "cuCtxGetCurrent",
        "cuCtxPushCurrent_v2",
        "cuStreamSynchronize",
    ];
    let scenario = || {
        let (text, added) = new_program();
        let executable = load(&text, "cuda:0")?;
        let mut session = new_session(0);
        let first = run(&executable, &mut session, &[1.0, 2.0]).map(|found| assert_eq!(found, [1.0 + added, 2.0 + added]));
        // Whatever happened, the same session works the next time.
        if first.is_err() {
            assert_eq!(run(&executable, &mut session, &[5.0]).unwrap(), [5.0 + added]);
        }
        first
    };
    scenario().unwrap();
    driver.fake.calls();
    scenario().unwrap();
    let mut counts = BTreeMap::<String, u32>::new();
    driver.fake.calls().into_iter().for_each(|call| *counts.entry(call).or_default() += 1);
    assert!(counts.len() >= 14, "{counts:?}");
    for (function, count) in counts {
        for skip in 0..count {
            driver.fake.fail(&function, skip, 999);
            let result = scenario();
            assert!(!driver.fake.forget(), "{function} {skip} was not called");
            if function == "cuCtxPopCurrent_v2" {
                // The context that was left there.
                pop_context();
            }
            match result {
                Ok(()) => assert!(QUIET.contains(&&*function), "{function} {skip} failed unnoticed"),
                Err(error) => {
                    let text = error.to_string();
                    let is_named = text.contains(&function) || text.contains("an unknown error");
                    assert!(
                        ["E0611", "E0607", "E0501", "E0700"].contains(&&*error.code()) && is_named,
                        "{function} {skip}: {text}"
                    );
                }
            }
            scenario().unwrap_or_else(|error| panic!("after {function} {skip}: {error}"));
        }
    }
    for kind in ["streams", "events", "pinned"] {
        assert!(driver.fake.alive(kind) <= 24, "{} {kind} are left", driver.fake.alive(kind));
    }
}

#[test]
fn a_device_without_memory_says_so() {
    let driver = driver();
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    let mut session = new_session(0);
    driver.fake.fail("cuMemAlloc_v2", 0, 2);
    let error = run(&executable, &mut session, &[1.0]).unwrap_err();
    assert_eq!(&*error.code(), "E0605", "{error}");
    assert!(error.to_string().contains("the device is out of memory"), "{error}");
    assert_eq!(run(&executable, &mut session, &[1.0]).unwrap(), [1.0 + added]);
}

/// Device memory with values.
struct There {
    device: Arc<dyn Device>,
    at: std::ptr::NonNull<u8>,
    bytes: usize,
}

impl There {
    fn new(device: &Arc<dyn Device>, bytes: &[u8]) -> Self {
        let there = Self { device: Arc::clone(device), at: device.alloc(bytes.len().max(1)).unwrap(), bytes: bytes.len() };
        // SAFETY: new memory of this many bytes.
        unsafe { device.queue().upload(there.at.as_ptr(), bytes.as_ptr(), bytes.len()) }.unwrap();
        there
    }

    fn tensor<'t>(&self, dtype: disc::ral::DType, sizes: &'t [i64]) -> TensorRef<'t> {
        // SAFETY: memory that lives as long as this.
        unsafe { TensorRef::from_raw(self.at.as_ptr().cast(), dtype, sizes) }.on_device(self.device.kind())
    }

    fn values(&self) -> Vec<f32> {
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
struct Into<'t>(&'t There);

impl disc::ral::OutputAllocator for Into<'_> {
    fn alloc(&mut self, _: usize, _: disc::ral::DType, _: &[i64]) -> Result<*mut u8, disc::ral::OutputError> {
        Ok(self.0.at.as_ptr())
    }

    fn alias(&mut self, _: usize, _: usize, _: TensorRef<'_>) -> Result<(), disc::ral::OutputError> {
        Err(disc::ral::OutputError("no view is expected".into()))
    }
}

fn cuda(number: u32) -> Arc<dyn Device> {
    open_device(&format!("cuda:{number}").parse::<DeviceName>().unwrap()).unwrap()
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

#[test]
fn a_device_that_is_lost_stays_lost_and_others_go_on() {
    let driver = driver();
    let (text, added) = new_program();
    // In a process of its own: nothing brings the device back.
    if !is_child() {
        return in_child("a_device_that_is_lost_stays_lost_and_others_go_on", &[]);
    }
    let executable = load(&text, "cuda:1").unwrap();
    let mut session = new_session(1);
    driver.fake.fail("cuLaunchKernel", 0, 700);
    let error = run(&executable, &mut session, &[1.0]).unwrap_err();
    assert!(error.to_string().contains("CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"), "{error}");
    for _ in 0..2 {
        let error = run(&executable, &mut session, &[1.0]).unwrap_err();
        assert!(error.to_string().contains("lost since an earlier failure"), "{error}");
        assert_eq!(&*error.code(), "E0611");
    }
    let other = load(&text, "cuda:0").unwrap();
    assert_eq!(run(&other, &mut new_session(0), &[1.0]).unwrap(), [1.0 + added]);
}

const CHILD: &str = "DISC_TEST_CHILD";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs one test in a process of its own, with variables of the environment.
fn in_child(test: &str, variables: &[(&str, &str)]) {
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this)
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

/// Returns the message of opening `cuda:0`.
fn refusal() -> String {
    match open_device(&"cuda:0".parse::<DeviceName>().unwrap()) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_old_driver_is_named() {
    if !is_child() {
        return in_child("an_old_driver_is_named", &[("FAKE_CUDA_VERSION", "11080")]);
    }
    let _driver = driver();
    assert!(refusal().ends_with("(cuInit: the driver is for CUDA 11.8, the oldest that works is 12.0)"), "{}", refusal());
    assert!(disc::devices().iter().all(|name| !name.starts_with("cuda")));
}

#[test]
fn a_driver_without_devices_has_none() {
    if !is_child() {
        return in_child("a_driver_without_devices_has_none", &[("FAKE_CUDA_DEVICES", "0")]);
    }
    let _driver = driver();
    assert!(refusal().ends_with("(the CUDA driver finds no such GPU)"), "{}", refusal());
}

#[test]
fn a_driver_that_lacks_a_function_is_an_error() {
    if !is_child() {
        let folder = std::env::temp_dir().join(format!("disc-cuda-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let lacking = folder.join("libcuda.so.1");
        let mut bytes = std::fs::read(fake_cuda::path()).unwrap();
        let (name, other) = (b"\0cuLaunchKernel\0", b"\0cuLaunchKernex\0");
        let found: Vec<usize> =
            bytes.windows(name.len()).enumerate().filter(|(_, part)| part == name).map(|(at, _)| at).collect();
        assert!(!found.is_empty());
        found.into_iter().for_each(|at| bytes[at..at + name.len()].copy_from_slice(other));
        std::fs::write(&lacking, bytes).unwrap();
        in_child("a_driver_that_lacks_a_function_is_an_error", &[(fake_cuda::PATH, lacking.to_str().unwrap())]);
        return std::fs::remove_dir_all(&folder).unwrap();
    }
    let _driver = driver();
    let expected = "(cuLaunchKernel: the driver of this machine does not have this function)";
    assert!(refusal().ends_with(expected), "{}", refusal());
}

#[test]
fn machine_code_that_the_driver_does_not_take_gives_way_to_ptx() {
    if !is_child() {
        let folder = std::env::temp_dir().join(format!("disc-ptxas-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let tool = folder.join("ptxas");
        let version = "echo 'Cuda compilation tools, release 12.9, V12.9.86'";
        let made = r#"while [ "$1" != "-o" ]; do shift; done; cat > /dev/null; printf '\177ELF of nobody' > "$2""#;
        std::fs::write(&tool, format!("#!/bin/sh\ncase \"$1\" in --version) {version} ;; *) {made} ;; esac\n")).unwrap();
        std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let variables = [("DISC_PTXAS", tool.to_str().unwrap()), ("DISC_CACHE", "0")];
        in_child("machine_code_that_the_driver_does_not_take_gives_way_to_ptx", &variables);
        return std::fs::remove_dir_all(&folder).unwrap();
    }
    let driver = driver();
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    assert_eq!(run(&executable, &mut new_session(0), &[1.0]).unwrap(), [1.0 + added]);
    let loads = driver.fake.calls().into_iter().filter(|call| call == "cuModuleLoadDataEx").count();
    assert_eq!(loads, 2, "the machine code, then the PTX");
}

#[test]
fn each_function_of_the_start_may_fail() {
    let starts = [
        "cuInit",
        "cuDriverGetVersion",
        "cuDeviceGetCount",
        "cuDevicePrimaryCtxRetain",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
    ];
    if !is_child() {
        starts.iter().for_each(|function| in_child("each_function_of_the_start_may_fail", &[("DISC_TEST_FAILS", function)]));
        return;
    }
    let driver = driver();
    let function = std::env::var("DISC_TEST_FAILS").unwrap();
    driver.fake.fail(&function, 0, 999);
    assert!(refusal().contains(&format!("{function}: error 999")), "{}", refusal());
}

#[test]
fn a_forked_child_is_told_to_be_spawned() {
    let _driver = driver();
    let device = cuda(0);
    // SAFETY: the child asks for memory, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let is_refused = device.alloc(16).is_err();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if is_refused { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: a child of this process.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
        }
    }
}
