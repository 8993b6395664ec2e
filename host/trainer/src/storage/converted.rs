//! Models read from other formats, written as folders that transformers loads.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};

use crate::storage::files::ModelFiles;
use crate::storage::{sync_folder, write_synced, write_whole};
use crate::storage::{weight_files, weight_header};
use crate::{ModelConfig, TrainerError};

const CONFIG: &str = "config.json";
/// Alignment of the first weight in a file, in bytes.
const ALIGNMENT: usize = 8;

/// A model whose weights another format holds.
#[derive(Debug)]
pub struct ConvertedModel {
    source: PathBuf,
    /// Configuration.
    pub config: ModelConfig,
    /// Tokenizer, its configuration and generation defaults.
    pub files: ModelFiles,
    /// Names and shapes, sorted by name.
    tensors: BTreeMap<String, Vec<i64>>,
}

impl ConvertedModel {
    /// Checks that the model is supported, and that its tensors are exactly those of `config`, with their shapes. `source`
    /// is the file that errors name.
    ///
    /// # Errors
    /// [`TrainerError::UnsupportedModel`] with the key of the config, [`TrainerError::Weights`] with the tensor.
    pub fn new<'a>(
        source: &Path,
        config: Map<String, Value>,
        texts: impl IntoIterator<Item = (&'a str, String)>,
        tensors: BTreeMap<String, Vec<i64>>,
    ) -> Result<Self, TrainerError> {
        let config = ModelConfig::from_source(config, source)?;
        let found = tensors.iter().map(|(name, shape)| (name.clone(), (shape.clone(), source))).collect();
        weight_header::compare(found, source, &config)?;
        Ok(Self { source: source.to_owned(), config, files: ModelFiles::from_texts(texts), tensors })
    }

