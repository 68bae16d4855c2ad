//! Runs generated code for AArch64 in an emulated process: `runner.c` under qemu.
//!
//! The runtime of this process takes part as if the code were its own: an entry of this file stands
//! for each of the code's, sends the inputs over, and makes the outputs. Weights are sent once;
//! prepared ones stay over there.
use disc::ral::{EntryMeta, ModuleMeta};
use disc_abi::{Context, EntryFn, FLAG_ALIAS, FLAG_WRITTEN, STATUS_FAILED, STATUS_OK, Tensor};
use std::{
    cell::RefCell,
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    slice,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Requests and outcomes, as `runner.c` numbers them.
const LOAD: u64 = 1;
const WEIGHTS: u64 = 2;
const CALL: u64 = 3;
const SUCCEEDED: u64 = 0;
const AT_SITE: u64 = 1;

/// Small results use non-temporal stores too, where the target has them.
const NONTEMPORAL_BYTES: u64 = 1 << 10;

/// A process that runs one module.
pub(crate) struct Process {
    child: Child,
    to: BufWriter<ChildStdin>,
    from: BufReader<ChildStdout>,
    meta: Arc<ModuleMeta>,
    has_weights: bool,
    counts: Option<PathBuf>,
}

/// The plug-in made of `count.c`, which counts instructions. `benches/instructions.py` names it.
fn counting_plugin() -> Option<String> {
    std::env::var("DISC_AARCH64_COUNT").ok().filter(|path| !path.is_empty())
}

/// Returns qemu and the program that it runs, or the reason why there is none.
fn programs() -> &'static Result<(String, PathBuf), String> {
    static FOUND: OnceLock<Result<(String, PathBuf), String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let runs = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
        let found = |candidates: &[&str]| candidates.iter().find(|program| runs(program)).map(|&program| program.to_owned());
        let qemu = found(&["qemu-aarch64", "qemu-aarch64-static"]).ok_or("qemu-aarch64 is not installed (Debian: qemu-user)")?;
        let compiler = found(&["aarch64-linux-gnu-gcc"]).ok_or("there is no aarch64-linux-gnu-gcc")?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aarch64/runner.c");
        let runner = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runner-{}", std::process::id()));
        let header = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../disc-abi/include");
        let arguments = ["-std=gnu11", "-O1", "-static-libgcc", header, "-o"];
        let made = Command::new(compiler).args(arguments).arg(&runner).arg(source).output().map_err(|e| e.to_string())?;
        match made.status.success() {
            true => Ok((qemu, runner)),
            false => Err(String::from_utf8_lossy(&made.stderr).into_owned()),
        }
    })
}

/// Returns the reason why nothing can be emulated here.
pub(crate) fn missing() -> Option<&'static str> {
    programs().as_ref().err().map(String::as_str)
}

/// Removes the program that [`programs`] made.
pub(crate) fn clean_up() {
    if let Ok((_, runner)) = programs() {
        let _ = std::fs::remove_file(runner);
    }
}

