//! Files of models and checkpoints: text files, safetensors, folders that are complete or absent.

pub(crate) mod checkpoint;
pub(crate) mod checksums;
pub(crate) mod converted;
pub(crate) mod description;
pub(crate) mod files;
pub(crate) mod fs;
pub(crate) mod tensor_file;
pub(crate) mod token_count;
pub mod weight_files;
mod weight_header;
