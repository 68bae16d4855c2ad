//! Writes what is made of the command line's declaration: completions of shells and manual pages.
use super::arguments::{Arguments, CompletionArguments, ManArguments};
use crate::answer::Answer;
use clap::CommandFactory;
use clap_mangen::Man;
use disc_ir::{Code, Diagnostic};
use serde_json::json;

/// Returns a script for a shell: `disc completions`.
pub(super) fn completions(given: &CompletionArguments) -> Answer {
    let mut script = Vec::new();
    clap_complete::generate(given.shell, &mut Arguments::command(), "disc", &mut script);
    answer(script)
}

/// Returns a page in the format of `man`, about `disc` or one of its commands: `disc man`.
pub(super) fn man(given: &ManArguments) -> Result<Answer, Diagnostic> {
    let mut command = Arguments::command();
    command.build();
    let about = match &given.command {
        None => command,
        Some(name) => {
            let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
            let found = command.find_subcommand(name).cloned();
            let unknown =
                || Diagnostic::new(Code::E0102, format!("there is no command `{name}`: there are {}", names.join(", ")));
            found.ok_or_else(unknown)?
        }
    };
    let mut page = Vec::new();
    // Writing to memory does not fail.
    Man::new(about).render(&mut page).map_err(|error| Diagnostic::new(Code::E0211, error.to_string()))?;
    Ok(answer(page))
}

fn answer(text: Vec<u8>) -> Answer {
    let text = String::from_utf8_lossy(&text).into_owned();
    Answer::new(text.clone(), json!({ "text": text }))
}
