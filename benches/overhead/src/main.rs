//! Times calls of disc and of ONNX Runtime from Rust, on the same graphs and the same memory.
//!
//! `overhead LIBONNXRUNTIME FOLDER ROWS`: for each pair `NAME.discpkg` and `NAME.onnx` of the
//! folder, a line of JSON with the nanoseconds of a call, least and median over rounds that take
//! turns. Both read and write memory of the caller on one thread: disc by `run_into`, ONNX Runtime
//! by `RunWithBinding` with input and output bound once, called without its wrapper in Rust.

use ort::{
    AsPointer,
    session::{RunOptions, builder::SessionBuilder},
    value::{DynValue, Tensor as OrtTensor},
};
use std::{env, error::Error, fs, hint::black_box, path::Path, time::Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const WIDTH: usize = 8;
const ROUNDS: usize = 301;
const CALLS: usize = 300;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [library, folder, rows] = &arguments[..] else { return Err("usage: overhead LIBRARY FOLDER ROWS".into()) };
    ort::init_from(library).commit()?;
    let rows: usize = rows.parse()?;
    let mut names: Vec<_> = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    names.sort_by_key(fs::DirEntry::path);
    for path in names.iter().map(fs::DirEntry::path).filter(|path| path.extension().is_some_and(|e| e == "discpkg")) {
        println!("{}", measure(&path, rows)?);
    }
    Ok(())
}

fn measure(path: &Path, rows: usize) -> Result<String> {
    let x: Vec<f32> = (0..rows * WIDTH).map(|i| i as f32 / 16.0).collect();
    let sizes = [rows as i64, WIDTH as i64];

    let package = disc_ral::Package::open(path)?;
    let options = disc_ral::SessionOptions { threads: Some(1), ..Default::default() };
    let mut ours = disc_ral::Session::new(&package, options)?;
    let inputs = [disc_ral::Tensor::new(&sizes, &x)?];
    let mut outputs = ours.run("main", &inputs)?;
    let mut disc = || ours.run_into("main", &inputs, &mut outputs).map_err(|error| error.message);

    let builder = SessionBuilder::new()?.with_intra_threads(1)?.with_inter_threads(1)?;
    let theirs = builder.with_intra_op_spinning(false)?.commit_from_file(path.with_extension("onnx"))?;
    let mut binding = theirs.create_binding()?;
    let input: DynValue = OrtTensor::from_array(([rows, WIDTH], x.clone()))?.into_dyn();
    binding.bind_input("x", &input)?;
    let output = OrtTensor::from_array(([rows, WIDTH], vec![0.0_f32; rows * WIDTH]))?;
    let result = output.data_ptr().cast::<f32>();
    binding.bind_output("y", output)?;
    let run_options = RunOptions::new()?;
    let (run, session) = (ort::api().RunWithBinding, theirs.ptr().cast_mut());
    let (options, bound) = (run_options.ptr(), binding.ptr().cast_mut());
    // SAFETY: session, options and binding live to the end of this function, and one thread calls.
    let mut ort = || unsafe { run(session, options, bound) }.0.is_null();

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(nanoseconds(|| disc().is_ok()));
        theirs.push(nanoseconds(&mut ort));
    }
    // SAFETY: the bound memory has that many elements, and no call runs.
    let expected = unsafe { std::slice::from_raw_parts(result, rows * WIDTH) };
    let found = outputs[0].elements::<f32>()?;
    let error = found.iter().zip(expected).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f32::max);
    assert!(error < 1e-4, "{}: the results differ by {error}", path.display());
    let [ours, theirs] = [ours, theirs].map(|mut times| {
        times.sort_by(f64::total_cmp);
        format!("[{:.0}, {:.0}]", times[0], times[times.len() / 2])
    });
    let name = path.file_stem().unwrap_or_default().display();
    Ok(format!("{{\"graph\": \"{name}\", \"rows\": {rows}, \"disc\": {ours}, \"ort\": {theirs}}}"))
}

/// Returns the nanoseconds of one call, from many.
fn nanoseconds(mut call: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        assert!(black_box(call()), "a call failed");
    }
    start.elapsed().as_nanos() as f64 / CALLS as f64
}
