//! Compiles textual LLVM IR, for tools and tests. Kernels do not use it.
use crate::{
    Error,
    machine::{Codegen, Machine, Object, Passes, in_context},
};
use disc_codegen::target::Target;

/// Compiles IR text to an object file.
pub fn object(text: &str, target: &Target, passes: Passes, codegen: Codegen) -> Result<Object, Error> {
    in_context(|context| {
        let machine = Machine::new(target, codegen)?;
        let module = machine.parse(context, text)?;
        machine.optimize(&module, passes)?;
        machine.object(module)
    })
}

/// Compiles IR text to assembly (for `nvptx`: PTX).
pub fn assembly(text: &str, target: &Target, passes: Passes, codegen: Codegen) -> Result<String, Error> {
    in_context(|context| {
        let machine = Machine::new(target, codegen)?;
        let module = machine.parse(context, text)?;
        machine.optimize(&module, passes)?;
        machine.assembly(module)
    })
}
