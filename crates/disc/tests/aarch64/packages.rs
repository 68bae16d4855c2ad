//! Compares the code for AArch64 of packages with their code for this machine: of a small package
//! that is made here, and of those in the folder that `DISC_AARCH64_PACKAGES` names.
//!
//! Elements of an output differ by at most a share of the largest one. docs/numerics.md says why
//! they differ at all.
use crate::{
    native::{diagnostic, host, tensors},
    target::{Emulated, Loaded, TARGETS},
};
use disc::{
    Error, Options, Target,
    ir::{DType, Dim, Symbol, dim::Fact, generate::Random, interp::Tensor},
    package::{ExportOptions, Program as Source, export_bytes},
    ral::{
        EntryMeta, Executable, ExecutableOptions, HostTensor, ModuleMeta, OpenOptions, Package, StoredTensor, TargetInfo,
        WEIGHTS, Weight, host_device, read_safetensors,
    },
};
use disc_filetests::Program;
use libtest_mimic::{Failed, Trial};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

/// The sizes of the symbols in the order in which inputs name them; the last one stands for all
/// that follow. Each is raised until the facts of the entry hold. Zeros come one at a time beside
/// them.
const SIZES: [&[i64]; 3] = [&[3, 37, 21], &[1, 65, 47], &[1, 1, 1]];

/// The largest difference of two elements as a share of the largest element: of f32 and f64, and of
/// f16 and bf16.
const BOUND: f64 = 1e-5;
const NARROW_BOUND: f64 = 0.03;

/// Far above what a symbol has to be raised by.
const MOST_STEPS: i64 = 64;

/// Values of indices, which tables of all models have.
const INDICES: usize = 50;

const TEXT: &str = "
weight @w : tensor<19x45xf32>
weight @half : tensor<45x8xbf16>
func @main(%x: tensor<[B]x19xf32>) -> (tensor<[B]x45xf32>, tensor<[B]x8xbf16>) {
  %w = weight @w : tensor<19x45xf32>
  %y = dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<[B]x19xf32>, tensor<19x45xf32>) -> tensor<[B]x45xf32>
  %t = tanh %y : tensor<[B]x45xf32>
  %h = weight @half : tensor<45x8xbf16>
  %c = convert %t : (tensor<[B]x45xf32>) -> tensor<[B]x45xbf16>
  %z = dot_general %c, %h, contracting_dims = [1] x [0] : (tensor<[B]x45xbf16>, tensor<45x8xbf16>) -> tensor<[B]x8xbf16>
  return %t, %z : tensor<[B]x45xf32>, tensor<[B]x8xbf16>
}";

/// Returns a test for each package and target for AArch64.
pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let made = TARGETS
        .iter()
        .map(|target| Trial::test(format!("package/text/{}", target.target), move || compare(&MADE, "text", target)));
    let folder = std::env::var_os("DISC_AARCH64_PACKAGES").map(PathBuf::from);
    let paths = folder.into_iter().flat_map(|folder| {
        let files = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<_> = files.map(|file| file.expect("the folder is readable").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "discpkg"));
        assert!(!paths.is_empty(), "{} has no packages", folder.display());
        paths.sort();
        paths
    });
    let found = paths.flat_map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let open = |target: &'static Emulated| {
            let (path, name) = (path.clone(), name.clone());
            Trial::test(format!("package/{name}/{}", target.target), move || {
                let package = Package::open(&path).map_err(|error| error.to_string())?;
                compare(&package, &name, target)
            })
        };
        TARGETS.iter().map(open).collect::<Vec<_>>()
    });
    made.chain(found)
}

/// A package with code for this machine and every target for AArch64.
static MADE: LazyLock<Package> = LazyLock::new(|| {
    let here = Target::host().expect("a machine that code is made for").to_string();
    let targets = [here].into_iter().chain(TARGETS.iter().map(|target| target.target.to_owned())).collect();
    let mut rng = Random::new(7);
    let mut weight = |dtype, sizes: &[i64]| Weight::from(host(&draw(&mut rng, "", dtype, sizes)).expect("small"));
    let weights = vec![("w".to_owned(), weight(DType::F32, &[19, 45])), ("half".to_owned(), weight(DType::BF16, &[45, 8]))];
    let source = Source { module: disc::parse(TEXT).expect("valid text"), weights, entry: None };
    let settings = ExportOptions { targets, prepared: true, ir: false };
    let bytes = export_bytes(vec![source], &Options::default(), &settings).expect("a program that compiles");
    Package::from_bytes(&bytes, &OpenOptions::default()).expect("a package that this machine runs")
});

