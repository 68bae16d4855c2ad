//! Finds the packages of the virtual environment that is active: they may have an assembler and
//! libraries for GPUs.
use disc::ral::cuda::set_package_folders;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Lets assemblers and libraries be looked for in the environment that `VIRTUAL_ENV` names. The
/// command of the Python package has told its own folders before.
pub fn use_packages() {
    if let Some(folder) = env::var_os("VIRTUAL_ENV").filter(|folder| !folder.is_empty()) {
        set_package_folders(site_packages(Path::new(&folder)));
    }
}

/// Returns the folders of packages of an environment, those of the last version of Python first.
fn site_packages(environment: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let minor = entry.file_name().to_str()?.strip_prefix("python3.")?.parse::<u32>().ok()?;
        Some((minor, entry.path().join("site-packages")))
    });
    let mut found: Vec<(u32, PathBuf)> = named.filter(|(_, folder)| folder.is_dir()).collect();
    found.sort_by_key(|(minor, _)| std::cmp::Reverse(*minor));
    found.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_the_last_python_come_first() {
        let folder = env::temp_dir().join(format!("disc-venv-{}", std::process::id()));
        for name in ["lib/python3.9/site-packages", "lib/python3.12/site-packages", "lib/python3.13", "lib/other/site-packages"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let expected = [12, 9].map(|minor| folder.join(format!("lib/python3.{minor}/site-packages")));
        assert_eq!(site_packages(&folder), expected);
        assert!(site_packages(&folder.join("lib")).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }
}
