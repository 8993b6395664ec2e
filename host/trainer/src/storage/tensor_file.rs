//! Safetensors files: numbers are written as float32 and read from any float type; codes of 8 bits stay as they are.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tch::{Device, Kind, TchError, Tensor, no_grad_guard};

use crate::TrainerError;

/// Writes named tensors: codes of 8 bits as such, others as float32. They are on disk when the function returns.
pub(crate) fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), TrainerError> {
    let data: Vec<(&str, Vec<usize>, (Dtype, Vec<u8>))> = tensors
        .iter()
        .map(|(name, tensor)| {
            let shape = tensor.size().iter().map(|size| *size as usize).collect();
            Ok((name.as_str(), shape, bytes_of(tensor)?))
        })
        .collect::<Result<_, _>>()
        .map_err(TrainerError::torch("copied weights to a file"))?;
    let views = data
        .iter()
        .map(|(name, shape, (format, bytes))| Ok((*name, TensorView::new(*format, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| TrainerError::Safetensors { path: path.to_owned(), source })?;
    // Older transformers refuse a file whose metadata does not name a framework.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let bytes = safetensors::serialize(views, Some(metadata))
        .map_err(|source| TrainerError::Safetensors { path: path.to_owned(), source })?;
    crate::storage::fs::write_synced(path, &bytes)
}

fn bytes_of(tensor: &Tensor) -> Result<(Dtype, Vec<u8>), TchError> {
    let _guard = no_grad_guard();
    let (format, kind) = match tensor.f_kind()? {
        Kind::Uint8 => (Dtype::U8, Kind::Uint8),
        _ => (Dtype::F32, Kind::Float),
    };
    let tensor = tensor.f_detach()?.f_to_device(Device::Cpu)?.f_to_kind(kind)?.f_contiguous()?;
    let mut bytes = vec![0; tensor.numel() * kind.elt_size_in_bytes()];
    tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
    Ok((format, bytes))
}

/// Kinds of the number formats that are read.
fn kind(format: Dtype) -> Option<Kind> {
    match format {
        Dtype::F32 => Some(Kind::Float),
        Dtype::BF16 => Some(Kind::BFloat16),
        Dtype::F16 => Some(Kind::Half),
        _ => None,
    }
}

/// Whether tensors in a number format are read.
pub(crate) fn is_readable(format: Dtype) -> bool {
    kind(format).is_some()
}

/// The error of a tensor in a number format that is not read, such as one of quantised weights.
pub(crate) fn unreadable(path: &Path, name: &str, format: Dtype) -> TrainerError {
    let problem = format!("`{name}` is {format:?}\nhint: convert the weights to F32, BF16 or F16");
    TrainerError::Weights { path: path.to_owned(), problem }
}

/// Reads all weights of a file as float32 on the CPU.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, Tensor>, TrainerError> {
    read_with(path, |format| kind(format).map(|kind| (kind, Kind::Float)))
}

/// Reads all tensors of a training state on the CPU: codes of 8 bits as such, others as float32.
pub(crate) fn read_state(path: &Path) -> Result<BTreeMap<String, Tensor>, TrainerError> {
    read_with(path, |format| match format {
        Dtype::U8 => Some((Kind::Uint8, Kind::Uint8)),
        format => kind(format).map(|kind| (kind, Kind::Float)),
    })
}

/// `kinds` are those of a number format in the file and of the tensors; `None` if it is not read.
fn read_with(
    path: &Path,
    kinds: impl Fn(Dtype) -> Option<(Kind, Kind)>,
) -> Result<BTreeMap<String, Tensor>, TrainerError> {
    let bytes = std::fs::read(path).map_err(TrainerError::file("read", path))?;
    let file = SafeTensors::deserialize(&bytes)
        .map_err(|source| TrainerError::Safetensors { path: path.to_owned(), source })?;
    file.iter()
        .map(|(name, view)| {
            let (stored, kind) = kinds(view.dtype()).ok_or_else(|| unreadable(path, name, view.dtype()))?;
            let shape: Vec<i64> = view.shape().iter().map(|size| *size as i64).collect();
            let tensor = Tensor::f_from_data_size(view.data(), &shape, stored)
                .and_then(|tensor| tensor.f_to_kind(kind))
                .map_err(TrainerError::torch("read weights from a file"))?;
            Ok((name.to_owned(), tensor))
        })
        .collect()
}