impl Process {
    /// Starts a process on a CPU, in qemu's words, and loads a library into it.
    pub(crate) fn start(cpu: &str, code: &[u8], meta: Arc<ModuleMeta>) -> Result<Self, String> {
        let (qemu, runner) = programs().as_ref().map_err(Clone::clone)?;
        let mut command = Command::new(qemu);
        command.args(["-cpu", cpu, "-L", "/usr/aarch64-linux-gnu"]);
        let counts = counting_plugin().map(|plugin| {
            static NUMBER: AtomicU64 = AtomicU64::new(0);
            let path = runner.with_extension(format!("counts{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
            command.arg("-plugin").arg(format!("{plugin},into={}", path.display()));
            path
        });
        command.arg(runner);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|e| e.to_string())?;
        let (to, from) = child.stdin.take().zip(child.stdout.take()).expect("both are pipes");
        let (to, from) = (BufWriter::new(to), BufReader::new(from));
        let mut process = Self { child, to, from, meta, has_weights: false, counts };
        let why = process.load(code).map_err(|error| process.broken(&error))?;
        if why.is_empty() { Ok(process) } else { Err(why) }
    }

    /// Returns the number of instructions of the last call, where they are counted.
    pub(crate) fn instructions(&self) -> Option<u64> {
        let bytes = std::fs::read(self.counts.as_ref()?).ok()?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn load(&mut self, code: &[u8]) -> io::Result<String> {
        self.word(LOAD)?;
        self.bytes(code)?;
        self.to.flush()?;
        self.text()
    }

    fn word(&mut self, word: u64) -> io::Result<()> {
        self.to.write_all(&word.to_le_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.word(bytes.len() as u64)?;
        self.to.write_all(bytes)
    }

    fn answer(&mut self) -> io::Result<u64> {
        let mut word = [0; 8];
        self.from.read_exact(&mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    fn text(&mut self) -> io::Result<String> {
        let mut text = vec![0; self.answer()? as usize];
        self.from.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn words(&mut self, count: usize) -> io::Result<Vec<i64>> {
        (0..count).map(|_| Ok(self.answer()? as i64)).collect()
    }

    fn broken(&mut self, error: &io::Error) -> String {
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        format!("the emulated process ended: {error}, {status}")
    }

    /// Sends the plain weights that a context has.
    ///
    /// # Safety
    /// The context's table is that of the metadata.
    unsafe fn send_weights(&mut self, context: &Context) -> io::Result<()> {
        let meta = Arc::clone(&self.meta);
        self.word(WEIGHTS)?;
        self.word(meta.weights.len() as u64)?;
        self.word(meta.blobs.len() as u64)?;
        for (position, weight) in meta.weights.iter().enumerate() {
            // SAFETY: the caller's promise.
            let bytes = unsafe { slice::from_raw_parts(*context.weights.add(position), weight.bytes().unwrap_or(0)) };
            self.bytes(bytes)?;
        }
        meta.blobs.iter().try_for_each(|blob| self.word(blob.bytes))?;
        self.has_weights = true;
        Ok(())
    }

    /// Calls a symbol. Returns the status for the runtime.
    ///
    /// # Safety
    /// The descriptors are those of a call of `entry`.
    unsafe fn call(
        &mut self,
        entry: &EntryMeta,
        context: *mut Context,
        inputs: *const Tensor,
        outputs: *mut Tensor,
    ) -> io::Result<i32> {
        // SAFETY: the caller's promise.
        let (context_of, inputs) = unsafe { (&*context, array(inputs, entry.inputs.len())) };
        if !self.has_weights {
            // SAFETY: as above.
            unsafe { self.send_weights(context_of)? };
        }
        self.word(CALL)?;
        self.bytes(entry.symbol.as_bytes())?;
        self.word(NONTEMPORAL_BYTES)?;
        self.word(inputs.len() as u64)?;
        for input in inputs {
            self.word(input.dtype.into())?;
            self.word(input.rank.into())?;
            // SAFETY: as above; the runtime has made every input contiguous.
            let (sizes, bytes) =
                unsafe { (array(input.sizes, input.rank as usize), array(input.data.cast::<u8>(), bytes_of(input))) };
            sizes.iter().try_for_each(|&size| self.word(size as u64))?;
            self.to.write_all(bytes)?;
        }
        self.word(entry.outputs.len() as u64)?;
        for output in &entry.outputs {
            self.word(output.dtype.code().into())?;
            self.word(output.dims.len() as u64)?;
        }
        self.to.flush()?;
        // SAFETY: as above.
        unsafe { self.take_answer(entry, context, inputs, outputs) }
    }

    /// # Safety
    /// As [`Self::call`].
    unsafe fn take_answer(
        &mut self,
        entry: &EntryMeta,
        context: *mut Context,
        inputs: &[Tensor],
        outputs: *mut Tensor,
    ) -> io::Result<i32> {
        // SAFETY: the runtime's own table.
        let runtime = unsafe { &*(*context).runtime };
        match self.answer()? {
            SUCCEEDED => {}
            AT_SITE => {
                let (site, count) = (self.answer()? as u32, self.answer()? as usize);
                let values = self.words(count)?;
                // SAFETY: a context, and so many values.
                return Ok(unsafe { (runtime.fail)(context, site, values.as_ptr(), count as u32) });
            }
            _ => return Err(io::Error::other(self.text()?)),
        }
        for (input, meta) in inputs.iter().zip(&entry.inputs) {
            let mut bytes = vec![0; bytes_of(input)];
            self.from.read_exact(&mut bytes)?;
            if meta.written {
                // SAFETY: the entry writes this input.
                unsafe { input.data.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
        }
        for (index, meta) in entry.outputs.iter().enumerate() {
            let source = self.answer()? as usize;
            let sizes = self.words(meta.dims.len())?;
            let mut bytes = vec![0; sizes.iter().product::<i64>() as usize * meta.dtype.size()];
            self.from.read_exact(&mut bytes)?;
            // SAFETY: the descriptors of the outputs have arrays for their sizes.
            unsafe {
                if let Some(input) = inputs.get(source) {
                    let output = &mut *outputs.add(index);
                    output.sizes.cast_mut().copy_from_nonoverlapping(sizes.as_ptr(), sizes.len());
                    output.data = input.data;
                    output.flags = FLAG_WRITTEN | FLAG_ALIAS;
                    continue;
                }
                let (index, dtype) = (index as u32, meta.dtype.code().into());
                let memory = (runtime.alloc_output)(context, index, dtype, sizes.len() as u32, sizes.as_ptr());
                if memory.is_null() {
                    return Ok(STATUS_FAILED);
                }
                memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
        Ok(STATUS_OK)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(counts) = &self.counts {
            let _ = std::fs::remove_file(counts);
        }
    }
}

/// # Safety
/// As [`slice::from_raw_parts`], but without elements the address may be any.
unsafe fn array<'a, T>(from: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(from, count) }
}

fn bytes_of(tensor: &Tensor) -> usize {
    let size = disc::ral::DType::from_code(tensor.dtype).expect("the runtime's type").size();
    // SAFETY: a descriptor of the runtime.
    let sizes = unsafe { array(tensor.sizes, tensor.rank as usize) };
    sizes.iter().product::<i64>() as usize * size
}

/// The process whose module is called on this thread, what is called, and why the process ended.
struct Current {
    process: Process,
    entry: EntryMeta,
    prepared: usize,
    why: Option<String>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Runs `body` while the entries of this file stand for `entry` of a process, or for its `prepare`
/// entries.
///
/// # Errors
/// The reason why the process ended.
pub(crate) fn with_process<R>(process: &mut Option<Process>, entry: EntryMeta, body: impl FnOnce() -> R) -> Result<R, String> {
    let taken = process.take().ok_or("the emulated process ended in an earlier call")?;
    CURRENT.set(Some(Current { process: taken, entry, prepared: 0, why: None }));
    let result = body();
    let current = CURRENT.take().expect("it was set above");
    match current.why {
        Some(why) => Err(why),
        None => {
            *process = Some(current.process);
            Ok(result)
        }
    }
}

/// Returns the functions that stand for the entries and the `prepare` entries of a module.
pub(crate) fn functions(meta: &ModuleMeta) -> (Vec<EntryFn>, Vec<EntryFn>) {
    (vec![call as EntryFn; meta.entries.len()], vec![prepare as EntryFn; meta.prepare.len()])
}

unsafe extern "C" fn call(context: *mut Context, inputs: *const Tensor, outputs: *mut Tensor) -> i32 {
    CURRENT.with_borrow_mut(|current| {
        let Current { process, entry, why, .. } = current.as_mut().expect("a call is within `with_process`");
        // SAFETY: the runtime's own call of this entry.
        let status = unsafe { process.call(entry, context, inputs, outputs) };
        status.unwrap_or_else(|error| {
            *why = Some(process.broken(&error));
            STATUS_FAILED
        })
    })
}

unsafe extern "C" fn prepare(context: *mut Context, inputs: *const Tensor, outputs: *mut Tensor) -> i32 {
    CURRENT.with_borrow_mut(|current| {
        let Current { process, entry, prepared, .. } = current.as_mut().expect("weights are prepared within `with_process`");
        let symbol = process.meta.prepare[*prepared].clone();
        *entry = EntryMeta { name: symbol.clone(), symbol, ..EntryMeta::default() };
        *prepared += 1;
    });
    // SAFETY: as above.
    unsafe { call(context, inputs, outputs) }
}
