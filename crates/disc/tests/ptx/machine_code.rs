//! Reads the instructions of kernels as nvdisasm prints them.
use std::{path::Path, process::Command};

/// The instructions of one kernel, without their predicates: `LDG.E.128 R4, desc[UR4][R2.64]`.
pub(crate) struct MachineCode {
    pub(crate) kernel: String,
    instructions: Vec<String>,
}

impl MachineCode {
    /// Returns how many instructions begin with a name: `BAR.SYNC`, `LDG.E.128`.
    pub(crate) fn count(&self, name: &str) -> usize {
        let begins = |instruction: &&String| {
            instruction.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']))
        };
        self.instructions.iter().filter(begins).count()
    }

    /// Returns true if the kernel waits for the earlier launches before each access of memory that
    /// they may access.
    pub(crate) fn waits_first(&self) -> bool {
        let first = |names: &[&str]| {
            let begins = |instruction: &String| names.iter().any(|name| instruction.starts_with(name));
            self.instructions.iter().position(begins).unwrap_or(usize::MAX)
        };
        // Loads of parameters are `LDC`.
        let access = first(&["LDG", "STG", "LD.", "ST.", "ATOM", "RED", "LDGSTS", "UBLK", "CALL", "LDL", "STL"]);
        first(&["ACQBULK"]) < access
    }

    /// Returns the calls of routines whose name holds a text.
    pub(crate) fn calls(&self, text: &str) -> Vec<&String> {
        self.instructions.iter().filter(|line| line.starts_with("CALL") && line.contains(text)).collect()
    }
}

/// Disassembles a cubin.
pub(crate) fn disassemble(nvdisasm: &Path, cubin: &Path) -> Result<Vec<MachineCode>, String> {
    // Without the analysis of branches, which takes most of the time.
    let output = Command::new(nvdisasm).args(["-ndf", "-c"]).arg(cubin).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

fn read(text: &str) -> Vec<MachineCode> {
    let mut found: Vec<MachineCode> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            found.push(MachineCode { kernel: name.to_owned(), instructions: Vec::new() });
        } else if let (Some(instruction), Some(last)) = (instruction(line), found.last_mut()) {
            last.instructions.push(instruction.to_owned());
        }
    }
    found
}

/// Returns the instruction of a line such as `/*0100*/  @!P2 BRA 0x10 ;`.
fn instruction(line: &str) -> Option<&str> {
    let (_, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let rest = rest.trim();
    let rest = if rest.starts_with('@') { rest.split_once(' ')?.1.trim_start() } else { rest };
    rest.strip_suffix(';').map(str::trim_end)
}

/// Lines are read as they should be.
pub(crate) fn check() -> Result<(), String> {
    let text = "\t.target\tsm_90a\n.text.k0:\n        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0010*/              @!P2 BAR.SYNC.DEFER_BLOCKING 0x0 ;\n.L_x_1:
        /*0020*/                   CALL.REL.NOINC `($__internal_0_$__cuda_sm20_div_s64) ;\n.text.k1:\n";
    let found = read(text);
    let [k0, k1] = &found[..] else { return Err(format!("{} kernels", found.len())) };
    let counts = [k0.count("LDG.E.128"), k0.count("LDG"), k0.count("LD"), k0.count("BAR.SYNC"), k1.count("LDG")];
    let is_right = counts == [1, 1, 0, 1, 0] && k0.calls("_div_s64").len() == 1 && k0.calls("rcp").is_empty();
    if is_right { Ok(()) } else { Err(format!("{counts:?}")) }
}
