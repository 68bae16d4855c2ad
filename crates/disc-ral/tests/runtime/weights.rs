//! Weights: checked, prepared, refreshed while calls run.

use crate::harness::*;
use disc_abi::{Context, EntryFn, STATUS_OK, Tensor};
use disc_ral::*;
use std::{
    slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

const N: usize = 1000;

/// Weight table: `w`, `bias`, then the blob with `w` times ten.
unsafe extern "C" fn pack(ctx: *mut Context, inputs: *const Tensor, outputs: *mut Tensor) -> i32 {
    // SAFETY: the metadata below.
    unsafe {
        assert!(inputs.is_null() && outputs.is_null());
        let table = slice::from_raw_parts((*ctx).weights, 3);
        let (w, blob) = (slice::from_raw_parts(table[0].cast::<f32>(), N), table[2].cast_mut().cast::<f32>());
        assert!(blob.addr().is_multiple_of(64));
        if w[0].is_nan() {
            return (runtime(ctx).fail)(ctx, 1, std::ptr::null(), 0);
        }
        for (index, value) in w.iter().enumerate() {
            blob.add(index).write(10.0 * value);
        }
        STATUS_OK
    }
}

/// Output: first and last element of the blob, the bias, and 1 if the plain weight is still kept.
unsafe extern "C" fn read(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: the metadata below.
    unsafe {
        let table = slice::from_raw_parts((*ctx).weights, 3);
        let blob = slice::from_raw_parts(table[2].cast::<f32>(), N);
        let y = (runtime(ctx).alloc_output)(ctx, 0, u32::from(DType::F32.code()), 1, [4].as_ptr()).cast::<f32>();
        let values = [blob[0], blob[N - 1], *table[1].cast::<f32>(), f32::from(u8::from(!table[0].is_null()))];
        y.copy_from_nonoverlapping(values.as_ptr(), 4);
        STATUS_OK
    }
}

fn meta() -> Arc<ModuleMeta> {
    let weight = |name: &str, sizes: &[i64], prepare_only| {
        let (name, sizes) = (name.to_owned(), sizes.to_vec());
        WeightMeta { name, dtype: DType::F32, sizes, prepare_only }
    };
    Arc::new(ModuleMeta {
        entries: vec![entry("read", Vec::new(), vec![output("y", DType::F32, &["4"])])],
        weights: vec![weight("w", &[N as i64], true), weight("bias", &[], false)],
        blobs: vec![BlobMeta { name: "packed w".into(), bytes: 4 * N as u64, prepare: 0 }],
        prepare: vec!["pack".into()],
        sites: vec![site("E0555", "weight `w` is NaN", 0)],
        ..ModuleMeta::default()
    })
}

fn weights(value: f32) -> Vec<Weight> {
    let w = HostTensor::new(&[N as i64], &[value; N]).unwrap();
    vec![w.into(), HostTensor::new(&[], &[value]).unwrap().into()]
}

fn load(weights: Vec<Weight>, release_weights: bool) -> Result<Executable, Error> {
    // SAFETY: the functions belong to this metadata.
    let code = unsafe { Code::from_functions(vec![read as EntryFn], vec![pack as EntryFn]) };
    Executable::new(
        Cpu::device(),
        code,
        meta(),
        weights,
        ExecutableOptions { release_weights, threads: Some(2), ..Default::default() },
    )
}

fn values(executable: &Executable) -> Vec<f32> {
    let outputs = executable.with_session(|session| run(executable, session, &[])).unwrap();
    outputs.tensor(0).unwrap().elements().unwrap().to_vec()
}

#[test]
fn blobs_are_prepared_and_refreshed() {
    let executable = load(weights(1.0), false).unwrap();
    assert_eq!(values(&executable), [10.0, 10.0, 1.0, 1.0]);
    assert_eq!(executable.weight_bytes(), (4 * N + 4, (4 * N).next_multiple_of(64)));
    executable.refresh(weights(2.0)).unwrap();
    assert_eq!(values(&executable), [20.0, 20.0, 2.0, 1.0]);
}

#[test]
fn a_failed_refresh_keeps_the_old_weights() {
    let executable = load(weights(1.0), false).unwrap();
    let error = executable.refresh(weights(f32::NAN)).unwrap_err();
    assert_eq!(error.to_string(), "E0555: weight `w` is NaN");
    let error = executable.refresh(Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "E0608: the module has 2 weights, 0 came");
    let wrong = vec![HostTensor::zeros(DType::F32, &[3]).unwrap().into(), HostTensor::zeros(DType::F32, &[]).unwrap().into()];
    let error = executable.refresh(wrong).unwrap_err();
    assert_eq!(error.to_string(), "E0608: weight `w` must be f32 of sizes [1000], not f32 of sizes [3]");
    assert_eq!(values(&executable), [10.0, 10.0, 1.0, 1.0]);
    assert!(load(weights(f32::NAN), false).is_err());
}

#[test]
fn released_weights_are_given_up() {
    let w = Arc::new(HostTensor::new(&[N as i64], &[3.0_f32; N]).unwrap());
    // SAFETY: the owner keeps the memory.
    let borrowed = unsafe { Weight::borrowed(w.bytes().as_ptr(), DType::F32, vec![N as i64], w.clone()) };
    let bias: Weight = HostTensor::new(&[], &[3.0_f32]).unwrap().into();
    let kept = load(vec![borrowed.clone(), bias.clone()], false).unwrap();
    assert_eq!(Arc::strong_count(&w), 3);
    drop(kept);
    let released = load(vec![borrowed, bias], true).unwrap();
    assert_eq!(Arc::strong_count(&w), 1);
    assert_eq!(released.weight_bytes().0, 4);
    assert_eq!(values(&released), [30.0, 30.0, 3.0, 0.0]);
}

#[test]
fn blobs_that_are_there_are_not_prepared() {
    // SAFETY: the functions belong to this metadata.
    let code = || unsafe { Code::from_functions(vec![read as EntryFn], vec![pack as EntryFn]) };
    let made = |weights, prepared| {
        let options = ExecutableOptions { release_weights: true, ..Default::default() };
        Executable::with_prepared(Cpu::device(), code(), meta(), weights, options, Some(prepared))
    };
    let state = Arc::new(load(weights(1.0), false).unwrap().weight_state());
    let blobs = state.prepared().unwrap();
    let (data, bytes) = (blobs.at(), blobs.bytes());
    assert_eq!(meta().prepared_bytes(), Some(bytes));
    // SAFETY: the state keeps the memory.
    let prepared = |bytes| unsafe { Prepared::borrowed(data, bytes, state.clone()) };
    let executable = made(weights(2.0), prepared(bytes)).unwrap();
    assert_eq!(values(&executable), [10.0, 10.0, 2.0, 0.0], "blobs of the first, plain ones of the second");
    assert_eq!(executable.weight_bytes(), (4, bytes));
    executable.refresh(weights(2.0)).unwrap();
    assert_eq!(values(&executable), [20.0, 20.0, 2.0, 0.0]);
    assert!(made(weights(2.0), prepared(bytes - 64)).is_err());
}

#[test]
fn what_one_executable_reads_serves_another() {
    let (first, sizes) = (load(weights(1.0), true).unwrap(), [N as i64]);
    let state = first.weight_state();
    assert!(state.weight("w", DType::F32, &sizes).is_none(), "it was given up");
    assert!(state.weight("packed w", DType::F64, &sizes).is_none() && state.weight("other", DType::F32, &[]).is_none());
    assert!(state.weight("bias", DType::F32, &[1]).is_none());
    let shared = |state: &WeightState| {
        vec![state.weight("packed w", DType::F32, &sizes).unwrap(), state.weight("bias", DType::F32, &[]).unwrap()]
    };
    let second = load(shared(&state), false).unwrap();
    assert_eq!(values(&second)[..3], [100.0, 100.0, 1.0]);
    assert!(first.reads(&state));
    first.refresh(weights(2.0)).unwrap();
    assert!(!first.reads(&state));
    drop((first, state));
    assert_eq!(values(&second)[..3], [100.0, 100.0, 1.0], "the memory is kept for who reads it");
}

#[test]
fn weights_at_odd_addresses_are_copied() {
    let bytes: Arc<Vec<u8>> = Arc::new([0].into_iter().chain((0..N).flat_map(|_| 4.0_f32.to_le_bytes())).collect());
    // One of the two offsets is not aligned, whatever the address of the vector.
    for offset in [0, 1] {
        let shifted: Arc<Vec<u8>> = Arc::new(bytes[1 - offset..].to_vec());
        let data = shifted.as_ptr().wrapping_add(offset);
        // SAFETY: the owner keeps the memory.
        let w = unsafe { Weight::borrowed(data, DType::F32, vec![N as i64], shifted.clone()) };
        let executable = load(vec![w, HostTensor::new(&[], &[4.0_f32]).unwrap().into()], false).unwrap();
        assert_eq!(values(&executable)[..2], [40.0, 40.0], "offset {offset}");
    }
}

#[test]
fn a_call_sees_one_consistent_set_of_weights() {
    let executable = load(weights(1.0), false).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let y = values(&executable);
                    assert!(y[0] == 10.0 * y[2] && y[1] == y[0], "{y:?}");
                }
            });
        }
        for round in 1..300 {
            executable.refresh(weights(round as f32)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(values(&executable)[2], 299.0);
}