    /// Bytes of the weights in float32.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.config.parameter_count().saturating_mul(size_of::<f32>() as u64)
    }

    /// Writes a new folder, atomically. `values` gives the float32 values of each tensor, one after the other.
    ///
    /// # Errors
    /// If the folder exists or cannot be written, or `values` fails.
    pub fn write(
        &self,
        folder: &Path,
        values: impl FnMut(&str) -> std::io::Result<Vec<f32>>,
    ) -> Result<(), TrainerError> {
        write_whole(folder, |partial| {
            write_synced(&partial.join(CONFIG), self.config.to_json().as_bytes())?;
            for (name, text) in self.files.iter() {
                write_synced(&partial.join(name), text.as_bytes())?;
            }
            self.write_weights(&partial.join(weight_files::SINGLE), values)?;
            sync_folder(partial)
        })
    }

    /// Writes the weight file with one tensor in memory at a time.
    fn write_weights(
        &self,
        path: &Path,
        mut values: impl FnMut(&str) -> std::io::Result<Vec<f32>>,
    ) -> Result<(), TrainerError> {
        let header = self.header().map_err(|source| TrainerError::Safetensors { path: path.to_owned(), source })?;
        let text =
            serde_json::to_string(&header).map_err(|source| TrainerError::Json { path: path.to_owned(), source })?;
        let text = format!("{text:width$}", width = text.len().next_multiple_of(ALIGNMENT));
        let written = || TrainerError::file("write", path);
        let mut file = BufWriter::new(File::create(path).map_err(written())?);
        file.write_all(&(text.len() as u64).to_le_bytes()).map_err(written())?;
        file.write_all(text.as_bytes()).map_err(written())?;
        for (name, shape) in &self.tensors {
            let values = values(name).map_err(TrainerError::file("read", &self.source))?;
            if values.len() as i64 != shape.iter().product::<i64>() {
                let problem = format!("`{name}` has {} weights instead of the shape {shape:?}", values.len());
                return Err(TrainerError::Weights { path: self.source.clone(), problem });
            }
            let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
            file.write_all(&bytes).map_err(written())?;
        }
        let file = file.into_inner().map_err(|error| written()(error.into_error()))?;
        file.sync_all().map_err(written())
    }

    /// Header of the weight file.
    fn header(&self) -> Result<Metadata, safetensors::SafeTensorError> {
        let mut end = 0;
        let tensors = self.tensors.iter().map(|(name, shape)| {
            let shape: Vec<usize> = shape.iter().map(|size| *size as usize).collect();
            let begin = end;
            end += shape.iter().product::<usize>() * size_of::<f32>();
            (name.clone(), TensorInfo { dtype: Dtype::F32, shape, data_offsets: (begin, end) })
        });
        // Older transformers refuse a file whose metadata does not name a framework.
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        Metadata::new(Some(metadata), tensors.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tensor_file;
    use crate::{TinyModel, model, tiny};

    /// A model with one layer of random shapes, whose weights count from 0 in each tensor.
    fn converted(change: impl FnOnce(&mut BTreeMap<String, Vec<i64>>)) -> Result<ConvertedModel, TrainerError> {
        let tiny = TinyModel { layers: 1, width: 16, heads: 2, kv_heads: 1, mlp: 32, context: 320 };
        let config = tiny::config(&tiny)?;
        let mut tensors = model::shapes(&config).into_iter().collect();
        change(&mut tensors);
        let source = serde_json::from_str(&config.to_json()).expect("an object");
        let texts = [("tokenizer.json", tiny::files(&tiny).tokenizer().to_owned())];
        ConvertedModel::new(Path::new("m.gguf"), source, texts, tensors)
    }

    fn counted(model: &ConvertedModel, name: &str) -> Vec<f32> {
        let count = model.tensors[name].iter().product::<i64>();
        (0..count).map(|place| place as f32).collect()
    }

    #[test]
    fn a_written_folder_has_the_given_weights() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("model");
        let model = converted(|_| {}).expect("a model");
        model.write(&folder, |name| Ok(counted(&model, name))).expect("written");
        let mut read = 0;
        let each = |name: &str, tensor: tch::Tensor| {
            assert_eq!(tensor.size(), model.tensors[name]);
            let values: Vec<f32> = Vec::try_from(tensor.flatten(0, -1)).expect("numbers");
            assert_eq!(values, counted(&model, name), "{name}");
            read += 1;
            Ok(())
        };
        tensor_file::read(&folder.join("model.safetensors"), each).expect("safetensors");
        assert_eq!(read, model.tensors.len());
        crate::open_model(&folder, tch::Device::Cpu).expect("a whole model");
        assert!(matches!(model.write(&folder, |_| Ok(vec![])), Err(TrainerError::Exists { .. })));
    }

    #[test]
    fn nothing_is_left_of_a_model_that_cannot_be_read() {
        let root = tempfile::tempdir().expect("a folder");
        let model = converted(|_| {}).expect("a model");
        let broken = |name: &str| match name {
            "model.norm.weight" => Err(std::io::Error::other("gone")),
            name => Ok(counted(&model, name)),
        };
        let error = model.write(&root.path().join("model"), broken).expect_err("unreadable");
        assert_eq!(error.to_string(), "cannot read `m.gguf`");
        let short = model.write(&root.path().join("model"), |_| Ok(vec![0.0])).expect_err("too few").to_string();
        assert!(short.contains("has 1 weights instead of the shape"), "{short}");
        assert_eq!(std::fs::read_dir(root.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn tensors_must_be_those_of_the_config() {
        let refused = |change: fn(&mut BTreeMap<String, Vec<i64>>)| converted(change).expect_err("wrong").to_string();
        let missing = refused(|tensors| {
            tensors.remove("model.layers.0.mlp.up_proj.weight");
        });
        assert_eq!(missing, "cannot load weights from `m.gguf`: `model.layers.0.mlp.up_proj.weight` is missing");
        let wrong = refused(|tensors| {
            tensors.insert("model.norm.weight".to_owned(), vec![17]);
        });
        assert!(wrong.ends_with("`model.norm.weight` has shape [17] instead of [16]"), "{wrong}");
    }
}
