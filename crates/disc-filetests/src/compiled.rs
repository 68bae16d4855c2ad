//! What runs programs besides the interpreter, and must agree with it: a door for compiled code, which this crate does not link.
use crate::{compare::compare, values};
use disc_ir::{Code, Diagnostic, Module, generate::cases::Nearness, interp::Tensor};
use std::path::PathBuf;

/// The values of a module's weights, by name.
pub type Weights<'w> = &'w dyn Fn(&str) -> Option<Tensor>;

/// Something that compiles modules at the tensor stage.
pub trait Compiled: Sync {
    /// What messages call it, such as `x86-64-v3`.
    fn name(&self) -> &str;

    /// Makes a module ready to run.
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

/// What the harness does not know itself.
#[derive(Clone, Copy, Default)]
pub struct Hooks {
    /// Everything that runs programs here.
    pub compiled: &'static [&'static dyn Compiled],
    /// Where a command-line tool is, by its name. Without it, tests of kind `cli` are left to the harness that has it.
    pub tool: Option<fn(&str) -> Option<PathBuf>>,
}

type Outcome = Result<Vec<Tensor>, Diagnostic>;

/// Whether two failures are the same to a caller. An assertion about sizes is checked with the sizes, when a call begins.
fn same_failure(found: Code, expected: Code) -> bool {
    found == expected || (found, expected) == (Code::E0602, Code::E0604)
}

/// Compiled code gives what the interpreter gives, and fails where it fails.
///
/// # Errors
/// The call, and how the outcomes differ.
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

/// Tensors as text, cut where they are long.
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
