//! Tests that every function of the driver may fail.
use crate::{
    child::{in_child, is_child},
    common::*,
};
use std::collections::BTreeMap;

#[test]
fn every_function_may_fail_and_the_next_call_works() {
    let driver = driver();
    // What is freed has no failure that anybody could act on; some functions serve that too.
    const QUIET: [&str; 8] = [
        "cuMemFreeAsync",
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
    driver.fake.fail("cuMemAllocFromPoolAsync", 0, 2);
    let error = run(&executable, &mut session, &[1.0]).unwrap_err();
    assert_eq!(&*error.code(), "E0605", "{error}");
    assert!(error.to_string().contains("the device is out of memory"), "{error}");
    assert_eq!(run(&executable, &mut session, &[1.0]).unwrap(), [1.0 + added]);
}

#[test]
fn a_device_that_is_lost_stays_lost_and_others_go_on() {
    let driver = driver();
    let (text, added) = new_program();
    // In a process of its own: nothing brings the device back.
    if !is_child() {
        return in_child("failures::a_device_that_is_lost_stays_lost_and_others_go_on", &[] as &[(&str, &str)]);
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
