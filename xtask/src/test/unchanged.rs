//! Test programs that passed and have not changed since: neither the program nor what it reads.
//!
//! Kept in `target/`, so that a clean checkout runs everything.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::programs::TestProgram;
use crate::inputs::digest;

/// Digests of the programs that passed, by name.
#[derive(Debug)]
pub struct Passed {
    file: Option<PathBuf>,
    /// Digest of what test programs read besides themselves.
    inputs: String,
    digests: Mutex<BTreeMap<String, String>>,
}

impl Passed {
    /// Nothing passed before, and nothing is kept.
    pub fn none() -> Self {
        Self { file: None, inputs: String::new(), digests: Mutex::default() }
    }

    /// The programs that the file lists. `inputs` is a digest of everything that programs read besides themselves.
    pub fn in_file(file: PathBuf, inputs: String) -> Self {
        let digests = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Self { file: Some(file), inputs, digests: Mutex::new(digests) }
    }

    /// Whether the program passed as it is, with the same inputs.
    pub fn contains(&self, program: &TestProgram) -> bool {
        let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.get(&program.name()).is_some_and(|known| self.digest(program).as_ref() == Some(known))
    }

    /// Adds a program that has passed.
    pub fn add(&self, program: &TestProgram) {
        let (Some(file), Some(digest)) = (&self.file, self.digest(program)) else { return };
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.insert(program.name(), digest);
        // Losing it costs a repetition.
        let _ = serde_json::to_vec_pretty(&*digests).map(|text| fs::write(file, text));
    }

    fn digest(&self, program: &TestProgram) -> Option<String> {
        Some(digest([fs::read(&program.executable).ok()?.as_slice(), self.inputs.as_bytes()]))
    }
}
