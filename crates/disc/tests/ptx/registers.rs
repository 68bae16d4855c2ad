//! Pins the registers of kernels: a table for each version of ptxas, which `DISC_BLESS=1` writes.
use crate::statistics::Statistics;
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Registers by program and kernel.
type Numbers = BTreeMap<(String, String), u32>;

/// The first line of a table.
const HEADER: &str = "# program, kernel, registers of a thread: written by DISC_BLESS=1\n";

/// The table of one version of ptxas, and the numbers that replace some of it.
pub(crate) struct Table {
    path: PathBuf,
    pinned: Option<Numbers>,
    blessed: Option<Mutex<Numbers>>,
}

impl Table {
    /// Reads the table of an assembler, named `ptxas V13.5.37`, if there is one.
    pub(crate) fn of(assembler: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ptx/registers");
        let path = folder.join(format!("{}.txt", assembler.replace(' ', "-")));
        let pinned = fs::read_to_string(&path).ok().map(|text| parse(&text));
        let blesses = env::var_os("DISC_BLESS").is_some_and(|value| value == "1");
        Self { path, pinned, blessed: blesses.then(Mutex::default) }
    }

    /// Returns true if there is a table for this version.
    pub(crate) fn exists(&self) -> bool {
        self.pinned.is_some()
    }

    /// Compares the kernels of a program with the table; without one, nothing is compared.
    pub(crate) fn check(&self, program: &str, kernels: &[Statistics]) -> Result<(), String> {
        let found: Numbers = kernels.iter().map(|one| ((program.to_owned(), one.kernel.clone()), one.registers)).collect();
        if let Some(blessed) = &self.blessed {
            blessed.lock().map_err(|_| "another test failed while it wrote the table")?.extend(found);
            return Ok(());
        }
        let Some(pinned) = &self.pinned else { return Ok(()) };
        let pinned = pinned.iter().filter(|((of, _), _)| of == program);
        let pinned: Numbers = pinned.map(|(key, registers)| (key.clone(), *registers)).collect();
        let differ: Vec<String> = differences(&pinned, &found);
        if differ.is_empty() {
            return Ok(());
        }
        let table = self.path.display();
        Err(format!("{}\nif the new numbers are as good, write them to {table} with DISC_BLESS=1", differ.join("\n")))
    }

    /// Writes what was blessed. Numbers of programs that no longer exist go.
    pub(crate) fn write(self, programs: &[String]) -> std::io::Result<()> {
        let Some(blessed) = self.blessed else { return Ok(()) };
        let blessed = blessed.into_inner().unwrap_or_default();
        let is_new = |program: &String| blessed.keys().any(|(of, _)| of == program);
        let mut all = self.pinned.unwrap_or_default();
        all.retain(|(program, _), _| programs.contains(program) && !is_new(program));
        all.extend(blessed);
        let lines: Vec<String> =
            all.iter().map(|((program, kernel), registers)| format!("{program} {kernel} {registers}\n")).collect();
        fs::write(self.path, HEADER.to_owned() + &lines.concat())
    }
}

fn parse(text: &str) -> Numbers {
    let line = |line: &str| {
        let [program, kernel, registers] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        Some(((program.to_owned(), kernel.to_owned()), registers.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Names the kernels whose numbers differ, and those that only one of the two has.
fn differences(pinned: &Numbers, found: &Numbers) -> Vec<String> {
    let changed = found.iter().filter_map(|(key @ (_, kernel), registers)| match pinned.get(key) {
        Some(before) if before == registers => None,
        Some(before) => Some(format!("{kernel} has {registers} registers, and had {before}")),
        None => Some(format!("{kernel} is new, with {registers} registers")),
    });
    let gone = pinned.keys().filter(|key| !found.contains_key(key)).map(|(_, kernel)| format!("{kernel} is gone"));
    changed.chain(gone).collect()
}

/// Tables are read and compared as they should be.
pub(crate) fn check() -> Result<(), String> {
    let pinned = parse("a.disc k0 8\na.disc k1 16\nno line\na.disc k2 x\n");
    let found = parse("a.disc k0 8\na.disc k1 18\na.disc k3 4\n");
    let differ = differences(&pinned, &found);
    let expected = ["k1 has 18 registers, and had 16", "k3 is new, with 4 registers"];
    let expected_back = ["k1 has 16 registers, and had 18", "k3 is gone"];
    if differ == expected && differences(&found, &pinned) == expected_back { Ok(()) } else { Err(format!("{differ:?}")) }
}
