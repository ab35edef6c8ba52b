//! What a file must be like before the inference library sees it: a small network of dense layers,
//! with all of its weights inside and finite. A file may come from anywhere; what is refused here
//! cannot surprise a library that was written for files that one trusts.

use crate::model::ModelError;
use crate::observation;
use tract_onnx::pb::tensor_proto::{DataLocation, DataType};
use tract_onnx::pb::{GraphProto, ModelProto, TensorProto, ValueInfoProto};
use tract_onnx::pb::{tensor_shape_proto::dimension, type_proto};

/// Operators that networks of dense layers are made of.
const OPERATORS: &[&str] = &[
    "Gemm",
    "MatMul",
    "Add",
    "Relu",
    "Tanh",
    "Sigmoid",
    "Elu",
    "LeakyRelu",
    "Identity",
    "Flatten",
];
/// More nodes than that are no policy that decides in microseconds.
const NODES_MAX: usize = 64;
/// Weights of all layers together.
const WEIGHTS_MAX: usize = 1 << 18;
/// Key of the file's metadata that says for which observations it was trained.
const OBSERVATION: &str = "tabane.observation";

/// Numbers of the network's observation.
pub(crate) fn width(model: &ModelProto) -> Result<usize, ModelError> {
    let version = model.metadata_props.iter().find(|entry| entry.key == OBSERVATION);
    let version = version.map(|entry| entry.value.as_str());
    if version != Some(observation::VERSION) {
        let is = version.unwrap_or("none").chars().take(20).collect();
        return Err(ModelError::Observation { is });
    }
    if !model.functions.is_empty() {
        return Err(ModelError::Operator("a function of its own".to_owned()));
    }
    let graph = model.graph.as_ref().ok_or(ModelError::NoGraph)?;
    operators(graph)?;
    weights(graph)?;
    let weight = |name: &str| graph.initializer.iter().any(|tensor| tensor.name == name);
    let inputs: Vec<&ValueInfoProto> =
        graph.input.iter().filter(|input| !weight(&input.name)).collect();
    let ([input], [_]) = (inputs.as_slice(), graph.output.as_slice()) else {
        return Err(ModelError::Ends { inputs: inputs.len(), outputs: graph.output.len() });
    };
    let width = last_dimension(input).unwrap_or(0);
    observation::subflows(width).map(|_| width).ok_or(ModelError::Width(width))
}

fn operators(graph: &GraphProto) -> Result<(), ModelError> {
    if graph.node.len() > NODES_MAX {
        return Err(ModelError::Size(format!("{} operators", graph.node.len())));
    }
    for node in &graph.node {
        let known = OPERATORS.contains(&node.op_type.as_str()) && node.domain.is_empty();
        if !known {
            return Err(ModelError::Operator(node.op_type.chars().take(40).collect()));
        }
        let nested = |a: &tract_onnx::pb::AttributeProto| {
            a.g.is_some() || a.t.is_some() || !a.graphs.is_empty() || !a.tensors.is_empty()
        };
        if node.attribute.iter().any(nested) {
            return Err(ModelError::Operator(format!("{} with a tensor inside", node.op_type)));
        }
    }
    Ok(())
}

fn weights(graph: &GraphProto) -> Result<(), ModelError> {
    let mut all = 0;
    if !graph.sparse_initializer.is_empty() {
        return Err(ModelError::Weights("sparse weights".to_owned()));
    }
    for tensor in &graph.initializer {
        let wrong = |what: &str| {
            let name: String = tensor.name.chars().take(40).collect();
            ModelError::Weights(format!("'{name}': {what}"))
        };
        let external = Some(DataLocation::External as i32);
        if tensor.data_location == external || !tensor.external_data.is_empty() {
            return Err(wrong("its numbers are in another file"));
        }
        if tensor.data_type != DataType::Float as i32 {
            return Err(wrong("its numbers are not of 32 bits"));
        }
        let numbers = numbers(tensor).ok_or_else(|| wrong("numbers do not fit its shape"))?;
        all += numbers.len();
        if all > WEIGHTS_MAX {
            return Err(ModelError::Size(format!("more than {WEIGHTS_MAX} weights")));
        }
        if !numbers.iter().all(|number| number.is_finite()) {
            return Err(wrong("a weight is no number (NaN) or infinite"));
        }
    }
    Ok(())
}

/// The numbers of a tensor, if they are as many as its shape says.
fn numbers(tensor: &TensorProto) -> Option<Vec<f32>> {
    if tensor.dims.len() > 2 {
        return None;
    }
    let count = tensor.dims.iter().try_fold(1_usize, |product, dim| {
        product.checked_mul(usize::try_from(*dim).ok().filter(|dim| *dim > 0)?)
    })?;
    let numbers: Vec<f32> = if tensor.raw_data.is_empty() {
        tensor.float_data.clone()
    } else {
        let (words, rest) = tensor.raw_data.as_chunks::<4>();
        if !rest.is_empty() || !tensor.float_data.is_empty() {
            return None;
        }
        words.iter().map(|word| f32::from_le_bytes(*word)).collect()
    };
    (numbers.len() == count).then_some(numbers)
}

/// Of a tensor of floats that is a row, with or without a dimension before it.
fn last_dimension(input: &ValueInfoProto) -> Option<usize> {
    let type_proto::Value::TensorType(tensor) = input.r#type.as_ref()?.value.as_ref()?;
    let dims = &tensor.shape.as_ref()?.dim;
    if tensor.elem_type != DataType::Float as i32 || dims.len() != 2 {
        return None;
    }
    match dims.last()?.value.as_ref()? {
        dimension::Value::DimValue(value) => usize::try_from(*value).ok(),
        dimension::Value::DimParam(_) => None,
    }
}
