//! Finds the tools of CUDA that tests use: in the packages that `make setup` installs, and in
//! `PATH`.
use crate::root;
use disc_ral::cuda::assembler::Assembler;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The folders of executables in folders of installed Python packages.
const FOLDERS: [&str; 3] = ["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "triton/backends/nvidia/bin"];

/// An executable ptxas.
pub(crate) struct Ptxas {
    pub(crate) path: PathBuf,
    /// The tool and its version: `ptxas V13.5.37`.
    pub(crate) name: String,
    help: String,
}

pub(crate) struct Tools {
    /// Folders of installed Python packages.
    pub(crate) packages: Vec<PathBuf>,
    /// Best first.
    pub(crate) assemblers: Vec<Ptxas>,
    pub(crate) disassembler: Option<PathBuf>,
}

impl Tools {
    pub(crate) fn find() -> Self {
        let packages = packages();
        let named = env::var_os("DISC_PTXAS").map(PathBuf::from).into_iter();
        let assemblers = named.chain(executables("ptxas", &packages)).filter_map(Ptxas::open).collect();
        let disassembler = executables("nvdisasm", &packages).into_iter().next();
        Self { packages, assemblers, disassembler }
    }

    /// Returns the first assembler that knows a chip.
    pub(crate) fn ptxas(&self, chip: &str) -> Option<&Ptxas> {
        self.assemblers.iter().find(|ptxas| ptxas.chips().any(|known| known == chip))
    }
}

impl Ptxas {
    fn open(path: PathBuf) -> Option<Self> {
        let name = Assembler::ptxas(&path).ok()?.to_string();
        let help = Command::new(&path).arg("--help").output().ok()?;
        Some(Self { path, name, help: String::from_utf8(help.stdout).ok()? })
    }

    /// Returns the chips that the tool says it knows: its help has them in quotes.
    pub(crate) fn chips(&self) -> impl Iterator<Item = &str> {
        self.help.split('\'').filter(|word| word.starts_with("sm_"))
    }

    /// Assembles a file for a chip, with numbers about its kernels among the messages.
    pub(crate) fn run(&self, chip: &str, ptx: &Path, cubin: &Path) -> Result<String, String> {
        let mut command = Command::new(&self.path);
        let Output { status, stderr, .. } = command
            .args(["-v", &format!("-arch={chip}"), "-o"])
            .args([cubin, ptx])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        let messages = String::from_utf8_lossy(&stderr).into_owned();
        if status.success() { Ok(messages) } else { Err(format!("{}: {messages}", ptx.display())) }
    }
}

fn packages() -> Vec<PathBuf> {
    let environment = env::var_os("DISC_VENV").map_or_else(|| root().join(".venv"), |path| root().join(path));
    let versions = fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let installed = versions.map(|entry| entry.path().join("site-packages")).filter(|path| path.is_dir());
    [environment.join("nvidia-tools")].into_iter().chain(installed).collect()
}

fn executables(name: &str, packages: &[PathBuf]) -> Vec<PathBuf> {
    let in_path = env::var_os("PATH").into_iter().flat_map(|all| env::split_paths(&all).collect::<Vec<_>>());
    let in_packages = FOLDERS.into_iter().flat_map(|folder| packages.iter().map(move |packages| packages.join(folder)));
    in_packages.chain(in_path).map(|folder| folder.join(name)).filter(|path| path.is_file()).collect()
}
