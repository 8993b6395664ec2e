//! Errors and request bodies as FastAPI has them: `{"detail": …}`, which the clients of OpenEnv and ORS read.

use std::convert::Infallible;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::body::RequestBody;
use crate::error::{ErrorKind, Owner, ServeError};

/// Seconds after which a client may try again when the server is full.
const RETRY_AFTER_SECONDS: u32 = 2;

/// The body of a request, or why it could not be read.
pub(super) struct ReadBody(pub(super) Result<Bytes, ServeError>);

impl<S: Sync> FromRequest<S> for ReadBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(RequestBody::read(request).await))
    }
}

/// An answer in JSON, or an error.
pub(super) type JsonResult = Result<axum::Json<Json>, Detail>;

/// One fault of a request, as Pydantic lists it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FieldFault {
    /// The kind of fault, such as `missing`.
    pub(super) kind: &'static str,
    /// Names of the fields that lead to the value.
    pub(super) place: Vec<String>,
    /// The fault in words.
    pub(super) message: String,
    /// The value.
    pub(super) input: Box<Json>,
}

impl FieldFault {
    /// A fault of a whole value.
    pub(super) fn of(message: impl Into<String>, input: &Json) -> Self {
        Self { kind: "value_error", place: vec![], message: message.into(), input: Box::new(input.clone()) }
    }

    /// The same fault of a field.
    pub(super) fn at(mut self, field: &str) -> Self {
        self.place.insert(0, field.to_owned());
        self
    }

    /// Its entry in a list of faults.
    pub(super) fn entry(&self) -> Json {
        json!({ "type": self.kind, "loc": self.place, "msg": self.message, "input": self.input })
    }
}

/// An error as `{"detail": …}`. Errors of sessions also name their kind and the party at fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Detail {
    status: StatusCode,
    body: Json,
}

impl Detail {
    /// A mistake of the client with this status.
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, body: json!({ "detail": message.into() }) }
    }

    /// The same with another status.
    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }
}

impl From<ServeError> for Detail {
    fn from(error: ServeError) -> Self {
        let status = StatusCode::from_u16(error.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = json!({ "detail": error.message, "kind": error.kind.label(), "owner": error.owner.label() });
        Self { status, body }
    }
}

impl From<FieldFault> for Detail {
    fn from(fault: FieldFault) -> Self {
        let fault = fault.at("body");
        let (kind, owner) = (ErrorKind::BadInput.label(), Owner::Agent.label());
        let body = json!({ "detail": [fault.entry()], "kind": kind, "owner": owner });
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, body }
    }
}

impl IntoResponse for Detail {
    fn into_response(self) -> Response {
        let headers = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status, headers, self.body.to_string()).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into());
        }
        response
    }
}

/// The JSON of a body; an empty one is an empty object.
///
/// # Errors
/// If it is too large, was cut off, or is not JSON.
pub(super) fn read(body: ReadBody) -> Result<Json, Detail> {
    let body = body.0?;
    if body.is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_slice(&body).map_err(|error| {
        let fault =
            FieldFault { kind: "json_invalid", ..FieldFault::of(format!("JSON decode error: {error}"), &Json::Null) };
        fault.into()
    })
}

/// A request of this type.
///
/// # Errors
/// As [`read`], or if a field is missing, has a wrong type or is not known.
pub(super) fn parse<T: DeserializeOwned>(body: ReadBody) -> Result<T, Detail> {
    let json = read(body)?;
    fields(&json).map_err(Detail::from)
}

/// The fields of a JSON value.
///
/// # Errors
/// If one is missing, has a wrong type or is not known.
pub(super) fn fields<T: DeserializeOwned>(json: &Json) -> Result<T, FieldFault> {
    if !json.is_object() {
        let fault = FieldFault::of("Input should be a valid dictionary", json);
        return Err(FieldFault { kind: "dict_type", ..fault });
    }
    T::deserialize(json).map_err(|error| FieldFault::of(error.to_string(), json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_the_keys_of_pydantic() {
        let fault = FieldFault::of("Field required", &json!({})).at("text");
        let expected = json!({ "type": "value_error", "loc": ["text"], "msg": "Field required", "input": {} });
        assert_eq!(fault.entry(), expected);
        let detail = Detail::from(fault);
        assert_eq!(detail.body["detail"][0]["loc"], json!(["body", "text"]));
        assert_eq!(detail.status, 422);
    }

    #[test]
    fn a_body_is_an_object_or_nothing() {
        assert_eq!(read(ReadBody(Ok(Bytes::new()))).unwrap(), json!({}));
        let wrong = read(ReadBody(Ok(Bytes::from_static(b"{")))).unwrap_err();
        assert_eq!(wrong.body["detail"][0]["type"], "json_invalid");
        let wrong = parse::<serde_json::Map<String, Json>>(ReadBody(Ok(Bytes::from_static(b"[1]")))).unwrap_err();
        assert_eq!(wrong.body["detail"][0]["type"], "dict_type");
    }

    #[test]
    fn a_full_server_says_when_to_try_again() {
        let response = Detail::from(ServeError::host(ErrorKind::Full, "no place")).into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
    }
}
