//! Makes PTX of the `run` tests of `filetests/`, and assembles it where there is a ptxas: in
//! `DISC_PTXAS`, in PATH, or in a package of the virtual environment.
//!
//! Fast schedules keep their values in registers: nothing is spilled.
use disc::{Options, parse, stages};
use disc_filetests::corpus;
use libtest_mimic::{Arguments, Failed, Trial};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// The chip of most tests, and those of some.
const CHIP: u32 = 90;
const OTHERS: [u32; 4] = [75, 80, 89, 120];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder of the files that are assembled.
fn folder() -> PathBuf {
    env::temp_dir().join(format!("disc-ptx-{}", std::process::id()))
}

/// Returns the assembler, if there is one.
fn assembler() -> Option<PathBuf> {
    let in_path = env::var_os("PATH").into_iter().flat_map(|all| env::split_paths(&all).collect::<Vec<_>>());
    let mut places: Vec<PathBuf> = env::var_os("DISC_PTXAS").map(PathBuf::from).into_iter().collect();
    places.extend(in_path.map(|folder| folder.join("ptxas")));
    let environment = env::var_os("DISC_VENV").map_or_else(|| root().join(".venv"), PathBuf::from);
    let versions = fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    for packages in versions.map(|entry| entry.path().join("site-packages")) {
        places.extend(["nvidia/cu13/bin/ptxas", "triton/backends/nvidia/bin/ptxas"].map(|path| packages.join(path)));
    }
    places.into_iter().find(|path| path.is_file())
}

fn check(name: &str, path: &Path, chip: u32, ptxas: Option<&Path>) -> Result<(), Failed> {
    let source = fs::read_to_string(path).map_err(|error| error.to_string())?;
    // A file whose kernels are given has no groups.
    if source.contains("\nkernel @") {
        return Ok(());
    }
    let module = parse(&source).map_err(|error| format!("{error:?}"))?;
    let options = Options { target: Some(format!("nvptx:sm_{chip}")), ..Options::default() };
    let ptx = stages::ptx(module, &options).map_err(|error| error.to_string())?;
    let Some(ptxas) = ptxas else { return Ok(()) };
    let folder = folder();
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let file = folder.join(format!("{}-{chip}.ptx", name.replace('/', "-")));
    fs::write(&file, ptx).map_err(|error| error.to_string())?;
    let output = Command::new(ptxas).args(["-v", &format!("-arch=sm_{chip}"), "-o", "/dev/null"]).arg(&file).output();
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("{}: {said}", file.display()).into());
    }
    fs::remove_file(&file).map_err(|error| error.to_string())?;
    // The line that names a kernel is followed by that of its spills.
    let lines: Vec<&str> = said.lines().collect();
    let spills = |pair: &&[&str]| {
        let is_spilled = pair[1].contains("spill") && !pair[1].contains(" 0 bytes spill stores");
        is_spilled && pair[0].rsplit(' ').next().is_some_and(is_fast)
    };
    let spilled: Vec<String> = lines.windows(2).filter(spills).map(|pair| pair.join(":")).collect();
    if spilled.is_empty() { Ok(()) } else { Err(spilled.join("\n").into()) }
}

/// Returns true for the kernels of fast schedules: `k3_matmul_s`, but not the last version of a
/// group, `k3_matmul`, nor tasks of a CPU.
fn is_fast(kernel: &str) -> bool {
    kernel.split('_').count() > 2 && !kernel.ends_with("_by_comparator")
}

fn main() -> ExitCode {
    let ptxas = assembler();
    if ptxas.is_none() {
        eprintln!("ptx: there is no ptxas, so PTX is made and not assembled");
    }
    let mut trials = Vec::new();
    for (number, (name, path)) in corpus(&root().join("filetests/run")).into_iter().enumerate() {
        let other = number.is_multiple_of(3).then(|| OTHERS[number / 3 % OTHERS.len()]);
        for chip in [CHIP].into_iter().chain(other) {
            let (of, path, ptxas) = (name.clone(), path.clone(), ptxas.clone());
            trials.push(Trial::test(format!("sm_{chip}/{name}"), move || check(&of, &path, chip, ptxas.as_deref())));
        }
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    // It is empty, but for PTX that was not assembled, which the messages name.
    let _ = fs::remove_dir(folder());
    conclusion.exit_code()
}
