//! Fuzzes with changed filetests for some time; see `disc_filetests::fuzz`.
//!
//! `--show N` prints an input, `--check FILE` tries a text.
use clap::Parser;
use disc_filetests::fuzz::{self, Budget, Corpus, Report};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Parser)]
#[command(name = "disc-fuzz", about = "Tries changed filetests on parser, verifier, passes and printer")]
struct Arguments {
    /// Seconds to try.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Other seeds give other inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first input.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Prints the input of this number, and does not try it.
    #[arg(long, value_name = "NUMBER")]
    show: Option<u64>,
    /// Tries the text of a file, in this process.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// The progress file; set in the child of a watching parent.
    #[arg(long, hide = true, value_name = "FILE")]
    progress: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let corpus = Corpus::new(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests"));
    let budget = Budget { seconds: arguments.seconds, seed: arguments.seed, first: arguments.first };
    if corpus.is_empty() {
        eprintln!("there are no filetests to start from");
        return ExitCode::from(2);
    }
    match (&arguments.progress, arguments.show, &arguments.check) {
        (Some(progress), ..) => fuzz::work(corpus, budget, progress),
        (_, Some(index), _) => {
            print!("{}", corpus.input(budget.seed, index));
            ExitCode::SUCCESS
        }
        (.., Some(path)) => check(path),
        _ => watch(&corpus, budget),
    }
}

fn check(path: &Path) -> ExitCode {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) => {
            eprintln!("{}: {e}", path.display());
            return ExitCode::from(2);
        }
    };
    match fuzz::failure(&text) {
        None => ExitCode::SUCCESS,
        Some(why) => {
            println!("{why}");
            ExitCode::from(3)
        }
    }
}

fn watch(corpus: &Corpus, budget: Budget) -> ExitCode {
    let Budget { seconds, seed, first } = budget;
    let child = |progress: &Path| {
        let options = [("--seconds", seconds.to_string()), ("--seed", seed.to_string()), ("--first", first.to_string())];
        let path = ("--progress", progress.display().to_string());
        options.into_iter().chain([path]).flat_map(|(name, value)| [name.to_owned(), value]).collect()
    };
    match fuzz::watch(budget, child) {
        Ok(Report::Clean(count)) => {
            println!("fuzz: {count} inputs, nothing wrong");
            ExitCode::SUCCESS
        }
        Ok(Report::Failed(index, why)) => {
            println!("{}", corpus.input(seed, index));
            println!(
                "fuzz: input {index} of seed {seed} (above) fails:\n{why}\nagain: disc-fuzz --seed {seed} --first {index} --seconds 1"
            );
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("the child did not do its work: {e}");
            ExitCode::from(2)
        }
    }
}