/// Runs every entry on both sides at several sizes.
fn compare(package: &Package, name: &str, target: &Emulated) -> Result<(), Failed> {
    let (expected, emulated) = (package.executable(None).map_err(text)?, load(package, target)?);
    let (mut worst, mut calls) = (0.0_f64, Vec::new());
    for (number, entry) in expected.meta().entries.iter().enumerate() {
        for sizes in assignments(entry)? {
            let mut rng = Random::new(calls.len() as u64);
            let inputs = inputs(entry, &sizes, &mut rng)?;
            let at = format!("@{} at {sizes:?}", entry.name);
            let ours = tensors(entry, &inputs, |references, outputs| {
                let run = expected.with_session(|session| expected.run(number, session, references, outputs));
                run.map_err(|error| diagnostic(error.into()))
            });
            let theirs = emulated.run(&entry.name, &inputs);
            if let Some(count) = emulated.instructions() {
                println!("{name} by {}: {count} instructions for {at}", target.target);
            }
            let (ours, theirs) = match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => (ours, theirs),
                (ours, theirs) => return Err(format!("{at}: {:?}, here {:?}", theirs.err(), ours.err()).into()),
            };
            for (output, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
                worst = worst.max(difference(theirs, ours).map_err(|why| format!("output {output} of {at}: {why}"))?);
            }
            calls.push(at);
        }
    }
    println!("{name} by {target}: {worst:.1e} apart from {}: {}", package.target().name, calls.join(", "));
    Ok(())
}

/// Loads the code for a target into an emulated process, as the runtime there would.
fn load(package: &Package, target: &Emulated) -> Result<Loaded, Failed> {
    let part = |name: &str| package.part(name).ok_or_else(|| format!("there is no part {name}"));
    // A package writes the extensions out that others imply.
    let name = target.target.parse::<Target>().map_err(|error| error.to_string())?.to_string();
    let info = package.manifest().targets.iter().find(|info| info.name == name);
    let info: &TargetInfo = info.ok_or_else(|| format!("the package has no code for {name}"))?;
    let meta: Arc<ModuleMeta> = Arc::new(serde_json::from_slice(part(&info.module())?).map_err(|error| error.to_string())?);
    let constants = read_safetensors(part(&info.constants())?)?;
    let given = read_safetensors(part(WEIGHTS)?)?;
    let found = |name: &str| constants.iter().chain(&given).find(|tensor| tensor.name == name);
    let mut weights = Vec::new();
    for wanted in &meta.weights {
        let stored = found(&wanted.name).ok_or_else(|| format!("the weight {} is missing", wanted.name))?;
        weights.push(weight(stored, &wanted.sizes)?);
    }
    let options = ExecutableOptions { threads: Some(1), ..ExecutableOptions::default() };
    let loaded = target.load(part(&info.code())?, &meta, |code| {
        let executable = Executable::new(host_device(), code, Arc::clone(&meta), weights, options)?;
        Ok(Box::new(move |entry, inputs, outputs| {
            Ok(executable.with_session(|session| executable.run(entry, session, inputs, outputs))?)
        }))
    });
    Ok(loaded.map_err(|error| error.message)?)
}

/// A constant of equal elements is stored as one.
fn weight(stored: &StoredTensor<'_>, sizes: &[i64]) -> Result<Weight, Failed> {
    let mut tensor = HostTensor::zeros(stored.dtype, sizes).map_err(text)?;
    let pieces = tensor.bytes_mut().chunks_mut(stored.bytes.len().max(1));
    pieces.for_each(|piece| piece.copy_from_slice(stored.bytes));
    Ok(tensor.into())
}

