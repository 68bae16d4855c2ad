//! Tests drivers that are old, incomplete or missing, code that they do not take, and forks.
use crate::{
    child::{in_child, is_child},
    common::*,
    fake_cuda,
};
use disc::ral::{DeviceName, open_device};

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
        return in_child("start::an_old_driver_is_named", &[("FAKE_CUDA_VERSION", "11080")]);
    }
    let _driver = driver();
    assert!(refusal().ends_with("(cuInit: the driver is for CUDA 11.8, the oldest that works is 12.0)"), "{}", refusal());
    assert!(disc::devices().iter().all(|name| !name.starts_with("cuda")));
}

#[test]
fn a_driver_without_devices_has_none() {
    if !is_child() {
        return in_child("start::a_driver_without_devices_has_none", &[("FAKE_CUDA_DEVICES", "0")]);
    }
    let _driver = driver();
    assert!(refusal().ends_with("(the CUDA driver finds no such GPU)"), "{}", refusal());
}

/// Runs a test in a process whose driver lacks a function.
pub(crate) fn in_child_without(function: &str, test: &str) {
    in_child_lacking(function, test, &[]);
}

/// Does the same, with variables of the environment.
pub(crate) fn in_child_lacking(function: &str, test: &str, variables: &[(&str, &str)]) {
    let folder = std::env::temp_dir().join(format!("disc-cuda-{}-{function}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let lacking = folder.join("libcuda.so.1");
    let mut bytes = std::fs::read(fake_cuda::path()).unwrap();
    let name = format!("\0{function}\0").into_bytes();
    let found: Vec<usize> = bytes.windows(name.len()).enumerate().filter(|(_, part)| *part == name).map(|(at, _)| at).collect();
    assert!(!found.is_empty());
    // Another name of the same length.
    found.into_iter().for_each(|at| bytes[at + name.len() - 2] = b'?');
    std::fs::write(&lacking, bytes).unwrap();
    in_child(test, &[variables, &[(fake_cuda::PATH, lacking.to_str().unwrap())]].concat());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_driver_that_lacks_a_function_is_an_error() {
    if !is_child() {
        return in_child_without("cuLaunchKernel", "start::a_driver_that_lacks_a_function_is_an_error");
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
        in_child("start::machine_code_that_the_driver_does_not_take_gives_way_to_ptx", &variables);
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
        starts
            .iter()
            .for_each(|function| in_child("start::each_function_of_the_start_may_fail", &[("DISC_TEST_FAILS", function)]));
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
