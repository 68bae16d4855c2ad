//! Opens packages that were never compiled: a golden manifest of each version, and files that were
//! damaged in every way.
use disc_ral::{
    DType, EntryMeta, Error, InputMeta, ModuleMeta, NewPart, OpenOptions, OutputMeta, Package, Verify, checksum, code,
    write_archive,
};
use fastrand::Rng;
use std::time::Instant;

/// The manifest of version 1, with words for the checksums.
const GOLDEN: &str = include_str!("manifest-1.json");
/// A target of a manifest whose parts are those of another one, but for the kernels.
const ON_GPU: &str = r#"{ "name": "nvptx:sm_90 on x86-64-v2", "device": "nvptx:sm_90", "arch": "ARCH", "features": [], "folder": "targets/x86-64-v2" }"#;
const CODE: &[u8] = b"\x7fELF?";

/// A module with the functions of the golden manifest.
fn module() -> Vec<u8> {
    let dims = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let input = |name: &str, dtype, list: &[&str], written| InputMeta {
        name: name.into(),
        dtype,
        dims: dims(list),
        host: false,
        written,
    };
    let output = OutputMeta { name: "y".into(), dtype: DType::F32, dims: dims(&["B", "S", "768"]), host: false, alias: None };
    let entry = EntryMeta {
        name: "main".into(),
        symbol: "disc_main".into(),
        inputs: vec![input("ids", DType::I64, &["B", "S"], false), input("cache", DType::F32, &["B", "8", "2*S"], true)],
        outputs: vec![output],
        constraints: Vec::new(),
        temporary_bytes: None,
    };
    serde_json::to_vec(&ModuleMeta { entries: vec![entry], ..ModuleMeta::default() }).unwrap()
}

/// A file of safetensors without tensors, of this many bytes.
fn no_tensors(bytes: usize) -> Vec<u8> {
    let mut header = b"{}".to_vec();
    header.resize(bytes - 8, b' ');
    [&(header.len() as u64).to_le_bytes()[..], &header].concat()
}

/// Writes a package whose manifest is `text` with the right checksums in it.
fn package(text: &str) -> Vec<u8> {
    let (module, constants, weights) = (module(), no_tensors(64), no_tensors(128));
    let manifest = text
        .replace("ARCH", std::env::consts::ARCH)
        .replace("CODE", &checksum(&[CODE]))
        .replace("MODULE", &checksum(&[&module]))
        .replace("CONSTANTS", &checksum(&[&constants]))
        .replace("WEIGHTS", &checksum(&[&weights]))
        .replace("\"bytes\": 0", &format!("\"bytes\": {}", module.len()));
    let folder = "targets/x86-64-v2";
    let names = ["code.so", "module.json", "constants.safetensors"].map(|name| format!("{folder}/{name}"));
    let part = |name, bytes| NewPart { name, pieces: vec![bytes] };
    let parts = [
        part("manifest.json", manifest.as_bytes()),
        part(&names[0], CODE),
        part(&names[1], &module),
        part(&names[2], &constants),
        part("weights.safetensors", &weights),
    ];
    let mut file = Vec::new();
    write_archive(&parts, &mut file).unwrap();
    file
}

fn open(file: &[u8]) -> Result<Package, Error> {
    Package::from_bytes(file, &OpenOptions { verify: Verify::All, ..OpenOptions::default() })
}

#[test]
fn the_manifest_of_each_version_is_read() {
    let package = open(&package(GOLDEN)).unwrap();
    let entry = package.entry("main").unwrap();
    let cache = &entry.inputs()[1];
    assert_eq!((cache.name(), cache.dtype(), cache.is_written()), ("cache", DType::F32, true));
    assert_eq!(cache.dims(), ["B", "8", "2*S"]);
    assert_eq!(entry.facts(), ["S <= 512"]);
    assert_eq!(package.weights().unwrap(), []);
    // Code that is none is an error when it is loaded.
    assert_eq!(package.executable(None).err().unwrap().code(), code::LOAD);
}

#[test]
fn the_module_of_earlier_and_later_versions_is_read() {
    // Written before kernels had sources.
    let earlier = r#"{"entries":[],"weights":[],"blobs":[],"prepare":["disc_prepare"],"sites":[]}"#;
    let read: ModuleMeta = serde_json::from_str(earlier).unwrap();
    assert_eq!((read.prepare.len(), read.sources.len()), (1, 0));
    assert_eq!(serde_json::to_string(&read).unwrap(), earlier);
    let later = r#"{"entries":[],"weights":[],"blobs":[],"prepare":[],"sites":[],"sources":{"k3":["head"]},"lines":{"k3":["m.py:4 f"]},"a later key":1}"#;
    let read: ModuleMeta = serde_json::from_str(later).unwrap();
    assert_eq!((&read.sources["k3"][..], &read.lines["k3"][..]), (&["head".into()][..], &["m.py:4 f".into()][..]));
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let newer = GOLDEN.replace("\"format_version\": 1", "\"format_version\": 2, \"entries\": 7, \"x\": 1").replacen(
        "\"entries\": [",
        "\"old\": [",
        1,
    );
    let error = open(&package(&newer)).unwrap_err();
    assert_eq!(error.code(), code::PACKAGE_VERSION);
    assert!(error.to_string().contains("format version 2, and this version of disc reads 1 to 1"), "{error}");
}

