//! Lists the assemblers of this machine, best first.
use super::{
    super::shared_library::in_packages,
    Assembler, AssemblerError, Tool,
    nv_jit_link::{self, NvJitLink},
    ptxas,
};
use std::{
    env, iter,
    path::{Path, PathBuf},
};

/// The folder of CUDA where it is installed for all users.
const SYSTEM: &str = "/usr/local/cuda";

/// Returns the assemblers in the order of [`Assembler::find`]. Each is opened when it is asked for.
pub(super) fn tools(packages: &[PathBuf]) -> impl Iterator<Item = Tool> + '_ {
    let named = iter::once_with(|| env::var_os("DISC_PTXAS")).flatten().filter(|path| !path.is_empty());
    let named = named.filter_map(|path| opened(Assembler::ptxas(path)));
    let loaded = nv_jit_link::MAJORS.into_iter().filter_map(NvJitLink::loaded).map(Tool::NvJitLink);
    let libraries = iter::once_with(|| in_packages(packages, &nv_jit_link::MAJORS.map(nv_jit_link::file_name)))
        .flatten()
        .chain(iter::once_with(system_libraries).flatten());
    let libraries = libraries.filter_map(|path| NvJitLink::open(&path).ok()).map(Tool::NvJitLink);
    let executables = iter::once_with(|| executables(packages)).flatten().filter_map(|path| opened(Assembler::ptxas(path)));
    named.chain(loaded).chain(libraries).chain(executables)
}

/// Returns the tool, or says why it is none: its file is there.
fn opened(assembler: Result<Assembler, AssemblerError>) -> Option<Tool> {
    let assembler = assembler.inspect_err(|error| tracing::warn!("an assembler is passed over: {error}"));
    assembler.ok().map(|assembler| assembler.tool)
}

/// Returns the names of the libraries that the system's loader finds by itself, and their paths in
/// CUDA's folder.
fn system_libraries() -> Vec<PathBuf> {
    let names = nv_jit_link::MAJORS.map(nv_jit_link::file_name);
    let paths = names.iter().flat_map(|name| [PathBuf::from(name), Path::new(SYSTEM).join("lib64").join(name)]);
    paths.collect()
}

fn executables(packages: &[PathBuf]) -> Vec<PathBuf> {
    let in_path = env::var_os("PATH").into_iter().flat_map(|all| env::split_paths(&all).collect::<Vec<_>>());
    let in_path = in_path.map(|folder| folder.join("ptxas"));
    let of_system = Path::new(SYSTEM).join("bin/ptxas");
    in_path.chain(ptxas::in_packages(packages)).chain([of_system]).filter(|path| path.is_file()).collect()
}