/// Returns values of the symbols of an entry: [`SIZES`], and 0 for each, where the facts allow it.
fn assignments(entry: &EntryMeta) -> Result<Vec<BTreeMap<Symbol, i64>>, Failed> {
    let parse = |text: &String| Dim::parse(text).map_err(|error| format!("{text}: {error:?}"));
    let facts = entry.constraints.iter().map(|fact| Fact::parse(fact).map_err(|error| format!("{fact}: {error:?}")));
    let facts: Vec<Fact> = facts.collect::<Result<_, _>>()?;
    let mut symbols: Vec<Symbol> = Vec::new();
    for dim in entry.inputs.iter().flat_map(|input| &input.dims) {
        let new: Vec<_> = parse(dim)?.symbols().into_iter().filter(|symbol| !symbols.contains(symbol)).collect();
        symbols.extend(new);
    }
    let sizes = |of: &[i64]| (0..symbols.len()).map(|i| of[i.min(of.len() - 1)]).collect::<Vec<_>>();
    let mut wanted: Vec<Vec<i64>> = SIZES.iter().map(|&of| sizes(of)).collect();
    for zero in 0..symbols.len() {
        let mut some = sizes(SIZES[0]);
        some[zero] = 0;
        wanted.push(some);
    }
    let mut found: Vec<BTreeMap<Symbol, i64>> = Vec::new();
    for wanted in wanted {
        let nearest = raise(&symbols, &wanted, &facts, &mut BTreeMap::new()).ok_or("no sizes fit the facts")?;
        if !found.contains(&nearest) {
            found.push(nearest);
        }
    }
    Ok(found)
}

/// Returns the first values from `wanted` on for which all facts hold.
fn raise(
    symbols: &[Symbol],
    wanted: &[i64],
    facts: &[Fact],
    chosen: &mut BTreeMap<Symbol, i64>,
) -> Option<BTreeMap<Symbol, i64>> {
    // A fact about symbols that are not chosen yet has no answer.
    if facts.iter().any(|fact| fact.holds(&|symbol| chosen.get(symbol).copied()) == Some(false)) {
        return None;
    }
    let Some((symbol, rest)) = symbols.split_first() else { return Some(chosen.clone()) };
    for size in wanted[0]..=wanted[0] + MOST_STEPS {
        chosen.insert(symbol.clone(), size);
        if let Some(found) = raise(rest, &wanted[1..], facts, chosen) {
            return Some(found);
        }
    }
    chosen.remove(symbol);
    None
}

fn inputs(entry: &EntryMeta, sizes: &BTreeMap<Symbol, i64>, rng: &mut Random) -> Result<Vec<Tensor>, Failed> {
    let mut made = Vec::new();
    for input in &entry.inputs {
        let size = |dim: &String| Dim::parse(dim).ok()?.eval(&|symbol| sizes.get(symbol).copied()).ok();
        let sizes: Option<Vec<i64>> = input.dims.iter().map(size).collect();
        let dtype = DType::from_name(input.dtype.name()).ok_or("an element type")?;
        made.push(draw(rng, &input.name, dtype, &sizes.ok_or("sizes")?));
    }
    Ok(made)
}

/// Makes numbers around 0, indices, or values of a mask.
fn draw(rng: &mut Random, name: &str, dtype: DType, sizes: &[i64]) -> Tensor {
    let below = if name.contains("ids") { INDICES } else { 2 };
    let mut value = || match dtype.is_float() {
        true => 2.0 * rng.unit() - 1.0,
        false => rng.below(below) as f64,
    };
    let values: Vec<f64> = (0..sizes.iter().product::<i64>()).map(|_| value()).collect();
    Tensor::from_f64s(dtype, sizes, &values).expect("as many values as the sizes say")
}

/// Returns the largest difference as a share of the largest element.
fn difference(found: &Tensor, expected: &Tensor) -> Result<f64, String> {
    let (dtype, dims) = (expected.dtype(), expected.dims());
    if (found.dtype(), found.dims()) != (dtype, dims) {
        return Err(format!("{} of sizes {:?}, here {dtype} of {dims:?}", found.dtype(), found.dims()));
    }
    let bound = match dtype {
        DType::F16 | DType::BF16 => NARROW_BOUND,
        _ if dtype.is_float() => BOUND,
        _ => 0.0,
    };
    let (found, expected) = (found.to_f64s(), expected.to_f64s());
    if let Some(at) = found.iter().zip(&expected).position(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return Err(format!("element {at} is {}, here {}", found[at], expected[at]));
    }
    let largest = expected.iter().fold(0.0_f64, |largest, y| largest.max(y.abs()));
    let apart = found.iter().zip(&expected).fold(0.0_f64, |apart, (x, y)| apart.max((x - y).abs()));
    match apart <= bound * largest {
        true => Ok(apart / largest.max(f64::MIN_POSITIVE)),
        false => Err(format!("elements differ by {apart}, the largest one is {largest}")),
    }
}

fn text(error: impl Into<Error>) -> String {
    error.into().to_string()
}