#[test]
fn a_manifest_that_contradicts_its_package_is_refused_by_name() {
    for (from, to, named) in [
        ("\"dtype\": \"i64\", \"dims\": [\"B\", \"S\"] }", "\"dtype\": \"i32\", \"dims\": [\"B\", \"S\"] }", "module.json"),
        ("\"bytes\": 5", "\"bytes\": 6", "code.so"),
        ("\"bytes\": 128", "\"bytes\": 18446744073709551615", "weights.safetensors"),
        ("CODE", "00", "code.so"),
        ("\"weights.safetensors\"", "\"weights\"", "weights"),
        ("{ \"input\": 0 }", "{ \"input\": 9 }", "manifest.json"),
        ("\"features\": []", "\"features\": [\"avx99\"]", "x86-64-v2"),
        ("\"dtype\": \"f32\"", "\"dtype\": \"f33\"", "manifest.json"),
        ("\"folder\": \"targets/x86-64-v2\"", "\"folder\": \"../x\"", "../x"),
        ("\"targets\": [", "\"targets\": [], \"others\": [", "manifest.json"),
        ("\"name\": \"x86-64-v2\"", "\"name\": \"a on b\", \"device\": \"nvptx:sm_90\"", "`a on b` is no target of processors"),
        ("\"targets\": [", &format!("\"device_targets\": [{ON_GPU}], \"targets\": ["), "targets/x86-64-v2/kernels.ptx"),
        ("\"targets\": [", "\"targets\": [], \"device_targets\": [", "`x86-64-v2` is no target of a device"),
    ] {
        assert!(GOLDEN.contains(from), "{from}");
        let error = open(&package(&GOLDEN.replacen(from, to, 1))).unwrap_err().to_string();
        assert!(error.contains(named), "{to}: {error}");
    }
}

#[test]
fn every_flipped_bit_is_noticed_and_named() {
    let file = package(GOLDEN);
    let mut random = Rng::with_seed(1);
    for _ in 0..5000 {
        let (at, bit) = (random.usize(..file.len()), random.u32(..8));
        let mut other = file.clone();
        other[at] ^= 1 << bit;
        let error = open(&other).expect_err(&format!("bit {bit} of byte {at}")).to_string();
        // A flip in a name gives the entry that name.
        assert!(["entry `", "the package", "no package", "the directory"].iter().any(|place| error.contains(place)), "{error}");
    }
}

#[test]
fn every_truncation_says_so() {
    let file = package(GOLDEN);
    for length in 0..file.len() {
        let error = open(&file[..length]).unwrap_err().to_string();
        assert!(error.contains("truncated"), "{length}: {error}");
    }
}

/// Opens files that were put together at random, for as long as `DISC_FUZZ_SECONDS` says (a second
/// without it): nothing of a file may end the process. Half of them have right checksums around a
/// changed manifest, so that more than the container is reached.
#[test]
fn random_files_are_errors_and_nothing_else() {
    let seconds = std::env::var("DISC_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let (start, mut random, mut runs) = (Instant::now(), Rng::with_seed(7), 0_u64);
    let whole = package(GOLDEN);
    let words =
        ["18446744073709551615", "-1", "[]", "{}", "\"\"", "null", "1e999", "\"../../x\"", "\"\\u0000\"", "[[[[[[[[", "true"];
    while start.elapsed().as_secs_f64() < seconds {
        runs += 1;
        let mut pick = |most: usize| random.usize(..most.max(1));
        let file = if pick(2) == 0 {
            let mut text = GOLDEN.to_owned();
            for _ in 0..=pick(3) {
                let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
                let (a, b) = (pick(cuts.len()), pick(20));
                let range = cuts[a]..cuts.get(a + b).copied().unwrap_or(text.len());
                text.replace_range(range, words[pick(words.len())]);
            }
            package(&text)
        } else {
            let mut file = whole.clone();
            for _ in 0..=pick(4) {
                let (at, long) = (pick(file.len()), pick(64));
                let end = file.len().min(at + long);
                match pick(4) {
                    0 => file[at] = pick(256) as u8,
                    1 => drop(file.drain(at..end)),
                    2 => file.extend_from_within(at..end),
                    _ => {
                        let copy = file[at..end].to_vec();
                        let to = pick(file.len());
                        file.splice(to..to, copy);
                    }
                }
            }
            file
        };
        if let Ok(package) = open(&file) {
            let _ = package.weights();
            let _ = package.entries().map(|entry| entry.inputs().len()).sum::<usize>();
        }
    }
    assert!(runs > 0);
}
