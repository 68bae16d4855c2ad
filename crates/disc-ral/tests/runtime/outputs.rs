//! Descriptors as entries see them, and outputs that alias inputs.

use crate::harness::*;
use disc_abi::{Context, FLAG_ALIAS, FLAG_READ_ONLY, FLAG_WRITTEN, STATUS_OK, Tensor};
use disc_ral::*;
use std::slice;

/// Adds 1 to input 0 in place; output 0 is the input, output 1 the same as one row, output 2 its
/// number of elements.
unsafe extern "C" fn mutate(ctx: *mut Context, inputs: *const Tensor, outputs: *mut Tensor) -> i32 {
    // SAFETY: the signature below.
    unsafe {
        let (x, outputs) = (&*inputs, slice::from_raw_parts_mut(outputs, 3));
        let sizes = slice::from_raw_parts(x.sizes, 2);
        let strides = if x.strides.is_null() { [sizes[1], 1] } else { *x.strides.cast::<[i64; 2]>() };
        for (row, column) in (0..sizes[0]).flat_map(|row| (0..sizes[1]).map(move |column| (row, column))) {
            *x.data.cast::<f32>().offset((row * strides[0] + column * strides[1]) as isize) += 1.0;
        }
        outputs[0].sizes.cast_mut().copy_from_nonoverlapping(x.sizes, 2);
        outputs[0].strides = x.strides;
        outputs[1].sizes.cast_mut().write(sizes[0] * sizes[1]);
        for output in &mut outputs[..2] {
            assert!(output.data.is_null() && output.flags == 0);
            output.data = x.data;
            output.flags = FLAG_WRITTEN | FLAG_ALIAS;
        }
        let count = (runtime(ctx).alloc_output)(ctx, 2, u32::from(DType::I64.code()), 0, std::ptr::null());
        count.cast::<i64>().write(sizes[0] * sizes[1]);
        STATUS_OK
    }
}

fn mutating() -> Executable {
    let written = InputMeta { written: true, ..input("x", DType::F32, &["B", "S"]) };
    let aliased = |name, dims| OutputMeta { alias: Some(0), ..output(name, DType::F32, dims) };
    let count = OutputMeta { host: true, ..output("count", DType::I64, &[]) };
    let outputs = vec![aliased("x", &["B", "S"]), aliased("row", &["B*S"]), count];
    executable(mutate, entry("mutate", vec![written], outputs), Vec::new())
}

#[test]
fn outputs_alias_the_input_that_was_written() {
    let executable = mutating();
    let mut x = HostTensor::new(&[2, 3], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let data = x.bytes_mut().as_mut_ptr();
    let outputs = executable.with_session(|session| run(&executable, session, &[x.as_written_input()])).unwrap();
    assert_eq!(x.elements::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (index, expected) in [vec![2, 3], vec![6]].into_iter().enumerate() {
        let Some(HostOutput::Alias { input: 0, data: at, sizes, strides: None, .. }) = outputs.get(index) else {
            panic!("output {index} does not alias input 0")
        };
        assert_eq!((*at, sizes), (data, &expected));
    }
    let count = outputs.tensor(2).unwrap();
    assert_eq!((count.sizes(), count.elements::<i64>().unwrap()), (&[][..], &[6][..]));
}

#[test]
fn a_strided_input_keeps_its_strides_in_the_alias() {
    let executable = mutating();
    let mut x = HostTensor::zeros(DType::F32, &[3, 2]).unwrap();
    let data = x.bytes_mut().as_mut_ptr();
    // SAFETY: the transposed view of the tensor, which nobody else uses.
    let view = unsafe { TensorRef::from_raw(data.cast(), DType::F32, &[2, 3]) }.strides(&[1, 2]).writable();
    let outputs = executable.with_session(|session| run(&executable, session, &[view])).unwrap();
    let Some(HostOutput::Alias { strides: Some(strides), .. }) = outputs.get(0) else { panic!("no strided alias") };
    assert_eq!(strides, &[1, 2]);
    assert_eq!(x.elements::<f32>().unwrap(), [1.0; 6]);
}

/// Checks the guarantees about inputs; element i of output 0 is 1 if the strides of input i were
/// null.
unsafe extern "C" fn inspect(ctx: *mut Context, inputs: *const Tensor, outputs: *mut Tensor) -> i32 {
    // SAFETY: the signature below.
    unsafe {
        let inputs = slice::from_raw_parts(inputs, 3);
        assert!(inputs.iter().all(|x| x.flags == FLAG_READ_ONLY && x.rank == 2 && x.dtype == DType::F32.code()));
        let made = (runtime(ctx).alloc_output)(ctx, 0, u32::from(DType::I64.code()), 1, [3].as_ptr()).cast::<i64>();
        for (index, x) in inputs.iter().enumerate() {
            made.add(index).write(i64::from(x.strides.is_null()));
        }
        assert!((*outputs).data == made.cast() && (*outputs).flags == FLAG_WRITTEN && *(*outputs).sizes == 3);
        STATUS_OK
    }
}

#[test]
fn strides_are_null_exactly_for_contiguous_inputs() {
    let x = || input("x", DType::F32, &["B", "S"]);
    let executable = executable(inspect, entry("f", vec![x(), x(), x()], vec![output("n", DType::I64, &["3"])]), Vec::new());
    let x = HostTensor::zeros(DType::F32, &[2, 3]).unwrap();
    // SAFETY: views of the tensor, only read.
    let (column, empty) = unsafe {
        let column = TensorRef::from_raw(x.as_input().data(), DType::F32, &[2, 1]).strides(&[3, 1]);
        (column, TensorRef::from_raw(std::ptr::null_mut(), DType::F32, &[0, 3]).strides(&[9, 9]))
    };
    let inputs = [x.as_input().strides(&[3, 1]), column, empty];
    let outputs = executable.with_session(|session| run(&executable, session, &inputs)).unwrap();
    assert_eq!(outputs.tensor(0).unwrap().elements::<i64>().unwrap(), [1, 0, 1]);
}

#[test]
fn empty_tensors_pass() {
    let executable = executable(double, double_meta(), Vec::new());
    let x = HostTensor::zeros(DType::F32, &[0, 3]).unwrap();
    let outputs = executable.with_session(|session| run(&executable, session, &[x.as_input()])).unwrap();
    assert_eq!(outputs.tensor(0).unwrap().sizes(), [0, 3]);
}

#[test]
fn any_number_of_threads_runs_one_executable() {
    let executable = executable(double, double_meta(), Vec::new());
    std::thread::scope(|scope| {
        for caller in 0..6 {
            let executable = &executable;
            scope.spawn(move || {
                for round in 0..300 {
                    let rows = (caller + round) % 5;
                    let x = HostTensor::new(&[rows, 3], &vec![caller as f32; 3 * rows as usize]).unwrap();
                    let outputs = executable.with_session(|session| run(executable, session, &[x.as_input()])).unwrap();
                    let y = outputs.tensor(0).unwrap();
                    assert_eq!(y.sizes(), [rows, 3]);
                    assert!(y.elements::<f32>().unwrap().iter().all(|&y| y == 2.0 * caller as f32));
                }
            });
        }
    });
    assert_eq!(executable.calls(), 1800);
}
