//! Tests prepared weights on disk: blocks that a second load maps instead of preparing, and blocks
//! that it must reject.
use crate::folder::Folder;
use disc::{
    Options,
    cache::{Cache, Level, Outcome, counts, write_out},
    ral::{HostOutputs, HostTensor, Weight},
};
use std::{
    fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// 4 MiB of weights: less is prepared faster than found.
const TEXT: &str = "\
weight @w : tensor<1024x1030xf32>

func @main(%x: tensor<[N]x1024xf32>) -> tensor<[N]x1030xf32> {
  %w = weight @w : tensor<1024x1030xf32>
  %y = dot_general %x, %w, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[N]x1024xf32>, tensor<1024x1030xf32>) -> tensor<[N]x1030xf32>
  return %y : tensor<[N]x1030xf32>
}
";

/// Counts, and queued blocks, are those of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn options(folder: &Folder) -> Options {
    Options { cache_weights: true, ..folder.options() }
}

/// Writes the queued blocks. Returns all files at the level of weights.
fn entries(folder: &Folder) -> Vec<PathBuf> {
    write_out(|| true);
    folder.entries(Level::Weights)
}

fn tensor(sizes: &[i64], changed: Option<usize>) -> HostTensor {
    let mut values: Vec<f32> = (0..sizes.iter().product()).map(|i: i64| (i * 37 % 101) as f32 / 8.0 - 6.0).collect();
    if let Some(at) = changed {
        values[at] += 1.0;
    }
    HostTensor::new(sizes, &values).unwrap()
}

/// Returns `w`, with one element changed.
fn weights(changed: Option<usize>) -> Vec<(String, Weight)> {
    vec![("w".into(), tensor(&[1024, 1030], changed).into())]
}

fn run(executable: &disc::Executable) -> Vec<u8> {
    let input = tensor(&[3, 1024], None);
    let mut outputs = HostOutputs::new();
    executable.with_session(|session| executable.run(0, session, &[input.as_input()], &mut outputs)).unwrap();
    outputs.tensor(0).unwrap().bytes().to_vec()
}

/// Returns the outcome of the cache, and the result.
fn used(options: &Options, changed: Option<usize>) -> (Outcome, Vec<u8>) {
    let executable = disc::compile_text(TEXT, options).unwrap().load(weights(changed), options).unwrap();
    assert!(executable.weight_bytes().1 > 1 << 20, "nothing is prepared");
    let result = run(&executable);
    write_out(|| true);
    (executable.prepared(), result)
}

#[test]
fn the_second_time_they_are_mapped() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("prepared-second");
    let (never, expected) = used(&Options { cache_weights: false, ..options(&folder) }, None);
    assert_eq!((never, entries(&folder).len()), (Outcome::Off, 0));
    assert_eq!(used(&Options { cache: None, ..options(&folder) }, None).0, Outcome::Off);
    assert_eq!(used(&options(&folder), None), (Outcome::Miss, expected.clone()));
    for options in [
        options(&folder),
        Options { threads: Some(1), ..options(&folder) },
        Options { threads: Some(3), ..options(&folder) },
        Options { release_weights: true, ..options(&folder) },
    ] {
        assert_eq!(used(&options, None), (Outcome::Hit, expected.clone()));
    }
    assert_eq!(entries(&folder).len(), 1);
}

#[test]
fn other_weights_and_other_code_are_other_entries() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("prepared-others");
    let (_, expected) = used(&options(&folder), None);
    for changed in [0, 1024 * 1030 - 1] {
        let (outcome, result) = used(&options(&folder), Some(changed));
        assert_eq!(outcome, Outcome::Miss);
        assert_ne!(result, expected);
        assert_eq!(used(&options(&folder), Some(changed)), (Outcome::Hit, result));
    }
    let narrow = Options { weights: disc::WeightForm::Bf16, ..options(&folder) };
    assert_eq!(used(&narrow, None).0, Outcome::Off, "half as much is prepared sooner");
    assert_eq!(used(&Options { target: Some("x86-64-v3".into()), ..options(&folder) }, None).0, Outcome::Miss);
    assert_eq!(used(&options(&folder), None), (Outcome::Hit, expected));
}

#[test]
fn what_is_not_whole_is_counted_and_replaced() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("prepared-corrupt");
    let (_, expected) = used(&options(&folder), None);
    let path = entries(&folder).remove(0);
    let bytes = fs::read(&path).unwrap();
    let flipped = |at: usize| {
        let mut other = bytes.clone();
        other[at] ^= 1;
        other
    };
    let wrong = [
        Vec::new(),
        bytes[..100].to_vec(),
        bytes[..bytes.len() - 1].to_vec(),
        [&bytes[..], b"x"].concat(),
        flipped(20),
        flipped(4095),
        flipped(4096),
        flipped(bytes.len() - 1),
    ];
    for bytes in wrong {
        // Another file: nobody writes to one that may be mapped.
        fs::remove_file(&path).unwrap();
        fs::write(&path, &bytes).unwrap();
        let before = counts(Level::Weights).rejected;
        assert_eq!(used(&options(&folder), None), (Outcome::Miss, expected.clone()), "{} bytes", bytes.len());
        assert_eq!(counts(Level::Weights).rejected, before + 1);
        assert_eq!(used(&options(&folder), None), (Outcome::Hit, expected.clone()));
    }
}

#[test]
fn what_is_mapped_outlives_its_file_and_may_be_refreshed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("prepared-refresh");
    let cached = options(&folder);
    let (_, first) = used(&cached, None);
    let (_, second) = used(&Options { cache_weights: false, ..options(&folder) }, Some(7));
    let executable = disc::compile_text(TEXT, &cached).unwrap().load(weights(None), &cached).unwrap();
    assert_eq!(executable.prepared(), Outcome::Hit);
    assert!(Cache::new(&folder.0).clear() > 0);
    assert_eq!(run(&executable), first);
    executable.refresh(weights(Some(7))).unwrap();
    assert_eq!(run(&executable), second);
    assert!(entries(&folder).is_empty(), "a refresh keeps nothing");
}

#[test]
fn a_folder_that_others_may_write_to_is_not_used() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("prepared-shared");
    let (_, expected) = used(&options(&folder), None);
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(used(&options(&folder), None), (Outcome::Shared, expected));
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
}
