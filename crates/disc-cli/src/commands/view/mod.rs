//! Writes one page for the browser that shows how a program is compiled: `disc view`.
//!
//! The page is one self-contained file: it can be mailed, and opened years later. Its scripts (zoom
//! and search) read nothing but the page.
mod graph;
mod page;

use super::arguments::ViewArguments;
use crate::{
    answer::{Answer, diagnostics},
    diff,
    source::Source,
};
use disc_ir::{
    Code, Diagnostic, FunctionKind, Module,
    ops::Stage,
    text::{PrintOptions, print},
};
use disc_passes::{
    fusion::{self, FusionPlan},
    pass::{PassDef, PassManager},
    pipeline,
};
use serde_json::json;

/// The contents of the page.
struct View {
    title: String,
    target: String,
    /// The text at each stage, as far as it is text of all functions.
    stages: Vec<(&'static str, String)>,
    passes: Vec<PassView>,
    plans: Vec<FusionPlan>,
    /// Kernels and routines, by name.
    kernels: Vec<(String, String)>,
}

/// The changes of one pass.
struct PassView {
    name: &'static str,
    doc: &'static str,
    milliseconds: f64,
    /// The number of applications of each rule.
    rules: Vec<(&'static str, usize)>,
    /// Empty if it changed nothing.
    diff: String,
}

pub(super) fn view(given: &ViewArguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let (module, stage) = source.module(None)?;
    if stage == Stage::Kernel {
        return Err(vec![Diagnostic::new(Code::E0208, "the program is at the stage kernel: no pass is left to show")]);
    }
    let view = compiled(module, stage, &source.path, &given.machine.options())?;
    let wrong = |e: std::io::Error| vec![Diagnostic::new(Code::E0700, format!("{}: {e}", given.output.display()))];
    let page = page::write(&view).map_err(|error| vec![Diagnostic::new(Code::E0211, error.to_string())])?;
    std::fs::write(&given.output, &page).map_err(wrong)?;
    let path = given.output.display().to_string();
    let groups: usize = view.plans.iter().map(|plan| plan.groups.len()).sum();
    let json = json!({ "page": path, "bytes": page.len(), "passes": view.passes.len(), "groups": groups, "kernels": view.kernels.len() });
    Ok(Answer::new(
        format!("wrote {path}: {} passes, {groups} groups, {} kernels\n", view.passes.len(), view.kernels.len()),
        json,
    ))
}

/// Compiles a program to kernels, and records the intermediate stages.
fn compiled(mut module: Module, from: Stage, title: &str, options: &disc::Options) -> Result<View, Vec<Diagnostic>> {
    let mut manager = pipeline::manager(disc::stages::pass_options(options).map_err(diagnostics)?);
    let mut before = with_lines(&module);
    let mut stages = vec![(from.name(), before.clone())];
    let model = manager.cx.options.model.clone();
    let explain = |module: &Module| fusion::explain(module, &*model);
    let (mut passes, mut plans) = (Vec::new(), if from == Stage::Fused { explain(&module) } else { Vec::new() });
    for pass in pipeline::STEPS.iter().filter(|step| step.stages.0 >= from) {
        manager.run(&mut module, pass).map_err(|error| vec![error.note(format!("in pass `{}`", pass.name))])?;
        let after = with_lines(&module);
        passes.push(pass_view(pass, &manager, diff::unified(&before, &after, ("before", "after"))));
        before = after;
        let (start, end) = pass.stages;
        if start != end {
            stages.push((end.name(), before.clone()));
        } else if let Some(last) = stages.last_mut().filter(|_| end != Stage::Tensor) {
            last.1.clone_from(&before);
        }
        if end == Stage::Fused {
            plans = explain(&module);
        }
    }
    let made = disc::stages::kernels(module, options).map_err(diagnostics)?;
    let is_kernel = |kind| matches!(kind, FunctionKind::Kernel | FunctionKind::Routine);
    let (kernels, programs): (Vec<_>, Vec<_>) = made.functions.into_iter().partition(|function| is_kernel(function.kind));
    stages.push((Stage::Kernel.name(), with_lines(&Module { functions: programs, weights: made.weights, lines: made.lines })));
    let kernels = kernels.iter().map(|kernel| (kernel.name.to_string(), kernel.to_string())).collect();
    let target = options.target.clone().unwrap_or_else(|| "this machine".into());
    Ok(View { title: title.into(), target, stages, passes, plans, kernels })
}

fn with_lines(module: &Module) -> String {
    print(module, PrintOptions { lines: true, ..PrintOptions::default() })
}

fn pass_view(pass: &'static PassDef, manager: &PassManager, diff: String) -> PassView {
    let record = manager.records.last().expect("the pass has run");
    let rules = record.rules.iter().map(|(&rule, &count)| (rule, count)).collect();
    PassView { name: pass.name, doc: pass.doc, milliseconds: record.time.as_secs_f64() * 1e3, rules, diff }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "func @a_b(%x: tensor<[B]x4xf32>, %w: tensor<4x4xf32>) -> tensor<[B]x4xf32> {
  %zero = constant dense<0.0> : tensor<f32>
  %zb = broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<[B]x4xf32>
  %s = subtract %x, %zb : tensor<[B]x4xf32>
  %e = exponential %s : tensor<[B]x4xf32>
  %p = dot_general %e, %w, contracting_dims = [1] x [0] : (tensor<[B]x4xf32>, tensor<4x4xf32>) -> tensor<[B]x4xf32>
  return %p : tensor<[B]x4xf32>
}";

