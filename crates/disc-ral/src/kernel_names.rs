//! Finds the names of kernels in the code, for profiles: a kernel is a symbol of its library.

use crate::{library::Library, meta::ModuleMeta};
use disc_abi::KernelHandle;
use std::{
    collections::{BTreeMap, HashMap},
    ptr::{self, NonNull},
    sync::{Arc, Mutex, PoisonError},
};

/// The kernels of a library, looked up one by one as they are launched in a profile.
#[derive(Default)]
pub(crate) struct KernelNames {
    /// Keeps the code loaded; `None` for functions of this program, which have no names.
    library: Option<Arc<Library>>,
    /// As [`ModuleMeta::sources`].
    sources: HashMap<String, Arc<[String]>>,
    /// As [`ModuleMeta::lines`].
    lines: HashMap<String, Arc<[String]>>,
    known: Mutex<HashMap<usize, Known>>,
    /// The names of GPU kernels, by number.
    pub(crate) grids: Vec<Arc<str>>,
}

/// The facts about a kernel that its code and its metadata hold.
#[derive(Clone, Default)]
pub(crate) struct Known {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) sources: Arc<[String]>,
    pub(crate) lines: Arc<[String]>,
}

impl KernelNames {
    pub(crate) fn of(library: Arc<Library>, meta: &ModuleMeta) -> Self {
        let shared = |by_group: &BTreeMap<String, Vec<String>>| {
            by_group.iter().map(|(group, found)| (group.clone(), found.clone().into())).collect()
        };
        let (sources, lines) = (shared(&meta.sources), shared(&meta.lines));
        Self { library: Some(library), sources, lines, known: Mutex::default(), grids: Vec::new() }
    }

    /// Returns the library of the kernels; `None` for functions of this program.
    pub(crate) fn library(&self) -> Option<&Arc<Library>> {
        self.library.as_ref()
    }

    /// Returns the handle under which a GPU kernel is known here. It is no address of code: these
    /// have high addresses.
    pub(crate) fn handle_of_grid(number: u32) -> KernelHandle {
        let word = ptr::without_provenance_mut(number as usize + 1);
        KernelHandle::from_raw(NonNull::new(word).expect("a number above zero"))
    }

    /// Returns what is known of the kernel with a handle.
    pub(crate) fn get(&self, kernel: usize) -> Known {
        let Some(library) = &self.library else { return Known::default() };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let find = || {
            let grid = kernel.checked_sub(1).and_then(|number| self.grids.get(number)).map(ToString::to_string);
            let Some(name) = grid.or_else(|| library.symbol_at(kernel)) else { return Known::default() };
            let group = name.split('_').next().unwrap_or_default();
            let of = |by_group: &HashMap<String, Arc<[String]>>| by_group.get(group).cloned().unwrap_or_default();
            Known { sources: of(&self.sources), lines: of(&self.lines), name: Some(name.into()) }
        };
        known.entry(kernel).or_insert_with(find).clone()
    }
}
