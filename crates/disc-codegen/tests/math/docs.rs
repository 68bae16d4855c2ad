//! Checks that docs/numerics.md states the same bounds as the code.

use disc_codegen::math::MathFn;

const DOCS: &str = include_str!("../../../../docs/numerics.md");

/// The cells of the rows that start with a function's name in code quotes.
fn rows() -> Vec<Vec<&'static str>> {
    let lines = DOCS.lines().filter(|l| l.starts_with("| `"));
    lines.map(|l| l.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn numerics_page_states_every_bound() {
    let rows = rows();
    for &function in MathFn::ALL {
        let (name, bound) = (format!("`{}`", function.name()), function.bound());
        let wanted = format!("| {name} | {} / {} / {} / {} |", bound.f32, bound.f32_no_fma, bound.f64, bound.f64_no_fma);
        let row = rows.iter().find(|r| r[0] == name).unwrap_or_else(|| panic!("docs/numerics.md has no row {wanted}"));
        let stated: Vec<f64> = row[1].split(" / ").map(|c| c.parse().expect("a bound is a number")).collect();
        assert_eq!(stated, [bound.f32, bound.f32_no_fma, bound.f64, bound.f64_no_fma], "the bounds of {name}");
    }
    assert_eq!(rows.len(), MathFn::ALL.len(), "every row is a function of the table");
}

#[test]
fn measured_errors_are_within_the_bounds() {
    for row in rows() {
        let bounds: Vec<f64> = row[1].split(" / ").map(|c| c.parse().expect("a bound is a number")).collect();
        let measured: Vec<f64> = row[2].split(" / ").map(|c| c.parse().expect("an error is a number")).collect();
        assert_eq!(bounds.len(), measured.len(), "{}", row[0]);
        for (m, b) in measured.iter().zip(&bounds) {
            assert!(m <= b, "{}: measured {m} above the bound {b}", row[0]);
        }
    }
}
