//! GGUF files of llama.cpp as models of transformers: configuration, tokenizer and float32 weights.
//!
//! `candle-core` reads the file and dequantises tensors. It trusts counts and lengths in the file, so `layout` checks the
//! whole header before. `architecture` is the table of supported model families.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod architecture;
mod config;
mod error;
mod layout;
mod metadata;
mod rope;
mod tensors;
mod tokenizer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use candle_core::quantized::gguf_file::Content;
use serde_json::{Map, Value};

use crate::error::Problem;
use crate::metadata::Metadata;
use crate::tensors::{MappedTensor, Tensors, restored, values};

pub use error::GgufError;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;

/// A model whose header was read and checked. Weights are read tensor by tensor.
#[derive(Debug)]
pub struct GgufModel<R> {
    reader: R,
    content: Content,
    config: Map<String, Value>,
    files: Vec<(&'static str, String)>,
    tensors: BTreeMap<String, MappedTensor>,
}

impl GgufModel<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or needs what is not supported.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let file = |source: Error| GgufError::File { path: path.to_owned(), source };
        // At a pipe, an open would wait.
        if !std::fs::metadata(path).map_err(file)?.is_file() {
            return Err(file(Error::other("it is not a regular file")));
        }
        let reader = BufReader::with_capacity(BUFFER, File::open(path).map_err(file)?);
        Self::read(reader, path)
    }
}

impl<R: Read + Seek> GgufModel<R> {
    /// Reads the header of a file; `path` is used in errors.
    ///
    /// # Errors
    /// If the file is damaged, or needs what is not supported.
    pub fn read(mut reader: R, path: &Path) -> Result<Self, GgufError> {
        let content = content(&mut reader).map_err(|problem| problem.at(path))?;
        let mut read = || -> Result<_, Problem> {
            let metadata = Metadata::new(&content.metadata);
            config::check_kind(&metadata)?;
            let architecture = architecture::of(&metadata)?;
            let tensors = Tensors::new(&content, &mut reader)?;
            let mut keys = config::read(&metadata, architecture, &tensors)?;
            let mapped = tensors.mapped(architecture, &keys)?;
            let files = tokenizer::read(&metadata, keys.vocabulary, &mut keys.config)?;
            Ok((keys.config, files, mapped))
        };
        let (config, files, tensors) = read().map_err(|problem| problem.at(path))?;
        Ok(Self { reader, content, config, files, tensors })
    }

    /// Content of `config.json`.
    #[must_use]
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// Names and texts of the other files: tokenizer, its configuration with the chat template, generation defaults.
    #[must_use]
    pub fn files(&self) -> &[(&'static str, String)] {
        &self.files
    }

    /// Names and shapes of the tensors, sorted by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.tensors.iter().map(|(name, mapped)| (name.as_str(), mapped.shape.as_slice()))
    }

    /// Values of a tensor in float32, in the order of its shape.
    ///
    /// # Errors
    /// If the file has no such tensor, or cannot be read.
    pub fn values(&mut self, name: &str) -> std::io::Result<Vec<f32>> {
        let missing = || Error::new(ErrorKind::NotFound, format!("it has no tensor `{name}`"));
        let tensor = self.tensors.get(name).ok_or_else(missing)?;
        let values = values(&self.content, &mut self.reader, &tensor.source).map_err(Error::other)?;
        Ok(match tensor.interleaved_heads {
            Some(heads) => restored(&values, &tensor.shape, heads),
            None => values,
        })
    }
}

/// Reads the header after its layout was checked.
fn content(reader: &mut (impl Read + Seek)) -> Result<Content, Problem> {
    let damaged = |error: Error| Problem::damaged(error.to_string());
    let length = reader.seek(SeekFrom::End(0)).map_err(damaged)?;
    reader.rewind().map_err(damaged)?;
    layout::check(reader, length)?;
    reader.rewind().map_err(damaged)?;
    Content::read(reader).map_err(|error| Problem::damaged(error.to_string()))
}
