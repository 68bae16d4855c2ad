//! Makes the kernels of a program and their PTX.
use disc::{MatmulPrecision, Options, stages};
use disc_codegen::{host::Program, target::Compilation};
use disc_ir::{Module, OpKind, ops::Stage, text::parse, verify::stage_of};
use disc_passes::{pass::PassManager, pipeline};

/// The kernels of a program for one chip.
pub(crate) struct Kernels {
    pub(crate) module: Module,
    pub(crate) ptx: String,
}

impl Kernels {
    /// Lowers a program; one that has kernels already is taken as it is.
    pub(crate) fn of(source: &str, chip: &str, matmul_precision: MatmulPrecision) -> Result<Self, String> {
        let mut module = parse(source).map_err(|error| format!("{error:?}"))?;
        let target = format!("nvptx:{chip}");
        let options = Options { target: Some(target.clone()), matmul_precision, ..Options::default() };
        let stage = stage_of(&module);
        if stage < Stage::Kernel {
            let mut manager = PassManager::new(stages::pass_options(&options).map_err(|error| error.to_string())?);
            pipeline::run(&mut module, stage, Stage::Buffer, &mut manager).map_err(|error| format!("{error:?}"))?;
            module = stages::kernels(module, &options).map_err(|error| error.to_string())?;
        }
        let targets: Compilation = target.parse().map_err(|error| format!("{error}"))?;
        let program = Program { module, ..Program::default() };
        let ptx = disc_llvm::ptx(&program, &targets).map_err(|error| error.to_string())?;
        Ok(Self { module: program.module, ptx })
    }

    /// Returns the barriers of blocks in the IR of a kernel.
    pub(crate) fn barriers(&self, kernel: &str) -> usize {
        let function = self.module.functions.iter().find(|function| &*function.name == kernel);
        function.map_or(0, |function| {
            let is_barrier = |inst| function.kind_of(inst) == OpKind::Barrier && function.attr_word(inst, "scope") == "block";
            function.walk(function.body).into_iter().filter(|&inst| is_barrier(inst)).count()
        })
    }
}

/// Returns true for a program whose kernels run units of work, which no GPU does.
pub(crate) fn is_for_cpus(source: &str) -> bool {
    source.contains("\nkernel @") && !source.contains(" grid threads")
}

/// Returns true for a program with instructions that chips before sm_80 lack.
pub(crate) fn needs_ampere(source: &str) -> bool {
    ["copy_async", "multiply_tiles"].iter().any(|op| source.contains(op))
}

/// Returns true for the kernels of fast schedules: `k3_matmul_s`, but not the last version of a
/// group, `k3_matmul`, nor tasks of a CPU. A variant of a program has names such as
/// `k3_variant_matmul_s`.
pub(crate) fn is_fast(kernel: &str) -> bool {
    let words = kernel.split('_').filter(|&word| word != "variant").count();
    words > 2 && !kernel.ends_with("_by_comparator")
}

/// Returns true if a program divides integers of 64 bits itself.
pub(crate) fn divides_wide_integers(source: &str) -> bool {
    let divides =
        |line: &str| ["divide", "remainder"].iter().any(|op| line.contains(&format!(" {op} "))) && line.contains("xi64");
    source.lines().any(divides)
}
