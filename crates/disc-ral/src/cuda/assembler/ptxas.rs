//! Assembles by ptxas: a process for each module.
use super::{AssemblerError, Cubin, Version};
use std::{
    ffi::{CString, OsString},
    fmt, fs, io,
    io::Write,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
};

/// The folders of ptxas in folders of installed Python packages, newest CUDA first.
const FOLDERS: [&str; 3] = ["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "triton/backends/nvidia/bin"];

/// An executable of one version.
#[derive(Debug)]
pub(super) struct Ptxas {
    path: PathBuf,
    version: Version,
    /// The version as the tool tells it: `V13.5.37`.
    release: String,
}

impl Ptxas {
    pub(super) fn open(path: PathBuf) -> Result<Self, AssemblerError> {
        let failed = |source| AssemblerError::Process { path: path.clone(), source };
        let output = Command::new(&path).arg("--version").stdin(Stdio::null()).output().map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (version, release) = version(&text).ok_or_else(|| failed(io::Error::other("it does not tell its version")))?;
        Ok(Self { path, version, release })
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    pub(super) fn assemble(&self, ptx: &str, chip: &str) -> Result<Cubin, AssemblerError> {
        let failed = |source| AssemblerError::Process { path: self.path.clone(), source };
        let folder = Folder::new().map_err(failed)?;
        let file = folder.0.join("cubin");
        let output = self.run(ptx, chip, &file).map_err(failed)?;
        let log = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        if !output.status.success() {
            return Err(AssemblerError::Refused { tool: self.to_string(), chip: chip.to_owned(), log });
        }
        let bytes = fs::read(&file).map_err(failed)?;
        Ok(Cubin { bytes, warnings: log })
    }

    fn run(&self, ptx: &str, chip: &str, file: &Path) -> io::Result<Output> {
        let mut command = Command::new(&self.path);
        command.arg(format!("-arch={chip}")).arg("-o").arg(file).arg("-");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        // A thread writes, so that neither side waits for a full pipe.
        thread::scope(|scope| {
            // A tool that ends early says why: its output is the error, not the broken pipe.
            scope.spawn(move || input.map(|mut input| input.write_all(ptx.as_bytes())));
            child.wait_with_output()
        })
    }
}

impl fmt::Display for Ptxas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ptxas {}", self.release)
    }
}

/// Returns the paths of ptxas in folders of installed Python packages.
pub(super) fn in_packages(packages: &[PathBuf]) -> Vec<PathBuf> {
    let paths = FOLDERS.into_iter().flat_map(|folder| packages.iter().map(move |packages| packages.join(folder).join("ptxas")));
    paths.filter(|path| path.is_file()).collect()
}

/// Reads the version from the text that ends in `release 13.5, V13.5.37`, and a line of its build.
fn version(text: &str) -> Option<(Version, String)> {
    let (_, rest) = text.split_once("release ")?;
    let line = rest.lines().next()?;
    let (short, full) = line.split_once(", ")?;
    let (major, minor) = short.split_once('.')?;
    Some((Version { major: major.parse().ok()?, minor: minor.parse().ok()? }, full.trim().to_owned()))
}

/// A folder that only this user may read, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let template = std::env::temp_dir().join("disc-ptxas-XXXXXX");
        let template = CString::new(template.as_os_str().as_bytes())?.into_raw();
        // SAFETY: NUL-terminated text of this process, which mkdtemp changes in place and keeps as
        // long; it comes back as it was given.
        let (made, path) = unsafe { (!libc::mkdtemp(template).is_null(), CString::from_raw(template)) };
        if made { Ok(Self(OsString::from_vec(path.into_bytes()).into())) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is below the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an executable that tells a version, and otherwise does `work`.
    ///
    /// Another process writes it: a fork of another test could hold a file of this one open for
    /// writing, and the system runs no such file.
    fn script(folder: &Folder, work: &str) -> PathBuf {
        let path = folder.0.join("ptxas");
        let tells = "[ \"$1\" != --version ] || { echo 'Cuda tools, release 12.9, V12.9.86'; exit 0; }";
        let text = format!("#!/bin/sh\n{tells}\n{work}\n");
        let write = "printf %s \"$2\" > \"$1\" && chmod 700 \"$1\"";
        let written = Command::new("sh").args(["-c", write, "sh"]).arg(&path).arg(text).status().unwrap();
        assert!(written.success());
        path
    }

    #[test]
    fn versions_are_read_from_what_the_tool_tells() {
        let text =
            "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 13.5, V13.5.37\nBuild cuda_13.5\n";
        assert_eq!(version(text), Some((Version { major: 13, minor: 5 }, "V13.5.37".to_owned())));
        assert!(["", "release 13", "release x.y, V1", "ptxas 13.5"].iter().all(|text| version(text).is_none()));
    }

    #[test]
    fn code_and_warnings_are_those_of_the_process() {
        let folder = Folder::new().unwrap();
        let ptxas = Ptxas::open(script(&folder, "echo careful >&2; echo \"$1\" > \"$3\"; cat >> \"$3\"")).unwrap();
        assert_eq!((ptxas.version(), ptxas.to_string()), (Version { major: 12, minor: 9 }, "ptxas V12.9.86".to_owned()));
        let cubin = ptxas.assemble("text", "sm_80").unwrap();
        assert_eq!((cubin.bytes.as_slice(), cubin.warnings.as_str()), (&b"-arch=sm_80\ntext"[..], "careful\n"));
    }

    #[test]
    fn a_refusal_carries_the_messages() {
        let folder = Folder::new().unwrap();
        let ptxas = Ptxas::open(script(&folder, "echo 'ptxas fatal : no' >&2; exit 255")).unwrap();
        // More than a pipe holds, and the tool reads none of it.
        let error = ptxas.assemble(&"x".repeat(1 << 20), "sm_80").unwrap_err();
        assert_eq!(error.to_string(), "ptxas V12.9.86 makes no code for sm_80: ptxas fatal : no");
        assert!(matches!(error, AssemblerError::Refused { .. }));
    }

    #[test]
    fn what_is_no_ptxas_is_an_error() {
        let folder = Folder::new().unwrap();
        assert!(matches!(Ptxas::open(folder.0.join("none")).unwrap_err(), AssemblerError::Process { .. }));
        let error = Ptxas::open("/bin/true".into()).unwrap_err();
        assert!(error.to_string().contains("does not tell its version"), "{error}");
    }

    #[test]
    fn folders_are_removed_and_packages_searched_in_order() {
        let folder = Folder::new().unwrap();
        for inner in ["b/nvidia/cu13/bin", "a/triton/backends/nvidia/bin"] {
            fs::create_dir_all(folder.0.join(inner)).unwrap();
            fs::write(folder.0.join(inner).join("ptxas"), "").unwrap();
        }
        let found = in_packages(&[folder.0.join("a"), folder.0.join("b")]);
        let expected = ["b/nvidia/cu13/bin/ptxas", "a/triton/backends/nvidia/bin/ptxas"].map(|path| folder.0.join(path));
        assert_eq!(found, expected);
        let path = folder.0.clone();
        drop(folder);
        assert!(!path.exists());
    }
}
