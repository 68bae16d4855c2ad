//! Tests that parsed text prints as it reads, or as the `// | ` lines; and that printed text prints
//! again as itself: `roundtrip`.
use super::{Tried, parsed};
use crate::{file::TestFile, outputs::Outputs};
use std::collections::HashMap;

pub(crate) fn run(file: &TestFile) -> Tried {
    let module = parsed(file)?;
    let printed = module.to_string();
    let again =
        disc_ir::parse(&printed).map_err(|errors| format!("what was printed does not parse: {}\n{printed}", errors[0]))?;
    if again.to_string() != printed {
        return Err(format!("what was printed prints otherwise when it is read:\n{printed}\n{again}"));
    }
    let outputs = Outputs::new(&file.source, &module);
    let mut differing = HashMap::new();
    for function in &module.functions {
        let text = function.to_string();
        if text != outputs.code(&function.name) {
            differing.insert(function.name.to_string(), text);
        }
    }
    Ok(outputs.rewrite(&differing, ""))
}
