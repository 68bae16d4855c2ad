//! Tests the fusion plan of each function against the `// | ` lines below it: `explain`.
use super::{Tried, parsed, rendered};
use crate::{file::TestFile, outputs::Outputs};
use disc_ir::{
    ops::Stage,
    verify::{stage_of, verify},
};
use disc_passes::{fusion, options::Options, pass::PassManager, pipeline};

pub(crate) fn run(file: &TestFile) -> Tried {
    let module = parsed(file)?;
    let stage = stage_of(&module);
    verify(&module, stage).map_err(|errors| rendered(&file.source, &errors))?;
    let mut fused = module.clone();
    let mut manager = PassManager::new(Options::default());
    pipeline::run(&mut fused, stage, Stage::Fused, &mut manager).map_err(|error| rendered(&file.source, &[error]))?;
    let plans = fusion::explain(&fused, &*manager.cx.options.model)
        .into_iter()
        .map(|plan| (plan.function.to_string(), plan.to_string()))
        .collect();
    Ok(Outputs::new(&file.source, &module).rewrite(&plans, ""))
}
