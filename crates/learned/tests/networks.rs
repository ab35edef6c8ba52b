//! Networks out of files: what the trainer's own library answers is what ours answers, runs are the
//! same to the byte, and no file, however made, does more than be refused.
#![cfg(feature = "onnx")]

use prost::Message;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tabane_engine::policy::Spec;
use tabane_engine::scheduler;
use tabane_learned::{Model, observation};
use tabane_sim::observe::Silent;
use tabane_sim::result::RunResult;
use tabane_sim::scenario::Document;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::{ModelProto, NodeProto, tensor_shape_proto::dimension, type_proto};

/// The example's policy, and what PyTorch answered when it was saved.
fn example(extension: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/examples/policy");
    root.with_extension(extension)
}

fn policy() -> Vec<u8> {
    fs::read(example("onnx")).expect("the example's policy")
}

fn numbers(value: &Value) -> Vec<f32> {
    let list = value.as_array().expect("a list");
    list.iter().map(|x| x.as_f64().expect("a number") as f32).collect()
}

#[test]
fn it_decides_as_it_did_where_it_was_trained() {
    let text = fs::read_to_string(example("json")).expect("the example's answers");
    let pairs: Value = serde_json::from_str(&text).expect("JSON");
    let pairs = pairs.as_array().expect("pairs");
    let model = Model::parse(&policy()).expect("the example's policy");
    let mut running = model.start().expect("memory");
    let mut actions = [0; 3];
    for pair in pairs {
        let [seen, answer] = [&pair[0], &pair[1]].map(numbers);
        let ours = running.logits(&seen).expect("an answer").to_vec();
        for (ours, theirs) in ours.iter().zip(&answer) {
            assert!((ours - theirs).abs() < 1e-4 * theirs.abs().max(1.0), "{ours} {theirs}");
        }
        let best = (0..answer.len()).fold(0, |a, b| if answer[b] > answer[a] { b } else { a });
        assert_eq!(running.decide(&seen).expect("an answer"), best as i64);
        actions[best] += 1;
    }
    assert!(pairs.len() >= 200 && actions[0].min(actions[1]) > 10, "it is no test: {actions:?}");
}

fn run(folder: &Path, scheduler: &str) -> RunResult {
    let set = format!("host.server.scheduler={scheduler}");
    let document = Document::read(&folder.join("scenario.toml"), &[set]);
    let variants = document.and_then(|d| d.variants()).unwrap_or_else(|e| panic!("{e}"));
    tabane_sim::run(&variants[0].plan, &mut Silent).expect("a run")
}

const SCENARIO: &str = "duration = \"30s\"\n[link.a]\nrate = \"20Mbps\"\ndelay = \"10ms\"\n\
    loss = \"0.1%\"\n[link.b]\nrate = \"10Mbps\"\ndelay = \"60ms\"\n[[flow]]\nbulk = \"2MB\"\n";

/// A name is relative to the scenario, and the run is the same each time.
#[test]
fn a_scenario_names_it_and_runs_alike() {
    tabane_learned::register().expect("nobody else has the name");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("scenario.toml"), SCENARIO).expect("a file");
    fs::create_dir(folder.path().join("nets, all")).expect("a folder");
    fs::copy(example("onnx"), folder.path().join("nets, all/p.onnx")).expect("a file");
    let first = run(folder.path(), "learned:file=nets, all/p.onnx");
    assert!(first.flows[0].completed_s.is_some(), "{first:?}");
    assert!(first.flows[0].subflows.iter().all(|s| s.bytes > 100_000), "{first:?}");
    assert_eq!(first, run(folder.path(), "learned:file=nets, all/p.onnx"));
}

#[test]
fn what_is_not_there_is_named() {
    tabane_learned::register().expect("nobody else has the name");
    let error = |spec: &str| {
        let spec: Spec = spec.parse().expect("a spec");
        scheduler::build(&spec).err().expect("no policy").to_string()
    };
    assert!(error("learned").contains("write learned:file=policy.onnx"));
    let message = error("learned:file=nowhere/p.onnx");
    assert!(message.contains("nowhere/p.onnx") && message.contains("No such file"), "{message}");
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("long.onnx");
    fs::File::create(&long).and_then(|file| file.set_len(1 << 30)).expect("a file");
    let message = error(&format!("learned:file={}", long.display()));
    assert!(message.contains("longer than 4 MiB"), "{message}");
}

