//! Renders the page as HTML, by the template `view.html`, which escapes every text of a program.
use super::{PassView, View, graph::Drawing};
use askama::Template;
use base64::prelude::{BASE64_STANDARD, Engine};
use disc_passes::fusion::FusionPlan;
use flate2::{Compression, write::ZlibEncoder};
use std::io::{self, Write};

/// Moves and zooms the drawings.
const PAN_ZOOM: &str = include_str!("../../../templates/svg-pan-zoom.min.js");

#[derive(Template)]
#[template(path = "view.html")]
struct Page<'a> {
    view: &'a View,
    plans: Vec<(&'a FusionPlan, Drawing)>,
    version: &'a str,
    pan_zoom: &'a str,
    kernels: String,
}

/// Renders the whole page.
pub(super) fn write(view: &View) -> Result<String, askama::Error> {
    let plans = view.plans.iter().map(|plan| (plan, Drawing::of(plan))).collect();
    let kernels = packed(view.kernels.iter().map(|(_, text)| text)).map_err(askama::Error::custom)?;
    Page { view, plans, version: disc::VERSION, pan_zoom: PAN_ZOOM, kernels }.render()
}

/// Compresses texts, most of the page otherwise: a list of JSON in zlib's format and base64, which
/// browsers read.
fn packed<'a>(texts: impl Iterator<Item = &'a String>) -> io::Result<String> {
    let json = serde_json::to_vec(&texts.collect::<Vec<_>>())?;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&json)?;
    Ok(BASE64_STANDARD.encode(encoder.finish()?))
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
