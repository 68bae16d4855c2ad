//! Shows on a terminal what takes long; nothing is shown anywhere else, or with `DISC_PROGRESS=0`.
use indicatif::{ProgressBar, ProgressStyle};
use std::{io::IsTerminal, time::Duration};

/// A line on standard error that goes away when it is dropped.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Shows a task of this many steps.
    pub(crate) fn bar(task: &str, steps: usize) -> Self {
        Self::new(ProgressBar::new(steps as u64), &format!("{task} {{pos}}/{{len}} {{wide_bar}} {{msg}}"))
    }

    /// Shows a task whose length nobody knows.
    pub(crate) fn spinner(task: &str) -> Self {
        let progress = Self::new(ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}");
        progress.bar.iter().for_each(|bar| bar.set_message(task.to_owned()));
        progress
    }

    fn new(bar: ProgressBar, template: &str) -> Self {
        let is_off = std::env::var_os("DISC_PROGRESS").is_some_and(|value| value == "0");
        if is_off || !std::io::stderr().is_terminal() {
            return Self { bar: None };
        }
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar: Some(bar) }
    }

    /// Begins a step.
    pub(crate) fn step(&self, name: &str) {
        self.bar.iter().for_each(|bar| {
            bar.set_message(name.to_owned());
            bar.inc(1);
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
