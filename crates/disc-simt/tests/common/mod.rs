//! Launches kernels from their text.
#![allow(dead_code, reason = "each test binary uses a part")]

use disc_abi::{ALIGN, GridLaunch};
use disc_ral::{Device, GridCall, Image, Kernels, LaunchFailure, Queue, open_device};
use std::{ptr::NonNull, sync::Arc};

/// A device with a queue, and the memory that a test allocates.
pub(crate) struct Bench {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) queue: Box<dyn Queue>,
    chip: String,
    blocks: Vec<(NonNull<u8>, usize)>,
}

/// The sizes of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) blocks: i64,
    pub(crate) threads: u32,
    pub(crate) shared: i64,
    pub(crate) scratch: i64,
    pub(crate) flags: u32,
}

pub(crate) fn grid(blocks: i64, threads: u32) -> Sizes {
    Sizes { blocks, threads, shared: 0, scratch: 0, flags: 0 }
}

impl Sizes {
    pub(crate) fn shared(self, shared: i64) -> Self {
        Self { shared, ..self }
    }

    pub(crate) fn scratch(self, scratch: i64) -> Self {
        Self { scratch, ..self }
    }
}

impl Bench {
    pub(crate) fn on(chip: &str) -> Self {
        disc_simt::register();
        let device = open_device(&format!("simt:{chip}").parse().unwrap()).unwrap();
        let queue = device.queue();
        Self { device, queue, chip: format!("simt:{chip}"), blocks: Vec::new() }
    }

    pub(crate) fn new() -> Self {
        Self::on("sm_90")
    }

    /// Allocates memory that nobody has written.
    pub(crate) fn empty(&mut self, bytes: usize) -> u64 {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        let at = self.device.alloc(bytes).unwrap();
        self.blocks.push((at, bytes));
        at.addr().get() as u64
    }

    pub(crate) fn upload(&mut self, bytes: &[u8]) -> u64 {
        let at = self.empty(bytes.len());
        // SAFETY: memory of this size.
        unsafe { self.queue.upload(std::ptr::with_exposed_provenance_mut(at as usize), bytes.as_ptr(), bytes.len()) }.unwrap();
        at
    }

    pub(crate) fn f32s(&mut self, values: &[f32]) -> u64 {
        self.upload(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
    }

    pub(crate) fn i32s(&mut self, values: &[i32]) -> u64 {
        self.upload(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
    }

    pub(crate) fn download(&mut self, at: u64, bytes: usize) -> Result<Vec<u8>, LaunchFailure> {
        let mut to = vec![0; bytes];
        // SAFETY: memory of this size.
        unsafe { self.queue.download(to.as_mut_ptr(), std::ptr::with_exposed_provenance(at as usize), bytes) }?;
        Ok(to)
    }

    pub(crate) fn read_f32s(&mut self, at: u64, count: usize) -> Vec<f32> {
        let bytes = self.download(at, 4 * count).unwrap();
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub(crate) fn read_i32s(&mut self, at: u64, count: usize) -> Vec<i32> {
        let bytes = self.download(at, 4 * count).unwrap();
        bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn try_load(&self, text: &str) -> Result<Kernels, disc_ral::Error> {
        self.device.load(&Image { target: self.chip.clone(), code: text.as_bytes().into(), kernels: vec!["k".into()] })
    }

    /// Loads the one kernel of a text, `@k`.
    pub(crate) fn load(&self, text: &str) -> Kernels {
        self.try_load(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// Returns the message with which the device refuses to load a text.
    pub(crate) fn refusal(&self, text: &str) -> String {
        self.try_load(text).err().unwrap_or_else(|| panic!("it is loaded\n{text}")).to_string()
    }

    pub(crate) fn launch(&mut self, text: &str, args: &[u64], sizes: Sizes) -> Result<(), LaunchFailure> {
        let kernels = self.load(text);
        self.run(&kernels, args, sizes)
    }

    pub(crate) fn run(&mut self, kernels: &Kernels, args: &[u64], sizes: Sizes) -> Result<(), LaunchFailure> {
        let Sizes { blocks, threads, shared, scratch, flags } = sizes;
        let grid = GridLaunch { blocks, shared, scratch, threads, flags };
        // SAFETY: the kernels are of this device, which checks them.
        unsafe { self.queue.launch_grid(kernels, &GridCall { kernel: 0, args, grid }) }
    }

    /// Returns the message of a launch that the device refuses.
    pub(crate) fn error(&mut self, text: &str, args: &[u64], sizes: Sizes) -> String {
        match self.launch(text, args, sizes) {
            Err(LaunchFailure::Device(message)) => message,
            other => panic!("expected an error of the device: {other:?}"),
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for &(at, bytes) in &self.blocks {
            // SAFETY: allocated by this device, once.
            unsafe { self.device.free(at, bytes) };
        }
    }
}
