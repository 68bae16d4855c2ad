//! Assembles by each tool of this machine, through the runtime's own API.
use crate::{corpus::CHIP, machine_code::disassemble, program::Kernels, tools::Tools};
use disc::MatmulPrecision;
use disc_codegen::target::{NVIDIA, NVIDIA_SPECIFIC};
use disc_ral::cuda::assembler::{Assembler, AssemblerError, CUBINS, CubinCache};
use libtest_mimic::{Failed, Trial};
use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

const PROGRAM: &str = "func @main(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> {
  %s = add %x, %y : tensor<[N]xf32>
  return %s : tensor<[N]xf32>
}";

/// Returns a test of each tool that is here.
pub(crate) fn trials(tools: &Arc<Tools>, folder: &Path) -> Vec<Trial> {
    let mut trials = Vec::new();
    if let Some(library) = nv_jit_link(tools) {
        trials.push(of_tool("library", Assembler::nv_jit_link(library), tools, folder));
        let tools = tools.clone();
        trials.push(Trial::test("assembling/found", move || is_found(&tools)));
    }
    if let Some(ptxas) = tools.ptxas(CHIP) {
        trials.push(of_tool("process", Assembler::ptxas(&ptxas.path), tools, folder));
        let tools = tools.clone();
        trials.push(Trial::test("assembling/chips", move || knows_its_chips(&tools)));
    }
    trials
}

/// Returns the library of the packages.
pub(crate) fn nv_jit_link(tools: &Tools) -> Option<PathBuf> {
    let folders = tools.packages.iter().flat_map(|packages| fs::read_dir(packages.join("nvidia"))).flatten().flatten();
    let folders: Vec<PathBuf> = folders.map(|entry| entry.path().join("lib")).collect();
    let names = ["libnvJitLink.so.13", "libnvJitLink.so.12"];
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

fn of_tool(name: &str, assembler: Result<Assembler, AssemblerError>, tools: &Arc<Tools>, folder: &Path) -> Trial {
    let (tools, folder) = (tools.clone(), folder.join(name));
    Trial::test(format!("assembling/{name}"), move || {
        let assembler = assembler.map_err(|error| error.to_string())?;
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|error| error.to_string())?;
        let ptx = Kernels::of(PROGRAM, CHIP, MatmulPrecision::Highest)?.ptx;
        has_the_kernels(&assembler, &ptx, &tools, &folder)?;
        says_why_not(&assembler, &ptx)?;
        is_cached(&assembler, &ptx, &folder)?;
        works_in_threads(&assembler, &ptx)?;
        fs::remove_dir_all(&folder).map_err(|error| error.to_string().into())
    })
}

fn has_the_kernels(assembler: &Assembler, ptx: &str, tools: &Tools, folder: &Path) -> Result<(), Failed> {
    let cubin = assembler.assemble(ptx, CHIP).map_err(|error| error.to_string())?;
    if !cubin.bytes.starts_with(b"\x7fELF") || !cubin.warnings.is_empty() {
        return Err(format!("{assembler}: {} bytes, {}", cubin.bytes.len(), cubin.warnings).into());
    }
    let Some(nvdisasm) = &tools.disassembler else { return Ok(()) };
    let file = folder.join("code");
    fs::write(&file, &cubin.bytes).map_err(|error| error.to_string())?;
    let mut found: Vec<String> = disassemble(nvdisasm, &file)?.into_iter().map(|code| code.kernel).collect();
    let entries = ptx.lines().filter_map(|line| line.strip_prefix(".visible .entry "));
    let mut expected: Vec<String> = entries.map(|line| line.trim_end_matches('(').to_owned()).collect();
    found.sort();
    expected.sort();
    if found == expected && !found.is_empty() { Ok(()) } else { Err(format!("{found:?}, and not {expected:?}").into()) }
}

fn says_why_not(assembler: &Assembler, ptx: &str) -> Result<(), Failed> {
    let other_chip = assembler.assemble(ptx, "sm_75");
    let no_chip = assembler.assemble(ptx, "sm_1");
    let no_instruction = assembler.assemble(&ptx.replace("add.rn.f32", "adx.rn.f32"), CHIP);
    for (result, says) in [(other_chip, "sm_75"), (no_instruction, "'adx'")] {
        match result {
            Err(error @ AssemblerError::Refused { .. }) if error.to_string().contains(says) => {}
            other => return Err(format!("{assembler}: {other:?}, which does not say {says}").into()),
        }
    }
    match no_chip {
        Err(AssemblerError::UnknownChip { .. }) => Ok(()),
        other => Err(format!("{assembler}: {other:?}").into()),
    }
}

/// An entry is used if it is whole, and replaced if it is not.
fn is_cached(assembler: &Assembler, ptx: &str, folder: &Path) -> Result<(), Failed> {
    let cache = CubinCache::new(folder);
    let assembled = || assembler.assemble_cached(&cache, ptx, CHIP).map_err(|error| error.to_string());
    let first = assembled()?;
    let entries: Vec<PathBuf> = fs::read_dir(folder.join(CUBINS))?.flatten().map(|entry| entry.path()).collect();
    let [entry] = &entries[..] else { return Err(format!("{} entries", entries.len()).into()) };
    let whole = fs::read(entry)?;
    let modified = fs::metadata(entry)?.modified()?;
    let is_hit = assembled()? == first && fs::metadata(entry)?.modified()? > modified;
    fs::write(entry, &whole[..whole.len() / 2])?;
    let is_replaced = assembled()? == first && fs::read(entry)?.len() == whole.len();
    if is_hit && is_replaced { Ok(()) } else { Err(format!("hit {is_hit}, replaced {is_replaced}").into()) }
}

fn works_in_threads(assembler: &Assembler, ptx: &str) -> Result<(), Failed> {
    let all: Vec<_> = thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| assembler.assemble(ptx, CHIP)));
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let code = |result: &thread::Result<_>| matches!(result, Ok(Ok(_)));
    if all.iter().all(code) { Ok(()) } else { Err(format!("{all:?}").into()) }
}

/// The library is preferred to the process, and a chip that none knows has none.
fn is_found(tools: &Tools) -> Result<(), Failed> {
    let found = Assembler::find(CHIP, &tools.packages).map(|assembler| assembler.to_string());
    let expected = if std::env::var_os("DISC_PTXAS").is_some() { "ptxas" } else { "nvJitLink" };
    let is_right = found.as_ref().is_some_and(|name| name.starts_with(expected));
    let none = Assembler::find("sm_1", &tools.packages);
    // The library that was just loaded is taken again, without its folder.
    let again = Assembler::find(CHIP, &[]).map(|assembler| assembler.to_string());
    if is_right && again == found && none.is_none() { Ok(()) } else { Err(format!("{found:?}, {none:?}").into()) }
}

/// The table of chips by version agrees with what the tools say.
fn knows_its_chips(tools: &Tools) -> Result<(), Failed> {
    let plain = NVIDIA.map(|sm| format!("sm_{sm}"));
    let specific = NVIDIA_SPECIFIC.map(|sm| format!("sm_{sm}a"));
    for ptxas in &tools.assemblers {
        let assembler = Assembler::ptxas(&ptxas.path).map_err(|error| error.to_string())?;
        for chip in plain.iter().chain(&specific) {
            let (says, is) = (assembler.knows(chip), ptxas.chips().any(|known| known == chip));
            if says != is {
                return Err(format!("{assembler}: {chip} is known: {is}, and said to be: {says}").into());
            }
        }
    }
    Ok(())
}
