//! Renders the page as HTML, by the template `view.html`, which escapes every text of a program.
use super::{PassView, View, graph::Drawing};
use askama::Template;
use disc_passes::fusion::FusionPlan;

/// Moves and zooms the drawings.
const PAN_ZOOM: &str = include_str!("../../../templates/svg-pan-zoom.min.js");

#[derive(Template)]
#[template(path = "view.html")]
struct Page<'a> {
    view: &'a View,
    plans: Vec<(&'a FusionPlan, Drawing)>,
    version: &'a str,
    pan_zoom: &'a str,
}

/// Renders the whole page.
pub(super) fn write(view: &View) -> Result<String, askama::Error> {
    let plans = view.plans.iter().map(|plan| (plan, Drawing::of(plan))).collect();
    Page { view, plans, version: disc::VERSION, pan_zoom: PAN_ZOOM }.render()
}

impl PassView {
    /// Returns the lines of the diff, each with its class.
    fn lines(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.diff.lines().skip(2).map(|line| match line.as_bytes().first() {
            Some(b'+') => ("add", line),
            Some(b'-') => ("gone", line),
            _ => ("same", line),
        })
    }
}
