//! Emits the routines of a kernel: the micro-kernels that its products need. Products of one
//! structure share theirs.
use super::{dot, epilogue_routine, micro, register_tiles};
use crate::{
    kernel::Site,
    schedule::{
        Group,
        cpu::matmul::plan::{MatmulPlan, forms::RightForm},
    },
};
use disc_ir::Function;
use std::ops::Range;

/// Routines, and their sites of failure.
#[derive(Default)]
pub(in crate::schedule) struct Routines {
    pub(in crate::schedule) functions: Vec<Function>,
    pub(in crate::schedule) sites: Vec<Site>,
    /// The functions of each distinct matmul, and the prefix of their names.
    known: Vec<(Range<usize>, String)>,
}

impl Routines {
    /// Adds the routines that a plan needs; gives the prefix of their names.
    pub(in crate::schedule) fn add(&mut self, group: &Group<'_>, plan: &MatmulPlan) -> String {
        let part = format!("{}.{}", group.name, self.known.len());
        let mut made = Vec::new();
        for source in plan.sources(group.target) {
            let [low, high] = plan.heights(group.target, source);
            if plan.reads_register_tiles(source) {
                made.push(register_tiles::emit(group, plan, &part, source));
            }
            let is_needed = !(plan.reads_register_tiles(source) && plan.always_fills_registers());
            made.extend((low..=high).filter(|_| is_needed).map(|rows| micro::emit(group, plan, &part, source, rows)));
            made.extend(
                (is_needed && plan.result.is_finished_apart()).then(|| epilogue_routine::emit(group, plan, &part, source)),
            );
        }
        if plan.right.form == RightForm::Dots || plan.right.has_dots_for_few_rows() {
            let [tall, wide] = plan.dot_blocks(group.target);
            for &rows in &tall {
                made.extend(wide.iter().map(|&columns| dot::emit(group, plan, &part, rows, columns)));
            }
        }
        if let Some(name) = self.name_of_equal(&made, &part) {
            return name;
        }
        merge_sites(&mut self.sites, &made);
        let first = self.functions.len();
        self.functions.extend(made.into_iter().map(|(function, _)| function));
        self.known.push((first..self.functions.len(), part.clone()));
        part
    }

    /// Returns the prefix of the functions that are these but for their prefix. Texts are compared,
    /// which only kernels of several matmuls pay for.
    fn name_of_equal(&self, made: &[(Function, Vec<Site>)], part: &str) -> Option<String> {
        if self.known.is_empty() {
            return None;
        }
        let text = |function: &Function, part: &str| function.to_string().replace(part, "");
        let wanted: String = made.iter().map(|(function, _)| text(function, part)).collect();
        let is_equal = |(functions, name): &&(Range<usize>, String)| {
            self.functions[functions.clone()].iter().map(|function| text(function, name)).collect::<String>() == wanted
        };
        self.known.iter().find(is_equal).map(|(_, name)| name.clone())
    }
}

/// Adds the sites at which routines can fail: each is numbered as in the first of them.
pub(in crate::schedule) fn merge_sites(sites: &mut Vec<Site>, routines: &[(Function, Vec<Site>)]) {
    for site in routines.iter().flat_map(|(_, more)| more) {
        if !sites.contains(site) {
            sites.push(site.clone());
        }
    }
}

/// Counts the sites at which routines can fail, each once.
pub(in crate::schedule) fn count_sites(routines: &[(Function, Vec<Site>)]) -> i64 {
    let mut sites = Vec::new();
    merge_sites(&mut sites, routines);
    sites.len() as i64
}
