//! The face towards the page: [`crate::Play`] as a class of JavaScript. Times are seconds there,
//! and what has a shape is JSON.
// What wasm_bindgen writes around these functions.
#![allow(unsafe_code)]

use crate::PlayError;
use wasm_bindgen::prelude::*;

/// A run that is under way.
#[wasm_bindgen]
pub struct Play(crate::Play);

fn told(error: PlayError) -> JsError {
    JsError::new(&error.to_string())
}

fn json(value: &impl serde::Serialize) -> Result<String, JsError> {
    serde_json::to_string(value).map_err(|error| JsError::new(&error.to_string()))
}

#[wasm_bindgen]
impl Play {
    /// See [`crate::Play::new`].
    ///
    /// # Errors
    /// As there.
    #[wasm_bindgen(constructor)]
    pub fn new(name: &str, text: &str, sets: Vec<String>) -> Result<Play, JsError> {
        crate::Play::new(name, text, &sets).map(Self).map_err(told)
    }

    /// Up to a time, in seconds, or a few thousand events. Whether to call it again.
    ///
    /// # Errors
    /// As [`crate::Play::advance`].
    pub fn advance(&mut self, until: f64) -> Result<bool, JsError> {
        self.0.advance((until * 1e9) as u64).map_err(told)
    }

    /// Seconds of the run.
    pub fn now(&mut self) -> f64 {
        self.0.now() as f64 / 1e9
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> bool {
        self.0.is_over()
    }

    /// So far.
    pub fn packet_hops(&mut self) -> f64 {
        self.0.packet_hops() as f64
    }

    /// See [`crate::Play::change`].
    ///
    /// # Errors
    /// As there.
    pub fn change(&mut self, change: &str) -> Result<bool, JsError> {
        self.0.change(change).map_err(told)
    }

    /// See [`crate::Play::set_policy`].
    ///
    /// # Errors
    /// As there.
    pub fn set_policy(&mut self, kind: &str, policy: &str) -> Result<bool, JsError> {
        self.0.set_policy(kind, policy).map_err(told)
    }

    /// See [`crate::Play::toml`].
    pub fn toml(&self) -> String {
        self.0.toml()
    }

    /// [`crate::About`].
    ///
    /// # Errors
    /// None that is known.
    pub fn about(&mut self) -> Result<String, JsError> {
        json(&self.0.about())
    }

    /// [`crate::Status`].
    ///
    /// # Errors
    /// None that is known.
    pub fn status(&mut self, anew: bool) -> Result<String, JsError> {
        json(&self.0.status(anew))
    }

    /// See [`crate::Play::sample`].
    pub fn sample(&mut self) -> Vec<f64> {
        self.0.sample()
    }

    /// See [`crate::Play::dots`].
    pub fn dots(&mut self, most: usize) -> Vec<f32> {
        self.0.dots(most)
    }

    /// See [`crate::Play::finish`].
    ///
    /// # Errors
    /// As there.
    pub fn finish(&mut self) -> Result<Option<String>, JsError> {
        self.0.finish().map_err(told)
    }
}
