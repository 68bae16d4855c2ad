//! Runs programs on the GPU of the fake driver with a library for tests, and compares them with the
//! interpreter.
use super::Names;
use disc::{
    Error, Executable, LibraryChoice, Options, from_host,
    ir::{
        DType,
        generate::cases::Nearness,
        interp::{self, Tensor},
    },
    ral::{HostOutput, HostOutputs, HostTensor, cuda::set_package_folders},
    to_host,
};
use disc_filetests::compare;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the options of a call on the GPU, with this library.
pub(crate) fn options(library: LibraryChoice) -> Options {
    Options { device: Some("cuda:0".into()), library, ..Options::default() }
}

/// Compiles and loads a program.
///
/// # Errors
/// Those of the compiler, and of a device without the library.
pub(crate) fn load(text: &str, library: LibraryChoice) -> Result<Executable, Error> {
    let options = options(library);
    disc::compile_text(text, &options)?.load(Vec::new(), &options)
}

/// Runs a program. Returns its outputs.
pub(crate) fn run(executable: &Executable, inputs: &[Tensor]) -> Vec<Tensor> {
    let inputs: Vec<HostTensor> = inputs.iter().map(|input| to_host(input).unwrap()).collect();
    let references: Vec<_> = inputs.iter().map(HostTensor::as_input).collect();
    let mut outputs = HostOutputs::new();
    executable.with_session(|session| executable.run(0, session, &references, &mut outputs)).unwrap();
    let made = outputs.take().into_iter();
    made.map(|output| match output {
        Some(HostOutput::Fresh(tensor)) => from_host(&tensor).unwrap(),
        _ => panic!("an output has memory of its own"),
    })
    .collect()
}

/// Returns a tensor of numbers between -1 and 1 that look random.
pub(crate) fn tensor(dtype: DType, dims: &[i64], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    let count = dims.iter().product::<i64>();
    Tensor::from_f64s(dtype, dims, &(0..count).map(|_| next()).collect::<Vec<_>>()).unwrap()
}

/// Compares a program on the GPU with the interpreter.
pub(crate) fn assert_near(text: &str, executable: &Executable, inputs: &[Tensor]) {
    let module = disc::parse(text).unwrap();
    let expected = interp::run(&module, "main", inputs).unwrap();
    let found = run(executable, inputs);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        let sizes: Vec<&[i64]> = inputs.iter().map(Tensor::dims).collect();
        compare(found, expected, Nearness::Sum).unwrap_or_else(|why| panic!("{sizes:?}: {why}\n{text}"));
    }
}

/// A folder of installed packages that ends with the test.
pub(crate) struct Packages(pub(crate) PathBuf);

impl Packages {
    /// Makes a folder, with what `file` writes where the package of a library has it.
    pub(crate) fn new(test: &str, package: &str, names: &Names, file: impl FnOnce(&Path)) -> Self {
        let folder = std::env::temp_dir().join(format!("disc-{package}-{test}-{}", std::process::id()));
        let library = folder.join("nvidia").join(package).join("lib");
        fs::create_dir_all(&library).unwrap();
        file(&library.join(names.soname));
        set_package_folders(vec![folder.clone()]);
        Self(folder)
    }
}

impl Drop for Packages {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the files of a library that this process has loaded.
pub(crate) fn loaded_files(names: &Names) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| Some(line[line.find('/')?..].to_owned()));
    let mut found: Vec<String> = paths.filter(|path| path.ends_with(names.built) || path.contains(names.soname)).collect();
    found.sort();
    found.dedup();
    found
}
