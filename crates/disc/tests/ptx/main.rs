//! Makes PTX of the `run` tests of `filetests/`, turns it into machine code, and looks at that. No
//! GPU is needed, but tools of CUDA, which `make setup` installs: without them PTX is made and
//! nothing else, and the test says so.
mod assembling;
mod corpus;
mod instructions;
mod launches;
mod machine_code;
mod program;
mod registers;
mod statistics;
mod tools;

use libtest_mimic::{Arguments, Trial};
use registers::Table;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};
use tools::Tools;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Says what no test can look at here.
fn warn(tools: &Tools, table: &Table) {
    let says = |what: &str| eprintln!("ptx: NOT TESTED: {what} (`make setup` installs the tools)");
    if tools.assemblers.is_empty() {
        says("machine code, as there is no ptxas: PTX is made and nothing else");
    } else {
        for chip in [corpus::CHIP, "sm_70"].into_iter().filter(|chip| tools.ptxas(chip).is_none()) {
            says(&format!("machine code for {chip}, which no ptxas here knows"));
        }
        if !table.exists() {
            let name = tools.ptxas(corpus::CHIP).map_or("ptxas", |ptxas| &ptxas.name);
            says(&format!("registers, as there is no table for {name}"));
        }
    }
    if tools.disassembler.is_none() {
        says("instructions, as there is no nvdisasm");
    }
    if assembling::nv_jit_link(tools).is_none() {
        says("nvJitLink, which is in no package");
    }
}

fn main() -> ExitCode {
    let tools = Arc::new(Tools::find());
    let table = Arc::new(Table::of(tools.ptxas(corpus::CHIP).map_or("none", |ptxas| &ptxas.name)));
    warn(&tools, &table);
    let folder = env::temp_dir().join(format!("disc-ptx-{}", std::process::id()));
    if let Err(error) = fs::create_dir_all(&folder) {
        eprintln!("ptx: {} cannot be made: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    let programs = disc_filetests::corpus(&root().join("filetests/run"));
    let mut trials = corpus::trials(&programs, &tools, &table, &folder);
    for (name, check) in [
        ("statistics", statistics::check as fn() -> _),
        ("registers", registers::check),
        ("code", machine_code::check),
        ("launches", launches::check_itself),
    ] {
        trials.push(Trial::test(format!("reading/{name}"), move || Ok(check()?)));
    }
    trials.extend(assembling::trials(&tools, &folder));
    trials.extend(instructions::trials(&tools, &folder));
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    // It is empty, but for files of tests that failed, which the messages name.
    let _ = fs::remove_dir(folder);
    let names: Vec<String> = programs.into_iter().map(|(name, _)| name).collect();
    let table = Arc::into_inner(table).expect("the tests are over");
    if let Err(error) = table.write(&names) {
        eprintln!("ptx: the table of registers cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
