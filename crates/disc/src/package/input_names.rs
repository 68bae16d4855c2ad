//! Gives the inputs of entries the names that callers know: those of a model's file may be any
//! text, and the program has words.
//!
//! They are in the metadata of the code, so that errors of a call have them too, and old readers
//! need to know nothing of it.

use super::EntryView;
use crate::Error;
use disc_ral::ModuleMeta;

/// Renames the inputs of entries that have a view with names.
///
/// # Errors
/// The names are not as many as the inputs, or two are equal.
pub(super) fn apply(meta: &mut ModuleMeta, views: &[EntryView]) -> Result<(), Error> {
    for view in views {
        let Some(names) = &view.inputs else { continue };
        let Some(at) = meta.entries.iter().position(|entry| entry.name == view.name) else { continue };
        let entry = &meta.entries[at];
        if names.len() != entry.inputs.len() {
            let message = format!("`{}` has {} inputs, and {} names for them", view.name, entry.inputs.len(), names.len());
            return Err(Error::argument(message));
        }
        if let Some((_, name)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(Error::argument(format!("`{}` has two inputs `{name}`", view.name)));
        }
        let words: Vec<String> = entry.inputs.iter().map(|input| input.name.clone()).collect();
        for (word, name) in words.iter().zip(names).filter(|(word, name)| word != name) {
            let others = meta.entries.iter().enumerate().filter(|(i, _)| *i != at);
            let is_elsewhere = others.flat_map(|(_, entry)| &entry.inputs).any(|input| input.name == *word);
            // Messages belong to all entries, and `{0}` in one stands for a value.
            if !is_elsewhere && !name.contains(['{', '}']) {
                rename_in_messages(meta, word, name);
            }
        }
        for (input, name) in meta.entries[at].inputs.iter_mut().zip(names) {
            input.name.clone_from(name);
        }
    }
    Ok(())
}

/// Renames an input in the messages about sizes of a call.
fn rename_in_messages(meta: &mut ModuleMeta, word: &str, name: &str) {
    let (old, new) = (format!(" of `{word}` has size "), format!(" of `{name}` has size "));
    for site in &mut meta.sites {
        if site.template.contains(&old) {
            site.template = site.template.replace(&old, &new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_ral::{DType, EntryMeta, InputMeta, Site};

    fn entry(name: &str, inputs: &[&str]) -> EntryMeta {
        let input =
            |name: &&str| InputMeta { name: (*name).into(), dtype: DType::F32, dims: Vec::new(), host: false, written: false };
        EntryMeta { name: name.into(), inputs: inputs.iter().map(input).collect(), ..EntryMeta::default() }
    }

    fn view(name: &str, inputs: Option<&[&str]>) -> EntryView {
        let inputs = inputs.map(|names| names.iter().map(ToString::to_string).collect());
        EntryView { name: name.into(), inputs, outputs: Vec::new(), structure: None }
    }

    fn meta() -> ModuleMeta {
        let sites = ["x_0", "y", "shared"]
            .map(|word| Site { template: format!("dimension 0 of `{word}` has size {{0}}, expected {{1}}"), ..Site::default() });
        let entries = vec![entry("a", &["x_0", "y", "shared"]), entry("b", &["shared"])];
        ModuleMeta { entries, sites: sites.into(), ..ModuleMeta::default() }
    }

    #[test]
    fn inputs_and_messages_get_the_names_of_the_view() {
        let mut meta = meta();
        apply(&mut meta, &[view("a", Some(&["x:0", "{0}", "s:0"])), view("b", None)]).unwrap();
        let names: Vec<&str> = meta.entries.iter().flat_map(|entry| &entry.inputs).map(|input| &*input.name).collect();
        assert_eq!(names, ["x:0", "{0}", "s:0", "shared"]);
        let messages: Vec<String> = meta.sites.iter().map(|site| site.message(&[3, 4])).collect();
        assert_eq!(messages[0], "dimension 0 of `x:0` has size 3, expected 4");
        // The word stays for a name that reads as a value, and for one that two entries have.
        assert_eq!(messages[1], "dimension 0 of `y` has size 3, expected 4");
        assert_eq!(messages[2], "dimension 0 of `shared` has size 3, expected 4");
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        for (names, words) in [(&["x"][..], "3 inputs, and 1 names"), (&["x", "y", "x"], "two inputs `x`")] {
            let error = apply(&mut meta(), &[view("a", Some(names))]).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
    }
}
