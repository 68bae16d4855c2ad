//! Tests the cache on disk: hits of a second compilation, and entries that it must reject.
mod folder;

use disc::{
    Options,
    cache::{Cache, Key, Level, Outcome, counts},
};
use disc_ral::{HostOutputs, HostTensor};
use folder::Folder;
use std::{fs, sync::Mutex};

const TEXT: &str = "\
weight @c = dense<[1, 2, 3]> : tensor<3xf32>

func @main(%x: tensor<[N]x3xf32>) -> tensor<[N]x3xf32> {
  %c = weight @c : tensor<3xf32>
  %wide = broadcast_in_dim %c, dims = [1] : (tensor<3xf32>) -> tensor<[N]x3xf32>
  %y = multiply %x, %wide : tensor<[N]x3xf32>
  return %y : tensor<[N]x3xf32>
}
";

/// Counts are those of the process.
static COUNTED: Mutex<()> = Mutex::new(());

fn run(artifact: &disc::Artifact) -> Vec<u8> {
    let executable = artifact.load(Vec::new(), &Options::default()).unwrap();
    let input = HostTensor::new(&[2, 3], &[1_f32; 6]).unwrap();
    let mut outputs = HostOutputs::new();
    executable.with_session(|session| executable.run(0, session, &[input.as_input()], &mut outputs)).unwrap();
    outputs.tensor(0).unwrap().bytes().to_vec()
}

#[test]
fn a_second_compilation_finds_the_code_of_the_first() {
    let folder = Folder::new("cache-second");
    let first = disc::compile_text(TEXT, &folder.options()).unwrap();
    assert_eq!(first.report.cache, Outcome::Miss);
    let second = disc::compile_text(TEXT, &folder.options()).unwrap();
    assert_eq!((second.report.cache, second.report.kernels), (Outcome::Hit, first.report.kernels));
    assert_eq!((&second.code().unwrap(), &second.meta), (&first.code().unwrap(), &first.meta));
    assert!(second.report.stages_ms.is_empty() && !first.report.stages_ms.is_empty());
    let module = disc::parse(TEXT).unwrap();
    assert_eq!(disc::compile(module, &folder.options()).unwrap().report.cache, Outcome::Hit);
    let loose = TEXT.replace("  %y", "     %y");
    assert_eq!(disc::compile_text(&loose, &folder.options()).unwrap().report.cache, Outcome::Hit);
    assert_eq!(run(&first), run(&second));
}

#[test]
fn an_edit_that_moves_lines_finds_the_code_and_shows_the_new_lines() {
    let folder = Folder::new("cache-lines");
    let at = |line: u32| {
        let place = format!("  %y = multiply %x, %wide : tensor<[N]x3xf32> loc(\"model.py\":{line} \"forward\")");
        TEXT.replace("  %y = multiply %x, %wide : tensor<[N]x3xf32>", &place)
    };
    let lines = |artifact: &disc::Artifact| artifact.meta.lines.values().flatten().cloned().collect::<Vec<_>>();
    let plain = disc::compile_text(TEXT, &folder.options()).unwrap();
    assert_eq!((plain.report.cache, lines(&plain).len()), (Outcome::Miss, 0));
    let specialized = Options { specialize: disc::Specialize::Always, ..folder.options() };
    for line in [42, 50] {
        let text = at(line);
        let from_text = disc::compile_text(&text, &folder.options()).unwrap();
        let from_module = disc::compile(disc::parse(&text).unwrap(), &folder.options()).unwrap();
        let kept = disc::compile_text(&text, &specialized).unwrap();
        for found in [from_text, from_module, kept] {
            assert_eq!(found.report.cache, Outcome::Hit);
            assert_eq!(
                (lines(&found), &found.code().unwrap()),
                (vec![format!("model.py:{line} forward")], &plain.code().unwrap())
            );
        }
    }
    let plain = disc::compile_text(TEXT, &folder.options()).unwrap();
    assert_eq!((plain.report.cache, lines(&plain).len()), (Outcome::Hit, 0));
}

