//! Safetensors files: numbers are written as float32 and read from any float type; codes of 8 bits stay as they are.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::View;
use tch::{Device, Kind, TchError, Tensor, no_grad_guard};

use crate::TrainerError;
use crate::storage::open_regular;
use crate::storage::weight_header::metadata;

/// Writes named tensors: codes of 8 bits as such, others as float32. They are on disk when the function returns. One tensor
/// at a time is copied.
pub(crate) fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), TrainerError> {
    let failed = RefCell::new(None);
    let views = tensors.iter().map(|(name, tensor)| Ok((name.as_str(), Stored::new(tensor, &failed)?)));
    let views: Vec<_> = views.collect::<Result<_, _>>().map_err(copied())?;
    // Older transformers refuse a file whose metadata does not name a framework.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let written = safetensors::serialize_to_file(views, Some(metadata), path);
    if let Some(error) = failed.into_inner() {
        return Err(copied()(error));
    }
    written.map_err(|source| TrainerError::Safetensors { path: path.to_owned(), source })?;
    File::open(path).and_then(|file| file.sync_all()).map_err(TrainerError::file("write", path))
}

fn copied() -> impl FnOnce(TchError) -> TrainerError {
    TrainerError::torch("copied weights to a file")
}

/// A tensor that is converted when its bytes are written.
struct Stored<'a> {
    tensor: &'a Tensor,
    format: Dtype,
    kind: Kind,
    shape: Vec<usize>,
    /// The first failure of a conversion, after which the file is useless.
    failed: &'a RefCell<Option<TchError>>,
}

impl<'a> Stored<'a> {
    fn new(tensor: &'a Tensor, failed: &'a RefCell<Option<TchError>>) -> Result<Self, TchError> {
        let (format, kind) = match tensor.f_kind()? {
            Kind::Uint8 => (Dtype::U8, Kind::Uint8),
            _ => (Dtype::F32, Kind::Float),
        };
        let shape = tensor.size().iter().map(|size| *size as usize).collect();
        Ok(Self { tensor, format, kind, shape, failed })
    }

    fn bytes(&self) -> Result<Vec<u8>, TchError> {
        let _guard = no_grad_guard();
        let tensor = self.tensor.f_detach()?.f_to_device(Device::Cpu)?.f_to_kind(self.kind)?.f_contiguous()?;
        let mut bytes = vec![0; self.data_len()];
        tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
        Ok(bytes)
    }
}

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        self.format
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let bytes = self.bytes().unwrap_or_else(|error| {
            self.failed.borrow_mut().get_or_insert(error);
            Vec::new()
        });
        Cow::Owned(bytes)
    }

    fn data_len(&self) -> usize {
        self.tensor.numel() * self.kind.elt_size_in_bytes()
    }
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

/// Gives each weight of a file to a function, as float32 on the CPU. One tensor at a time is in memory.
pub(crate) fn read(
    path: &Path,
    each: impl FnMut(&str, Tensor) -> Result<(), TrainerError>,
) -> Result<(), TrainerError> {
    read_with(path, |format| kind(format).map(|kind| (kind, Kind::Float)), each)
}

/// As [`read`] for a training state: codes of 8 bits stay as they are.
pub(crate) fn read_state(
    path: &Path,
    each: impl FnMut(&str, Tensor) -> Result<(), TrainerError>,
) -> Result<(), TrainerError> {
    let kinds = |format| match format {
        Dtype::U8 => Some((Kind::Uint8, Kind::Uint8)),
        format => kind(format).map(|kind| (kind, Kind::Float)),
    };
    read_with(path, kinds, each)
}

/// `kinds` are those of a number format in the file and of the tensors; `None` if it is not read.
fn read_with(
    path: &Path,
    kinds: impl Fn(Dtype) -> Option<(Kind, Kind)>,
    mut each: impl FnMut(&str, Tensor) -> Result<(), TrainerError>,
) -> Result<(), TrainerError> {
    let (start, metadata) = metadata(path)?;
    let file = open_regular(path)?;
    for name in metadata.offset_keys() {
        let Some(info) = metadata.info(&name) else { continue };
        let (stored, kind) = kinds(info.dtype).ok_or_else(|| unreadable(path, &name, info.dtype))?;
        let (begin, end) = info.data_offsets;
        let mut bytes = vec![0; end - begin];
        file.read_exact_at(&mut bytes, start + begin as u64).map_err(TrainerError::file("read", path))?;
        let shape: Vec<i64> = info.shape.iter().map(|size| *size as i64).collect();
        let tensor = Tensor::f_from_data_size(&bytes, &shape, stored)
            .and_then(|tensor| tensor.f_to_kind(kind))
            .map_err(TrainerError::torch("read weights from a file"))?;
        drop(bytes);
        each(&name, tensor)?;
    }
    Ok(())
}
