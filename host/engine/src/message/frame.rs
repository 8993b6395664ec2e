//! Bytes of a message: a length, then a head and named tensors in the layout of safetensors files.

use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ENTRY;

/// Length of the longest body, in bytes.
pub const MAX_FRAME: u64 = 4 << 30;

/// A tensor of one axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Numbers {
    /// `I64`.
    Integers(Vec<i64>),
    /// `F32`.
    Singles(Vec<f32>),
    /// `F64`.
    Doubles(Vec<f64>),
}

/// Tensors by their names.
pub type MessageTensors = BTreeMap<String, Numbers>;

/// Reason for which bytes cannot be read as a message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The layout is not that of safetensors.
    #[error("it is not in the layout of safetensors: {0}")]
    Layout(#[from] SafeTensorError),
    /// The head is missing or malformed.
    #[error("its head cannot be read: {0}")]
    Head(String),
    /// A tensor is of another type or shape.
    #[error("its tensor `{name}` has the type {found:?} and {axes} axes")]
    Tensor {
        /// Name.
        name: String,
        /// Type.
        found: Dtype,
        /// Number of axes.
        axes: usize,
    },
}

impl Numbers {
    fn dtype(&self) -> Dtype {
        match self {
            Self::Integers(_) => Dtype::I64,
            Self::Singles(_) => Dtype::F32,
            Self::Doubles(_) => Dtype::F64,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Integers(numbers) => numbers.len(),
            Self::Singles(numbers) => numbers.len(),
            Self::Doubles(numbers) => numbers.len(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Integers(numbers) => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
            Self::Singles(numbers) => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
            Self::Doubles(numbers) => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        }
    }

    fn read(name: &str, view: &TensorView<'_>) -> Result<Self, FrameError> {
        let data = view.data();
        match (view.dtype(), view.shape().len()) {
            (Dtype::I64, 1) => Ok(Self::Integers(chunks(data).map(i64::from_le_bytes).collect())),
            (Dtype::F32, 1) => Ok(Self::Singles(chunks(data).map(f32::from_le_bytes).collect())),
            (Dtype::F64, 1) => Ok(Self::Doubles(chunks(data).map(f64::from_le_bytes).collect())),
            (found, axes) => Err(FrameError::Tensor { name: name.to_owned(), found, axes }),
        }
    }

    /// As double precision.
    #[must_use]
    pub fn to_doubles(&self) -> Vec<f64> {
        match self {
            Self::Integers(numbers) => numbers.iter().map(|number| *number as f64).collect(),
            Self::Singles(numbers) => numbers.iter().map(|number| f64::from(*number)).collect(),
            Self::Doubles(numbers) => numbers.clone(),
        }
    }
}

fn chunks<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    data.as_chunks().0.iter().copied()
}

/// A frame with its length.
///
/// # Errors
/// If the head cannot be written as JSON.
pub fn write_frame(head: &impl Serialize, tensors: &MessageTensors) -> Result<Vec<u8>, FrameError> {
    let head = serde_json::to_string(head).map_err(|error| FrameError::Head(error.to_string()))?;
    let bytes: Vec<Vec<u8>> = tensors.values().map(Numbers::bytes).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, numbers), bytes)| {
        Ok((name.as_str(), TensorView::new(numbers.dtype(), vec![numbers.len()], bytes)?))
    });
    let views = views.collect::<Result<Vec<_>, SafeTensorError>>()?;
    let body = safetensors::serialize(views, Some(HashMap::from([(ENTRY.to_owned(), head)])))?;
    let mut frame = (body.len() as u64).to_le_bytes().to_vec();
    frame.extend(body);
    Ok(frame)
}

/// Head and tensors of a body.
///
/// # Errors
/// If it is not a message.
pub fn read_body<H: DeserializeOwned>(body: &[u8]) -> Result<(H, MessageTensors), FrameError> {
    let (_, metadata) = SafeTensors::read_metadata(body)?;
    let entry = metadata.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
    let head = entry.ok_or_else(|| FrameError::Head(format!("its metadata has no `{ENTRY}`")))?;
    let head = serde_json::from_str(head).map_err(|error| FrameError::Head(error.to_string()))?;
    let tensors = SafeTensors::deserialize(body)?;
    let read = |(name, view): (String, TensorView<'_>)| Ok((name.clone(), Numbers::read(&name, &view)?));
    Ok((head, tensors.tensors().into_iter().map(read).collect::<Result<_, FrameError>>()?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let tensors = MessageTensors::from([
            ("tokens".to_owned(), Numbers::Integers(vec![-1, 1 << 40])),
            ("log_probs".to_owned(), Numbers::Singles(vec![-0.5, f32::MIN_POSITIVE, 0.0])),
            ("by_log_probs".to_owned(), Numbers::Doubles(vec![1e-300])),
            ("none".to_owned(), Numbers::Doubles(vec![])),
        ]);
        let head = json!({ "version": 1, "id": u64::MAX });
        let frame = write_frame(&head, &tensors).expect("written");
        let (length, body) = frame.split_at(8);
        assert_eq!(u64::from_le_bytes(length.try_into().expect("8 bytes")), body.len() as u64);
        assert_eq!(read_body::<Value>(body).expect("a message"), (head, tensors));
    }

    #[test]
    fn other_bytes_are_refused_with_the_reason() {
        let frame = write_frame(&json!({}), &MessageTensors::new()).expect("written");
        let said = |body: &[u8]| read_body::<super::super::AnswerHead>(body).expect_err("no message").to_string();
        assert!(said(&frame[8..]).contains("missing field `version`"), "{}", said(&frame[8..]));
        assert!(said(&frame[8..frame.len() - 1]).contains("layout of safetensors"));
        let plain = safetensors::serialize(Vec::<(&str, TensorView<'_>)>::new(), None).expect("written");
        assert!(said(&plain).contains("has no `gymkhana`"), "{}", said(&plain));
        let bytes = [0; 4];
        let wide = TensorView::new(Dtype::U8, vec![2, 2], &bytes).expect("a tensor");
        let head = HashMap::from([(ENTRY.to_owned(), r#"{"version":1,"id":1}"#.to_owned())]);
        let other = safetensors::serialize([("image", wide)], Some(head)).expect("written");
        assert!(said(&other).contains("`image` has the type U8 and 2 axes"), "{}", said(&other));
    }
}
