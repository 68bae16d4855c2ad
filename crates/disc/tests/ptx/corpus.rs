//! Assembles the programs of the corpus, and looks at their machine code.
use crate::{
    launches,
    machine_code::disassemble,
    program::{Kernels, divides_wide_integers, is_fast, is_for_cpus, needs_ampere},
    registers::Table,
    statistics::{self, Statistics},
    tools::Tools,
};
use disc::MatmulPrecision;
use libtest_mimic::{Failed, Trial};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The chip of all programs, and those of some.
pub(crate) const CHIP: &str = "sm_90a";
const OTHERS: [&str; 6] = ["sm_70", "sm_75", "sm_80", "sm_89", "sm_100", "sm_120"];

/// Returns a test of each program on [`CHIP`], and one of every second program on another chip.
pub(crate) fn trials(programs: &[(String, PathBuf)], tools: &Arc<Tools>, table: &Arc<Table>, folder: &Path) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (number, (name, path)) in programs.iter().enumerate() {
        // Chips multiply tiles in instructions of their own.
        let others = match name.contains("mma") {
            true => OTHERS.to_vec(),
            false => Vec::from_iter(number.is_multiple_of(2).then(|| OTHERS[number / 2 % OTHERS.len()])),
        };
        for chip in [CHIP].into_iter().chain(others) {
            let case = Case { name: name.clone(), path: path.clone(), chip, folder: folder.to_owned() };
            let (tools, table) = (tools.clone(), table.clone());
            trials.push(Trial::test(format!("{chip}/{name}"), move || case.check(&tools, &table)));
        }
    }
    trials
}

/// A program on a chip.
struct Case {
    name: String,
    path: PathBuf,
    chip: &'static str,
    folder: PathBuf,
}

impl Case {
    fn check(&self, tools: &Tools, table: &Table) -> Result<(), Failed> {
        let source = fs::read_to_string(&self.path).map_err(|error| error.to_string())?;
        if is_for_cpus(&source) || needs_ampere(&source) && ["sm_70", "sm_75"].contains(&self.chip) {
            return Ok(());
        }
        let has_tiles = self.name.contains("mma");
        // Products of f32 are rounded where that gives others for tiles.
        let precision = if has_tiles { MatmulPrecision::High } else { MatmulPrecision::Highest };
        let kernels = Kernels::of(&source, self.chip, precision)?;
        if has_tiles && self.chip != "sm_70" && !kernels.ptx.contains("mma.sync") {
            return Err("no product of tiles".into());
        }
        launches::check(&kernels.ptx, self.chip)?;
        let Some(ptxas) = tools.ptxas(self.chip) else { return Ok(()) };
        let file = self.folder.join(format!("{}-{}.ptx", self.name.replace('/', "-"), self.chip));
        let cubin = file.with_extension("cubin");
        fs::write(&file, &kernels.ptx).map_err(|error| error.to_string())?;
        let messages = ptxas.run(self.chip, &file, &cubin)?;
        self.check_messages(&messages)?;
        if self.chip == CHIP {
            table.check(&self.name, &statistics::read(&messages))?;
            self.check_machine_code(&kernels, &source, &cubin, tools)?;
        }
        // A test that fails leaves its files.
        [file, cubin].iter().try_for_each(fs::remove_file).map_err(|error| error.to_string().into())
    }

    /// Fast schedules keep their values in registers.
    fn check_messages(&self, messages: &str) -> Result<(), Failed> {
        let warnings = statistics::warnings(messages);
        if !warnings.is_empty() {
            return Err(warnings.join("\n").into());
        }
        let all = statistics::read(messages);
        if all.is_empty() || all.iter().any(|one| one.registers == 0) {
            return Err(format!("ptxas tells nothing about some kernels: {messages}").into());
        }
        let spilled: Vec<&Statistics> = all.iter().filter(|one| one.stack > 0 && is_fast(&one.kernel)).collect();
        if spilled.is_empty() { Ok(()) } else { Err(format!("memory of a thread in fast kernels: {spilled:?}").into()) }
    }

    /// No barrier is lost or doubled, and fast kernels have neither memory of a thread nor routines
    /// that divide integers of 64 bits, unless the program divides such.
    fn check_machine_code(&self, kernels: &Kernels, source: &str, cubin: &Path, tools: &Tools) -> Result<(), Failed> {
        let Some(nvdisasm) = &tools.disassembler else { return Ok(()) };
        let all = disassemble(nvdisasm, cubin)?;
        if all.is_empty() {
            return Err("nvdisasm shows no kernel".into());
        }
        let mut wrong = Vec::new();
        for code in all {
            if !code.waits_first() {
                wrong.push(format!("{}: memory is accessed before the launches before have ended", code.kernel));
            }
            let (is, was) = (code.count("BAR.SYNC"), kernels.barriers(&code.kernel));
            if is != was {
                wrong.push(format!("{}: {was} barriers became {is}", code.kernel));
            }
            if !is_fast(&code.kernel) {
                continue;
            }
            let local = code.count("LDL") + code.count("STL");
            if local > 0 {
                wrong.push(format!("{}: {local} accesses of the memory of a thread", code.kernel));
            }
            let calls = ["_div_s64", "_div_u64", "_rem_s64", "_rem_u64"].iter().flat_map(|routine| code.calls(routine));
            if !divides_wide_integers(source) {
                wrong.extend(calls.map(|call| format!("{}: {call}", code.kernel)));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
    }
}
