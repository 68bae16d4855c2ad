//! `cargo xtask same-code`: writes the kernels and the assembly of many programs, in normal form,
//! into a folder.
//!
//! Two files for each program and CPU level, `LEVEL/NAME.kernels` and `LEVEL/NAME.s`, and `hashes`
//! with a line for each file. A program that does not compile has its error in both.
use clap::Parser;
use disc::{
    Options,
    ir::{Module, ops::Stage},
};
use disc_filetests::same_code::{self, Program};
use sha2::{Digest, Sha256};
use std::{
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

#[derive(Parser)]
#[command(name = "same_code", about = "Writes the code of many programs in a form that can be compared")]
struct Arguments {
    /// The folder that is written.
    #[arg(long)]
    out: PathBuf,
    /// Folders of further programs, as text of the IR.
    #[arg(long)]
    programs: Vec<PathBuf>,
    #[arg(long, value_delimiter = ',', default_value = "x86-64-v2,x86-64-v3,x86-64-v4")]
    levels: Vec<String>,
    /// Only programs whose name contains this.
    #[arg(long, default_value = "")]
    filter: String,
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    // A panic of the compiler is an error of the program, and its text is enough.
    std::panic::set_hook(Box::new(|_| {}));
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests");
    let mut programs = same_code::files("filetests", &corpus);
    programs.extend(same_code::ops());
    programs.extend(arguments.programs.iter().flat_map(|folder| same_code::files("programs", folder)));
    programs.retain(|program| program.name.contains(&arguments.filter));
    let mut lines = in_parallel(&programs, arguments.threads, |program| write(program, &arguments))?;
    lines.sort();
    fs::write(arguments.out.join("hashes"), lines.concat())?;
    eprintln!("same-code: {} programs, {} files", programs.len(), lines.len());
    Ok(())
}

/// Writes the files of one program; gives their lines of `hashes`.
fn write(program: &Program, arguments: &Arguments) -> Result<Vec<String>, Failure> {
    let Some(module) = program.module() else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    for level in &arguments.levels {
        let options = Options { target: Some(level.clone()), ..Options::default() };
        let (kernels, assembly) = match disc::stages::code(module.clone(), &options) {
            Ok((kernels, assembly)) => normal(&kernels, &assembly),
            Err(error) => (format!("{error}\n"), format!("{error}\n")),
        };
        for (extension, text) in [("kernels", kernels), ("s", assembly)] {
            let name = format!("{level}/{}.{extension}", program.name);
            let path = arguments.out.join(&name);
            fs::create_dir_all(path.parent().ok_or("a file has a folder")?)?;
            let hash = Sha256::digest(&text).iter().fold(String::new(), |mut hash, byte| {
                let _ = write!(hash, "{byte:02x}");
                hash
            });
            fs::write(path, text)?;
            lines.push(format!("{name} {hash}\n"));
        }
    }
    Ok(lines)
}

fn normal(module: &Module, assembly: &str) -> (String, String) {
    debug_assert_eq!(disc::ir::verify::stage_of(module), Stage::Kernel);
    let names = module.functions.iter().map(|function| &*function.name);
    (same_code::kernels(&module.to_string()), same_code::assembly(assembly, names))
}

/// Runs `job` on every program on some threads; all results, or the first error.
fn in_parallel<T: Send>(
    programs: &[Program],
    threads: usize,
    job: impl Fn(&Program) -> Result<Vec<T>, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Ok(Vec::new())));
    let work = || {
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = job(program);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            match (&mut *done, found) {
                (Ok(done), Ok(found)) => done.extend(found),
                (Ok(_), Err(error)) => *done = Err(error),
                (Err(_), _) => return,
            }
        }
    };
    std::thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}
