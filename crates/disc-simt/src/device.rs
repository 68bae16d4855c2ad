//! Implements the device: memory, kernels, queues, and its place in the list of devices.
use crate::{
    chip::{CHIPS, Chip},
    compile::compile,
    memory::Memory,
    program::Program,
    queue::SimtQueue,
};
use disc_abi::DEVICE_SIMT;
use disc_ir::{Function, Grid, ops::Stage, parse, verify};
use disc_ral::{AllocError, Backend, Device, DeviceName, Error, Image, Kernels, Queue, Refusal, code, register_backend};
use std::{
    collections::HashMap,
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicU64},
};

/// Adds the devices `simt:CHIP` to those that compiled code can run on.
pub fn register() {
    register_backend(Backend { kind: "simt", names, open });
}

fn names() -> Vec<DeviceName> {
    CHIPS.iter().filter_map(|chip| chip.name.parse().ok()).collect()
}

/// Opens the device of a chip; the process has one of each.
fn open(name: &DeviceName) -> Result<Arc<dyn Device>, Refusal> {
    static OPEN: Mutex<Option<HashMap<&str, Arc<Simt>>>> = Mutex::new(None);
    let name = name.to_string();
    let chip = CHIPS.iter().find(|chip| chip.name == name).ok_or(Refusal::NotHere(None))?;
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let device = open.get_or_insert_default().entry(chip.name).or_insert_with(|| Arc::new(Simt::new(chip)));
    Ok(Arc::clone(device) as Arc<dyn Device>)
}

/// A device that runs GPU kernels for a chip on the host, and checks them.
pub struct Simt {
    state: Arc<State>,
}

/// The part of a device that its queues share.
pub(crate) struct State {
    pub(crate) chip: &'static Chip,
    /// None where the system grants no addresses.
    pub(crate) memory: Option<Memory>,
    /// Launches hold it while they run; to forget all accesses, a caller must be the only one that
    /// holds it.
    pub(crate) running: RwLock<()>,
    /// The number of the next run of a block.
    pub(crate) next_run: AtomicU64,
}

impl Simt {
    fn new(chip: &'static Chip) -> Self {
        // Run 0 is of no launch.
        let state = State { chip, memory: Memory::new(), running: RwLock::new(()), next_run: AtomicU64::new(1) };
        Self { state: Arc::new(state) }
    }
}

impl Device for Simt {
    fn kind(&self) -> u8 {
        DEVICE_SIMT
    }

    fn name(&self) -> &'static str {
        self.state.chip.name
    }

    fn alloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        let memory = self.state.memory.as_ref().ok_or(AllocError::System)?;
        NonNull::new(memory.alloc(bytes)?).ok_or(AllocError::System)
    }

    unsafe fn free(&self, at: NonNull<u8>, _bytes: usize) {
        if let Some(memory) = &self.state.memory {
            memory.free(at.as_ptr());
        }
    }

    fn nontemporal_bytes(&self) -> i64 {
        0
    }

    fn queue(&self) -> Box<dyn Queue> {
        Box::new(SimtQueue::new(Arc::clone(&self.state)))
    }

    fn load(&self, image: &Image) -> Result<Kernels, Error> {
        load(self.state.chip, image).map(|programs| Arc::new(programs) as Kernels).map_err(|message| {
            Error::new(code::LOAD, "", format!("kernels for `{}` on the device `{}`: {message}", image.target, self.name()))
        })
    }
}

/// The kernels of an image, by number.
pub(crate) struct Programs(pub(crate) Vec<Program>);

fn load(chip: &Chip, image: &Image) -> Result<Programs, String> {
    if image.target != chip.name {
        return Err("the code is for another device".into());
    }
    let text = std::str::from_utf8(&image.code).map_err(|error| error.to_string())?;
    let first = |errors: Vec<disc_ir::Diagnostic>| errors.first().map(ToString::to_string).unwrap_or_default();
    let module = parse(text).map_err(first)?;
    verify(&module, Stage::Kernel).map_err(first)?;
    let program = |name: &Arc<str>| {
        let kernel = module.function(name).ok_or_else(|| format!("there is no kernel @{name}"))?;
        check_grid(chip, kernel)?;
        compile(&module, kernel, text)
    };
    image.kernels.iter().map(program).collect::<Result<_, _>>().map(Programs)
}

fn check_grid(chip: &Chip, kernel: &Function) -> Result<(), String> {
    let Some(Grid { threads, warp, .. }) = kernel.grid else {
        return Err(format!("@{} does not run on a grid of threads", kernel.name));
    };
    if warp != chip.warp {
        return Err(format!("@{} has warps of {warp} threads, the chip of {}", kernel.name, chip.warp));
    }
    if threads > chip.threads {
        return Err(format!("@{} has blocks of {threads} threads, the chip has {} at most", kernel.name, chip.threads));
    }
    Ok(())
}