/// What a change of the example's file is answered with.
fn refused(change: impl FnOnce(&mut ModelProto)) -> String {
    let mut proto = ModelProto::decode(&*policy()).expect("ONNX");
    change(&mut proto);
    Model::parse(&proto.encode_to_vec()).err().expect("refused").to_string()
}

fn weights(proto: &mut ModelProto) -> &mut tract_onnx::pb::TensorProto {
    &mut proto.graph.as_mut().expect("a graph").initializer[0]
}

fn nodes(proto: &mut ModelProto) -> &mut Vec<NodeProto> {
    &mut proto.graph.as_mut().expect("a graph").node
}

/// Says that its observations are so long.
fn set_width(proto: &mut ModelProto, width: i64) {
    let input = &mut proto.graph.as_mut().expect("a graph").input[0];
    let value = input.r#type.as_mut().and_then(|t| t.value.as_mut()).expect("a type");
    let type_proto::Value::TensorType(tensor) = value;
    let shape = tensor.shape.as_mut().expect("a shape");
    shape.dim[1].value = Some(dimension::Value::DimValue(width));
}

#[test]
fn hostile_networks_are_refused_with_a_reason() {
    let has = |message: String, part: &str| assert!(message.contains(part), "{message}: {part}");
    has(refused(|p| p.metadata_props.clear()), "for observations of version none");
    has(refused(|p| p.metadata_props[0].value = "1".into()), "of version 1, this program");
    has(refused(|p| p.graph = None), "no network");
    let nan = |p: &mut ModelProto| weights(p).raw_data[..4].copy_from_slice(&[0, 0, 0xc0, 0x7f]);
    has(refused(nan), "(NaN)");
    let huge = |p: &mut ModelProto| {
        for tensor in &mut p.graph.as_mut().expect("a graph").initializer {
            let words = tensor.raw_data.as_chunks_mut::<4>().0;
            words.iter_mut().for_each(|word| *word = f32::MAX.to_le_bytes());
        }
    };
    has(refused(huge), "its answer is no number");
    has(refused(|p| weights(p).raw_data.truncate(10)), "do not fit its shape");
    has(refused(|p| weights(p).dims = vec![1 << 40, 1 << 40]), "do not fit its shape");
    has(refused(|p| weights(p).dims = vec![-1, 3]), "do not fit its shape");
    has(refused(|p| weights(p).dims.swap(0, 1)), "layers");
    has(refused(|p| weights(p).data_type = 11), "not of 32 bits");
    let external = |p: &mut ModelProto| {
        weights(p).data_location = Some(DataLocation::External as i32);
    };
    has(refused(external), "in another file");
    has(refused(|p| nodes(p)[0].op_type = "Loop".into()), "operator Loop");
    has(refused(|p| nodes(p)[0].op_type = "Relu".into()), "layers");
    has(refused(|p| nodes(p)[1].input[0] = "nowhere".into()), "layers");
    let many = |p: &mut ModelProto| {
        let node = nodes(p)[1].clone();
        *nodes(p) = vec![node; 100];
    };
    has(refused(many), "100 operators");
    has(refused(|p| p.graph.as_mut().expect("a graph").input.clear()), "0 inputs");
    has(refused(|p| set_width(p, 24)), "no row of 13, 23, ... numbers");
    has(refused(|p| set_width(p, 33)), "layers");
    has(refused(|p| set_width(p, i64::MAX)), "no row of 13, 23, ... numbers");
}

/// Bytes lost at the end, and bytes changed anywhere: each is a network or none, and nothing else.
#[test]
fn damaged_files_are_refused_or_are_networks() {
    let good = policy();
    for length in (0..good.len()).step_by(97) {
        assert!(Model::parse(&good[..length]).is_err(), "{length} bytes");
    }
    let (mut state, mut refused) = (1_u64, 0);
    for _ in 0..300 {
        let mut bytes = good.clone();
        for _ in 0..4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] ^= 1 << (state >> 29 & 7);
        }
        refused += u32::from(Model::parse(&bytes).is_err());
    }
    assert!(refused > 10, "{refused} of 300 were refused");
    assert_eq!(observation::subflows(Model::parse(&good).expect("the policy").width()), Some(2));
}
