//! Lowers norms and softmax.
use super::super::row::{Items, Lower, Row, one};
use crate::{
    compose::{BatchNorm, FeatureNorm, LogSoftmax, Softmax},
    emit::Operand,
    sizes::Item,
};
use disc_ir::{Code, Diagnostic, Value};

pub(in super::super) const ROWS: &[(&str, Lower)] = &[
    ("FusedBatchNorm", Lower::Row(batch_norm)),
    ("FusedBatchNormV2", Lower::Row(batch_norm)),
    ("FusedBatchNormV3", Lower::Row(batch_norm)),
    ("LogSoftmax", Lower::Row(log_softmax)),
    ("Softmax", Lower::Row(softmax)),
];

fn softmax(row: &Row<'_, '_>) -> Items {
    let (x, axis, dtype) = of_last_axis(row)?;
    one(row.compose(Softmax { x, axis, dtype })?)
}

fn log_softmax(row: &Row<'_, '_>) -> Items {
    let (x, axis, dtype) = of_last_axis(row)?;
    one(row.compose(LogSoftmax { x, axis, dtype })?)
}

fn of_last_axis(row: &Row<'_, '_>) -> Result<(Value, i64, disc_ir::DType), Diagnostic> {
    let x = row.tensor(0)?;
    let rank = row.b.rank(x);
    row.axis(-1, rank)?;
    Ok((x, rank as i64 - 1, row.b.dtype(x)))
}

/// The norm by given statistics, which the other results repeat, or by those of the batch.
fn batch_norm(row: &Row<'_, '_>) -> Items {
    let epsilon = Operand::Float(row.attrs.float("epsilon", 1e-4)?);
    let (b, x) = (row.b, row.tensor(0)?);
    let (scale, bias, mean, variance) = (row.tensor(1)?, row.tensor(2)?, row.tensor(3)?, row.tensor(4)?);
    let (of_batch, factor) = (row.attrs.bool("is_training", true)?, row.attrs.float("exponential_avg_factor", 1.0)?);
    if of_batch && factor < 1.0 {
        return Err(Diagnostic::new(Code::E1004, "running statistics are not supported: freeze the graph for inference"));
    }
    let features_first = row.attrs.text("data_format", "NHWC")?.starts_with("NC");
    let rank = b.rank(x);
    row.axis(-1, rank)?;
    let image = if features_first { x } else { b.move_axis(x, rank - 1, 1.min(rank - 1))? };
    let (wide, scale, bias) = (b.wide(image)?, Some(scale), Some(bias));
    // Keras 2 normalises layers by the statistics of a batch, which are results for gradients only.
    let (norm, statistics) = if of_batch {
        let axes = (0..rank as i64).filter(|&axis| axis != 1).collect();
        (row.compose(FeatureNorm { x: wide, scale, bias, epsilon, axes })?, vec![Item::Absent; 5])
    } else {
        let given = [mean, variance, mean, variance, mean].map(Item::Tensor).to_vec();
        (row.compose(BatchNorm { x: wide, scale, bias, mean, variance, epsilon })?, given)
    };
    let y = b.convert(norm, b.dtype(x))?;
    let y = if features_first { y } else { b.move_axis(y, 1.min(rank - 1), rank - 1)? };
    Ok([vec![Item::Tensor(y)], statistics].concat())
}
