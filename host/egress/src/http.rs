//! Outgoing HTTP of plugins, inside a run's allow-list.

use std::time::Duration;

use gymkhana_net::{ClientError, Forbidden, check_literal, checked_client};
use gymkhana_record::{HttpRequest, HttpResponse, Refused, Reply};
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, StatusCode};
use url::Url;

use crate::rule::Rule;

/// How often a request may be sent on.
const REDIRECTS: usize = 5;

/// Headers that belong to one connection, or that the host itself writes.
const NOT_FOR_GUESTS: [&str; 16] = [
    // A body that is packed or cut could hold a secret that is not found in it.
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

/// What a guest may itself say of who it is; another server is not told.
const OF_ONE_SERVER: [&str; 2] = ["authorization", "cookie"];

/// Which servers a plugin may ask, and how.
pub struct HttpGrant {
    rules: Vec<(Rule, Client)>,
}

/// One request on its way.
struct Sending {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl HttpGrant {
    /// A grant of these rules; the first that names a server holds for it.
    ///
    /// # Errors
    /// If no client can be set up.
    pub fn new(rules: Vec<Rule>) -> Result<Self, ClientError> {
        let rules = rules.into_iter().map(|rule| Ok((checked_client(rule.reachable())?, rule)));
        let rules = rules.map(|rule| rule.map(|(client, rule)| (rule, client)));
        Ok(Self { rules: rules.collect::<Result<_, ClientError>>()? })
    }

    /// Sends a request and waits for the whole response. Whatever goes wrong is an answer: a guest must live with a
    /// network that fails.
    pub(crate) async fn send(&self, request: &HttpRequest) -> Reply {
        match self.try_send(request).await {
            Ok(response) => Reply::Http(response),
            Err(refused) => Reply::Refused(refused),
        }
    }

    async fn try_send(&self, request: &HttpRequest) -> Result<HttpResponse, Refused> {
        let sending = Sending::parse(request)?;
        let (rule, _) = self.rule(&sending.url, &sending.method)?;
        let time = rule.time.min(Duration::from_millis(request.timeout_ms.into()));
        match tokio::time::timeout(time, self.follow(sending)).await {
            Ok(answered) => answered,
            Err(_) => Err(Refused::Failed(format!("no answer came within {} ms", time.as_millis()))),
        }
    }

    /// Sends, and sends on where the server says so, each time by the rules.
    async fn follow(&self, mut sending: Sending) -> Result<HttpResponse, Refused> {
        for _ in 0..=REDIRECTS {
            let (rule, client) = self.rule(&sending.url, &sending.method)?;
            check_literal(&sending.url, rule.reachable())
                .map_err(|forbidden| Refused::Denied(forbidden.to_string()))?;
            let response = sending.send(rule, client).await?;
            match sending.redirected(&response)? {
                Some(next) if self.hides(&next.url) => {
                    return Err(Refused::Failed("the server sent the request on with a secret in the URL".to_owned()));
                }
                Some(next) => sending = next,
                None => return self.receive(response, rule).await,
            }
        }
        Err(Refused::Failed(format!("the server sent the request on more than {REDIRECTS} times")))
    }

    /// Takes a response in, no more of it than the rule allows, without secrets.
    async fn receive(&self, mut response: Response, rule: &Rule) -> Result<HttpResponse, Refused> {
        let too_large = || Refused::Failed(format!("the response is larger than the {} bytes allowed", rule.max_bytes));
        if response.content_length().is_some_and(|length| length > rule.max_bytes as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
            if body.len() + chunk.len() > rule.max_bytes {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        let text = |value: &HeaderValue| String::from_utf8_lossy(&self.hide(value.as_bytes().to_vec())).into_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value)));
        Ok(HttpResponse { status: response.status().as_u16(), headers: headers.collect(), body: self.hide(body) })
    }

    /// Takes every rule's secret out of what came back.
    fn hide(&self, bytes: Vec<u8>) -> Vec<u8> {
        let secrets = self.rules.iter().filter_map(|(rule, _)| rule.secret.as_ref());
        secrets.fold(bytes, |bytes, secret| secret.value.hide_in(bytes))
    }

    /// Whether a URL holds a secret.
    fn hides(&self, url: &Url) -> bool {
        self.hide(url.as_str().as_bytes().to_vec()) != url.as_str().as_bytes()
    }

    /// The rule for a server; a refusal names the line that would allow it.
    fn rule(&self, url: &Url, method: &Method) -> Result<(&Rule, &Client), Refused> {
        let origin = url.origin().ascii_serialization();
        let Some((rule, client)) = self.rules.iter().find(|(rule, _)| rule.names(url)) else {
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

impl Sending {
    fn parse(request: &HttpRequest) -> Result<Self, Refused> {
        let invalid = |why: String| Refused::Invalid(why);
        let url = Url::parse(&request.url).map_err(|error| invalid(format!("`{}` is no URL: {error}", request.url)))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("the URL holds a name or a password; send them in a header".to_owned()));
        }
        let method = request.method.parse().map_err(|_| invalid(format!("`{}` is no method", request.method)))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &request.headers {
            let parsed: HeaderName = name.parse().map_err(|_| invalid(format!("`{name}` is no header's name")))?;
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
            // The rule has looked at the value.
            if let Ok(mut value) = HeaderValue::from_str(secret.value.reveal()) {
                value.set_sensitive(true);
                headers.insert(secret.name.clone(), value);
            }
        }
        let request = client.request(self.method.clone(), self.url.clone()).headers(headers).body(self.body.clone());
        request.send().await.map_err(|error| failed(&error))
    }

    /// Where the server sends the request on to, if it does.
    fn redirected(&self, response: &Response) -> Result<Option<Self>, Refused> {
        let status = response.status();
        let moved = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let Some(place) = response.headers().get(LOCATION).filter(|_| moved) else { return Ok(None) };
        let place = place.to_str().ok().and_then(|place| self.url.join(place).ok());
        let Some(url) = place else {
            return Err(Refused::Failed("the server sent the request on to something that is no URL".to_owned()));
        };
        let becomes_get =
            status == StatusCode::SEE_OTHER || (self.method == Method::POST && matches!(status.as_u16(), 301 | 302));
        let mut next =
            Self { url, method: self.method.clone(), headers: self.headers.clone(), body: self.body.clone() };
        if becomes_get && next.method != Method::HEAD {
            (next.method, next.body) = (Method::GET, vec![]);
            next.headers.remove(reqwest::header::CONTENT_TYPE);
        }
        if next.url.origin() != self.url.origin() {
            OF_ONE_SERVER.iter().for_each(|name| drop(next.headers.remove(*name)));
        }
        Ok(Some(next))
    }
}

/// What a request that failed means for the guest.
fn failed(error: &reqwest::Error) -> Refused {
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
