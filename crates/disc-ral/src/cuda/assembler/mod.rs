//! Turns the PTX of a module into machine code of one chip: a cubin.
//!
//! The tool is one that the machine has: nvJitLink, which CUDA builds of frameworks bring along, or
//! ptxas. Without either, the driver compiles PTX when it loads a module, in one thread and anew in
//! every process. Nothing of CUDA is needed to build this module, and no GPU to run it.
//!
//! Invariants: the library that this process has loaded is preferred to a second copy; a tool that
//! does not know the chip is passed over; libraries stay loaded until the process ends.
mod cache;
mod chips;
mod error;
mod find;
mod nv_jit_link;
mod ptxas;

pub use cache::{CUBINS, CubinCache};
pub use error::AssemblerError;
use nv_jit_link::NvJitLink;
use ptxas::Ptxas;
use std::{fmt, path::PathBuf};

/// The machine code of a module for one chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin {
    /// An ELF file, which a driver loads.
    pub bytes: Vec<u8>,
    /// The warnings of the assembler, one a line: of wgmma instructions that it made serial, for
    /// example. Empty for most modules.
    pub warnings: String,
}

/// A version of CUDA's tools: 12.9 is `Version { major: 12, minor: 9 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Drivers of this number, or of a higher one, load the machine code.
    pub major: u32,
    /// Compatible changes.
    pub minor: u32,
}

/// A tool that turns PTX into machine code. It may be used by any number of threads at once.
#[derive(Debug)]
pub struct Assembler {
    tool: Tool,
}

#[derive(Debug)]
enum Tool {
    NvJitLink(NvJitLink),
    Ptxas(Ptxas),
}

impl Assembler {
    /// Finds the assembler for a chip such as `sm_90a`. `packages` are folders of installed Python
    /// packages (`site-packages`), which are searched too.
    ///
    /// The first of these that knows the chip is taken: the file that `DISC_PTXAS` names; the
    /// nvJitLink of this process; that of a package; that of the system; `ptxas` in `PATH`, in a
    /// package, in `/usr/local/cuda`. `None` leaves the work to the driver.
    pub fn find(chip: &str, packages: &[PathBuf]) -> Option<Self> {
        let found = find::tools(packages).find(|tool| chips::has_chip(tool.version(), chip)).map(|tool| Self { tool });
        match &found {
            Some(assembler) => tracing::debug!("PTX for {chip} is assembled by {assembler}"),
            None => tracing::debug!("no assembler is there for {chip}: the driver compiles its PTX"),
        }
        found
    }

    /// Opens a nvJitLink by the path of its library.
    ///
    /// # Errors
    /// The loader's message, or that of a library without the functions.
    pub fn nv_jit_link(library: impl Into<PathBuf>) -> Result<Self, AssemblerError> {
        let path = library.into();
        NvJitLink::open(&path).map(|found| Self { tool: Tool::NvJitLink(found) })
    }

    /// Opens a ptxas by the path of its executable.
    ///
    /// # Errors
    /// A file that cannot be run, or that does not tell its version.
    pub fn ptxas(executable: impl Into<PathBuf>) -> Result<Self, AssemblerError> {
        Ptxas::open(executable.into()).map(|found| Self { tool: Tool::Ptxas(found) })
    }

    /// Returns the version of CUDA that the tool belongs to.
    pub fn version(&self) -> Version {
        self.tool.version()
    }

    /// Returns true if this version of the tool makes code for a chip such as `sm_90a`.
    pub fn knows(&self, chip: &str) -> bool {
        chips::has_chip(self.version(), chip)
    }

    /// Assembles the PTX of a module for a chip such as `sm_90a`.
    ///
    /// # Errors
    /// PTX that the tool refuses, with its messages; a chip that it does not know; a tool that
    /// cannot be run.
    pub fn assemble(&self, ptx: &str, chip: &str) -> Result<Cubin, AssemblerError> {
        // nvJitLink may end the process over the name of a chip that it does not know.
        if !self.knows(chip) {
            return Err(AssemblerError::UnknownChip { tool: self.to_string(), chip: chip.to_owned() });
        }
        match &self.tool {
            Tool::NvJitLink(library) => library.assemble(ptx, chip),
            Tool::Ptxas(executable) => executable.assemble(ptx, chip),
        }
    }

    /// Returns what the cache has for this PTX, or assembles it and stores the result.
    ///
    /// # Errors
    /// As [`Assembler::assemble`]. A cache that cannot be read or written is none.
    pub fn assemble_cached(&self, cache: &CubinCache, ptx: &str, chip: &str) -> Result<Cubin, AssemblerError> {
        let key = cache::key(&[ptx, chip, &self.to_string()]);
        if let Some(cubin) = cache.get(&key) {
            return Ok(cubin);
        }
        let cubin = self.assemble(ptx, chip)?;
        cache.put(&key, &cubin);
        Ok(cubin)
    }
}

impl Tool {
    fn version(&self) -> Version {
        match self {
            Self::NvJitLink(library) => library.version(),
            Self::Ptxas(executable) => executable.version(),
        }
    }
}

/// Names the tool and its version, so that tools of equal text make equal code.
impl fmt::Display for Assembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tool {
            Tool::NvJitLink(library) => library.fmt(f),
            Tool::Ptxas(executable) => executable.fmt(f),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
