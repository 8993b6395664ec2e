//! Rule of an allow-list: scheme, host and port, with methods, secret and limits.

use std::time::Duration;

use ::http::Method;
use ::http::header::{HeaderName, HeaderValue};
use url::{Host, Url};

use crate::{Reachable, Secret};

/// Header that the host adds and guests do not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretHeader {
    /// Name.
    pub name: HeaderName,
    /// Complete value.
    pub value: Secret,
}

/// Rule for the requests to one server.
#[derive(Debug, Clone)]
pub struct Rule {
    scheme: String,
    host: Host<String>,
    port: u16,
    /// Allowed methods.
    pub methods: Vec<Method>,
    /// Whether the server may be on this machine or in a private network.
    pub private: bool,
    /// Secret to add.
    pub secret: Option<SecretHeader>,
    /// Limit on a response, headers and body together, in bytes.
    pub max_bytes: usize,
    /// Timeout of a request, including redirects.
    pub time: Duration,
}

/// An invalid rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The rule does not name a server.
    #[error("`{0}` does not name a server\nhint: write `https://HOST` or `https://HOST:PORT`, without a path")]
    Allow(String),
    /// The method does not exist.
    #[error("`{0}` is not an HTTP method\nhint: write one such as \"GET\" or \"POST\"")]
    Method(String),
    /// The header cannot carry the secret.
    #[error(
        "cannot send the secret in the header `{0}`: a header needs a name of letters and a value of one ASCII line"
    )]
    Secret(String),
    /// The secret would be sent unencrypted.
    #[error("the secret for `{0}` would be sent unencrypted\nhint: use `https`, or remove the secret")]
    Unencrypted(String),
}

impl Rule {
    /// Creates a rule for the server `allow`, such as `https://api.example.org`: only `GET`, only public addresses, 1 MiB,
    /// 10 seconds.
    ///
    /// # Errors
    /// If `allow` is not the origin of a server.
    pub fn parse(allow: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Allow(allow.to_owned());
        let url = Url::parse(allow).map_err(|_| wrong())?;
        let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let anonymous = url.username().is_empty() && url.password().is_none();
        let (Some(host), Some(port)) = (url.host().map(|host| host.to_owned()), url.port_or_known_default()) else {
            return Err(wrong());
        };
        let wildcard = matches!(&host, Host::Domain(name) if name.contains('*'));
        if !bare || !anonymous || wildcard || !matches!(url.scheme(), "http" | "https") {
            return Err(wrong());
        }
        Ok(Self {
            scheme: url.scheme().to_owned(),
            host,
            port,
            methods: vec![Method::GET],
            private: false,
            secret: None,
            max_bytes: 1 << 20,
            time: Duration::from_secs(10),
        })
    }

    /// Allows only these methods.
    ///
    /// # Errors
    /// If one does not exist.
    pub fn with_methods(self, methods: &[impl AsRef<str>]) -> Result<Self, RuleError> {
        let method = |name: &str| match name.parse() {
            Ok(method) if name.bytes().all(|letter| letter.is_ascii_uppercase()) => Ok(method),
            _ => Err(RuleError::Method(name.to_owned())),
        };
        Ok(Self { methods: methods.iter().map(|name| method(name.as_ref())).collect::<Result<_, _>>()?, ..self })
    }

    /// Adds a secret to every request under this rule.
    ///
    /// # Errors
    /// If a header cannot carry it, or if it would be sent unencrypted into a public network.
    pub fn with_secret(self, header: &str, value: Secret) -> Result<Self, RuleError> {
        let wrong = || RuleError::Secret(header.to_owned());
        let name: HeaderName = header.parse().map_err(|_| wrong())?;
        HeaderValue::from_str(value.reveal()).map_err(|_| wrong())?;
        if self.scheme == "http" && !self.private {
            return Err(RuleError::Unencrypted(self.server()));
        }
        Ok(Self { secret: Some(SecretHeader { name, value }), ..self })
    }

    /// Whether a URL is on this server.
    #[must_use]
    pub fn matches(&self, url: &Url) -> bool {
        let host = url.host().is_some_and(|host| host.to_owned() == self.host);
        host && url.scheme() == self.scheme && url.port_or_known_default() == Some(self.port)
    }

    /// Allowed addresses: an unencrypted secret stays on this machine and in private networks.
    #[must_use]
    pub fn reachable(&self) -> Reachable {
        let public = self.scheme == "https" || self.secret.is_none();
        Reachable { public, private: self.private }
    }

    /// Origin of the server for messages.
    #[must_use]
    pub fn server(&self) -> String {
        format!("{}://{}:{}", self.scheme, self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_a_server_and_nothing_else() {
        let rule = Rule::parse("https://API.example.org").unwrap();
        for (url, named) in [
            ("https://api.example.org/a?b", true),
            ("https://api.example.org:443", true),
            ("https://api.example.org:444", false),
            ("http://api.example.org:443", false),
            ("https://api.example.org.evil.com", false),
            ("https://evil.com/api.example.org", false),
        ] {
            assert_eq!(rule.matches(&Url::parse(url).unwrap()), named, "{url}");
        }
        // Different notations of an address name the same server.
        assert!(Rule::parse("http://127.0.0.1:80").unwrap().matches(&Url::parse("http://0x7f.1/").unwrap()));
        for wrong in
            ["", "example.org", "ftp://a.b", "https://a.b/path", "https://me@a.b", "https://a.b?c", "https://*"]
        {
            assert_eq!(Rule::parse(wrong).err(), Some(RuleError::Allow(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn with_a_secret_and_without_encryption_only_private_networks_are_reached() {
        let rule = |allow, secret: Option<&str>| {
            let rule = Rule { private: true, ..Rule::parse(allow).unwrap() };
            let rule = secret.map_or(Ok(rule.clone()), |secret| rule.with_secret("x-key", Secret::new(secret)));
            rule.unwrap().reachable()
        };
        assert_eq!(rule("http://a.b", Some("key")), Reachable { public: false, private: true });
        assert_eq!(rule("http://a.b", None), Reachable { public: true, private: true });
        assert_eq!(rule("https://a.b", Some("key")), Reachable { public: true, private: true });
    }

    #[test]
    fn secrets_are_not_sent_in_the_clear() {
        let secret = || Secret::new("key");
        let rule = |allow, private| Rule { private, ..Rule::parse(allow).unwrap() };
        assert!(rule("https://a.b", false).with_secret("x-key", secret()).is_ok());
        assert!(rule("http://a.b", true).with_secret("x-key", secret()).is_ok());
        let refused = rule("http://a.b", false).with_secret("x-key", secret()).err();
        assert_eq!(refused, Some(RuleError::Unencrypted("http://a.b:80".to_owned())));
        let refused = rule("https://a.b", false).with_secret("x key", secret()).err();
        assert_eq!(refused, Some(RuleError::Secret("x key".to_owned())));
    }
}
