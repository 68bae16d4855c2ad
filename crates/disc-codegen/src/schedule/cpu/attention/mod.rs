//! Schedules attention: rows of a product, a softmax of them and a product with them, block by
//! block in task memory.
//!
//! Rows that are a softmax are computed some columns after the others: see [`flash`], and
//! [`decode`] for a few rows. [`whole_rows`] takes any other function of rows.
//!
//! The group holds three groups (matmul, reduction, matmul), each with a schedule of its own; this
//! one decides which memory their values are in.
mod decode;
mod flash;
mod masking;
mod online_softmax;
mod plan;
mod softmax;
mod unit;
mod whole_rows;

pub(in crate::schedule) use masking::{Mask, masks};
pub use plan::AttentionPlan;
pub(in crate::schedule) use softmax::Softmax;

use crate::schedule::{Group, Versioned};

/// Schedules a group that has a plan.
pub(in crate::schedule) fn schedule(group: &Group<'_>, plan: &AttentionPlan) -> Versioned {
    let Some(softmax) = &plan.softmax else { return whole_rows::schedule(group, plan).into() };
    let decode = decode::version(group, softmax);
    let mut rest = group.clone();
    rest.first_site += decode.as_ref().map_or(0, |version| version.code.sites.len() as i64);
    Versioned { versions: decode.into_iter().collect(), otherwise: flash::schedule(&rest, plan, softmax), ..Versioned::default() }
}
