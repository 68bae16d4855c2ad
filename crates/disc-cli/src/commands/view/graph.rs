//! Draws the groups of a plan: each below those whose results it reads.
use super::escape::escape;
use disc_passes::fusion::{Edge, FusionPlan};

const WIDTH: usize = 230;
const HEIGHT: usize = 40;
const GAP_X: usize = 30;
const GAP_Y: usize = 44;
/// Characters of a list of ops that fit into a box.
const SHOWN: usize = 30;

/// The plan as SVG.
pub(super) fn svg(plan: &FusionPlan) -> String {
    let places = places(plan);
    let wide = places.iter().map(|place| place.0 + WIDTH).max().unwrap_or(0) + GAP_X;
    let high = places.iter().map(|place| place.1 + HEIGHT).max().unwrap_or(0) + GAP_X;
    let edges: String = plan.edges.iter().map(|edge| curve(edge, places[edge.from], places[edge.to])).collect();
    let boxes: String = plan
        .groups
        .iter()
        .enumerate()
        .map(|(number, group)| {
            let title = format!("g{number} {}: {} -> {}", group.kind, group.ops.join(", "), group.results.join(", "));
            boxed(places[number], &format!("g{number} {}", group.kind), &short(&group.ops.join(", ")), &title)
        })
        .collect();
    format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" role=\"img\">\n{edges}{boxes}</svg>")
}

/// Returns the upper left corner of each group: its row is one below the lowest group that it reads
/// from.
fn places(plan: &FusionPlan) -> Vec<(usize, usize)> {
    let mut rows = vec![0; plan.groups.len()];
    for number in 0..rows.len() {
        let needs = plan.edges.iter().filter(|edge| edge.to == number).map(|edge| rows[edge.from] + 1);
        rows[number] = needs.max().unwrap_or(0);
    }
    let mut filled = vec![0; rows.iter().max().map_or(0, |row| row + 1)];
    let place = |&row: &usize| {
        filled[row] += 1;
        (GAP_X + (filled[row] - 1) * (WIDTH + GAP_X), GAP_X + row * (HEIGHT + GAP_Y))
    };
    rows.iter().map(place).collect()
}

fn boxed((x, y): (usize, usize), first: &str, second: &str, title: &str) -> String {
    let (a, b) = (x + 8, y + 16);
    format!(
        "<g><title>{}</title><rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"4\"/>\
         <text x=\"{a}\" y=\"{b}\" font-weight=\"600\">{}</text><text x=\"{a}\" y=\"{}\">{}</text></g>\n",
        escape(title),
        escape(first),
        y + 32,
        escape(second)
    )
}

/// Draws a curve from the lower side of one box to the upper side of another.
fn curve(edge: &Edge, from: (usize, usize), to: (usize, usize)) -> String {
    let (x1, y1, x2, y2) = (from.0 + WIDTH / 2, from.1 + HEIGHT, to.0 + WIDTH / 2, to.1);
    let bend = y2.abs_diff(y1) / 2;
    let title = escape(&format!("{}: {}", edge.value, edge.reason));
    format!(
        "<g><title>{title}</title><path class=\"edge {}\" d=\"M{x1} {y1} C{x1} {} {x2} {} {x2} {y2}\"/></g>\n",
        edge.reason.name(),
        y1 + bend,
        y2.saturating_sub(bend)
    )
}

fn short(text: &str) -> String {
    if text.chars().count() <= SHOWN { text.into() } else { format!("{}…", text.chars().take(SHOWN - 1).collect::<String>()) }
}
