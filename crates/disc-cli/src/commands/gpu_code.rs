//! Writes the kernels of a program for one of NVIDIA's GPUs: as PTX, or as machine code.
use super::package::has_extension;
use crate::{
    answer::{Answer, diagnostics},
    arrays::unwritten,
};
use disc::ral::{
    cuda::{
        assembler::{Assembler, Cubin, CubinCache},
        package_folders,
    },
    write_atomically,
};
use disc_ir::{Code, Diagnostic, Module};
use serde_json::json;
use std::path::Path;

/// Returns true for a file that [`write`] makes.
pub(super) fn is_gpu_code(path: &Path) -> bool {
    has_extension(path, "ptx") || has_extension(path, "cubin")
}

/// Writes the kernels of a module to a file: machine code, if its name ends in `.cubin`, else PTX.
pub(super) fn write(module: Module, options: &disc::Options, path: &Path) -> Result<Answer, Vec<Diagnostic>> {
    let ptx = disc::stages::ptx(module, options).map_err(diagnostics)?;
    let kernels = ptx.matches(".visible .entry").count();
    let (bytes, form) = match has_extension(path, "cubin") {
        true => {
            let (cubin, assembler) = assemble(&ptx)?;
            (cubin.bytes, format!("machine code by {assembler}\n{}", cubin.warnings))
        }
        false => (ptx.into_bytes(), "PTX\n".to_owned()),
    };
    write_atomically(path, |out| out.write_all(&bytes)).map_err(|error| vec![unwritten(path, error)])?;
    let text = format!("{}: {kernels} kernels as {form}", path.display());
    Ok(Answer::new(text, json!({ "kernels": kernels, "bytes": bytes.len() })))
}

/// Assembles PTX for the chip that it names, and names the tool.
fn assemble(ptx: &str) -> Result<(Cubin, Assembler), Vec<Diagnostic>> {
    let chip = ptx.lines().find_map(|line| line.strip_prefix(".target ")).unwrap_or_default().trim();
    let Some(assembler) = Assembler::find(chip, &package_folders()) else {
        let message = format!(
            "no assembler for {chip} is here: expected nvJitLink or ptxas in packages of VIRTUAL_ENV or in the system, \
             or a ptxas named by DISC_PTXAS"
        );
        return Err(vec![Diagnostic::new(Code::E0502, message)]);
    };
    let cubin = match CubinCache::open() {
        Some(cache) => assembler.assemble_cached(&cache, ptx, chip),
        None => assembler.assemble(ptx, chip),
    };
    let cubin = cubin.map_err(|error| vec![Diagnostic::new(Code::E0501, error.to_string())])?;
    Ok((cubin, assembler))
}
