//! Runs the two halves of compilation on a target machine: passes over the IR, then code
//! generation.
//!
//! It does not build IR and does not link. After a fatal error of LLVM, nothing that took part is
//! touched again: [`in_context`] leaks the context, the machine its module and itself.
use crate::{Error, target::LlvmTarget};
use disc_codegen::target::Target;
use inkwell::{
    OptimizationLevel,
    context::Context,
    memory_buffer::MemoryBuffer,
    module::Module,
    passes::PassBuilderOptions,
    targets::{CodeModel, InitializationConfig, RelocMode, Target as Registry, TargetMachine, TargetTriple},
};
use llvm_sys::{
    core::{LLVMDisposeMemoryBuffer, LLVMGetBufferSize, LLVMGetBufferStart},
    prelude::{LLVMMemoryBufferRef, LLVMModuleRef},
    target_machine::{
        LLVMCodeGenFileType, LLVMCodeGenOptLevel, LLVMCodeModel, LLVMRelocMode, LLVMTargetMachineRef, LLVMTargetRef,
    },
};
use std::{
    cell::Cell,
    ffi::{CStr, CString, c_char},
    mem::ManuallyDrop,
    sync::Once,
};

/// The effort of the code generator, and its instruction selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codegen {
    /// FastISel: a third of the time, 1.3 to 7 times slower code. For host programs.
    Fast,
    /// O1: for kernels with explicit vectors, as fast as O3.
    Less,
    /// O2: for scalar loops and GPUs.
    Default,
}

/// A pipeline of the pass manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passes {
    /// For kernels with explicit vectors.
    None,
    /// Clean-up only, of IR that is in SSA form.
    Short,
    /// For scalar loops that LLVM shall vectorise, and for GPUs.
    O2,
}

impl Passes {
    fn pipeline(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Short => {
                Some("function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)")
            }
            Self::O2 => Some("default<O2>"),
        }
    }
}

/// An object file that LLVM made in this process: the only input that is safe to give to lld.
#[derive(Clone, Debug)]
pub struct Object(Vec<u8>);

impl Object {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// For tests of bytes that are no object.
    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_owned())
    }
}

/// Runs `build` in a context of its own, which is dropped unless the result is [`Error::Fatal`]:
/// the caller must pass that error on.
pub(crate) fn in_context<T>(build: impl FnOnce(&Context) -> Result<T, Error>) -> Result<T, Error> {
    let context = ManuallyDrop::new(Context::create());
    let result = build(&context);
    if !matches!(result, Err(Error::Fatal { .. })) {
        drop(ManuallyDrop::into_inner(context));
    }
    result
}

/// An LLVM target machine. Make one per thread: LLVM's own is not synchronised.
pub(crate) struct Machine {
    inner: ManuallyDrop<TargetMachine>,
    gave_up: Cell<bool>,
    target: Target,
}

impl Machine {
    pub(crate) fn new(target: &Target, codegen: Codegen) -> Result<Self, Error> {
        let inner = create(&LlvmTarget::of(target), codegen)?;
        Ok(Self { inner: ManuallyDrop::new(inner), gave_up: Cell::new(false), target: target.clone() })
    }

    #[cfg_attr(not(test), expect(dead_code, reason = "the lowering of kernels asks for it"))]
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Marks the module as code for this machine. Call it before IR is built: constant folding uses
    /// the layout.
    pub(crate) fn prepare(&self, module: &Module<'_>) {
        module.set_triple(&self.inner.get_triple());
        module.set_data_layout(&self.inner.get_target_data().get_data_layout());
    }

