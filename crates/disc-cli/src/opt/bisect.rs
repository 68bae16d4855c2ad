//! Finds the rewrite that changes the results of an entry: `--bisect`.
//!
//! The original program is run on the interpreter. With fuel for N rewrites, the same steps give a
//! program with the first N rewrites; bisection finds the least N whose results differ, and rewrite
//! N is the answer. Rewrites may hide each other, so the answer is one at which the results change,
//! and not always the first of them.
use super::{arguments::Arguments, steps::Steps};
use crate::{
    answer::Answer,
    diff,
    run::{self, Data, On},
};
use disc_ir::{Code, Diagnostic, Module, interp::Tensor, ops::Stage};
use disc_passes::pass::{PassRecord, Rewrite};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Outcome = Result<Vec<Tensor>, Vec<Diagnostic>>;

/// Searches, and reports the result; the answer is negative if a rewrite changes the results.
pub(super) fn find(arguments: &Arguments, module: &Module, from: Stage) -> Result<Answer, Vec<Diagnostic>> {
    let single = |error: Diagnostic| vec![error];
    let entry = run::entry(module, arguments.data.entry.as_deref()).map_err(single)?;
    let data = Data::new(module, entry, &arguments.data).map_err(single)?;
    let whole = (arguments.pass.is_empty() && arguments.to.is_none()).then_some(Stage::Buffer.max(from));
    let steps = Steps::new(arguments, from, arguments.to.or(whole), arguments.on == On::Cpu)?;
    let expected = run::run(module, &entry.name, &data, On::Interpreter, steps.options());
    Ok(Search { module, entry: &entry.name, data: &data, on: arguments.on, steps, expected }.find())
}

/// Returns the name of a rewrite in messages.
pub(super) fn named(rewrite: Rewrite) -> String {
    match rewrite.rule {
        Some(rule) => format!("`{rule}` in pass `{}`", rewrite.pass),
        None => format!("in pass `{}`", rewrite.pass),
    }
}

struct Search<'a> {
    module: &'a Module,
    entry: &'a str,
    data: &'a Data,
    on: On,
    steps: Steps,
    expected: Outcome,
}

/// One attempt with this much fuel.
struct Attempt {
    spent: u64,
    last: Option<Rewrite>,
    /// The difference, if there is one.
    wrong: Option<String>,
    /// The program after each step, with its name.
    texts: Vec<(&'static str, String)>,
}

impl Search<'_> {
    fn find(&self) -> Answer {
        let all = self.attempt(None);
        let Some(wrong) = all.wrong else {
            return Answer::new(format!("the results stay the same with all {} rewrites\n", all.spent), Value::Null);
        };
        let none = self.attempt(Some(0));
        if none.wrong.is_some() {
            return self.step();
        }
        self.halve(none, Attempt { wrong: Some(wrong), ..all })
    }

    /// Reports the first step that changes the results without a rewrite.
    fn step(&self) -> Answer {
        let mut manager = self.steps.manager(Some(0));
        let (mut before, mut found) = (self.module.to_string(), None);
        let mut look = |step, module: &Module, _: Option<&PassRecord>| {
            if found.is_some() {
                return;
            }
            let outcome =
                catch_unwind(AssertUnwindSafe(|| run::run(module, self.entry, self.data, self.on, self.steps.options())));
            let after = module.to_string();
            if let Some(wrong) = self.compared(&outcome.unwrap_or_else(|_| panicked())) {
                found = Some((step, wrong, diff::unified(&before, &after, ("before", "after"))));
            }
            before = after;
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| self.steps.apply(self.module.clone(), &mut manager, &mut look)));
        let text = match (found, outcome.unwrap_or_else(|_| panicked())) {
            (Some((step, wrong, diff)), _) => {
                format!("pass `{step}` changes the results, with work that fuel does not leave out\n{wrong}\n{diff}")
            }
            (None, Err(errors)) => format!("a step fails without any rewrite\n{}\n", errors[0]),
            (None, Ok(_)) => "the results differ without any rewrite, and after each step they do not\n".into(),
        };
        Answer { is_negative: true, ..Answer::new(text, Value::Null) }
    }

    fn attempt(&self, fuel: Option<u64>) -> Attempt {
        let mut manager = self.steps.manager(fuel);
        let mut texts = Vec::new();
        let mut look = |step, module: &Module, _: Option<&PassRecord>| texts.push((step, module.to_string()));
        // A panic is a difference too.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let module = self.steps.apply(self.module.clone(), &mut manager, &mut look)?;
            run::run(&module, self.entry, self.data, self.on, self.steps.options())
        }));
        let outcome = outcome.unwrap_or_else(|_| panicked());
        let wrong = self.compared(&outcome);
        Attempt { spent: manager.cx.spent(), last: manager.cx.last, wrong, texts }
    }

    /// Returns the difference from the original program.
    fn compared(&self, outcome: &Outcome) -> Option<String> {
        match (outcome, &self.expected) {
            (Ok(found), Ok(expected)) => run::difference(found, expected),
            (Err(found), Err(expected)) if found[0].code == expected[0].code => None,
            (Err(errors), _) => Some(errors[0].to_string()),
            (Ok(_), Err(errors)) => Some(format!("the program fails no more; it should with {}", errors[0])),
        }
    }

    /// Halves the range between a right attempt and a wrong one, until they are one rewrite apart.
    fn halve(&self, mut right: Attempt, mut wrong: Attempt) -> Answer {
        while wrong.spent - right.spent > 1 {
            let middle = self.attempt(Some(right.spent + (wrong.spent - right.spent) / 2));
            if middle.wrong.is_some() {
                wrong = middle;
            } else {
                right = middle;
            }
        }
        let name = wrong.last.map_or_else(String::new, named);
        let mut text = format!("rewrite {} changes the results: {name}\n", wrong.spent);
        text += &format!("{}\n", wrong.wrong.as_deref().unwrap_or_default());
        let changed = wrong.last.map(|last| last.pass);
        let after = |attempt: &Attempt| {
            attempt.texts.iter().filter(|(step, _)| Some(*step) == changed).map(|(_, text)| text.clone()).collect()
        };
        let (without, with): (Vec<String>, Vec<String>) = (after(&right), after(&wrong));
        // A pass may run several times: the first difference is the rewrite itself.
        if let Some((without, with)) = without.iter().zip(&with).find(|(without, with)| without != with) {
            text += &diff::unified(without, with, (&format!("{} rewrites", right.spent), &format!("{} rewrites", wrong.spent)));
        }
        text += &format!("to see it: --fuel {} and --fuel {}\n", right.spent, wrong.spent);
        Answer { is_negative: true, ..Answer::new(text, Value::Null) }
    }
}

