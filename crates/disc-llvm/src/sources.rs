//! Writes the kernels of a program into its PTX, as comments before their entries: for people who
//! read it, and for devices that interpret kernels.
use disc_ir::Function;
use std::collections::HashMap;

/// Starts a line of a kernel's text.
const SOURCE: &str = "//|";

/// Returns PTX in which each function follows its own text in the form of the stage kernel.
pub(crate) fn with_sources<'f>(ptx: &str, functions: impl Iterator<Item = &'f Function>) -> String {
    let mut texts: HashMap<&str, &Function> = functions.map(|function| (&*function.name, function)).collect();
    let mut annotated = String::with_capacity(2 * ptx.len());
    for line in ptx.lines() {
        if let Some(function) = defined(line).and_then(|name| texts.remove(name)) {
            for line in function.to_string().lines() {
                annotated.extend([SOURCE, line, "\n"]);
            }
        }
        annotated.extend([line, "\n"]);
    }
    annotated
}

/// Returns the name of the function that begins in a line, if there is one.
fn defined(line: &str) -> Option<&str> {
    let is_function = line.starts_with(".visible .entry ") || line.starts_with(".visible .func ") || line.starts_with(".func ");
    let name = line.strip_suffix('(').filter(|_| is_function)?;
    name.rsplit([' ', ')']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_definitions() {
        for (line, name) in [
            (".visible .entry k0_pointwise(", Some("k0_pointwise")),
            (".visible .func  (.param .b32 func_retval0) helper(", Some("helper")),
            (".func helper(", Some("helper")),
            (".extern .shared .align 16 .b8 disc_shared[];", None),
            ("	call.uni (", None),
        ] {
            assert_eq!(defined(line), name, "{line}");
        }
    }
}
