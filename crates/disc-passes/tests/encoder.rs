//! Runs the pipeline on a text encoder as frameworks write it, and checks the result and the time.
mod model;

use disc_ir::{Function, Inst, OpKind, ops::Stage, text};
use disc_passes::{
    analysis::cost_model::NeutralModel,
    options::Options,
    pass::{PassManager, PassRecord},
    pipeline,
};

fn count(function: &Function, kind: OpKind) -> usize {
    function.walk(function.body).into_iter().filter(|&inst: &Inst| function.kind_of(inst) == kind).count()
}

#[test]
fn an_encoder_is_products_rows_and_loops() {
    const LAYERS: usize = 2;
    let mut module = text::parse(&model::encoder(LAYERS, 12, 64)).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let mut manager = PassManager::new(Options::of(NeutralModel::with_panels(32)));
    pipeline::run(&mut module, Stage::Tensor, Stage::Placed, &mut manager).unwrap_or_else(|error| panic!("{error}"));
    let main = module.function("main").unwrap();
    assert_eq!(count(main, OpKind::DotGeneral), LAYERS * 8, "{main}");
    // Heads are read through strides; the result of attention is written in the order of its
    // consumer.
    assert_eq!(count(main, OpKind::Transpose), LAYERS, "{main}");
    // Three splits into heads and one merge; row statistics are no tensors of their own shape.
    assert_eq!(count(main, OpKind::Reshape), LAYERS * 4, "{main}");
    assert_eq!(main.to_string().matches("packed_columns").count(), LAYERS * 6, "{main}");
    let prepare = module.function("prepare").unwrap();
    assert_eq!(prepare.results.len(), LAYERS * 6, "{prepare}");
}

#[test]
fn twelve_layers_take_no_longer_than_they_may() {
    let mut module = text::parse(&model::encoder(12, 12, 64)).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let mut manager = PassManager { verify: None, ..PassManager::new(Options::of(NeutralModel::with_panels(32))) };
    pipeline::run(&mut module, Stage::Tensor, Stage::Placed, &mut manager).unwrap_or_else(|error| panic!("{error}"));
    let line = |record: &PassRecord| format!("{:18} {:6} {:?}\n", record.name, record.changes, record.time);
    let times: String = manager.records.iter().map(line).collect();
    let total = manager.records.iter().map(|record| record.time).sum::<std::time::Duration>();
    // 100 ms in a release build; a debug build on a busy machine takes about 20 times as long.
    assert!(total.as_millis() < 4000, "{total:?}\n{times}");
    println!("{total:?}\n{times}");
}
