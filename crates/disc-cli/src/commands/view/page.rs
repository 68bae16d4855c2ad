//! Renders the page as HTML.
//!
//! Invariant: every text of a program goes through [`escape`].
use super::{PassView, View, escape::escape, graph};
use disc_passes::fusion::FusionPlan;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --add: #2a92; --gone: #d332; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
nav a { margin-right: 1rem; }
pre { font: 13px/1.45 ui-monospace, monospace; background: var(--soft); padding: .75rem; overflow-x: auto; border-radius: 4px; }
pre .add { background: var(--add); display: block; } pre .gone { background: var(--gone); display: block; }
details { margin: .35rem 0; } summary { cursor: pointer; } summary code { font-weight: 600; }
.quiet { opacity: .65; } .graph { overflow-x: auto; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem 1.2rem .15rem 0; vertical-align: top; }
svg text { font: 12px ui-monospace, monospace; fill: currentColor; }
svg .box { fill: var(--soft); stroke: currentColor; } svg .edge { fill: none; stroke: currentColor; opacity: .6; }
svg .missing-facts { stroke: #d80; opacity: 1; } svg .cost { stroke: #08c; opacity: 1; }
";

/// Renders the whole page.
pub(super) fn write(view: &View) -> String {
    let title = escape(&view.title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n<body>\n"
    );
    page += &format!("<h1>{title}</h1>\n<p>Compiled for {} by disc {}.</p>\n", escape(&view.target), disc::VERSION);
    page += "<nav><a href=\"#fusion\">Fusion</a><a href=\"#stages\">Stages</a><a href=\"#passes\">Passes</a><a href=\"#kernels\">Kernels</a></nav>\n";
    page += &section("fusion", "Fusion", &view.plans.iter().map(fusion).collect::<String>());
    let stages = view.stages.iter().map(|(name, text)| fold(&code(name), &pre(text), false));
    page += &section("stages", "Stages", &stages.collect::<String>());
    page += &section("passes", "Passes", &passes(view));
    let kernels = view.kernels.iter().map(|(name, text)| fold(&code(name), &pre(text), false));
    page += &section("kernels", "Kernels", &kernels.collect::<String>());
    page + "</body>\n</html>\n"
}

/// The groups of one function: a graph, and the reasons in words.
fn fusion(plan: &FusionPlan) -> String {
    let mut text =
        format!("<h3>{}</h3>\n<div class=\"graph\">{}</div>\n", code(&format!("@{}", plan.function)), graph::svg(plan));
    let groups = plan.groups.iter().enumerate().map(|(number, group)| {
        format!(
            "<li><code>g{number}</code> {}: {} → {}</li>\n",
            group.kind,
            escape(&group.ops.join(", ")),
            escape(&group.results.join(", "))
        )
    });
    text += &fold("groups", &format!("<ul>{}</ul>", groups.collect::<String>()), false);
    let rows = plan.edges.iter().map(|edge| {
        let (value, reason) = (escape(&edge.value), escape(&edge.reason.to_string()));
        format!("<tr><td><code>g{} → g{}</code></td><td><code>{value}</code></td><td>{reason}</td></tr>\n", edge.from, edge.to)
    });
    let beside = plan.siblings.iter().map(|both| {
        let (value, reason, [first, second]) = (escape(&both.value), escape(&both.reason.to_string()), both.groups);
        format!("<tr><td><code>g{first}, g{second}</code></td><td><code>{value}</code></td><td>{reason}</td></tr>\n")
    });
    let rows: String = rows.chain(beside).collect();
    if rows.is_empty() {
        return text;
    }
    text + &fold("why they are not one", &format!("<table><tr><th>groups</th><th>by</th><th>why</th></tr>\n{rows}</table>"), true)
}

fn passes(view: &View) -> String {
    let one = |pass: &PassView| {
        let title = format!("{} <span class=\"quiet\">{:.2} ms. {}</span>", code(pass.name), pass.milliseconds, escape(pass.doc));
        match pass.diff.is_empty() {
            true => format!("<p class=\"quiet\">{title} Nothing changed.</p>\n"),
            false => fold(&title, &(rules(pass) + &diff(&pass.diff)), false),
        }
    };
    view.passes.iter().map(one).collect()
}

/// The rules that a pass applied.
fn rules(pass: &PassView) -> String {
    let rules: Vec<String> = pass.rules.iter().map(|(rule, count)| format!("{} {count}", code(rule))).collect();
    if rules.is_empty() { String::new() } else { format!("<p>Rules: {}</p>\n", rules.join(", ")) }
}

/// A diff with its added and removed lines marked.
fn diff(text: &str) -> String {
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'+') => format!("<span class=\"add\">{}</span>", escape(line)),
        Some(b'-') => format!("<span class=\"gone\">{}</span>", escape(line)),
        _ => format!("{}\n", escape(line)),
    };
    format!("<pre>{}</pre>", text.lines().skip(2).map(line).collect::<String>())
}

fn section(id: &str, title: &str, content: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{content}</section>\n")
}

/// Renders a section that the reader opens; `title` and `content` are HTML.
fn fold(title: &str, content: &str, open: bool) -> String {
    format!("<details{}><summary>{title}</summary>\n{content}\n</details>\n", if open { " open" } else { "" })
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

fn pre(text: &str) -> String {
    format!("<pre>{}</pre>", escape(text))
}
