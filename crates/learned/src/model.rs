//! A network out of an ONNX file, run by `tract`.

use crate::{check, observation};
use prost::Message;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use tabane_config::bounded;
use thiserror::Error;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::{
    DatumExt, Framework, InferenceModelExt, IntoRunnable, Tensor, TractError, TractResult,
    TypedSimplePlan, TypedSimpleState, tvec,
};

/// Longest file that is read, bytes: 200 times a network that decides in microseconds.
const FILE_MAX: u64 = 4 << 20;

/// Why a file is no policy that could be run.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum ModelError {
    /// It could not be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// It is no ONNX, or damaged.
    #[error("it is no ONNX file, or damaged: {0}")]
    Decode(String),
    /// It holds no network.
    #[error("there is no network in it")]
    NoGraph,
    /// It was trained for other observations.
    #[error(
        "it is for observations of version {is}, this program makes version {ours}; train it \
         anew with the Python package of this version",
        ours = observation::VERSION
    )]
    Observation {
        /// What it says.
        is: String,
    },
    /// It does not go from one observation to one answer.
    #[error("it has {inputs} inputs and {outputs} outputs; a policy has one of each")]
    Ends {
        /// Beside weights.
        inputs: usize,
        /// Of the graph.
        outputs: usize,
    },
    /// Its input is no observation.
    #[error(
        "its input is no row of {one}, {two}, ... numbers (observations of 1, 2, ... subflows), \
         but of {0}",
        one = observation::width(1),
        two = observation::width(2)
    )]
    Width(usize),
    /// Its output has not one number a subflow and one more.
    #[error("its output has {is} numbers, of {subflows} subflows it must have {}", .subflows + 1)]
    Answer {
        /// What it has.
        is: usize,
        /// Of its observation.
        subflows: usize,
    },
    /// It needs an operator that policies have not.
    #[error("operator {0}: policies are made of dense layers")]
    Operator(String),
    /// Its weights cannot be used.
    #[error("weights {0}")]
    Weights(String),
    /// It is too large to decide in microseconds.
    #[error("it is too large for a decision a segment: {0}")]
    Size(String),
    /// Its layers do not fit each other.
    #[error("its layers do not fit: {0}")]
    Layers(String),
    /// What it answers is no number.
    #[error("its answer is no number")]
    NotFinite,
}

/// A network that has been read and checked; connections share it.
#[derive(Clone, Debug)]
pub struct Model {
    plan: Arc<TypedSimplePlan>,
    width: usize,
}

impl Model {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ModelError`]; no file, however made, does anything else.
    pub fn read(file: &Path) -> Result<Self, ModelError> {
        Self::parse(&bounded::bytes(file, FILE_MAX)?)
    }

    /// The network that these bytes are.
    ///
    /// # Errors
    /// As [`Model::read`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ModelError> {
        let proto = ModelProto::decode(bytes);
        let proto = proto.map_err(|error| ModelError::Decode(error.to_string()))?;
        let width = check::width(&proto)?;
        // What passes the check is small and plain. The library is of another make than this
        // program all the same: if it gives up on a file by a panic, then that is the file's fault.
        let plan = catch_unwind(AssertUnwindSafe(|| compile(&proto, width)));
        let plan =
            plan.map_err(|_| ModelError::Layers("they cannot be made sense of".to_owned()))?;
        let model = Self { plan: plan.map_err(|e| ModelError::Layers(root(&e)))?, width };
        model.try_out()?;
        Ok(model)
    }

    /// Numbers of an observation.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Its answers have the right number of numbers, which are numbers.
    fn try_out(&self) -> Result<(), ModelError> {
        let mut running = self.start()?;
        for value in [0.0, 1.0] {
            running.logits(&vec![value; self.width])?;
        }
        Ok(())
    }

    /// One of it that can decide, with the memory that it needs.
    ///
    /// # Errors
    /// None of a model that has been read.
    pub fn start(&self) -> Result<Running, ModelError> {
        let state = self.plan.spawn().map_err(|e| ModelError::Layers(root(&e)))?;
        let subflows = observation::subflows(self.width).ok_or(ModelError::Width(self.width))?;
        Ok(Running { state, logits: vec![0.0; subflows + 1] })
    }
}

/// A network with the memory that deciding needs: each connection has its own.
pub struct Running {
    state: TypedSimpleState,
    logits: Vec<f32>,
}

impl Running {
    /// How many subflows it sees.
    pub fn subflows(&self) -> usize {
        self.logits.len() - 1
    }

    /// The action with the largest number, the first of equal ones.
    ///
    /// # Errors
    /// [`ModelError::NotFinite`], if an answer is no number.
    pub fn decide(&mut self, seen: &[f32]) -> Result<i64, ModelError> {
        let logits = self.logits(seen)?;
        let mut best = 0;
        for (action, logit) in logits.iter().enumerate() {
            if *logit > logits[best] {
                best = action;
            }
        }
        Ok(best as i64)
    }

    /// A number for each action.
    ///
    /// # Errors
    /// [`ModelError::NotFinite`], if one is none.
    pub fn logits(&mut self, seen: &[f32]) -> Result<&[f32], ModelError> {
        let failed = |error| ModelError::Layers(root(&error));
        let input = Tensor::from_shape(&[1, seen.len()], seen).map_err(failed)?;
        let output = self.state.run(tvec!(input.into())).map_err(failed)?;
        let plain = output[0].try_as_plain_ram().map_err(failed)?;
        let is = plain.as_slice::<f32>().map_err(failed)?;
        if is.len() != self.logits.len() {
            return Err(ModelError::Answer { is: is.len(), subflows: self.logits.len() - 1 });
        }
        if !is.iter().all(|logit| logit.is_finite()) {
            return Err(ModelError::NotFinite);
        }
        self.logits.copy_from_slice(is);
        Ok(&self.logits)
    }
}

fn compile(proto: &ModelProto, width: usize) -> TractResult<Arc<TypedSimplePlan>> {
    let model = tract_onnx::onnx().model_for_proto_model(proto)?;
    let model = model.with_input_fact(0, f32::fact([1, width]).into())?;
    model.into_optimized()?.into_runnable()
}

/// The cause, in a line.
fn root(error: &TractError) -> String {
    let text = error.root_cause().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}
