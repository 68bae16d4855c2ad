//! Counts what a call does on a simulated GPU, whose times say nothing of a real one.
use super::Bench;
use crate::{
    answer::{Answer, diagnostics},
    run::Data,
};
use comfy_table::{CellAlignment, Table, presets};
use disc::simt::{KernelCounters, counters};
use disc_ir::{Code, Diagnostic};
use serde_json::{Map, Value, json};

/// Returns true if a device of this name has counters and no times.
pub(super) fn has_counters(device: Option<&str>) -> bool {
    device.is_some_and(|name| name.starts_with("simt:"))
}

/// Counts one call after the other.
pub(super) fn shapes(bench: &Bench<'_>, calls: &[Data]) -> Result<Answer, Vec<Diagnostic>> {
    if bench.given.trace.is_some() {
        return Err(vec![Diagnostic::new(Code::E0700, "launches on a simulated device have no times for --trace")]);
    }
    let (mut text, mut shapes) = (String::new(), Vec::new());
    for data in calls {
        let sizes = bench.sizes(data);
        counters(true);
        bench.caller.run(&data.inputs).map_err(diagnostics)?;
        let (kernels, peak) = (counters(true), bench.loaded.executable.peak_arena_bytes());
        text += &format!("@{} {}:\n{}  temporary memory {peak} bytes\n", bench.entry, super::title(&sizes), table(&kernels));
        let inputs: Map<String, Value> = sizes.into_iter().map(|(name, sizes)| (name, json!(sizes))).collect();
        let kernels: Vec<Value> = kernels.iter().map(row).collect();
        shapes.push(json!({ "inputs": inputs, "kernels": kernels, "peak_arena_bytes": peak }));
    }
    Ok(Answer::new(text, json!({ "entry": bench.entry, "unit": "counts", "shapes": shapes })))
}

const HEADER: [&str; 12] = [
    "",
    "kernel",
    "launches",
    "sectors read",
    "least",
    "sectors written",
    "least",
    "bytes read",
    "bytes written",
    "conflicts",
    "barriers",
    "divergent",
];

/// Returns a table of the kernels, by name. Sectors are given with the least for so many bytes.
fn table(kernels: &[KernelCounters]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(HEADER);
    for kernel in kernels {
        let counts = [
            kernel.launches,
            kernel.load_sectors,
            kernel.least_load_sectors,
            kernel.store_sectors,
            kernel.least_store_sectors,
            kernel.bytes_read,
            kernel.bytes_written,
            kernel.conflicts,
            kernel.barriers,
            kernel.divergent,
        ];
        table.add_row([String::new(), kernel.kernel.clone()].into_iter().chain(counts.map(|count| count.to_string())));
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    format!("{}\n", table.trim_fmt())
}

fn row(kernel: &KernelCounters) -> Value {
    json!({
        "name": kernel.kernel, "launches": kernel.launches, "load_sectors": kernel.load_sectors,
        "least_load_sectors": kernel.least_load_sectors, "store_sectors": kernel.store_sectors,
        "least_store_sectors": kernel.least_store_sectors, "bytes_read": kernel.bytes_read,
        "bytes_written": kernel.bytes_written, "conflicts": kernel.conflicts, "barriers": kernel.barriers,
        "divergent": kernel.divergent,
    })
}
