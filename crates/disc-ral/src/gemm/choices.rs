//! Chooses the faster of two ways for a class of GEMMs, by timing the calls themselves, each of
//! which goes one way.
//!
//! The ways alternate until each has run [`RUNS`] times; the first run of a way is a warm-up and is
//! ignored. A class covers the row counts from one power of two to the next, so times are compared
//! per row.
//!
//! Invariant: a choice is final.
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::OnDecision;

/// Runs of a way that are timed, the warm-up included.
const RUNS: u32 = 4;
/// The library must be faster by this factor: a kernel needs no copy of the weights, and rounds as
/// it does for other shapes.
const MARGIN: f64 = 0.97;

/// The two implementations of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// The kernel that disc generated.
    Kernel,
    /// The library.
    Library,
}

/// The class of a GEMM: GEMMs with the same key are computed the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GemmKey {
    /// The most rows of the class, a power of two.
    pub rows: i64,
    /// The columns of the result.
    pub columns: i64,
    /// Terms of each sum.
    pub sums: i64,
    /// Code of the element type.
    pub dtype: u8,
    /// The most threads of the session.
    pub threads: u32,
    /// Distinguishes kernels by whether operands are contiguous along the sums, and by their
    /// epilogue.
    pub form: u8,
}

/// A choice, and the best times that it is based on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The class of GEMMs.
    pub key: GemmKey,
    /// The way that was chosen for it.
    pub way: Way,
    /// Nanoseconds per row of the kernel and of the library; infinite if the library could not
    /// compute it.
    pub nanoseconds_per_row: [Option<f64>; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    runs: [u32; 2],
    best: [Option<f64>; 2],
    decided: Option<Way>,
}

impl Trial {
    fn decision(&self, key: GemmKey) -> Option<Decision> {
        Some(Decision { key, way: self.decided?, nanoseconds_per_row: self.best })
    }
}

pub(super) struct Choices {
    trials: Mutex<HashMap<GemmKey, Trial>>,
    on_decision: Option<OnDecision>,
}

impl Choices {
    pub(super) fn new(known: Vec<Decision>, on_decision: Option<OnDecision>) -> Self {
        let trial = |decision: Decision| {
            let trial = Trial { runs: [RUNS; 2], best: decision.nanoseconds_per_row, decided: Some(decision.way) };
            (decision.key, trial)
        };
        Self { trials: Mutex::new(known.into_iter().map(trial).collect()), on_decision }
    }

    /// Returns the way for the next GEMM of this class, and true if its time is wanted.
    pub(super) fn next(&self, key: &GemmKey) -> (Way, bool) {
        let mut trials = self.lock();
        let trial = trials.entry(*key).or_default();
        match trial.decided {
            Some(way) => (way, false),
            None => (if trial.runs[1] < trial.runs[0] { Way::Library } else { Way::Kernel }, true),
        }
    }

    /// Records a time. Returns true if it led to a choice after which no matrix of this size goes
    /// to the library.
    pub(super) fn measured(&self, key: &GemmKey, way: Way, rows: i64, nanoseconds: u64) -> bool {
        let mut trials = self.lock();
        let trial = trials.entry(*key).or_default();
        if trial.decided.is_some() {
            return false;
        }
        let at = way as usize;
        trial.runs[at] += 1;
        if trial.runs[at] > 1 {
            let time = nanoseconds as f64 / rows.max(1) as f64;
            trial.best[at] = Some(trial.best[at].map_or(time, |best| best.min(time)));
        }
        if trial.runs.iter().all(|&runs| runs >= RUNS)
            && let [Some(kernel), Some(library)] = trial.best
        {
            trial.decided = Some(if library < MARGIN * kernel { Way::Library } else { Way::Kernel });
            let same = |other: &GemmKey| (other.columns, other.sums) == (key.columns, key.sums);
            let unused = trials.iter().all(|(other, trial)| !same(other) || trial.decided == Some(Way::Kernel));
            self.tell(trials, key);
            return unused;
        }
        false
    }

    pub(super) fn refuse(&self, key: &GemmKey) {
        let mut trials = self.lock();
        let trial = trials.entry(*key).or_default();
        trial.best[1] = None;
        if trial.decided == Some(Way::Kernel) {
            return;
        }
        trial.decided = Some(Way::Kernel);
        self.tell(trials, key);
    }

    pub(super) fn decisions(&self) -> Vec<Decision> {
        sorted(&self.lock())
    }

    fn tell(&self, trials: MutexGuard<'_, HashMap<GemmKey, Trial>>, key: &GemmKey) {
        let made = trials.get(key).and_then(|trial| trial.decision(*key));
        drop(trials);
        if let (Some(on_decision), Some(made)) = (&self.on_decision, made) {
            on_decision(&made);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<GemmKey, Trial>> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sorted(trials: &HashMap<GemmKey, Trial>) -> Vec<Decision> {
    let mut all: Vec<Decision> = trials.iter().filter_map(|(&key, trial)| trial.decision(key)).collect();
    all.sort_by_key(|decision| decision.key);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const KEY: GemmKey = GemmKey { rows: 8, columns: 64, sums: 32, dtype: 3, threads: 1, form: 0 };

    fn try_both(choices: &Choices, kernel: u64, library: u64) -> usize {
        for calls in 0.. {
            match choices.next(&KEY) {
                (_, false) => return calls,
                (Way::Kernel, true) => _ = choices.measured(&KEY, Way::Kernel, 8, kernel),
                (Way::Library, true) => _ = choices.measured(&KEY, Way::Library, 8, library),
            }
        }
        unreachable!("a choice is made")
    }

    #[test]
    fn the_faster_way_is_chosen_and_ties_are_the_kernels() {
        for (kernel, library, way) in [(900, 800, Way::Library), (800, 900, Way::Kernel), (800, 790, Way::Kernel)] {
            let choices = Choices::new(Vec::new(), None);
            assert_eq!(try_both(&choices, kernel, library), 2 * RUNS as usize);
            let [decision] = choices.decisions()[..] else { panic!("one choice") };
            assert_eq!((decision.key, decision.way), (KEY, way));
            assert_eq!(decision.nanoseconds_per_row, [Some(kernel as f64 / 8.0), Some(library as f64 / 8.0)]);
        }
    }

    #[test]
    fn choices_are_told_and_not_made_again() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let keep = told.clone();
        let choices = Choices::new(Vec::new(), Some(Box::new(move |made| keep.lock().unwrap().push(*made))));
        try_both(&choices, 10_000, 100);
        let known = told.lock().unwrap().clone();
        assert_eq!(known, choices.decisions());
        let next = Choices::new(known, None);
        assert_eq!(next.next(&KEY), (Way::Library, false));
        assert!(!next.measured(&KEY, Way::Kernel, 8, 1));
        assert_eq!(next.next(&KEY), (Way::Library, false));
    }

    #[test]
    fn what_a_library_cannot_do_is_the_kernels() {
        let choices = Choices::new(Vec::new(), None);
        choices.refuse(&KEY);
        assert_eq!(choices.next(&KEY), (Way::Kernel, false));
    }
}
