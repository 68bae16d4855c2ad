//! Runs random programs on compiled code and on the interpreter (`cargo xtask soak`); see
//! `disc_filetests::soak`.
//!
//! A child process does the work, so that a program which crashes it is named too. `--show N`
//! prints a program.
#[path = "../tests/native/mod.rs"]
mod native;

use clap::Parser;
use disc_filetests::{
    Compiled,
    soak::{self, Done, Plan},
};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Mutex,
    time::{Duration, Instant},
};

#[derive(Parser)]
#[command(name = "soak", about = "Tries random programs on compiled code and on the interpreter")]
struct Arguments {
    /// Number of programs.
    #[arg(long, default_value_t = 20_000)]
    graphs: u64,
    /// Number of sizes for each program.
    #[arg(long, default_value_t = 5)]
    bindings: u64,
    /// Other seeds give other programs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first program.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Ends after this time, even if programs remain.
    #[arg(long)]
    seconds: Option<u64>,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// A CPU level, or a simulated GPU; absent, the levels of this machine alternate.
    #[arg(long)]
    target: Option<String>,
    /// Prints the program of this number, and does not run it.
    #[arg(long, value_name = "NUMBER")]
    show: Option<u64>,
    /// Tries the text of a file, in this process.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// The progress file; set in the child of a watching parent.
    #[arg(long, hide = true, value_name = "FILE")]
    progress: Option<PathBuf>,
}

/// Exit code of a child that found a failure and has reported it.
const FOUND: i32 = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(number) = arguments.show {
        print!("{}", soak::module(arguments.seed, number));
        return ExitCode::SUCCESS;
    }
    let levels: Vec<&'static dyn Compiled> = match arguments.target.as_deref() {
        Some(name) => native::levels().iter().chain(native::simulated()).filter(|level| level.name() == name).copied().collect(),
        None => native::levels().to_vec(),
    };
    if levels.is_empty() {
        eprintln!("this machine cannot run the target; soak: skipped");
        return ExitCode::SUCCESS;
    }
    if let Some(path) = &arguments.check {
        return check(path, &arguments, &levels);
    }
    match &arguments.progress {
        Some(progress) => work(&arguments, &levels, progress),
        None => watch(&arguments).unwrap_or_else(|error| {
            eprintln!("the child did not do its work: {error}");
            ExitCode::from(2)
        }),
    }
}

fn check(path: &Path, arguments: &Arguments, levels: &[&'static dyn Compiled]) -> ExitCode {
    let read = fs::read_to_string(path).map_err(|error| error.to_string());
    let module = match read.and_then(|text| disc::parse(&text).map_err(|error| error.to_string())) {
        Ok(module) => module,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    };
    for compiled in levels {
        if let (_, Some(failure)) = soak::check(module.clone(), arguments.seed, arguments.bindings, *compiled) {
            println!("{}\n{} fails on {}", failure.text(*compiled), path.display(), compiled.name());
            return ExitCode::FAILURE;
        }
    }
    println!("{}: nothing wrong", path.display());
    ExitCode::SUCCESS
}

/// Runs the child: reports its position once a second to the reader, and always in the file.
fn work(arguments: &Arguments, levels: &[&'static dyn Compiled], progress: &Path) -> ExitCode {
    // A panic of the compiler is an error that the failure reports; reducing a program meets the
    // same one hundreds of times.
    std::panic::set_hook(Box::new(|_| {}));
    let file = match File::options().write(true).open(progress) {
        Ok(file) => file,
        Err(error) => {
            eprintln!("{}: {error}", progress.display());
            return ExitCode::from(2);
        }
    };
    let (start, last) = (Instant::now(), Mutex::new(Instant::now()));
    let note = |thread: usize, number: u64, done: Done| {
        // A lost note only makes a report less exact.
        let _ = file.write_all_at(&(number + 1).to_le_bytes(), 8 * thread as u64);
        if let Ok(mut last) = last.lock()
            && last.elapsed() > Duration::from_secs(2)
        {
            *last = Instant::now();
            eprintln!("soak: {} of {} programs, {} s", done.programs, arguments.graphs, start.elapsed().as_secs());
        }
    };
    let mut all = Done::default();
    let levels: Vec<Turn> = turns(arguments, levels);
    for turn in levels {
        let (done, failure) = soak::run(turn.plan, turn.compiled, &note);
        all.programs += done.programs;
        all.runs += done.runs;
        all.rounded += done.rounded;
        if let Some(failure) = failure {
            println!("{}", failure.text(turn.compiled));
            println!(
                "soak: program {} of seed {} (above, reduced) fails on {}",
                failure.number,
                arguments.seed,
                turn.compiled.name()
            );
            println!(
                "again: cargo xtask soak --seed {} --first {} --graphs 1 --target {}",
                arguments.seed,
                failure.number,
                turn.compiled.name()
            );
            return ExitCode::from(FOUND as u8);
        }
    }
    println!("soak: {} programs, {} runs, nothing wrong ({} runs differ by their rounding)", all.programs, all.runs, all.rounded);
    ExitCode::SUCCESS
}

/// A level, and the programs that it tries.
struct Turn {
    compiled: &'static dyn Compiled,
    plan: Plan,
}

/// Gives the best level half of the programs and of the time; the others share the second half.
fn turns(arguments: &Arguments, levels: &[&'static dyn Compiled]) -> Vec<Turn> {
    let count = levels.len() as u64;
    let parts = |i: u64| {
        if count == 1 {
            1.0
        } else if i + 1 == count {
            0.5
        } else {
            0.5 / (count - 1) as f64
        }
    };
    let mut first = arguments.first;
    let mut left = arguments.graphs;
    let mut made = Vec::new();
    for (i, &compiled) in levels.iter().enumerate().rev() {
        let i = i as u64;
        let programs = if i == 0 { left } else { ((arguments.graphs as f64 * parts(i)).ceil() as u64).min(left) };
        let time = arguments.seconds.map(|seconds| Duration::from_secs_f64(seconds as f64 * parts(i)));
        let plan = Plan { seed: arguments.seed, first, programs, bindings: arguments.bindings, time, threads: arguments.threads };
        made.push(Turn { compiled, plan });
        (first, left) = (first + programs, left - programs);
    }
    made
}

/// Runs the parent: starts this program again, and names the program that the child was running if
/// it dies.
fn watch(arguments: &Arguments) -> std::io::Result<ExitCode> {
    let progress = std::env::temp_dir().join(format!("disc-soak-{}", std::process::id()));
    File::create(&progress)?;
    let status =
        Command::new(std::env::current_exe()?).args(std::env::args_os().skip(1)).arg("--progress").arg(&progress).status()?;
    let notes = fs::read(&progress)?;
    fs::remove_file(&progress)?;
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
        None => {
            let numbers = notes.chunks_exact(8).map(|n| u64::from_le_bytes(n.try_into().expect("eight bytes")));
            let numbers: Vec<u64> = numbers.filter_map(|n| n.checked_sub(1)).collect();
            println!("soak: the process died ({status}) at one of the programs {numbers:?} of seed {}", arguments.seed);
            println!("again: cargo xtask soak --seed {} --first NUMBER --graphs 1 --threads 1", arguments.seed);
            ExitCode::FAILURE
        }
    })
}
