//! Messages of the protocol that travel as protobuf, with the fields that this client uses.

use std::collections::HashMap;

/// Media type of these messages.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

/// `dtype` of tensors.
pub const FLOAT32: i32 = 1;
/// As `FLOAT32`.
pub const INT64: i32 = 2;

/// Result of sampling.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SampleResponse {
    #[prost(message, repeated, tag = "1")]
    pub sequences: Vec<SampledSequence>,
    /// 32-bit floating-point numbers, NaN where there is none.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub prompt_logprobs: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SampledSequence {
    /// 0: a stop token or text; 1: the limit of tokens.
    #[prost(int32, tag = "1")]
    pub stop_reason: i32,
    /// 32-bit integers.
    #[prost(bytes = "vec", tag = "2")]
    pub tokens: Vec<u8>,
    /// 32-bit floating-point numbers.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub logprobs: Option<Vec<u8>>,
}

/// Request of a forward and backward pass.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ForwardBackwardRequest {
    #[prost(string, tag = "1")]
    pub model_id: String,
    #[prost(int32, tag = "2")]
    pub seq_id: i32,
    #[prost(message, repeated, tag = "3")]
    pub data: Vec<Datum>,
    #[prost(string, tag = "4")]
    pub loss_fn: String,
    #[prost(map = "string, double", tag = "5")]
    pub loss_fn_config: HashMap<String, f64>,
    #[prost(bool, tag = "6")]
    pub forward_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Datum {
    #[prost(message, repeated, tag = "1")]
    pub model_input: Vec<InputChunk>,
    #[prost(map = "string, message", tag = "2")]
    pub loss_fn_inputs: HashMap<String, Tensor>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct InputChunk {
    #[prost(message, optional, tag = "1")]
    pub encoded_text: Option<EncodedText>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct EncodedText {
    /// 32-bit integers.
    #[prost(bytes = "vec", tag = "1")]
    pub tokens: Vec<u8>,
}

/// Numbers of one sequence.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Tensor {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub dense: Option<Vec<u8>>,
    #[prost(int32, tag = "3")]
    pub dtype: i32,
    #[prost(int64, repeated, tag = "4")]
    pub shape: Vec<i64>,
}

/// Result of a pass.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ForwardBackwardOutput {
    #[prost(message, repeated, tag = "2")]
    pub loss_fn_outputs: Vec<ArrayRecord>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ArrayRecord {
    #[prost(map = "string, message", tag = "2")]
    pub fields: HashMap<String, BatchedTensor>,
    #[prost(int64, tag = "3")]
    pub num_datums: i64,
}

/// Numbers of all sequences, one after the other.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BatchedTensor {
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    /// 64-bit integers: the byte at which each sequence begins, and the end.
    #[prost(bytes = "vec", tag = "2")]
    pub offsets: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub dtype: i32,
}

/// Little-endian bytes of tokens as 32-bit integers.
pub fn token_bytes(tokens: &[u32]) -> Vec<u8> {
    tokens.iter().flat_map(|token| token.to_le_bytes()).collect()
}

/// Tokens of little-endian 32-bit integers.
///
/// # Errors
/// If the bytes are not a whole number of them, or one is negative.
pub fn tokens(bytes: &[u8]) -> Result<Vec<u32>, String> {
    let read = |bytes: [u8; 4]| u32::try_from(i32::from_le_bytes(bytes)).map_err(|_| "a token is negative".to_owned());
    whole(bytes)?.map(read).collect()
}

/// Little-endian 32-bit floating-point numbers.
///
/// # Errors
/// If the bytes are not a whole number of them.
pub fn floats(bytes: &[u8]) -> Result<Vec<f32>, String> {
    Ok(whole(bytes)?.map(f32::from_le_bytes).collect())
}

/// Little-endian 64-bit integers that are places in a list.
///
/// # Errors
/// If the bytes are not a whole number of them, or one is negative.
pub fn places(bytes: &[u8]) -> Result<Vec<usize>, String> {
    let read =
        |bytes: [u8; 8]| usize::try_from(i64::from_le_bytes(bytes)).map_err(|_| "an offset is negative".to_owned());
    whole(bytes)?.map(read).collect()
}

fn whole<const N: usize>(bytes: &[u8]) -> Result<impl Iterator<Item = [u8; N]>, String> {
    let (parts, rest) = bytes.as_chunks::<N>();
    if rest.is_empty() {
        Ok(parts.iter().copied())
    } else {
        Err(format!("{} bytes are not a whole number of values of {N} bytes", bytes.len()))
    }
}
