//! Counts the launches of a BERT encoder on a GPU, and its kernels.
use crate::model;
use disc::{
    Options, compile, parse,
    ral::{HostOutputs, HostTensor, Weight},
    stages,
};

/// Two layers, after the embeddings.
const BERT: &str = include_str!("../../../disc-codegen/tests/plans/bert.disc");
const LAYERS: usize = 2;

/// Queries, keys and values; attention; its output; a norm; two linear layers; a norm.
const OF_A_LAYER: usize = 7;

#[test]
fn a_bert_layer_is_seven_launches_on_a_grid() {
    let module = parse(BERT).unwrap();
    let sizes = |weight: &disc_ir::graph::Weight| weight.ty.static_dims().expect("weights have known sizes");
    let weight = |weight| {
        let sizes: Vec<i64> = sizes(weight);
        let values = vec![0.01_f32; sizes.iter().product::<i64>() as usize];
        (weight.name.to_string(), Weight::from(HostTensor::new(&sizes, &values).unwrap()))
    };
    let weights = module.weights.iter().map(weight).collect();
    let options = Options { device: Some("simt:sm_90".into()), ..Options::default() };
    let executable = compile(module.clone(), &options).unwrap().load(weights, &options).unwrap();
    // Vectors of a row and of few rows, then tiles.
    for [batch, length] in [[1, 1], [2, 3], [2, 13]] {
        let numbers = HostTensor::new(&[batch, length], &vec![1_i64; (batch * length) as usize]).unwrap();
        let inputs = [numbers.as_input(), numbers.as_input(), numbers.as_input()];
        let launches = executable.with_session(|session| {
            session.start_profile();
            executable.run(0, session, &inputs, &mut HostOutputs::new()).unwrap();
            session.take_profile()
        });
        let names: Vec<&str> = launches.iter().map(|launch| launch.name.as_deref().expect("code has names")).collect();
        assert_eq!(names.len(), 1 + LAYERS * OF_A_LAYER, "{names:?}");
    }
}

#[test]
fn kernels_of_equal_layers_are_compiled_once() {
    let options = Options { target: Some("nvptx:sm_90".into()), ..Options::default() };
    let kernels = |layers: usize| -> Vec<String> {
        let ptx = stages::ptx(parse(&model::encoder(layers, 12, 64)).unwrap(), &options).unwrap();
        ptx.lines().filter(|line| line.starts_with(".visible .entry")).map(str::to_owned).collect()
    };
    let (two, twelve) = (kernels(2), kernels(12));
    assert!(!two.is_empty());
    assert_eq!(two, twelve);
}
