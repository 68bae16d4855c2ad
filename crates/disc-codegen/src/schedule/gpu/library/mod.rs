//! Offers matmuls and convolutions of a group to libraries of the device, which may compute them in
//! place of the group's kernels.
//!
//! A library computes a bias and one of a few functions with them. For a convolution, it is first
//! asked for exactly these, if the group is one; then for only the convolution, with a kernel for
//! the remaining ops after it: a library has few engines for more than a convolution.
mod convolution;
mod epilogue;
mod matmul;
mod memory;
mod operands;
mod rest;

use super::matmul::{Part, parts};
use crate::schedule::{Argument, Group, LibraryWay, Offer, Offers, Versioned};
use convolution::Convolution;
use disc_ir::{Inst, OpKind};

/// Adds the offers of a group of matmuls or convolutions to its code.
pub(super) fn with_offers(code: Versioned, group: &Group<'_>, offers: Offers) -> Versioned {
    let mut library = Vec::new();
    if offers.has_products() {
        library.extend(products(group).map(|offers| LibraryWay { offers, rest: None }));
    }
    if offers.has_convolutions() {
        library.extend(convolutions(group, &code).unwrap_or_default());
    }
    Versioned { library, ..code }
}

/// Returns the offers of all matmuls of a group: kernels would compute all of them, too.
fn products(group: &Group<'_>) -> Option<Vec<Offer>> {
    let parts = parts(group).ok().filter(|parts| !parts.is_empty())?;
    parts.iter().map(|part| matmul::offer(group, part).map(|offer| Offer::Matmul(Box::new(offer)))).collect()
}

/// Returns the implementations of a group whose matmuls are all convolutions.
fn convolutions(group: &Group<'_>, code: &Versioned) -> Option<Vec<LibraryWay>> {
    let parts = match parts(group) {
        Ok(parts) if !parts.is_empty() => parts,
        _ => of_ops(group)?,
    };
    let found = parts.iter().map(|part| Convolution::of(group, part.dot)).collect::<Option<Vec<_>>>()?;
    let whole: Option<Vec<_>> = found
        .iter()
        .zip(&parts)
        .map(|(convolution, part)| match part.wanted[..] {
            [position] => convolution.whole(position),
            _ => None,
        })
        .collect();
    let mut ways = Vec::new();
    let mut is_alone = false;
    if let Some(whole) = whole {
        is_alone = whole.iter().all(|(_, is_alone)| *is_alone);
        let offers = whole.into_iter().map(|(offer, _)| Offer::Convolution(Box::new(offer))).collect();
        ways.push(LibraryWay { offers, rest: None });
    }
    let codes = code.versions.iter().map(|version| &version.code).chain([&code.otherwise]);
    let sites: usize = codes.map(|code| code.sites.len()).sum();
    let values: Vec<_> = found.iter().map(|convolution| convolution.value).collect();
    if !is_alone && let Some(rest) = rest::of(group, &values, group.first_site + sites as i64) {
        let offer = |(number, convolution): (usize, &Convolution<'_>)| {
            Offer::Convolution(Box::new(convolution.alone(Argument::Workspace(number))))
        };
        ways.push(LibraryWay { offers: found.iter().enumerate().map(offer).collect(), rest: Some(rest) });
    }
    Some(ways)
}

/// Returns the one op of a group that is a convolution, which all outputs are computed from.
fn of_ops(group: &Group<'_>) -> Option<Vec<Part>> {
    let function = group.function;
    let ops: Vec<Inst> = function.insts(function.body).to_vec();
    let mut found = ops.into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Convolution);
    let (Some(dot), None) = (found.next(), found.next()) else { return None };
    Some(vec![Part { dot, wanted: group.wanted.clone() }])
}
