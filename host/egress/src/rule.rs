//! One line of an allow-list: a scheme, a host and a port, with the methods and what is added and bounded.

use std::time::Duration;

use gymkhana_net::{Reachable, Secret};
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use url::{Host, Url};

/// A header that the host adds, whose value no guest sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretHeader {
    /// Its name.
    pub name: HeaderName,
    /// Its whole value.
    pub value: Secret,
}

/// What may be sent to one server.
#[derive(Debug, Clone)]
pub struct Rule {
    scheme: String,
    host: Host<String>,
    port: u16,
    /// With which methods.
    pub methods: Vec<Method>,
    /// Whether the server may lie on this machine or in a private network.
    pub private: bool,
    /// What is added.
    pub secret: Option<SecretHeader>,
    /// The largest body of a response, in bytes.
    pub max_bytes: usize,
    /// How long a request may take, redirects included.
    pub time: Duration,
}

/// A rule that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It does not name a server.
    #[error("`{0}` names no server; write `https://HOST` or `https://HOST:PORT`, without a path")]
    Allow(String),
    /// There is no such method.
    #[error("`{0}` is no method of HTTP; write one such as \"GET\" or \"POST\"")]
    Method(String),
    /// A secret cannot be sent in this header.
    #[error("the secret for the header `{0}` cannot be sent: a header has a name of letters and one line of ASCII")]
    Secret(String),
    /// A secret would cross the network in the clear.
    #[error("the secret for `{0}` would be sent unencrypted; use `https`, or leave the secret out")]
    Unencrypted(String),
}

impl Rule {
    /// A rule for the server that `allow` names, such as `https://api.example.org`: `GET` alone, public addresses
    /// alone, 1 MiB, 10 seconds.
    ///
    /// # Errors
    /// If it names none, or more than a server.
    pub fn parse(allow: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Allow(allow.to_owned());
        let url = Url::parse(allow).map_err(|_| wrong())?;
        let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let nobody = url.username().is_empty() && url.password().is_none();
        let (Some(host), Some(port)) = (url.host().map(|host| host.to_owned()), url.port_or_known_default()) else {
            return Err(wrong());
        };
        let any = matches!(&host, Host::Domain(name) if name.contains('*'));
        if !bare || !nobody || any || !matches!(url.scheme(), "http" | "https") {
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

    /// Allows these methods and no others.
    ///
    /// # Errors
    /// If one is none.
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
    /// If it cannot be sent, or would leave this machine or its private networks unencrypted.
    pub fn with_secret(self, header: &str, value: Secret) -> Result<Self, RuleError> {
        let wrong = || RuleError::Secret(header.to_owned());
        let name: HeaderName = header.parse().map_err(|_| wrong())?;
        HeaderValue::from_str(value.reveal()).map_err(|_| wrong())?;
        if self.scheme == "http" && !self.private {
            return Err(RuleError::Unencrypted(self.server()));
        }
        Ok(Self { secret: Some(SecretHeader { name, value }), ..self })
    }

    /// Whether this is the server of a URL.
    pub(crate) fn names(&self, url: &Url) -> bool {
        let host = url.host().is_some_and(|host| host.to_owned() == self.host);
        host && url.scheme() == self.scheme && url.port_or_known_default() == Some(self.port)
    }

    /// Where its requests may go: a secret never leaves this machine and its private networks unencrypted.
    pub(crate) fn reachable(&self) -> Reachable {
        let public = self.scheme == "https" || self.secret.is_none();
        Reachable { public, private: self.private }
    }

    /// The server as a run file writes it.
    pub(crate) fn server(&self) -> String {
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
            assert_eq!(rule.names(&Url::parse(url).unwrap()), named, "{url}");
        }
        // However the same address is written, it is the same server.
        assert!(Rule::parse("http://127.0.0.1:80").unwrap().names(&Url::parse("http://0x7f.1/").unwrap()));
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
