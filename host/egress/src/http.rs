//! Outgoing HTTP of plugins, restricted by a run's allow-list.

use std::time::Duration;

use gymkhana_net::http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use gymkhana_net::http::{Client, Error, Method, Response, StatusCode};
use gymkhana_net::{ClientError, Forbidden, Rule, check_literal, checked_client};
use gymkhana_record::{HttpRequest, HttpResponse, Refused, Reply};
use gymkhana_waits::{Counterpart, within};
use url::Url;

/// Limit on redirects of a request.
const MAX_REDIRECTS: usize = 5;

/// Headers of the connection, and headers that the host writes.
const NOT_FOR_GUESTS: [&str; 16] = [
    // A secret could not be found in a compressed or partial body.
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "if-range",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Credentials of the guest, which are not sent to another server after a redirect.
const GUEST_CREDENTIALS: [&str; 2] = ["authorization", "cookie"];

/// Servers that a plugin may send requests to.
pub struct HttpGrant {
    rules: Vec<(Rule, Client)>,
}

/// A request in progress.
struct PendingRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl HttpGrant {
    /// Creates a grant of these rules; the first matching rule applies to a server.
    ///
    /// # Errors
    /// If a client cannot be set up.
    pub fn new(rules: Vec<Rule>) -> Result<Self, ClientError> {
        let rules = rules.into_iter().map(|rule| Ok((checked_client(rule.reachable())?, rule)));
        let rules = rules.map(|rule| rule.map(|(client, rule)| (rule, client)));
        Ok(Self { rules: rules.collect::<Result<_, ClientError>>()? })
    }

    /// Sends a request and waits for the complete response. Every network failure is an answer to the guest.
    pub(crate) async fn send(&self, request: &HttpRequest) -> Reply {
        match self.try_send(request).await {
            Ok(response) => Reply::Http(response),
            Err(Refused::Denied(why)) => Reply::Refused(Refused::Denied(self.hide_text(why))),
            Err(Refused::Failed(why)) => Reply::Refused(Refused::Failed(self.hide_text(why))),
            Err(refused) => Reply::Refused(refused),
        }
    }

    async fn try_send(&self, request: &HttpRequest) -> Result<HttpResponse, Refused> {
        let pending = PendingRequest::parse(request)?;
        let (rule, _) = self.rule(&pending.url, &pending.method)?;
        let time = rule.time.min(Duration::from_millis(request.timeout_ms.into()));
        match within(Counterpart::OutboundCall, time, self.follow(pending)).await {
            Ok(answered) => answered,
            Err(silent) => Err(Refused::Failed(silent.to_string())),
        }
    }

    /// Sends a request and follows redirects; the rules apply to each target.
    async fn follow(&self, mut request: PendingRequest) -> Result<HttpResponse, Refused> {
        for _ in 0..=MAX_REDIRECTS {
            let (rule, client) = self.rule(&request.url, &request.method)?;
            check_literal(&request.url, rule.reachable())
                .map_err(|forbidden| Refused::Denied(forbidden.to_string()))?;
            let response = request.send(rule, client).await?;
            match request.redirected(&response)? {
                Some(next) if self.contains_secret(&next.url) => {
                    return Err(Refused::Failed(
                        "the server redirected the request to a URL that contains a secret".to_owned(),
                    ));
                }
                Some(next) => request = next,
                None => return self.receive(response, rule).await,
            }
        }
        Err(Refused::Failed(format!("the server redirected the request more than {MAX_REDIRECTS} times")))
    }

    /// Reads a response, headers and body together up to the rule's limit, and removes secrets.
    async fn receive(&self, mut response: Response, rule: &Rule) -> Result<HttpResponse, Refused> {
        let too_large = || Refused::Failed(format!("the response is larger than the {} bytes allowed", rule.max_bytes));
        let left = rule.max_bytes.checked_sub(size_of_headers(response.headers())).ok_or_else(too_large)?;
        if response.content_length().is_some_and(|length| length > left as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
            if body.len() + chunk.len() > left {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        let text = |value: &HeaderValue| String::from_utf8_lossy(&self.hide(value.as_bytes().to_vec())).into_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value)));
        Ok(HttpResponse { status: response.status().as_u16(), headers: headers.collect(), body: self.hide(body) })
    }

    /// Removes the secrets of all rules.
    fn hide(&self, bytes: Vec<u8>) -> Vec<u8> {
        let secrets = self.rules.iter().filter_map(|(rule, _)| rule.secret.as_ref());
        secrets.fold(bytes, |bytes, secret| secret.value.hide_in(bytes))
    }

    /// Removes the secrets of all rules from a text.
    fn hide_text(&self, text: String) -> String {
        let secrets = self.rules.iter().filter_map(|(rule, _)| rule.secret.as_ref());
        secrets.fold(text, |text, secret| secret.value.hide_in_text(text))
    }

    /// Returns whether a URL contains a secret.
    fn contains_secret(&self, url: &Url) -> bool {
        self.hide(url.as_str().as_bytes().to_vec()) != url.as_str().as_bytes()
    }

    /// Returns the rule for a server; the refusal names the line that would allow the request.
    fn rule(&self, url: &Url, method: &Method) -> Result<(&Rule, &Client), Refused> {
        let origin = url.origin().ascii_serialization();
        let Some((rule, client)) = self.rules.iter().find(|(rule, _)| rule.matches(url)) else {
            let why =
                format!("the run does not allow `{origin}`; to allow it, add `{{ allow = \"{origin}\" }}` to `http`");
            return Err(Refused::Denied(format!("{why} of this plugin's section")));
        };
        if !rule.methods.contains(method) {
            let why =
                format!("the run does not allow {method} at `{origin}`; to allow it, add \"{method}\" to `methods`");
            return Err(Refused::Denied(format!("{why} of its rule")));
        }
        Ok((rule, client))
    }
}

