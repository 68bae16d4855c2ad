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

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(programs: &[&str]) -> Option<String> {
        let text = |body: &&str| {
            format!(
                "host @main(%x: buffer<[N]xi64>) -> tensor<[N]xi64> {{\n{body}%y = alloc_output index = 0 : buffer<[N]xi64>\nreturn\n}}"
            )
        };
        let modules: Vec<_> = programs.iter().map(text).map(|text| disc_ir::text::parse(&text).expect("a program")).collect();
        let hosts: Vec<&Function> = modules.iter().map(|module| &module.functions[0]).collect();
        temporary_bytes(hosts[0], &hosts[1..]).map(|bytes| bytes.to_string())
    }

    const ARENA: &str = "%a = arena bytes = [64*N] : buffer<[64*N]xu8>\n";
    const PLACED: &str = "layout_arena dims = [at0, at1, end], sizes = [N, 2*N], meets = [0, 1, 0]\n\
        %a = arena bytes = [8*end] : buffer<[8*end]xu8>\n";

    #[test]
    fn arenas_and_the_parts_that_a_call_places_are_added_up() {
        assert_eq!(bound(&[""]).as_deref(), Some("0"));
        assert_eq!(bound(&[ARENA]).as_deref(), Some("64*N"));
        assert_eq!(bound(&[PLACED]).as_deref(), Some("24*N"));
        let more = format!("{PLACED}%b = arena bytes = [128] : buffer<128xu8>\n");
        assert_eq!(bound(&[&more]).as_deref(), Some("24*N+128"));
    }

    #[test]
    fn a_variant_may_need_more() {
        assert_eq!(bound(&[PLACED, ARENA]).as_deref(), Some("max(24*N, 64*N)"));
        assert_eq!(bound(&[ARENA, ARENA]).as_deref(), Some("64*N"));
    }

    #[test]
    fn there_is_none_where_data_decides() {
        let data = "%k = constant dense<3> : i64\nbind_dim %k, dim = [K] : (i64)\n%a = arena bytes = [8*K] : buffer<[8*K]xu8>\n";
        assert_eq!(bound(&[data]), None);
        assert_eq!(bound(&[ARENA, data]), None);
    }
}
