//! Implements modules: reads the text of a kernel that disc has written before its entry.
use crate::{
    driver::driver,
    handles::{State, pointer},
    status::{INVALID_HANDLE, INVALID_IMAGE, NO_BINARY_FOR_GPU, NOT_FOUND, Status},
};
use disc_ir::{OpKind, parse};
use disc_ral::{Image, Kernels};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    sync::Arc,
};

/// A module of a context.
pub(crate) struct Module {
    context: usize,
    /// The text of its kernels and routines.
    source: String,
    ptx: String,
}

/// A kernel of a module.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) context: usize,
    pub(crate) kernels: Kernels,
    /// All parameters, and those after the words that disc gives to a launch.
    pub(crate) parameters: usize,
    pub(crate) has_task_memory: bool,
    pub(crate) may_fail: bool,
    /// Its code waits for the launch before.
    pub(crate) waits: bool,
}

/// Starts a line of a kernel's text.
const SOURCE: &str = "//|";
const ELF: &[u8] = b"\x7fELF";

impl State {
    fn open(&self, context: usize, module: &Module, name: &str) -> Result<Kernel, String> {
        let parsed = parse(&module.source).map_err(|errors| format!("{errors:?}"))?;
        let function = parsed.function(name).ok_or_else(|| format!("no text of @{name}"))?;
        let kinds: Vec<OpKind> = function.walk(function.body).into_iter().map(|inst| function.kind_of(inst)).collect();
        let has = |kind| kinds.contains(&kind);
        let chip = self.contexts[context].chip;
        let code: Arc<[u8]> = module.source.clone().into_bytes().into();
        let image = Image { target: format!("simt:sm_{chip}"), code, kernels: vec![name.into()] };
        let kernels = self.contexts[context].device.load(&image).map_err(|error| error.to_string())?;
        let entry = module.ptx.split(".entry ").find_map(|text| text.strip_prefix(name)?.strip_prefix('('));
        let (head, body) = entry.and_then(|text| text.split_once(')')).unwrap_or_default();
        let body = body.split("\n}").next().unwrap_or_default();
        Ok(Kernel {
            context,
            kernels,
            parameters: head.matches(".param ").count(),
            has_task_memory: has(OpKind::Scratch) || has(OpKind::Call),
            may_fail: has(OpKind::Assert) || has(OpKind::Call),
            waits: body.lines().any(|line| line.trim() == "griddepcontrol.wait;"),
        })
    }
}

/// Writes into the log that the options of a load give.
///
/// # Safety
/// The options are those of `cuModuleLoadDataEx`.
unsafe fn say(count: u32, names: *const c_int, values: *const *mut c_void, text: &str) {
    const LOG: c_int = 5;
    const LOG_BYTES: c_int = 6;
    // SAFETY: the caller's promise.
    let option = |wanted| (0..count as usize).find_map(|at| unsafe { (*names.add(at) == wanted).then(|| *values.add(at)) });
    if let (Some(log), Some(bytes)) = (option(LOG), option(LOG_BYTES)) {
        // SAFETY: as above: the log has so many bytes.
        unsafe { log.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len().min(bytes.addr())) };
    }
}

driver! {
    fn cuModuleLoadDataEx(state, module: *mut *mut c_void, image: *const c_void, count: u32, names: *mut c_int,
        values: *mut *mut c_void) {
        let context = state.context()?;
        // SAFETY: an image is at least that long.
        if unsafe { std::slice::from_raw_parts(image.cast::<u8>(), ELF.len()) } == ELF {
            return Err(NO_BINARY_FOR_GPU);
        }
        // SAFETY: PTX ends with a zero.
        let ptx = unsafe { CStr::from_ptr(image.cast::<c_char>()) }.to_string_lossy().into_owned();
        if !ptx.contains(".version ") || !ptx.contains(".target ") {
            // SAFETY: the caller's options.
            unsafe { say(count, names, values, "ptxas fatal: missing .version directive") };
            return Err(INVALID_IMAGE);
        }
        let lines = ptx.lines().filter_map(|line| line.strip_prefix(SOURCE));
        let source = lines.flat_map(|line| [line, "\n"]).collect();
        let handle = state.handle();
        state.modules.insert(handle, Module { context, source, ptx });
        // SAFETY: the caller's memory.
        unsafe { *module = pointer(handle) };
        Ok(())
    }

    fn cuModuleGetFunction(state, function: *mut *mut c_void, module: *mut c_void, name: *const c_char) {
        let context = state.context()?;
        // SAFETY: the caller's text.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let found = state.modules.get(&module.addr()).filter(|module| module.context == context).ok_or(INVALID_HANDLE)?;
        let kernel = state.open(context, found, &name).map_err(|message| {
            eprintln!("fake CUDA driver: {message}");
            NOT_FOUND
        })?;
        let handle = state.handle();
        state.kernels.insert(handle, kernel);
        // SAFETY: the caller's memory.
        unsafe { *function = pointer(handle) };
        Ok(())
    }

    fn cuFuncSetAttribute(state, function: *mut c_void, _attribute: c_int, _value: c_int) {
        state.kernel(function).map(drop)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(state, blocks: *mut c_int, function: *mut c_void, _threads: c_int,
        _shared: usize) {
        state.kernel(function)?;
        // SAFETY: the caller's memory.
        unsafe { *blocks = 2 };
        Ok(())
    }
}

impl State {
    /// Returns a kernel of the current context.
    pub(crate) fn kernel(&self, function: *mut c_void) -> Result<Kernel, Status> {
        let context = self.context()?;
        self.kernels.get(&function.addr()).filter(|kernel| kernel.context == context).cloned().ok_or(INVALID_HANDLE)
    }
}
