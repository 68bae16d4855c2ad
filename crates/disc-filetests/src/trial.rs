//! Runs files: one test per file, with a diff and a command line when it fails.
use crate::{compiled::Hooks, file::TestFile, kinds};
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use similar::TextDiff;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Every test file below `root`, with its name there; sorted.
pub fn corpus(root: &Path) -> Vec<(String, PathBuf)> {
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "disc") {
                let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                files.push((name, path));
            }
        }
    }
    files.sort();
    files
}

/// Runs the files below `root` as the arguments of the process ask.
pub fn run(root: &Path, hooks: Hooks) -> Conclusion {
    let arguments = Arguments::from_args();
    let trials = corpus(root).into_iter().map(|(name, path)| trial(name, path, hooks)).collect();
    libtest_mimic::run(&arguments, trials)
}

fn trial(name: String, path: PathBuf, hooks: Hooks) -> Trial {
    Trial::test(name.clone(), move || check(name, path, hooks).map_err(Failed::from))
}

fn check(name: String, path: PathBuf, hooks: Hooks) -> Result<(), String> {
    let source = fs::read_to_string(&path).map_err(|e| format!("cannot be read: {e}"))?;
    let mut file = TestFile::new(name, path, source)?;
    let is_blessing = std::env::var_os("DISC_BLESS").is_some_and(|value| value == "1");
    for command in file.commands.clone() {
        let text = kinds::run(&file, &command, hooks)?;
        if text == file.source {
            continue;
        }
        if !is_blessing {
            return Err(difference(&file, &text, &kinds::reproduce(&file, &command)));
        }
        fs::write(&file.path, &text).map_err(|e| format!("cannot be written: {e}"))?;
        file.source = text;
    }
    Ok(())
}

fn difference(file: &TestFile, text: &str, command: &str) -> String {
    let path = format!("filetests/{}", file.name);
    let diff = TextDiff::from_lines(&*file.source, text);
    let diff = diff.unified_diff().context_radius(3).header(&path, "what it should be").to_string();
    format!(
        "{diff}\nto see it:    {command}\nto accept it: DISC_BLESS=1 cargo test -p disc-filetests --test filetests -- {}",
        file.name
    )
}
