//! With feature `page`: the simulator as a WebAssembly module with its JavaScript, and what the
//! papers' reports say, as files for `src/page.rs`. Without it there is nothing to do.
//!
//! It runs this cargo once more, for `wasm32-unknown-unknown`, into a folder of its own: the
//! standard library for that target is all that must be there (`rustup target add`).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "page")]
    page::make();
}

#[cfg(feature = "page")]
mod page {
    use serde_json::{Map, Value, json};
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs};
    use wasm_bindgen_cli_support::Bindgen;

    const TARGET: &str = "wasm32-unknown-unknown";
    /// What the module is made of.
    const SOURCES: &[&str] = &["wire", "engine", "config", "trace", "sim", "play"];
    /// Papers that are presets.
    const PAPERS: &[&str] = &["bicast", "hayack", "ecf3", "two_wans", "proxies"];
    /// Small and fast: the whole program at once, no unwinding, no names.
    const PROFILE: &[&str] = &[
        "profile.release.lto=\"fat\"",
        "profile.release.codegen-units=1",
        "profile.release.panic=\"abort\"",
        "profile.release.opt-level=3",
        "profile.release.debug=false",
        "profile.release.strip=\"symbols\"",
        "profile.release.package.tabane-wire.codegen-units=1",
    ];

    pub(super) fn make() {
        let out = PathBuf::from(variable("OUT_DIR"));
        let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
        for name in SOURCES {
            println!("cargo::rerun-if-changed=../{name}/src");
        }
        println!("cargo::rerun-if-changed=../../Cargo.lock");
        let module = compile(&root, &out);
        let mut bindgen = Bindgen::new();
        bindgen.input_path(module).out_name("tabane").typescript(false).demangle(false);
        let made = bindgen.web(true).and_then(|bindgen| bindgen.generate(&out));
        made.unwrap_or_else(|error| panic!("the module's JavaScript cannot be made: {error:#}"));
        let reports = PAPERS.iter().map(|paper| ((*paper).to_owned(), report(&root, paper)));
        let reports = Value::Object(reports.collect::<Map<String, Value>>());
        fs::write(out.join("papers.json"), reports.to_string()).expect("OUT_DIR can be written");
    }

    /// The module, before its JavaScript is made.
    fn compile(root: &Path, out: &Path) -> PathBuf {
        let rustc = variable("RUSTC");
        let sysroot = Command::new(&rustc).args(["--print", "sysroot"]).output();
        let sysroot = sysroot.expect("the compiler that cargo named runs").stdout;
        let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim());
        if !sysroot.join("lib/rustlib").join(TARGET).exists() {
            panic!("the playground needs Rust for {TARGET}: run `rustup target add {TARGET}`");
        }
        let target = out.join("wasm");
        let mut cargo = Command::new(variable("CARGO"));
        cargo.current_dir(root).args([
            "build",
            "--release",
            "--locked",
            "--package",
            "tabane-play",
        ]);
        cargo.args(["--lib", "--target", TARGET, "--target-dir"]).arg(&target);
        PROFILE.iter().for_each(|setting| {
            cargo.args(["--config", setting]);
        });
        // Flags and wrappers are for the program around it.
        for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CARGO_BUILD_TARGET"] {
            cargo.env_remove(name);
        }
        let status = cargo.status().expect("cargo runs");
        assert!(status.success(), "the simulator did not build for {TARGET}");
        target.join(TARGET).join("release/tabane_play.wasm")
    }

    /// What a page shows of a paper's report.
    fn report(root: &Path, paper: &str) -> Value {
        let path = format!("papers/{paper}/report.json");
        println!("cargo::rerun-if-changed=../../{path}");
        let text = fs::read_to_string(root.join(&path));
        let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
        let report: Value = serde_json::from_str(&text).expect("reports are JSON");
        let part = |key: &str| report[key].clone();
        json!({ "title": part("title"), "claims": part("claims"), "cells": part("cells") })
    }

    fn variable(name: &str) -> String {
        env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
    }
}
