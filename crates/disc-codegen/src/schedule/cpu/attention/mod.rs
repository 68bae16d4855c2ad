//! Schedules attention: rows of a product, a softmax of them and a product with them, block by
//! block in task memory.
//!
//! Rows that are a softmax are computed some columns after the others: see [`flash`]. [`decode`]
//! does so for a few rows, [`register_tiles`] with matmuls of tiles. [`whole_rows`] takes any other
//! function of rows.
//!
//! The group holds three groups (matmul, reduction, matmul), each with a schedule of its own; this
//! one decides which memory their values are in.
pub(in crate::schedule) mod decode;
mod flash;
mod masking;
mod online_softmax;
mod plan;
pub(in crate::schedule) mod register_tiles;
mod softmax;
mod unit;
mod whole_rows;

pub(in crate::schedule) use masking::{Mask, masks};
pub use plan::AttentionPlan;
pub(in crate::schedule) use softmax::Softmax;

use crate::schedule::{Group, Version, Versioned};
use register_tiles::Code;

/// Schedules a group that has a plan.
pub(in crate::schedule) fn schedule(group: &Group<'_>, plan: &AttentionPlan) -> Versioned {
    let Some(softmax) = &plan.softmax else { return whole_rows::schedule(group, plan).into() };
    let mut rest = group.clone();
    let mut versions = Vec::new();
    let mut add = |rest: &mut Group<'_>, version: Version| {
        rest.first_site += version.code.sites.len() as i64;
        versions.push(version);
    };
    if let Some(version) = decode::version(&rest, softmax) {
        add(&mut rest, version);
    }
    let otherwise = match register_tiles::schedule(&rest, softmax) {
        Some(Code::Always(code)) => code,
        Some(Code::Sometimes(version)) => {
            add(&mut rest, version);
            flash::schedule(&rest, plan, softmax)
        }
        None => flash::schedule(&rest, plan, softmax),
    };
    Versioned { versions, otherwise, ..Versioned::default() }
}
