//! Bounds the temporary memory of a call by an expression of the dims of its inputs.
use disc_ir::{Attr, Dim, Function, OpKind, Symbol};
use std::collections::HashMap;

/// Returns the bytes that a call allocates in its arena, at most: those of the host program or of
/// a variant that it runs instead; `None` where data decides.
pub(crate) fn temporary_bytes(host: &Function, variants: &[&Function]) -> Option<Dim> {
    let all: Option<Vec<Dim>> = [host].iter().chain(variants).map(|program| of_program(program)).collect();
    Dim::max_of(all?)
}

/// Returns the bytes of one host program. The arenas of frames that follow one another are added
/// up, and so are the parts of an arena whose offsets each call computes.
fn of_program(host: &Function) -> Option<Dim> {
    let mut ends: HashMap<Symbol, Dim> = HashMap::new();
    let mut total = Dim::constant(0);
    for inst in host.walk(host.body) {
        match (host.kind_of(inst), &host.inst(inst).attrs[..]) {
            (OpKind::LayoutArena, [Some(Attr::Dims(dims)), Some(Attr::Dims(sizes)), ..]) => {
                let end = dims.last().and_then(Dim::as_symbol)?;
                ends.insert(end.clone(), Dim::sum(sizes.iter().cloned()));
            }
            (OpKind::Arena, [Some(Attr::Dim(bytes))]) => {
                total = &total + &bytes.substitute(&|symbol| ends.get(symbol).cloned());
            }
            _ => {}
        }
    }
    let given = host.bound_symbols();
    (total.defect().is_none() && total.symbols().iter().all(|symbol| given.contains(symbol))).then_some(total)
}
