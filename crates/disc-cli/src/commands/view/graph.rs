//! Places the groups of a plan for a drawing: each below those whose results it reads.
use disc_passes::fusion::{Edge, FusionPlan};

const WIDTH: usize = 230;
const HEIGHT: usize = 40;
const GAP_X: usize = 30;
const GAP_Y: usize = 44;
/// Characters of a list of ops that fit into a box.
const SHOWN: usize = 30;

/// A plan as boxes and curves, in pixels.
pub(super) struct Drawing {
    pub width: usize,
    pub height: usize,
    pub boxes: Vec<Group>,
    pub curves: Vec<Curve>,
}

/// A group: its upper left corner, two lines of text, and all of its text.
pub(super) struct Group {
    pub x: usize,
    pub y: usize,
    pub first: String,
    pub second: String,
    pub title: String,
}

/// A value that goes from one group to another, as a path of SVG.
pub(super) struct Curve {
    pub path: String,
    pub kind: &'static str,
    pub title: String,
}

impl Drawing {
    pub(super) const BOX: (usize, usize) = (WIDTH, HEIGHT);

    pub(super) fn of(plan: &FusionPlan) -> Self {
        let places = places(plan);
        let width = places.iter().map(|place| place.0 + WIDTH).max().unwrap_or(0) + GAP_X;
        let height = places.iter().map(|place| place.1 + HEIGHT).max().unwrap_or(0) + GAP_X;
        let curves = plan.edges.iter().map(|edge| curve(edge, places[edge.from], places[edge.to])).collect();
        let boxes = plan.groups.iter().zip(&places).enumerate().map(|(number, (group, &(x, y)))| {
            let (ops, results) = (group.ops.join(", "), group.results.join(", "));
            let lines = if group.lines.is_empty() { String::new() } else { format!(" at {}", group.lines.join(", ")) };
            let title = format!("g{number} {}: {ops} -> {results}{lines}", group.kind);
            Group { x, y, first: format!("g{number} {}", group.kind), second: short(&ops), title }
        });
        Self { width, height, boxes: boxes.collect(), curves }
    }
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

/// Returns a curve from the lower side of one box to the upper side of another.
fn curve(edge: &Edge, from: (usize, usize), to: (usize, usize)) -> Curve {
    let (x1, y1, x2, y2) = (from.0 + WIDTH / 2, from.1 + HEIGHT, to.0 + WIDTH / 2, to.1);
    let bend = y2.abs_diff(y1) / 2;
    let path = format!("M{x1} {y1} C{x1} {} {x2} {} {x2} {y2}", y1 + bend, y2.saturating_sub(bend));
    Curve { path, kind: edge.reason.name(), title: format!("{}: {}", edge.value, edge.reason) }
}

fn short(text: &str) -> String {
    if text.chars().count() <= SHOWN { text.into() } else { format!("{}…", text.chars().take(SHOWN - 1).collect::<String>()) }
}