    /// Parses textual IR, verifies it, and marks it as code for this machine.
    pub(crate) fn parse<'ctx>(&self, context: &'ctx Context, text: &str) -> Result<Module<'ctx>, Error> {
        let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "ir");
        let module = context.create_module_from_ir(buffer).map_err(|e| Error::Verify(e.to_string()))?;
        self.prepare(&module);
        module.verify().map_err(|e| Error::Verify(e.to_string()))?;
        Ok(module)
    }

    pub(crate) fn optimize(&self, module: &Module<'_>, passes: Passes) -> Result<(), Error> {
        let Some(pipeline) = passes.pipeline() else { return Ok(()) };
        let options = PassBuilderOptions::create();
        options.set_loop_vectorization(true);
        options.set_loop_slp_vectorization(true);
        let result = module.run_passes(pipeline, &self.inner, options);
        result.map_err(|e| Error::Passes { pipeline, message: e.to_string() })
    }

    pub(crate) fn object(&self, module: Module<'_>) -> Result<Object, Error> {
        self.emit(module, LLVMCodeGenFileType::LLVMObjectFile).map(Object)
    }

    /// Returns assembly, or PTX, in which every call has its function: to LLVM a misspelt intrinsic
    /// is an ordinary call.
    pub(crate) fn assembly(&self, module: Module<'_>) -> Result<String, Error> {
        let bytes = self.emit(module, LLVMCodeGenFileType::LLVMAssemblyFile)?;
        let text = String::from_utf8(bytes).map_err(|e| Error::Codegen(e.to_string()))?;
        let unknown = match self.target {
            Target::Nvptx { .. } => text.lines().find(|line| line.starts_with(".extern .func")),
            Target::X86(_) | Target::AArch64(_) | Target::Amdgpu { .. } | Target::Simt { .. } => None,
        };
        match unknown {
            Some(line) => Err(Error::Codegen(format!("PTX calls what does not exist: {line}"))),
            None => Ok(text),
        }
    }

    /// # Errors
    /// The verifier's complaint (with debug assertions: code generation of a broken module may
    /// crash), a diagnostic, or LLVM's fatal error.
    fn emit(&self, module: Module<'_>, kind: LLVMCodeGenFileType) -> Result<Vec<u8>, Error> {
        if self.gave_up.get() {
            return Err(Error::Codegen("this target machine met a fatal error of LLVM before".to_owned()));
        }
        if cfg!(debug_assertions) {
            module.verify().map_err(|e| Error::Verify(e.to_string()))?;
        }
        let (mut message, mut buffer) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a live machine and module, and two places to write to.
        let code = unsafe { disc_emit(self.inner.as_mut_ptr(), module.as_mut_ptr(), kind, &mut message, &mut buffer) };
        if code == 0 {
            // SAFETY: success gives a buffer that is ours; its bytes are read before it is
            // disposed.
            unsafe {
                let start = LLVMGetBufferStart(buffer).cast::<u8>();
                let bytes = std::slice::from_raw_parts(start, LLVMGetBufferSize(buffer)).to_vec();
                LLVMDisposeMemoryBuffer(buffer);
                return Ok(bytes);
            }
        }
        // SAFETY: every failure gives malloc'ed, NUL-terminated text.
        let text = unsafe { take_text(message) };
        if code != FATAL {
            return Err(Error::Codegen(text));
        }
        self.gave_up.set(true);
        std::mem::forget(module);
        Err(Error::Fatal { target: self.target.to_string(), message: text })
    }
}

/// Creates LLVM's machine.
///
/// # Errors
/// [`Error::NoMachine`] for a target that LLVM does not know, [`Error::Fatal`] for one that it
/// gives up on, such as a version of PTX that lacks the chip.
pub(crate) fn create(LlvmTarget { triple, cpu, features }: &LlvmTarget, codegen: Codegen) -> Result<TargetMachine, Error> {
    initialize();
    let level = match codegen {
        Codegen::Fast => OptimizationLevel::None,
        Codegen::Less => OptimizationLevel::Less,
        Codegen::Default => OptimizationLevel::Default,
    };
    let name = TargetTriple::create(triple);
    let registered = Registry::from_triple(&name).map_err(|e| Error::NoMachine(e.to_string()))?;
    let text = |text: &str| CString::new(text).map_err(|_| Error::NoMachine(format!("{text:?}")));
    let (cpu_text, features) = (text(cpu)?, text(features)?);
    let mut message = std::ptr::null_mut();
    // SAFETY: a registered target, NUL-terminated text, and a place to write to.
    let made = unsafe {
        disc_create_machine(
            registered.as_mut_ptr(),
            name.as_ptr(),
            cpu_text.as_ptr(),
            features.as_ptr(),
            level.into(),
            RelocMode::PIC.into(),
            CodeModel::Default.into(),
            &mut message,
        )
    };
    if !message.is_null() {
        // SAFETY: a message is malloc'ed, NUL-terminated text.
        return Err(Error::Fatal { target: format!("{triple} ({cpu})"), message: unsafe { take_text(message) } });
    }
    if made.is_null() {
        return Err(Error::NoMachine((*triple).to_owned()));
    }
    // SAFETY: a machine that nothing else owns.
    Ok(unsafe { TargetMachine::new(made) })
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !self.gave_up.get() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

/// Result of `disc_emit` after a fatal error.
const FATAL: i32 = 2;

unsafe extern "C" {
    fn disc_create_machine(
        target: LLVMTargetRef,
        triple: *const c_char,
        cpu: *const c_char,
        features: *const c_char,
        level: LLVMCodeGenOptLevel,
        relocation: LLVMRelocMode,
        model: LLVMCodeModel,
        message: *mut *mut c_char,
    ) -> LLVMTargetMachineRef;
    fn disc_emit(
        machine: LLVMTargetMachineRef,
        module: LLVMModuleRef,
        kind: LLVMCodeGenFileType,
        message: *mut *mut c_char,
        buffer: *mut LLVMMemoryBufferRef,
    ) -> i32;
}

/// Takes malloc'ed text from the shim.
///
/// # Safety
/// `text` is null, or malloc'ed and NUL-terminated.
pub(crate) unsafe fn take_text(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().trim().to_owned();
        libc::free(text.cast());
        owned
    }
}

fn initialize() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let config = InitializationConfig::default();
        Registry::initialize_x86(&config);
        Registry::initialize_aarch64(&config);
        Registry::initialize_nvptx(&config);
        Registry::initialize_amd_gpu(&config);
    });
}
