//! Checks that kernels wait for the launches before, where launches may overlap.

/// Starts the instructions of PTX that access memory other than parameters.
const ACCESSES: [&str; 9] = ["ld.", "st.", "atom.", "red.", "cp.", "ldmatrix.", "call", "prefetch", "multimem."];
const WAIT: &str = "griddepcontrol.wait;";
const DEPENDENTS: &str = "griddepcontrol.launch_dependents;";

/// Checks each kernel of a module: on a chip whose launches may overlap it waits before all
/// accesses and branches, once; on others it does not.
pub(crate) fn check(ptx: &str, chip: &str) -> Result<(), String> {
    let number = chip.trim_start_matches("sm_").trim_end_matches('a').parse::<u32>().map_err(|error| error.to_string())?;
    let overlaps = number >= 90;
    for entry in ptx.split(".visible .entry ").skip(1) {
        let (name, rest) = entry.split_once('(').unwrap_or((entry, ""));
        let body = rest.split_once("\n{").map_or("", |(_, body)| body.split("\n}").next().unwrap_or(""));
        let lines: Vec<&str> = body.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
        let instruction =
            |line: &str| line.split_once(' ').filter(|_| line.starts_with('@')).map_or(line, |(_, rest)| rest.trim()).to_owned();
        let instructions: Vec<String> = lines.iter().map(|line| instruction(line)).collect();
        let places =
            |what: &str| -> Vec<usize> { (0..).zip(&lines).filter(|(_, line)| **line == what).map(|(at, _)| at).collect() };
        let is_access = |text: &str| {
            ACCESSES.iter().any(|name| text.starts_with(name)) && !text.starts_with("ld.param") || text.starts_with("bra")
        };
        let first = instructions.iter().position(|text| is_access(text)).unwrap_or(usize::MAX);
        match (&places(WAIT)[..], &places(DEPENDENTS)[..]) {
            ([], []) if !overlaps => {}
            (&[wait], &[dependents]) if overlaps && wait < dependents && dependents < first => {}
            (waits, dependents) => {
                return Err(format!("{name} on {chip} waits at {waits:?}, goes on at {dependents:?}, first access at {first}"));
            }
        }
    }
    Ok(())
}

/// The check finds what is wrong.
pub(crate) fn check_itself() -> Result<(), String> {
    let kernel = |body: &str| format!(".version 8.0\n.visible .entry k0(\n\t.param .u64 k0_param_0\n)\n{{\n{body}\n}}\n");
    let wait = format!("\t{WAIT}\n\t{DEPENDENTS}\n");
    let load = "\tld.param.b64 \t%rd1, [k0_param_0];\n\t@%p1 ld.global.b32 \t%r1, [%rd1];";
    let right = [(format!("{wait}{load}"), "sm_90"), (format!("{wait}{load}"), "sm_100a"), (load.to_owned(), "sm_89")];
    for (body, chip) in right {
        check(&kernel(&body), chip)?;
    }
    let wrong = [
        (format!("{load}\n{wait}"), "sm_90"),
        (load.to_owned(), "sm_120"),
        (format!("{wait}{load}"), "sm_80"),
        (format!("\t@%p1 bra \t$L1;\n{wait}{load}"), "sm_90"),
    ];
    match wrong.iter().find(|(body, chip)| check(&kernel(body), chip).is_ok()) {
        Some((body, chip)) => Err(format!("no fault is found on {chip} in {body}")),
        None => Ok(()),
    }
}
