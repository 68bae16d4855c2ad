//! Checks that no file names a machine: no home or work folder of somebody, no host of a package
//! registry.
//!
//! Cargo.lock is cargo's own and names its registry.

use super::Finding;
use crate::sources::Source;

/// Folders that exist on one machine only. Written in parts, because this file is checked too.
const FOLDERS: &[&str] = &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/"), concat!("/", "Users/")];

const HOSTS: &[&str] = &[
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("deb.", "debian.org"),
    concat!("apt.", "llvm.org"),
    concat!("proxy.", "golang.org"),
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if source.path == "Cargo.lock" {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(source.text.lines()) {
        for folder in FOLDERS.iter().filter(|folder| names_folder(text, folder)) {
            findings.push(Finding::error("places", &source.path, line, format!("`{folder}` is a folder of one machine")));
        }
        for host in HOSTS.iter().filter(|host| text.contains(**host)) {
            findings.push(Finding::error("places", &source.path, line, format!("`{host}` is a package registry")));
        }
    }
    findings
}

/// Returns true if `folder` starts a path in `text`: the middle of a longer path does not count.
fn names_folder(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-' | '}' | ')' | '*' | '~'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: String) -> usize {
        check(&Source { path: path.into(), text }).len()
    }

    #[test]
    fn a_folder_of_one_machine_is_found() {
        assert_eq!(count("a.md", format!("see `{}x/y`", FOLDERS[0])), 1);
        assert_eq!(count("a.md", format!("frame{}x, ./target{}", FOLDERS[0], FOLDERS[1])), 0);
    }

    #[test]
    fn a_registry_is_found_but_not_in_the_lock_file() {
        assert_eq!(count("a.md", format!("fine\nhttps://{}/simple", HOSTS[0])), 1);
        assert_eq!(count("Cargo.lock", format!("https://{}/simple", HOSTS[0])), 0);
    }
}
