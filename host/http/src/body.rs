//! Bodies of requests, read whole within limits of size and time.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use gymkhana_waits::{Counterpart, within};
use http_body_util::BodyExt;
use hyper::body::Body as _;

/// Limits of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Size in bytes.
    pub bytes: usize,
    /// Time from the head of the request to the end of its body.
    pub time: Duration,
}

/// A body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than the limit.
    #[error("the request is larger than {0} bytes")]
    TooLarge(usize),
    /// It did not arrive in time.
    #[error("the body did not arrive within {} s", .0.as_secs_f64())]
    TooSlow(Duration),
    /// The connection ended in it, or it is malformed.
    #[error("the body broke off: {0}")]
    BrokeOff(String),
}

/// Reads a body. What exceeds the limit is not kept, and as many bytes again are read and dropped, so that a client which
/// sends all before it reads gets the answer.
///
/// # Errors
/// If it is too large, too slow or broken off.
pub async fn read_body(body: Body, limits: BodyLimits) -> Result<Bytes, BodyError> {
    within(Counterpart::Client, limits.time, read(body, limits.bytes))
        .await
        .unwrap_or(Err(BodyError::TooSlow(limits.time)))
}

async fn read(mut body: Body, max: usize) -> Result<Bytes, BodyError> {
    let mut is_too_large = body.size_hint().lower() > max as u64;
    let (mut kept, mut dropped) = (BytesMut::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::BrokeOff(error.to_string()))?;
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else { continue };
        is_too_large |= kept.len() + data.len() > max;
        if !is_too_large {
            kept.extend_from_slice(&data);
            continue;
        }
        dropped += std::mem::take(&mut kept).len() + data.len();
        if dropped > max.saturating_mul(2) {
            break;
        }
    }
    if is_too_large { Err(BodyError::TooLarge(max)) } else { Ok(kept.freeze()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        let limits = BodyLimits { bytes: 4, time: Duration::from_millis(50) };
        assert_eq!(read_body(Body::from("1234"), limits).await.unwrap(), "1234");
        assert_eq!(read_body(Body::from("12345"), limits).await, Err(BodyError::TooLarge(4)));
        // A body without a declared length.
        let pieces = [Ok::<_, std::io::Error>(Bytes::from("123")), Ok(Bytes::from("45"))];
        let streamed = Body::from_stream(futures::stream::iter(pieces));
        assert_eq!(read_body(streamed, limits).await, Err(BodyError::TooLarge(4)));
        let broken = Body::from_stream(futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("gone"))]));
        assert!(matches!(read_body(broken, limits).await, Err(BodyError::BrokeOff(_))));
    }
}
