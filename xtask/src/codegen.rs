//! Generates docs from the tables of the code; `tidy` checks that they are fresh.
//!
//! To add one: the crate that has the table goes to xtask/Cargo.toml, and a line goes to
//! [`generated`] (a whole file has no section). Docs that are generated from Python tables are not
//! here: their tests check them.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::{
    capi,
    layers::{LAYERS, PACKAGES, TEST_FOLDERS},
    sources,
};

struct Generated {
    path: &'static str,
    /// A part of the file between `<!-- generated: NAME -->` and `<!-- end of NAME -->`, or the
    /// whole file.
    section: Option<&'static str>,
    text: String,
}

impl Generated {
    fn name(&self) -> String {
        match self.section {
            Some(section) => format!("{} (section {section})", self.path),
            None => self.path.to_owned(),
        }
    }

    /// Returns the correct contents of the file, or `None` if it has them.
    fn difference(&self, current: Option<&str>) -> Result<Option<String>> {
        let wanted = match (self.section, current) {
            (None, _) => self.text.clone(),
            (Some(section), Some(current)) => splice(current, section, &self.text)?,
            (Some(_), None) => bail!("the file does not exist"),
        };
        Ok((current != Some(&wanted)).then_some(wanted))
    }
}

/// Every generated text.
fn generated(root: &Path) -> Result<Vec<Generated>> {
    Ok(vec![
        Generated { path: "ARCHITECTURE.md", section: Some("crates"), text: crate_map(root)? },
        Generated { path: "ARCHITECTURE.md", section: Some("packages"), text: package_map() },
        Generated { path: "ARCHITECTURE.md", section: Some("tests"), text: test_map() },
        Generated { path: "docs/guide/settings.md", section: Some("options"), text: disc_options::render::settings() },
        file("python/disc/core/option_fields.py", disc_options::render::python_fields()),
        file("crates/disc-capi/include/disc.h", capi::header(root)?),
        file("docs/compositions.md", disc_import::compose::docs()),
        file("docs/coverage-tensorflow.md", disc_import::tensorflow::docs()),
        file("docs/errors.md", disc_ir::diag::docs()),
        file("docs/ops.md", disc_ir::ops::docs()),
        file("docs/passes.md", disc_passes::docs()),
    ])
}

fn file(path: &'static str, text: String) -> Generated {
    Generated { path, section: None, text }
}

/// Returns the names of stale files.
pub(crate) fn stale(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for generated in generated(root)? {
        if difference(root, &generated)?.is_some() {
            names.push(generated.name());
        }
    }
    Ok(names)
}

pub(crate) fn write(root: &Path) -> Result<()> {
    write_all(root, generated(root)?)
}

fn write_all(root: &Path, all: Vec<Generated>) -> Result<()> {
    for generated in all {
        // Read anew for each: another section of the file may have been written.
        if let Some(wanted) = difference(root, &generated)? {
            fs::write(root.join(generated.path), wanted).with_context(|| generated.name())?;
            eprintln!("wrote {}", generated.name());
        }
    }
    Ok(())
}

fn difference(root: &Path, generated: &Generated) -> Result<Option<String>> {
    let current = fs::read_to_string(root.join(generated.path)).ok();
    generated.difference(current.as_deref()).with_context(|| generated.name())
}

fn splice(current: &str, section: &str, text: &str) -> Result<String> {
    let (start, end) = (format!("<!-- generated: {section} -->\n"), format!("<!-- end of {section} -->"));
    let Some((before, rest)) = current.split_once(&start) else { bail!("no line `{}`", start.trim()) };
    let Some((_, after)) = rest.split_once(&end) else { bail!("no line `{end}`") };
    Ok(format!("{before}{start}{}\n{end}{after}", text.trim_end()))
}

/// Generates the table of crates, with the description from each Cargo.toml.
fn crate_map(root: &Path) -> Result<String> {
    let metadata = sources::workspace(root)?;
    let mut text = String::from("| crate | what it is | may depend on |\n|---|---|---|\n");
    for layer in LAYERS {
        let Some(package) = metadata.packages.iter().find(|package| package.name == layer.name) else { continue };
        let what = package.description.as_deref().unwrap_or_default();
        let below = layer.may_depend_on.iter().filter(|name| metadata.packages.iter().any(|p| p.name == **name));
        let below: Vec<String> = below.map(|name| format!("`{name}`")).collect();
        let below = if below.is_empty() { "nothing".to_owned() } else { below.join(", ") };
        text += &format!("| `{}` | {what} | {below} |\n", layer.name);
    }
    Ok(text)
}

/// The table of sub-packages of python/disc, from the bottom up.
fn package_map() -> String {
    let rows = PACKAGES.iter().map(|package| format!("| `disc.{}` | {} |\n", package.name, package.does));
    format!("| package | what it does |\n|---|---|\n{}", rows.collect::<String>())
}

/// The table of folders of Python tests.
fn test_map() -> String {
    let rows = TEST_FOLDERS.iter().map(|folder| format!("| {} | {} |\n", folder.name, folder.mirrors));
    format!("| folder | what it tests |\n|---|---|\n{}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "intro\n<!-- generated: t -->\nold\n<!-- end of t -->\nrest\n";

    #[test]
    fn two_stale_sections_of_a_page_are_written_at_once() {
        let root = std::env::temp_dir().join(format!("xtask-codegen-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let page = root.join("page.md");
        fs::write(
            &page,
            ["a", "b"].map(|name| PAGE.replace(": t", &format!(": {name}")).replace("of t", &format!("of {name}"))).concat(),
        )
        .unwrap();
        let section = |name, text: &str| Generated { path: "page.md", section: Some(name), text: text.into() };
        write_all(&root, vec![section("a", "first"), section("b", "second")]).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert!(text.contains("first") && text.contains("second") && !text.contains("old"), "{text}");
    }

    #[test]
    fn a_section_is_replaced_and_the_rest_stays() {
        let new = splice(PAGE, "t", "new\n").unwrap();
        assert_eq!(new, "intro\n<!-- generated: t -->\nnew\n<!-- end of t -->\nrest\n");
        assert_eq!(splice(&new, "t", "new\n").unwrap(), new, "a fresh section stays as it is");
    }

    #[test]
    fn a_stale_text_is_found() {
        let whole = Generated { path: "docs/t.md", section: None, text: "new\n".into() };
        assert_eq!(whole.difference(Some("old\n")).unwrap().as_deref(), Some("new\n"));
        assert_eq!(whole.difference(None).unwrap().as_deref(), Some("new\n"));
        assert_eq!(whole.difference(Some("new\n")).unwrap(), None);
        let section = Generated { section: Some("t"), ..whole };
        assert!(section.difference(Some(PAGE)).unwrap().is_some());
        assert!(section.difference(None).is_err());
    }

    #[test]
    fn a_page_without_the_marks_is_an_error() {
        assert!(splice("no marks", "t", "new").is_err());
        assert!(splice("<!-- generated: t -->\nno end", "t", "new").is_err());
    }
}