#[test]
fn other_programs_targets_and_options_are_other_entries() {
    let folder = Folder::new("cache-others");
    let used = |text: &str, options: &Options| disc::compile_text(text, options).unwrap().report.cache;
    assert_eq!(used(TEXT, &folder.options()), Outcome::Miss);
    assert_eq!(used(&TEXT.replace("multiply", "add"), &folder.options()), Outcome::Miss);
    assert_eq!(used(&TEXT.replace("[1, 2, 3]", "[1, 2, 4]"), &folder.options()), Outcome::Miss);
    assert_eq!(used(TEXT, &Options { target: Some("x86-64-v3".into()), ..folder.options() }), Outcome::Miss);
    assert_eq!(used(TEXT, &Options { weights: disc::WeightForm::Int8, ..folder.options() }), Outcome::Miss);
    assert_eq!(used(TEXT, &Options { winograd: Some(false), ..folder.options() }), Outcome::Miss);
    assert_eq!(used(TEXT, &Options { winograd: Some(true), ..folder.options() }), Outcome::Hit);
    assert_eq!(used(TEXT, &Options { release_weights: true, ..folder.options() }), Outcome::Hit);
    assert_eq!(used(TEXT, &Options { fuel: Some(1), ..folder.options() }), Outcome::Off);
    assert_eq!(used(TEXT, &Options { cache: None, ..folder.options() }), Outcome::Off);
}

#[test]
fn code_that_was_found_is_specialised_as_its_first_compilation_was() {
    let folder = Folder::new("cache-tier");
    let options = Options { specialize: disc::Specialize::Always, ..folder.options() };
    for expected in [Outcome::Miss, Outcome::Hit] {
        let artifact = disc::compile_text(TEXT, &options).unwrap();
        assert_eq!(artifact.report.cache, expected);
        let executable = artifact.load(Vec::new(), &options).unwrap();
        let input = HostTensor::new(&[2, 3], &[1_f32; 6]).unwrap();
        let call = || {
            let mut outputs = HostOutputs::new();
            executable.with_session(|session| executable.run(0, session, &[input.as_input()], &mut outputs)).unwrap();
            outputs.tensor(0).unwrap().bytes().to_vec()
        };
        let first = call();
        assert_eq!(call(), first);
        disc::background::wait();
        assert_eq!(executable.specializations().versions.len(), 1, "{:?}", executable.specializations());
        assert_eq!(call(), first);
    }
}

#[test]
fn an_entry_that_is_not_whole_is_counted_and_replaced() {
    let _alone = COUNTED.lock().unwrap();
    let folder = Folder::new("cache-corrupt");
    let good = disc::compile_text(TEXT, &folder.options()).unwrap();
    let path = folder.entries(Level::Code).remove(0);
    let bytes = fs::read(&path).unwrap();
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let wrong = [Vec::new(), bytes[..40].to_vec(), bytes[..bytes.len() - 1].to_vec(), flipped, [&bytes[..], b"x"].concat()];
    for bytes in wrong {
        fs::write(&path, &bytes).unwrap();
        let before = counts(Level::Code);
        let again = disc::compile_text(TEXT, &folder.options()).unwrap();
        assert_eq!(again.report.cache, Outcome::Miss, "{} bytes", bytes.len());
        assert_eq!(counts(Level::Code).rejected, before.rejected + 1);
        assert_eq!(again.code().unwrap(), good.code().unwrap());
        assert_eq!(disc::compile_text(TEXT, &folder.options()).unwrap().report.cache, Outcome::Hit);
    }
}

#[test]
fn an_entry_under_anothers_name_or_of_another_form_is_not_used() {
    let _alone = COUNTED.lock().unwrap();
    let folder = Folder::new("cache-foreign");
    let cache = Cache::new(&folder.0);
    let (a, b) = (Key::of(&[b"a"]), Key::of(&[b"b"]));
    cache.put(Level::Code, &a, b"something");
    assert_eq!(cache.get(Level::Code, &a).as_deref(), Some(&b"something"[..]));
    assert_eq!(cache.get(Level::Capture, &a), None);
    fs::copy(folder.0.join("code").join(a.hex()), folder.0.join("code").join(b.hex())).unwrap();
    assert_eq!(cache.get(Level::Code, &b), None);
    // A complete entry, whose payload is no code.
    disc::compile_text(TEXT, &folder.options()).unwrap();
    let path = folder.entries(Level::Code).into_iter().find(|path| !path.ends_with(a.hex())).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut bytes = fs::read(folder.0.join("code").join(a.hex())).unwrap();
    for (byte, digits) in bytes[16..48].iter_mut().zip(name.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    }
    fs::write(&path, bytes).unwrap();
    let before = counts(Level::Code).rejected;
    assert_eq!(disc::compile_text(TEXT, &folder.options()).unwrap().report.cache, Outcome::Miss);
    assert_eq!(counts(Level::Code).rejected, before + 1);
}

