//! Shows the fusion plan, or explains an error code: `disc explain`.
use super::arguments::ExplainArguments;
use crate::{
    answer::{Answer, diagnostics},
    source::Source,
};
use disc_ir::{Code, Diagnostic, Module, diag::CodeDoc, ops::Stage};
use disc_passes::{
    analysis::cost_model::CostModel,
    fusion::{self, Edge, FusionPlan, HorizontalPair, PlannedGroup, Reason},
    pass::PassManager,
    pipeline,
};
use serde_json::{Value, json};

/// Explains a code, if `what` is one rather than a file.
pub(super) fn code(what: &str) -> Option<Result<Answer, Diagnostic>> {
    let is_code = what.len() == 5 && what.starts_with(['E', 'e']) && what[1..].bytes().all(|byte| byte.is_ascii_digit());
    is_code.then(|| match Code::from_name(&what.to_uppercase()) {
        Some(code) => {
            let CodeDoc { title, doc, .. } = code.doc();
            let doc: String = doc.split_whitespace().collect::<Vec<_>>().join(" ");
            Ok(Answer::new(format!("{code}: {title}\n{doc}\n"), json!({ "code": code.to_string(), "title": title, "doc": doc })))
        }
        None => {
            Err(Diagnostic::new(Code::E0102, format!("there is no error code `{what}`")).help("docs/errors.md lists all of them"))
        }
    })
}

pub(super) fn plan(given: &ExplainArguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let (mut module, stage) = source.module(None)?;
    if stage > Stage::Fused {
        let message = format!("the program is at the stage {}; its groups are known up to the stage fused", stage.name());
        return Err(vec![Diagnostic::new(Code::E0208, message)]);
    }
    let device = given.device.device.clone();
    let options = disc::Options { device, ..given.machine.options() };
    let options = disc::stages::pass_options(&options).map_err(diagnostics)?;
    let model = options.model.clone();
    pipeline::run(&mut module, stage, Stage::Fused, &mut PassManager::new(options)).map_err(|error| vec![error])?;
    Ok(of_fused(&module, &*model))
}

/// Returns the plans of a module at the fused stage, without that of the code that runs once when
/// weights are loaded.
fn of_fused(module: &Module, model: &dyn CostModel) -> Answer {
    let mut plans = fusion::explain(module, model);
    plans.retain(|plan| !module.is_prepare(&plan.function));
    let text: Vec<String> = plans.iter().map(ToString::to_string).collect();
    let text = if text.is_empty() { "nothing to compute: there are no groups\n".into() } else { text.join("\n") };
    Answer::new(text, json!({ "functions": plans.iter().map(of_function).collect::<Vec<_>>() }))
}

/// One plan as JSON.
pub(super) fn of_function(plan: &FusionPlan) -> Value {
    let group = |group: &PlannedGroup| json!({ "kind": group.kind.name(), "ops": group.ops, "results": group.results, "plan": group.plan, "lines": group.lines });
    let facts = |reason: &Reason| -> Vec<String> {
        match reason {
            Reason::MissingFacts(facts) => facts.iter().map(ToString::to_string).collect(),
            Reason::Cost(_) | Reason::Schedule(_) => Vec::new(),
        }
    };
    let edge = |edge: &Edge| {
        json!({
            "from": edge.from, "to": edge.to, "value": edge.value, "kind": edge.reason.name(), "reason": edge.reason.to_string(),
            "missing_facts": facts(&edge.reason),
        })
    };
    let siblings = |both: &HorizontalPair| {
        json!({
            "groups": both.groups, "value": both.value, "kind": both.reason.name(), "reason": both.reason.to_string(),
            "missing_facts": facts(&both.reason),
        })
    };
    let of = |(entry, facts): &(std::sync::Arc<str>, Vec<disc_ir::dim::Fact>)| {
        let when: Vec<String> = facts.iter().map(ToString::to_string).collect();
        json!({ "function": &**entry, "when": when })
    };
    json!({
        "function": &*plan.function, "variant_of": plan.of.as_ref().map(of), "kinds": plan.kinds(),
        "groups": plan.groups.iter().map(group).collect::<Vec<_>>(),
        "not_fused": plan.edges.iter().map(edge).collect::<Vec<_>>(),
        "siblings": plan.siblings.iter().map(siblings).collect::<Vec<_>>(),
    })
}
