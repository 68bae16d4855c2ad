//! Tests the counts of the cache on disk, alone in its process.
use disc::{
    Options,
    cache::{Level, Outcome, counts},
};
use std::{fs, path::Path};

const TEXT: &str = "\
func @main(%x: tensor<[N]x3xf32>) -> tensor<[N]x3xf32> {
  %y = multiply %x, %x : tensor<[N]x3xf32>
  return %y : tensor<[N]x3xf32>
}
";

#[test]
fn a_text_that_is_not_there_is_one_miss() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-counts-{}", std::process::id()));
    let options = Options {
        cache: Some(folder.clone()),
        target: Some("x86-64-v2".into()),
        specialize: disc::Specialize::Off,
        ..Options::default()
    };
    let text = disc::parse(TEXT).unwrap().to_string();
    let before = counts(Level::Code);
    assert_eq!(disc::compile_text(&text, &options).unwrap().report.cache, Outcome::Miss);
    let after = counts(Level::Code);
    assert_eq!((after.misses, after.hits), (before.misses + 1, before.hits));
    assert_eq!(disc::compile_text(&text, &options).unwrap().report.cache, Outcome::Hit);
    assert_eq!(counts(Level::Code).hits, before.hits + 1);
    fs::remove_dir_all(folder).unwrap();
}