impl PendingRequest {
    fn parse(request: &HttpRequest) -> Result<Self, Refused> {
        let invalid = |why: String| Refused::Invalid(why);
        let url =
            Url::parse(&request.url).map_err(|error| invalid(format!("`{}` is not a URL: {error}", request.url)))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("the URL contains a user name or a password; send them in a header".to_owned()));
        }
        let method =
            request.method.parse().map_err(|_| invalid(format!("`{}` is not an HTTP method", request.method)))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &request.headers {
            let parsed: HeaderName = name.parse().map_err(|_| invalid(format!("`{name}` is not a header name")))?;
            if NOT_FOR_GUESTS.contains(&parsed.as_str()) {
                return Err(invalid(format!("the header `{name}` is written by the host; leave it out")));
            }
            let value = HeaderValue::from_str(value).map_err(|_| invalid(format!("`{name}` has an invalid value")))?;
            headers.append(parsed, value);
        }
        Ok(Self { method, url, headers, body: request.body.clone() })
    }

    async fn send(&self, rule: &Rule, client: &Client) -> Result<Response, Refused> {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(secret) = &rule.secret {
            // The rule has validated the value.
            if let Ok(mut value) = HeaderValue::from_str(secret.value.reveal()) {
                value.set_sensitive(true);
                headers.insert(secret.name.clone(), value);
            }
        }
        let request = client.request(self.method.clone(), self.url.clone()).headers(headers).body(self.body.clone());
        request.send().await.map_err(|error| failed(&error))
    }

    /// Returns the request to the target of a redirect.
    fn redirected(&self, response: &Response) -> Result<Option<Self>, Refused> {
        let status = response.status();
        let moved = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let Some(target) = response.headers().get(LOCATION).filter(|_| moved) else { return Ok(None) };
        let target = target.to_str().ok().and_then(|target| self.url.join(target).ok());
        let Some(url) = target else {
            return Err(Refused::Failed("the server redirected the request to an invalid URL".to_owned()));
        };
        let becomes_get =
            status == StatusCode::SEE_OTHER || (self.method == Method::POST && matches!(status.as_u16(), 301 | 302));
        let mut next =
            Self { url, method: self.method.clone(), headers: self.headers.clone(), body: self.body.clone() };
        if becomes_get && next.method != Method::HEAD {
            (next.method, next.body) = (Method::GET, vec![]);
            next.headers.remove(CONTENT_TYPE);
        }
        if next.url.origin() != self.url.origin() {
            GUEST_CREDENTIALS.iter().for_each(|name| drop(next.headers.remove(*name)));
        }
        Ok(Some(next))
    }
}

/// Size of headers in bytes, as HTTP/1.1 writes them. The client itself refuses a response with more than 100 headers or
/// about 400 KiB of them.
fn size_of_headers(headers: &HeaderMap) -> usize {
    let written = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + ": \r\n".len();
    headers.iter().map(written).sum()
}

/// Converts the failure of a request into a refusal.
fn failed(error: &Error) -> Refused {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    let mut last = String::new();
    while let Some(error) = cause {
        if let Some(forbidden) = error.downcast_ref::<Forbidden>() {
            return Refused::Denied(forbidden.to_string());
        }
        last = error.to_string();
        cause = error.source();
    }
    Refused::Failed(format!("the request failed: {last}"))
}