fn panicked<T>() -> Result<T, Vec<Diagnostic>> {
    Err(vec![Diagnostic::new(Code::E0211, "the compiler panicked, see the message above")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_ir::{OpKind, ops::Stage};
    use disc_passes::pass::{PassCx, PassDef};

    const PROGRAM: &str = "func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {
  %a = add %x, %x : tensor<[N]xf32>
  %b = multiply %a, %x : tensor<[N]xf32>
  %c = add %b, %a : tensor<[N]xf32>
  return %c : tensor<[N]xf32>
}";

    /// Rewrites each op once, a product wrongly.
    static BROKEN: PassDef = PassDef { name: "break", doc: "", stages: (Stage::Tensor, Stage::Tensor), run: broken };

    fn broken(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
        for function in &mut module.functions {
            for inst in function.insts(function.body).to_vec() {
                match function.kind_of(inst) {
                    OpKind::Add if cx.spend_on("swap") => function.inst_mut(inst).operands.reverse(),
                    OpKind::Multiply if cx.spend_on("wrong") => function.inst_mut(inst).kind = OpKind::Subtract,
                    _ => {}
                }
            }
        }
        Ok(0)
    }

    #[test]
    fn the_rewrite_that_changes_the_results_is_found() {
        let module = disc_ir::parse(PROGRAM).unwrap();
        let inputs = vec![Tensor::from_slice(&[2], &[1f32, 2.0]).unwrap()];
        let data = Data { inputs, ..Data::default() };
        let steps = Steps::of_passes(vec![&BROKEN]);
        let expected = run::run(&module, "main", &data, On::Interpreter, steps.options());
        let answer = Search { module: &module, entry: "main", data: &data, on: On::Interpreter, steps, expected }.find();
        let start = "rewrite 2 changes the results: `wrong` in pass `break`\nresult 0: element [0] is 3.0, expected 4.0\n--- 1 rewrites\n";
        assert!(answer.is_negative && answer.text.starts_with(start), "{}", answer.text);
        assert!(
            answer.text.contains("-  %b = multiply %a, %x") && answer.text.contains("+  %b = subtract %a, %x"),
            "{}",
            answer.text
        );
        assert!(answer.text.ends_with("to see it: --fuel 1 and --fuel 2\n"), "{}", answer.text);
    }

    #[test]
    fn a_pass_whose_work_is_no_rewrite_is_found_as_a_whole() {
        static WHOLE: PassDef = PassDef {
            name: "whole",
            doc: "",
            stages: (Stage::Tensor, Stage::Tensor),
            run: |module, _| {
                let body = module.functions[0].body;
                let first = module.functions[0].insts(body)[1];
                module.functions[0].inst_mut(first).kind = OpKind::Subtract;
                Ok(1)
            },
        };
        let module = disc_ir::parse(PROGRAM).unwrap();
        let inputs = vec![Tensor::from_slice(&[2], &[1f32, 2.0]).unwrap()];
        let data = Data { inputs, ..Data::default() };
        let steps = Steps::of_passes(vec![&BROKEN, &WHOLE]);
        let expected = run::run(&module, "main", &data, On::Interpreter, steps.options());
        let answer = Search { module: &module, entry: "main", data: &data, on: On::Interpreter, steps, expected }.find();
        let start = "pass `whole` changes the results, with work that fuel does not leave out\nresult 0: element [0] is 3.0, expected 4.0\n";
        assert!(answer.is_negative && answer.text.starts_with(start), "{}", answer.text);
    }
}
