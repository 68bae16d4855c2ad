//! Compilation of textual LLVM IR: for tools and tests. Kernels do not come this way.
use crate::{
    Error,
    machine::{Codegen, Machine, Object, Passes, in_context},
};
use disc_codegen::target::Target;

/// An object file from IR text.
pub fn object(text: &str, target: &Target, passes: Passes, codegen: Codegen) -> Result<Object, Error> {
    in_context(|context| {
        let machine = Machine::new(target, codegen)?;
        let module = machine.parse(context, text)?;
        machine.optimize(&module, passes)?;
        machine.object(module)
    })
}

/// Assembly (for `nvptx`: PTX) from IR text.
pub fn assembly(text: &str, target: &Target, passes: Passes, codegen: Codegen) -> Result<String, Error> {
    in_context(|context| {
        let machine = Machine::new(target, codegen)?;
        let module = machine.parse(context, text)?;
        machine.optimize(&module, passes)?;
        machine.assembly(module)
    })
}