    fn page() -> (View, String) {
        let options = disc::Options { target: Some("x86-64-v3".into()), ..disc::Options::default() };
        let view = compiled(disc_ir::parse(PROGRAM).unwrap(), Stage::Tensor, "a<b>.disc", &options).unwrap();
        let page = page::write(&view).unwrap();
        (view, page)
    }

    #[test]
    fn a_page_has_every_stage_pass_and_kernel() {
        let (view, page) = page();
        assert_eq!(view.stages.iter().map(|(name, _)| *name).collect::<Vec<_>>(), Stage::ALL.map(Stage::name));
        assert_eq!(view.passes.len(), pipeline::STEPS.len());
        assert_eq!((view.plans.len(), view.plans[0].groups.len()), (1, 2));
        assert!(view.passes.iter().any(|pass| pass.name == "canonicalize" && pass.rules.contains(&("subtract-zero", 1))));
        let names = view.kernels.iter().map(|(name, _)| &**name).chain(view.passes.iter().map(|pass| pass.name));
        names.for_each(|name| assert!(page.contains(name), "{name}"));
    }

    #[test]
    fn a_page_names_lines_of_the_model() {
        let text = PROGRAM
            .replace("%e = exponential %s : tensor<[B]x4xf32>", "%e = exponential %s : tensor<[B]x4xf32> loc(\"m.py\":7 \"f\")");
        let view = compiled(disc_ir::parse(&text).unwrap(), Stage::Tensor, "m", &disc::Options::default()).unwrap();
        assert!(view.plans[0].groups[0].lines == ["m.py:7 f"], "{:?}", view.plans[0].groups);
        assert!(view.stages.iter().all(|(_, text)| text.contains("loc(\"m.py\":7 \"f\")")));
        assert!(page::write(&view).unwrap().contains("<small>m.py:7 f</small>"));
    }

    #[test]
    fn a_page_is_one_file_and_well_formed() {
        let (_, page) = page();
        assert!(page.contains("svgPanZoom(svg") && page.len() < 2 << 20, "{} bytes", page.len());
        let page = &page[..page.find("<script").unwrap()];
        for outside in ["http:", "https:", "src=", "@import", "<link", "url("] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
        }
        assert!(!page.contains("a<b>") && page.contains("a&#60;b&#62;.disc"), "text is escaped");
        for tag in ["section", "details", "pre", "svg", "g", "table", "ul"] {
            let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
