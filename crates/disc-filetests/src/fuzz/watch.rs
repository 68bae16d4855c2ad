//! Tries many inputs in a child process that its parent watches: after a crash, an abort for
//! memory, a stack overflow or a hang of the child, the parent still knows the input.
use super::{Corpus, failure};
use std::{
    fs::{self, File},
    io::Write,
    os::unix::{fs::FileExt, process::ExitStatusExt},
    panic,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// The time, and the first input.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub seconds: u64,
    pub seed: u64,
    /// The first input.
    pub first: u64,
}

/// The parent's report.
#[derive(Debug)]
pub enum Report {
    /// This many inputs, and no failure.
    Clean(u64),
    /// The number of an input, and its failure.
    Failed(u64, String),
}

/// Memory that one child may use above what it starts with.
const MEMORY: u64 = 1 << 30;
/// The stack that must suffice for the compiler: that of a thread in Rust and in Python.
const STACK: usize = 2 << 20;
/// Most characters of a child's report on a failure.
const MOST_TEXT: usize = 8_000;
/// One input that takes longer than this is a hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the child: tries inputs and records the current one in the file `progress`. Exits with 3
/// after a failure, which it has printed.
pub fn work(corpus: Corpus, budget: Budget, progress: &Path) -> ExitCode {
    if let Err(e) = limit_memory() {
        eprintln!("the memory limit cannot be set: {e}");
    }
    let progress = match File::options().write(true).open(progress) {
        Ok(file) => file,
        Err(e) => {
            eprintln!("{}: {e}", progress.display());
            return ExitCode::from(2);
        }
    };
    let worker = thread::Builder::new().stack_size(STACK).spawn(move || try_inputs(&corpus, budget, &progress));
    let outcome = worker.map(thread::JoinHandle::join);
    match outcome {
        Ok(Ok(code)) => code,
        _ => ExitCode::from(2),
    }
}

fn limit_memory() -> std::io::Result<()> {
    let pages: u64 = fs::read_to_string("/proc/self/statm")?.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let limit = pages * 4096 + MEMORY;
    rlimit::Resource::AS.set(limit, limit)
}

fn try_inputs(corpus: &Corpus, budget: Budget, progress: &File) -> ExitCode {
    let message = Arc::new(Mutex::new(String::new()));
    let sink = message.clone();
    panic::set_hook(Box::new(move |info| {
        if let Ok(mut text) = sink.lock() {
            *text = info.to_string();
        }
    }));
    let start = Instant::now();
    let mut index = budget.first;
    while start.elapsed() < Duration::from_secs(budget.seconds) {
        // A lost note only makes the report less exact.
        let _ = progress.write_all_at(&index.to_le_bytes(), 0);
        let text = corpus.input(budget.seed, index);
        let found = match panic::catch_unwind(|| failure(&text)) {
            Ok(found) => found,
            Err(_) => Some(message.lock().map(|text| text.clone()).unwrap_or_default()),
        };
        if let Some(why) = found {
            // The parent reads only at the end: the capacity of a pipe must suffice.
            println!("{}", why.chars().take(MOST_TEXT).collect::<String>());
            return ExitCode::from(3);
        }
        index += 1;
    }
    let _ = progress.write_all_at(&index.to_le_bytes(), 0);
    ExitCode::SUCCESS
}

/// Runs the parent: starts this program again with `arguments`, as a child that calls [`work`].
///
/// # Errors
/// The child cannot be started, or is killed by somebody else.
pub fn watch(budget: Budget, arguments: impl Fn(&Path) -> Vec<String>) -> std::io::Result<Report> {
    let progress: PathBuf = std::env::temp_dir().join(format!("disc-fuzz-{}", std::process::id()));
    File::create(&progress)?.write_all(&budget.first.to_le_bytes())?;
    let child = Command::new(std::env::current_exe()?).args(arguments(&progress)).stdout(Stdio::piped()).spawn()?;
    let report = wait(child, &progress, budget);
    fs::remove_file(&progress)?;
    report
}

fn wait(mut child: Child, progress: &Path, budget: Budget) -> std::io::Result<Report> {
    let at = || -> std::io::Result<u64> { Ok(u64::from_le_bytes(fs::read(progress)?.try_into().unwrap_or_default())) };
    let (mut last, mut since) = (at()?, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            let output = child.wait_with_output()?;
            return Ok(match status.code() {
                Some(0) => Report::Clean(at()? - budget.first),
                Some(_) => Report::Failed(at()?, String::from_utf8_lossy(&output.stdout).into_owned()),
                // Its own limits end a process otherwise.
                None if status.signal() == Some(9) => return Err(std::io::Error::other("it was killed from outside")),
                None => Report::Failed(at()?, format!("the process died ({status}): a stack overflow, or too much memory")),
            });
        }
        thread::sleep(Duration::from_millis(20));
        let now = at()?;
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(Report::Failed(now, format!("no end after {} s", PATIENCE.as_secs())));
        }
    }
}