#[test]
fn the_least_recently_used_go_first() {
    let _alone = COUNTED.lock().unwrap();
    let folder = Folder::new("cache-evict");
    let cache = Cache::new(&folder.0).limited(1000);
    let keys: Vec<Key> = (0..4_u8).map(|i| Key::of(&[&[i]])).collect();
    let at = |i: u64| std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(i);
    for (key, time) in keys[..3].iter().zip([1, 3, 2]) {
        cache.put(Level::Capture, key, &[7; 200]);
        let file = fs::File::open(folder.0.join("capture").join(key.hex())).unwrap();
        file.set_modified(at(time)).unwrap();
    }
    // Using it makes it the last to go.
    assert!(cache.get(Level::Capture, &keys[0]).is_some());
    cache.put(Level::Capture, &keys[3], &[7; 200]);
    let left: Vec<bool> = keys.iter().map(|key| cache.get(Level::Capture, key).is_some()).collect();
    assert_eq!(left, [true, true, false, true]);
    let before = counts(Level::Capture).unwritten;
    cache.put(Level::Capture, &keys[0], &[7; 600]);
    assert_eq!(counts(Level::Capture).unwritten, before + 1, "an entry over half of the bound is not stored");
    assert_eq!(cache.clear(), 3);
    assert_eq!(cache.clear(), 0);
}

#[test]
fn prepared_weights_go_before_all_else() {
    let _alone = COUNTED.lock().unwrap();
    let folder = Folder::new("cache-weights");
    let cache = Cache::new(&folder.0).limited(1000);
    let [old, new, code] = [b"a", b"b", b"c"].map(|name| Key::of(&[name]));
    cache.put(Level::Code, &code, &[7; 200]);
    cache.put(Level::Weights, &old, &[7; 200]);
    let file = fs::File::open(folder.0.join("weights").join(old.hex())).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(9)).unwrap();
    let file = fs::File::open(folder.0.join("code").join(code.hex())).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    cache.put(Level::Weights, &new, &[7; 400]);
    let left = |level, key| cache.get(level, key).is_some();
    assert_eq!([left(Level::Code, &code), left(Level::Weights, &old), left(Level::Weights, &new)], [true, false, true]);
}

#[test]
fn a_folder_that_others_may_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("cache-shared");
    let cache = Cache::new(&folder.0);
    let key = Key::of(&[b"a"]);
    cache.put(Level::Code, &key, b"something");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(cache.get(Level::Code, &key), None);
    assert_eq!(disc::compile_text(TEXT, &folder.options()).unwrap().report.cache, Outcome::Shared);
    assert!(cache.is_shared());
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(!cache.is_shared());
    assert!(cache.get(Level::Code, &key).is_some());
}

#[test]
fn many_at_once_store_and_find_whole_entries() {
    let folder = Folder::new("cache-many");
    let cache = Cache::new(&folder.0).limited(20_000);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let cache = &cache;
            scope.spawn(move || {
                for i in 0..60_u8 {
                    let value = i % 7;
                    let key = Key::of(&[&[value]]);
                    if (i + thread) % 3 == 0 {
                        cache.put(Level::Code, &key, &vec![value; 1000 + usize::from(value) * 100]);
                    }
                    if let Some(found) = cache.get(Level::Code, &key) {
                        assert_eq!(found, vec![value; 1000 + usize::from(value) * 100]);
                    }
                }
            });
        }
    });
    let temporary = folder.entries(Level::Code).into_iter().filter(|path| path.to_string_lossy().ends_with(".tmp")).count();
    assert_eq!(temporary, 0);
}
