//! Compares two folders of normalised code, file by file.
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail};

/// Names that changed between two trees.
#[derive(Default)]
pub(crate) struct Renames(HashMap<String, String>);

impl Renames {
    pub(crate) fn parse(pairs: &[String]) -> Result<Self> {
        let mut renames = HashMap::new();
        for pair in pairs {
            let Some((old, new)) = pair.split_once('=') else { bail!("`{pair}` is not of the form OLD=NEW") };
            renames.insert(old.to_owned(), new.to_owned());
        }
        Ok(Self(renames))
    }

    fn apply(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut renamed = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_word) {
            let (before, word) = rest.split_at(start);
            let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            renamed.push_str(before);
            renamed.push_str(self.0.get(word).map_or(word, |new| new));
            rest = after;
        }
        renamed.push_str(rest);
        renamed
    }
}

/// Lists the differences of the folder `new` from the folder `old`, each in a line or two.
pub(crate) fn compare(old: &Path, new: &Path, renames: &Renames) -> Result<Vec<String>> {
    let (before, after) = (hashes(old)?, hashes(new)?);
    let renamed: BTreeMap<String, &str> = before.keys().map(|name| (renames.apply(name), &**name)).collect();
    let mut differences = Vec::new();
    for (name, hash) in &after {
        let Some(&origin) = renamed.get(name) else {
            differences.push(format!("{name}: only in {}", new.display()));
            continue;
        };
        if before.get(origin) == Some(hash) {
            continue;
        }
        let read = |folder: &Path, name: &str| {
            fs::read_to_string(folder.join(name)).with_context(|| format!("{}/{name}", folder.display()))
        };
        if let Some(line) = first_difference(&renames.apply(&read(old, origin)?), &read(new, name)?) {
            differences.push(format!("{name}:{line}"));
        }
    }
    let missing = renamed.keys().filter(|name| !after.contains_key(*name));
    differences.extend(missing.map(|name| format!("{name}: only in {}", old.display())));
    Ok(differences)
}

/// Returns the number of the first line that differs, and the two lines.
fn first_difference(old: &str, new: &str) -> Option<String> {
    let (mut old, mut new) = (old.lines(), new.lines());
    let mut number = 0;
    loop {
        number += 1;
        let lines = (old.next(), new.next());
        if lines == (None, None) {
            return None;
        }
        if lines.0 != lines.1 {
            return Some(format!("{number}\n  - {}\n  + {}", lines.0.unwrap_or("(end)"), lines.1.unwrap_or("(end)")));
        }
    }
}

/// The hash of each file, by its name.
fn hashes(folder: &Path) -> Result<BTreeMap<String, String>> {
    let path = folder.join("hashes");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a folder in which `name` has `text`.
    fn folder(tag: &str, name: &str, text: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("disc-same-code-{tag}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), text).unwrap();
        fs::write(folder.join("hashes"), format!("{name} {}\n", text.len())).unwrap();
        folder
    }

    #[test]
    fn a_changed_instruction_is_found_with_its_program_and_line() {
        let old = folder("old", "softmax.s", "add\nmul\nret\n");
        let new = folder("new", "softmax.s", "add\nsubtract\nret\n");
        let found = compare(&old, &new, &Renames::default()).unwrap();
        assert_eq!(found, ["softmax.s:2\n  - mul\n  + subtract"]);
        [old, new].iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
    }

    #[test]
    fn a_stated_rename_is_no_difference() {
        let old = folder("before", "patches.kernels", "%0 = im2col %1\n");
        let new = folder("after", "im2col.kernels", "%0 = im2col %1\n");
        let renames = Renames::parse(&["patches=im2col".to_owned()]).unwrap();
        assert_eq!(compare(&old, &new, &renames).unwrap(), Vec::<String>::new());
        assert_eq!(compare(&old, &new, &Renames::default()).unwrap().len(), 2);
        [old, new].iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
    }
}
