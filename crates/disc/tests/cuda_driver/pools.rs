//! Tests memory that a queue allocates and frees in the order of its stream.
use crate::{
    child::{in_child, is_child},
    common::*,
    graphs::SEVERAL,
    start::in_child_without,
};
use disc::{Executable, ral::SessionState};
use std::ffi::c_void;

const F32S: disc::ral::DType = disc::ral::DType::F32;

/// Makes a stream of the first GPU, which lives as long as the process.
fn new_stream() -> usize {
    let create: unsafe extern "C" fn(*mut *mut c_void, u32) -> u32 = symbol(c"cuStreamCreate").unwrap();
    let push: unsafe extern "C" fn(*mut c_void) -> u32 = symbol(c"cuCtxPushCurrent_v2").unwrap();
    let mut stream = std::ptr::null_mut();
    // SAFETY: the first context of the fake driver; writes one handle.
    assert_eq!(unsafe { (push(std::ptr::without_provenance_mut(1)), create(&mut stream, 1)) }, (0, 0));
    pop_context();
    stream.addr()
}

/// Says if launches on a stream are captured.
fn capture(stream: usize, is_captured: bool) {
    let capture: unsafe extern "C" fn(*mut c_void, i32) -> u32 = symbol(c"fake_cuda_capture").unwrap();
    let push: unsafe extern "C" fn(*mut c_void) -> u32 = symbol(c"cuCtxPushCurrent_v2").unwrap();
    // SAFETY: the first context, and a stream of it.
    let said = unsafe {
        (push(std::ptr::without_provenance_mut(1)), capture(std::ptr::without_provenance_mut(stream), is_captured.into()))
    };
    assert_eq!(said, (0, 0));
    pop_context();
}

/// A call on memory of the device, and what it has to give.
struct There3 {
    x: There,
    y: There,
    rows: usize,
    expected: [f32; 3],
}

impl There3 {
    fn new(rows: usize) -> Self {
        let elements: Vec<f32> = (0..rows * 3).map(|number| (number % 5) as f32).collect();
        let sums: Vec<f32> = elements.chunks(3).map(|row| row.iter().sum()).collect();
        let column = |column: usize| elements.chunks(3).zip(&sums).map(|(row, sum)| row[column] - sum).sum::<f32>();
        let bytes: Vec<u8> = elements.iter().flat_map(|value| value.to_le_bytes()).collect();
        let device = cuda(0);
        let (x, y) = (There::new(&device, &bytes), There::new(&device, &[0; 12]));
        Self { x, y, rows, expected: [column(0), column(1), column(2)] }
    }

    fn start(&self, executable: &Executable, session: &mut SessionState) -> Result<(), disc::Error> {
        executable.run(0, session, &[self.x.tensor(F32S, &[self.rows as i64, 3])], &mut Into(&self.y))
    }
}

fn has(calls: &[String], name: &str) -> bool {
    calls.iter().any(|call| call == name)
}

#[test]
fn an_arena_grows_and_shrinks_without_a_wait() {
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let mut session = new_session(0);
    // Sizes that grow, and one that comes again and again, so that a graph names the arena.
    let rows = (0..36).map(|number| if number % 3 == 0 { 40 + 200 * number } else { 7 });
    let calls: Vec<There3> = rows.map(There3::new).collect();
    let other = new_stream();
    let memory = driver.fake.alive("memory");
    driver.fake.calls();
    for (number, call) in calls.iter().enumerate() {
        session.use_stream((number % 4 >= 2).then_some(other));
        call.start(&executable, &mut session).unwrap();
    }
    let called = driver.fake.calls();
    for expected in ["cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuGraphLaunch"] {
        assert!(has(&called, expected), "{expected} in {called:?}");
    }
    for unexpected in ["cuMemAlloc_v2", "cuMemFree_v2", "cuStreamSynchronize", "cuCtxSynchronize"] {
        assert!(!has(&called, unexpected), "{unexpected} in {called:?}");
    }
    session.synchronize().unwrap();
    for call in &calls {
        assert_eq!(call.y.values(), call.expected, "{} rows", call.rows);
    }
    drop(session);
    // What was freed in a stream is free once somebody has waited for it.
    assert!(driver.fake.alive("memory") <= memory, "{} blocks", driver.fake.alive("memory"));
}

#[test]
fn tensors_of_the_host_have_memory_in_the_order_of_the_callers_stream() {
    let driver = driver();
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    let mut session = new_session(0);
    session.use_stream(Some(new_stream()));
    run(&executable, &mut session, &[0.0; 3000]).unwrap();
    driver.fake.calls();
    for number in 0..3 {
        let values = [number as f32; 3000];
        assert_eq!(run(&executable, &mut session, &values).unwrap(), values.map(|value| value + added));
        let called: Vec<String> = driver.fake.calls().into_iter().filter(|call| !call.starts_with("cuCtx")).collect();
        let linked = ["cuEventRecord", "cuStreamWaitEvent"];
        let new = [&["cuMemAllocFromPoolAsync"], &linked[..]].concat();
        let freed = [&["cuStreamIsCapturing"], &linked[..], &["cuMemFreeAsync"]].concat();
        let mut expected = Vec::new();
        // Staging and the arena ask once each if the stream is captured.
        expected.extend(["cuStreamIsCapturing"]);
        expected.extend(&new);
        expected.extend(["cuMemcpyHtoDAsync_v2", "cuStreamIsCapturing"]);
        expected.extend(&new);
        expected.extend(["cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"]);
        expected.extend(freed.iter().chain(&freed));
        assert_eq!(called, expected);
    }
}

