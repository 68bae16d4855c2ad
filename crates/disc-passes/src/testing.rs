//! Runs passes on text, for tests.
use crate::pass::{Options, PassDef, PassManager};
use disc_ir::{Module, text};

pub(crate) fn parse(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|errors| panic!("{source}\n{}", errors[0]))
}

/// The text after a pass; it must read back, and be well formed.
pub(crate) fn after(pass: &PassDef, source: &str) -> String {
    after_all(&[pass], source, Options::default())
}

pub(crate) fn after_all(passes: &[&PassDef], source: &str, options: Options) -> String {
    let mut module = parse(source);
    let mut manager = PassManager::new(options);
    for pass in passes {
        manager.run(&mut module, pass).unwrap_or_else(|error| panic!("{module}\n{error}"));
    }
    let printed = module.to_string();
    assert_eq!(parse(&printed).to_string(), printed);
    printed
}
