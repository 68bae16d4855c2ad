//! Reads what ptxas tells about kernels.

/// The numbers of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) kernel: String,
    /// Registers of 32 bits of a thread.
    pub(crate) registers: u32,
    /// Bytes of the local memory of a thread, in which registers are spilled too.
    pub(crate) stack: u32,
}

/// Reads the messages of `ptxas -v`. A kernel has three lines: its name, its stack, its registers.
pub(crate) fn read(messages: &str) -> Vec<Statistics> {
    let mut found: Vec<Statistics> = Vec::new();
    let mut stack_of = String::new();
    for line in messages.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            found.push(Statistics { kernel, registers: 0, stack: 0 });
        } else if let Some((_, of)) = line.split_once("Function properties for ") {
            stack_of = of.trim().to_owned();
        } else if let (Some(stack), Some(last)) = (number_before(line, " bytes stack frame"), found.last_mut()) {
            // Routines that a kernel calls have lines of their own.
            if last.kernel == stack_of {
                last.stack = stack + number_before(line, " bytes spill stores").unwrap_or(0);
            }
        } else if let (Some(registers), Some(last)) = (number_before(line, " registers"), found.last_mut()) {
            last.registers = registers;
        }
    }
    found
}

fn number_before(line: &str, unit: &str) -> Option<u32> {
    line.split_once(unit)?.0.rsplit(' ').next()?.parse().ok()
}

/// Returns the lines of messages that warn.
pub(crate) fn warnings(messages: &str) -> Vec<&str> {
    messages.lines().filter(|line| line.contains("warning") || line.contains("serialized")).collect()
}

/// Messages that are read as they should be.
pub(crate) fn check() -> Result<(), String> {
    let messages = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k0_matmul_s' for 'sm_90a'
ptxas info    : Function properties for k0_matmul_s
    16 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 96 registers, used 1 barriers, 32 bytes smem
ptxas warning : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compiling entry function 'k1' for 'sm_90a'
ptxas info    : Function properties for k1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Function properties for routine
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
";
    let expected = [("k0_matmul_s", 96, 40), ("k1", 8, 0)];
    let expected = expected.map(|(kernel, registers, stack)| Statistics { kernel: kernel.to_owned(), registers, stack });
    let (found, warned) = (read(messages), warnings(messages));
    if found == expected && warned.len() == 1 { Ok(()) } else { Err(format!("{found:?}, {warned:?}")) }
}
