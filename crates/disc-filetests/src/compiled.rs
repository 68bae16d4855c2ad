//! Compares compiled code with the interpreter, through an interface: this crate does not link the
//! compiler.
use crate::{compare::compare, values};
use disc_ir::{Code, Diagnostic, Module, generate::cases::Nearness, interp::Tensor};
use std::path::PathBuf;

/// The values of a module's weights, by name.
pub type Weights<'w> = &'w dyn Fn(&str) -> Option<Tensor>;

/// A compiler of modules at the tensor stage.
pub trait Compiled: Sync {
    /// Returns its name in messages, such as `x86-64-v3`.
    fn name(&self) -> &str;

    /// Compiles and loads a module.
    ///
    /// # Errors
    /// Those of compiling and loading.
    fn compile(&self, module: &Module, weights: Weights<'_>) -> Result<Box<dyn Program>, Diagnostic>;
}

/// A module that is ready to run.
pub trait Program {
    /// Runs an entry.
    ///
    /// # Errors
    /// Those of running.
    fn run(&self, entry: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostic>;
}

/// The parts that the harness gets from outside.
#[derive(Clone, Copy, Default)]
pub struct Hooks {
    /// All compilers that run programs here.
    pub compiled: &'static [&'static dyn Compiled],
    /// Returns the path of a command-line tool. Without it, tests of kind `cli` are left to the
    /// harness that has it.
    pub tool: Option<fn(&str) -> Option<PathBuf>>,
}

type Outcome = Result<Vec<Tensor>, Diagnostic>;

/// Returns true if two failures are the same to a caller. An assertion about sizes is checked with
/// the sizes, when a call begins.
fn same_failure(found: Code, expected: Code) -> bool {
    found == expected || (found, expected) == (Code::E0602, Code::E0604)
}

/// Checks that compiled code gives the interpreter's results, and fails when it fails.
///
/// # Errors
/// The call, and the difference of the outcomes.
pub(crate) fn agree(
    name: &str,
    entry: &str,
    inputs: &[Tensor],
    found: &Outcome,
    expected: &Outcome,
    nearness: Nearness,
) -> Result<(), String> {
    let why = match (found, expected) {
        (Ok(found), Ok(expected)) if found.len() == expected.len() => {
            let mut each = found.iter().zip(expected).enumerate();
            each.find_map(|(i, (a, b))| compare(a, b, nearness).err().map(|why| format!("output {i}: {why}")))
        }
        (Err(found), Err(expected)) if same_failure(found.code, expected.code) => None,
        _ => Some("one of them fails, or gives more".into()),
    };
    let Some(why) = why else { return Ok(()) };
    let text = |outcome: &Outcome| match outcome {
        Ok(outputs) => brief(outputs),
        Err(error) => error.to_string(),
    };
    Err(format!("{why}\n@{entry}({})\n{name}: {}\ninterpreter: {}", brief(inputs), text(found), text(expected)))
}

/// Prints tensors, long ones truncated.
fn brief(tensors: &[Tensor]) -> String {
    const MOST: usize = 600;
    let one = |tensor: &Tensor| {
        let text = values::write(tensor);
        match text.char_indices().nth(MOST) {
            Some((end, _)) => format!("{}... : {} of {:?}", &text[..end], tensor.dtype(), tensor.dims()),
            None => text,
        }
    };
    tensors.iter().map(one).collect::<Vec<_>>().join(", ")
}