#[test]
fn a_captured_stream_allocates_nothing_in_its_order() {
    let driver = driver();
    let executable = load(SEVERAL, "cuda:0").unwrap();
    let mut session = new_session(0);
    let (small, large) = (There3::new(4), There3::new(5000));
    let stream = new_stream();
    session.use_stream(Some(stream));
    small.start(&executable, &mut session).unwrap();
    capture(stream, true);
    driver.fake.calls();
    let memory = driver.fake.alive("memory");
    large.start(&executable, &mut session).unwrap();
    let called = driver.fake.calls();
    assert!(has(&called, "cuMemAlloc_v2"), "{called:?}");
    for unexpected in ["cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuMemFree_v2", "cuEventRecord"] {
        assert!(!has(&called, unexpected), "{unexpected} in {called:?}");
    }
    // What the smaller call has used is left to the captured graph.
    assert_eq!(driver.fake.alive("memory"), memory + 1);
    capture(stream, false);
    session.synchronize().unwrap();
    assert_eq!((small.y.values(), large.y.values()), (small.expected.to_vec(), large.expected.to_vec()));
}

#[test]
fn functions_of_memory_may_fail() {
    let driver = driver();
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    let mut session = new_session(0);
    session.use_stream(Some(new_stream()));
    run(&executable, &mut session, &[0.0]).unwrap();
    for (function, times) in [
        ("cuMemAllocFromPoolAsync", 2),
        ("cuMemFreeAsync", 2),
        ("cuEventRecord", 4),
        ("cuStreamWaitEvent", 4),
        ("cuStreamIsCapturing", 4),
    ] {
        for skip in 0..times {
            let memory = driver.fake.alive("memory");
            driver.fake.fail(function, skip, 999);
            let result = run(&executable, &mut session, &[1.0, 2.0]);
            assert!(!driver.fake.forget(), "{function} {skip} was not called");
            // A free that fails in its order comes when everything has ended; a stream that cannot
            // be asked counts as one that is captured.
            let is_quiet = matches!((function, skip), ("cuMemFreeAsync" | "cuStreamIsCapturing", _) | (_, 2..));
            match result {
                Ok(found) => assert!(is_quiet && found == [1.0 + added, 2.0 + added], "{function} {skip}: {found:?}"),
                Err(error) => {
                    assert!(!is_quiet && ["E0611", "E0607"].contains(&&*error.code()), "{function} {skip}: {error}");
                    assert!(error.to_string().contains("an unknown error"), "{function} {skip}: {error}");
                }
            }
            assert_eq!(run(&executable, &mut session, &[5.0]).unwrap(), [5.0 + added], "after {function} {skip}");
            session.synchronize().unwrap();
            // A stream that may be captured keeps what it has used.
            let kept = usize::from(function == "cuStreamIsCapturing" && skip >= 2);
            assert!(driver.fake.alive("memory") <= memory + kept, "{function} {skip} leaves memory");
        }
    }
}

/// Checks that calls work, with memory that is allocated at once.
fn is_plain(driver: &Driver) {
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    driver.fake.calls();
    let mut session = new_session(0);
    for _ in 0..2 {
        assert_eq!(run(&executable, &mut session, &[1.0, 2.0]).unwrap(), [1.0 + added, 2.0 + added]);
    }
    let called = driver.fake.calls();
    assert!(has(&called, "cuMemAlloc_v2") && has(&called, "cuMemFree_v2"), "{called:?}");
    assert!(!called.iter().any(|call| call.contains("FromPool") || call == "cuMemFreeAsync"), "{called:?}");
}

#[test]
fn a_gpu_without_pools_allocates_at_once() {
    if !is_child() {
        for answer in ["0", "-1"] {
            in_child("pools::a_gpu_without_pools_allocates_at_once", &[("FAKE_CUDA_POOLS", answer)]);
        }
        return;
    }
    let driver = driver();
    is_plain(&driver);
    assert_eq!(driver.fake.alive("pools"), 0);
}

#[test]
fn a_driver_without_a_function_of_pools_allocates_at_once() {
    if !is_child() {
        let functions = [
            "cuMemPoolCreate",
            "cuMemPoolSetAttribute",
            "cuMemPoolTrimTo",
            "cuMemAllocFromPoolAsync",
            "cuMemFreeAsync",
            "cuStreamIsCapturing",
        ];
        let test = "pools::a_driver_without_a_function_of_pools_allocates_at_once";
        return functions.iter().for_each(|function| in_child_without(function, test));
    }
    is_plain(&driver());
}

#[test]
fn a_pool_that_cannot_be_made_is_none() {
    if !is_child() {
        for function in ["cuMemPoolCreate", "cuMemPoolSetAttribute"] {
            in_child("pools::a_pool_that_cannot_be_made_is_none", &[("DISC_TEST_FAILS", function)]);
        }
        return;
    }
    let driver = driver();
    driver.fake.fail(&std::env::var("DISC_TEST_FAILS").unwrap(), 0, 999);
    is_plain(&driver);
    assert!(!driver.fake.forget(), "it was not called");
}

#[test]
fn a_full_device_gets_back_what_the_pool_keeps() {
    let driver = driver();
    let (text, added) = new_program();
    let executable = load(&text, "cuda:0").unwrap();
    assert_eq!(run(&executable, &mut new_session(0), &[1.0]).unwrap(), [1.0 + added]);
    driver.fake.calls();
    driver.fake.fail("cuMemAlloc_v2", 0, 2);
    drop(There::new(&cuda(0), &[0; 100]));
    let called = driver.fake.calls();
    let asked: Vec<&String> = called.iter().filter(|call| ["cuMemAlloc_v2", "cuMemPoolTrimTo"].contains(&&***call)).collect();
    assert_eq!(asked, ["cuMemAlloc_v2", "cuMemPoolTrimTo", "cuMemAlloc_v2"]);
}
