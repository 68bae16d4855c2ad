//! Looks for the instructions that schedules are written for.
use crate::{
    corpus::CHIP,
    machine_code::{MachineCode, disassemble},
    program::Kernels,
    root,
    tools::Tools,
};
use disc::MatmulPrecision;
use libtest_mimic::{Failed, Trial};
use std::{fs, path::Path, sync::Arc};

/// A program, the end of a kernel's name, and the least number of each instruction in it.
struct Case {
    name: &'static str,
    source: Source,
    kernel: &'static str,
    has: &'static [(&'static str, usize)],
    lacks: &'static [&'static str],
}

enum Source {
    Text(&'static str),
    /// A file of the corpus.
    File(&'static str),
}

const POINTWISE: &str = "func @main(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> {
  %s = add %x, %y : tensor<[N]xf32>
  return %s : tensor<[N]xf32>
}";
const HALVES: &str = "func @main(%x: tensor<[N]xbf16>) -> tensor<[N]xbf16> {
  %s = multiply %x, %x : tensor<[N]xbf16>
  return %s : tensor<[N]xbf16>
}";
const SUMS: &str = "func @main(%x: tensor<[B]x[N]xf32>) -> tensor<[B]xf32> {
  %zero = constant dense<0.0> : tensor<f32>
  %s = reduce %x, %zero, dims = [1] : (tensor<[B]x[N]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  return %s : tensor<[B]xf32>
}";
const THREAD_MEMORY: [&str; 3] = ["LDL", "STL", "CALL"];

const CASES: [Case; 4] = [
    Case {
        name: "vectors",
        source: Source::Text(POINTWISE),
        kernel: "_pointwise_v",
        has: &[("LDG.E.128", 2), ("STG.E.128", 1)],
        lacks: &THREAD_MEMORY,
    },
    Case {
        name: "vectors_of_halves",
        source: Source::Text(HALVES),
        kernel: "_pointwise_v",
        has: &[("LDG.E.128", 1), ("STG.E.128", 1)],
        lacks: &THREAD_MEMORY,
    },
    Case {
        name: "rows",
        source: Source::Text(SUMS),
        kernel: "_reduction_warp_v",
        has: &[("LDG.E.128", 1), ("SHFL.BFLY", 5)],
        lacks: &["LDL", "STL", "CALL", "BAR.SYNC"],
    },
    Case {
        name: "tiles",
        source: Source::File("grid_product.disc"),
        kernel: "product",
        has: &[("LDGSTS.E", 2), ("LDSM.16.M88.4", 1), ("LDSM.16.MT88.2", 1), ("HMMA.16816.F32", 1)],
        lacks: &THREAD_MEMORY,
    },
];

/// Returns a test of each case, if the tools are here.
pub(crate) fn trials(tools: &Arc<Tools>, folder: &Path) -> Vec<Trial> {
    if tools.ptxas(CHIP).is_none() || tools.disassembler.is_none() {
        return Vec::new();
    }
    let trial = |case: &'static Case| {
        let (tools, folder) = (tools.clone(), folder.to_owned());
        Trial::test(format!("instructions/{}", case.name), move || case.check(&tools, &folder))
    };
    const { &CASES }.iter().map(trial).collect()
}

impl Case {
    fn check(&self, tools: &Tools, folder: &Path) -> Result<(), Failed> {
        let source = match self.source {
            Source::Text(text) => text.to_owned(),
            Source::File(name) => fs::read_to_string(root().join("filetests/run").join(name))?,
        };
        let code = self.machine_code(&source, tools, folder)?;
        let few = self.has.iter().filter(|(name, least)| code.count(name) < *least);
        let few = few.map(|(name, least)| format!("{} of {least} {name}", code.count(name)));
        let many = self.lacks.iter().filter(|name| code.count(name) > 0).map(|name| format!("{} {name}", code.count(name)));
        let wrong: Vec<String> = few.chain(many).collect();
        if wrong.is_empty() { Ok(()) } else { Err(format!("{} has {}", code.kernel, wrong.join(", ")).into()) }
    }

    fn machine_code(&self, source: &str, tools: &Tools, folder: &Path) -> Result<MachineCode, Failed> {
        let (Some(ptxas), Some(nvdisasm)) = (tools.ptxas(CHIP), &tools.disassembler) else {
            return Err("the tools are not here".into());
        };
        let file = folder.join(format!("{}.ptx", self.name));
        let cubin = file.with_extension("cubin");
        fs::write(&file, Kernels::of(source, CHIP, MatmulPrecision::Highest)?.ptx)?;
        ptxas.run(CHIP, &file, &cubin)?;
        let all = disassemble(nvdisasm, &cubin)?;
        let names: Vec<String> = all.iter().map(|code| code.kernel.clone()).collect();
        [file, cubin].iter().try_for_each(fs::remove_file)?;
        let found = all.into_iter().find(|code| code.kernel.ends_with(self.kernel));
        found.ok_or_else(|| format!("no kernel {} is among {names:?}", self.kernel).into())
    }
}
