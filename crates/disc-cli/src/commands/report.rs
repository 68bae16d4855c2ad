//! Formats the report of a compilation, as text and as JSON. The keys are those of `disc.report` in
//! Python.
use disc::Report;
use serde_json::{Map, Value, json};

pub(super) fn text(report: &Report) -> String {
    let kinds: Vec<String> = report.kernels_by_kind.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let total: f64 = report.stages_ms.iter().map(|(_, ms)| ms).sum();
    let stages: Vec<String> = report.stages_ms.iter().map(|(name, ms)| format!("{name} {ms:.1}")).collect();
    let mut text = format!("signature   {}\n", report.dims);
    text += &format!("target      {}\n", report.target);
    text += &format!("kernels     {}{kinds}, {} versions\n", report.kernels, report.versions);
    text.extend(report.variants.iter().map(|variant| format!("plan        {} where {}\n", variant.kernels, variant.when)));
    text += &format!("code        {} bytes\n", report.code_bytes);
    text += &format!("stages, ms  {}, total {total:.1}\n", stages.join(", "));
    text.extend(report.notes.iter().map(|note| format!("note        {note}\n")));
    text
}

pub(super) fn json(report: &Report) -> Value {
    let times = |list: &[(String, f64)]| list.iter().map(|(name, ms)| (name.clone(), json!(ms))).collect::<Map<_, _>>();
    let mut stages = times(&report.stages_ms);
    stages.insert("total".into(), json!(report.stages_ms.iter().map(|(_, ms)| ms).sum::<f64>()));
    let passes: Vec<Value> = report.passes_ms.iter().map(|(name, ms)| json!({ "pass": name, "ms": ms })).collect();
    let plans: Vec<Value> =
        report.variants.iter().map(|variant| json!({ "when": variant.when, "kernels": variant.kernels })).collect();
    json!({
        "plans": plans,
        "dims": report.dims, "target": report.target, "kernels": report.kernels, "kernels_by_kind": report.kernels_by_kind,
        "versions": report.versions, "code_bytes": report.code_bytes, "stages_ms": stages, "passes": passes, "notes": report.notes,
    })
}
