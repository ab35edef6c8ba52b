//! `--set`, as every verb that takes a scenario has it.

/// Values laid over a scenario.
#[derive(clap::Args, Clone, Debug, Default)]
pub(in crate::cmd) struct Sets {
    /// Override a value of the scenario: a dotted key and a TOML value. A list makes a sweep axis,
    /// if the command can run sweeps.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    values: Vec<String>,
}

impl Sets {
    /// As given, in order.
    pub(in crate::cmd) fn values(&self) -> &[String] {
        &self.values
    }

    /// With a seed on top, if there is one.
    pub(in crate::cmd) fn with_seed(&self, seed: Option<u64>) -> Vec<String> {
        let mut sets = self.values.clone();
        sets.extend(seed.map(|seed| format!("seed={seed}")));
        sets
    }
}
