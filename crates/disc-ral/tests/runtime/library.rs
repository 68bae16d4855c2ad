//! Loading a real shared object, made by the C compiler that Rust links with.

use crate::harness::*;
use disc_ral::*;
use std::{
    io::Write,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Output: input 0 plus 1, by two launches over halves of the units.
const SOURCE: &str = r"
typedef unsigned long long u64; typedef long long i64; typedef unsigned u32; typedef unsigned char u8;
typedef struct { void *data; const i64 *sizes, *strides; u32 rank; u8 dtype, device; unsigned short flags; } Tensor;
typedef struct Context Context;
typedef int Kernel(const u64 *, i64, i64, u8 *);
typedef struct {
    u32 version, size;
    u8 *(*alloc)(Context *, i64);
    u64 (*mark)(Context *);
    void (*release)(Context *, u64);
    u8 *(*alloc_output)(Context *, u32, u32, u32, const i64 *);
    int (*launch)(Context *, Kernel *, const u64 *, i64, i64, i64);
} Runtime;
struct Context { const Runtime *runtime; };
const u32 disc_abi_version = VERSION;
static int add_one(const u64 *args, i64 begin, i64 end, u8 *scratch) {
    const float *x = (const float *)args[0]; float *y = (float *)args[1];
    for (i64 i = begin; i < end; i++) y[i] = x[i] + 1;
    return 0;
}
int entry(Context *ctx, const Tensor *in, Tensor *out) {
    float *y = (float *)ctx->runtime->alloc_output(ctx, 0, in->dtype, 1, in->sizes);
    if (!y) return -1;
    u64 args[2] = { (u64)in->data, (u64)y };
    return ctx->runtime->launch(ctx, add_one, args, in->sizes[0], 100000, 0);
}
";

fn compile(version: u32) -> Vec<u8> {
    compile_source(SOURCE, version)
}

fn compile_source(source: &str, version: u32) -> Vec<u8> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("disc-ral-{}-{number}.so", std::process::id()));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compiler = Command::new(compiler)
        .args(["-shared", "-fPIC", "-nostdlib", "-O1", "-x", "c", "-", "-o"])
        .arg(&path)
        .arg(format!("-DVERSION={version}"))
        .stdin(Stdio::piped())
        .spawn()
        .expect("the C compiler that Rust links with");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

fn add_one(symbol: &str, library: Library) -> Result<Executable, Error> {
    let mut meta = entry("add one", vec![input("x", DType::F32, &["N"])], vec![output("y", DType::F32, &["N"])]);
    meta.symbol = symbol.into();
    let meta = Arc::new(ModuleMeta { entries: vec![meta], ..ModuleMeta::default() });
    let code = Code::from_library(Arc::new(library), &meta)?;
    Executable::new(Cpu::device(), code, meta, Vec::new(), ExecutableOptions::default())
}

#[test]
fn a_library_from_memory_runs() {
    let bytes = compile(disc_abi::ABI_VERSION);
    // SAFETY: the source above keeps the contract.
    let executable = add_one("entry", unsafe { Library::load(&bytes) }.unwrap()).unwrap();
    // SAFETY: as above; a second copy is a library of its own.
    let second = add_one("entry", unsafe { Library::load(&bytes) }.unwrap()).unwrap();
    drop(second);
    let elements: Vec<f32> = (0..10_000_u16).map(f32::from).collect();
    let x = HostTensor::new(&[10_000], &elements).unwrap();
    let outputs = executable.with_session(|session| run(&executable, session, &[x.as_input()])).unwrap();
    assert!(outputs.tensor(0).unwrap().elements::<f32>().unwrap().iter().zip(elements).all(|(&y, x)| y == x + 1.0));

    // SAFETY: as above.
    let error = add_one("exit", unsafe { Library::load(&bytes) }.unwrap()).err().unwrap();
    assert_eq!(error.to_string(), "E0501: the library has no symbol `exit`");
}

#[test]
fn a_profile_names_the_kernels_that_a_library_exports() {
    // Libraries that earlier versions made export none.
    let exported = SOURCE.replace("static int add_one", "int add_one");
    for (source, name) in [(SOURCE, None), (&exported, Some("add_one"))] {
        let bytes = compile_source(source, disc_abi::ABI_VERSION);
        // SAFETY: the source keeps the contract.
        let executable = add_one("entry", unsafe { Library::load(&bytes) }.unwrap()).unwrap();
        let mut session = executable.session();
        session.start_profile();
        let x = HostTensor::new(&[2], &[1.0_f32, 2.0]).unwrap();
        for _ in 0..2 {
            run(&executable, &mut session, &[x.as_input()]).unwrap();
        }
        let records = session.take_profile();
        assert_eq!(records.iter().map(|record| record.name.as_deref()).collect::<Vec<_>>(), [name, name]);
        assert_eq!(records[0].title(), name.unwrap_or("kernel"));
        let mut names = disc_ral::LaunchNames::default();
        assert_eq!(names.of(&records[1]), name.unwrap_or("kernel0"));
        let given = disc_ral::LaunchRecord { by_library: true, ..records[1].clone() };
        assert_eq!(names.of(&given), format!("{} by the library", name.unwrap_or("kernel0")));
    }
}

#[test]
fn a_library_of_another_version_is_refused() {
    // SAFETY: nothing of it is called.
    let error = unsafe { Library::load(&compile(999)) }.unwrap_err();
    let ours = disc_abi::ABI_VERSION;
    assert_eq!(
        error.to_string(),
        format!("E0501: the library was compiled for ABI version 999, this runtime has version {ours}")
    );
}
