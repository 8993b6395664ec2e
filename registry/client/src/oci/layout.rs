//! JSON of manifests and configs as `wkg` writes them, following the CNCF guidance for WebAssembly OCI artifacts.

use std::collections::BTreeMap;

use gymkhana_registry::{Digest, MAX_PLUGIN_BYTES, ManifestError, exports, imports};
use serde::{Deserialize, Serialize};

use crate::trust::date;

/// Media type of a manifest.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of a component's config.
pub(super) const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of a component.
pub(super) const COMPONENT: &str = "application/wasm";
/// Annotation with the release file.
pub(super) const RELEASE: &str = "dev.gymkhana.release";
/// Annotation that marks a yanked version.
pub(super) const YANKED: &str = "dev.gymkhana.yanked";

/// Image manifest. Unknown fields are preserved when it is written again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OciManifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub config: OciDescriptor,
    pub layers: Vec<OciDescriptor>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}

/// Descriptor of a blob.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OciDescriptor {
    pub media_type: String,
    pub digest: String,
    pub size: u64,
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}

impl OciDescriptor {
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        let digest = format!("{:#}", Digest::of(bytes));
        Self { media_type: media_type.to_owned(), digest, size: bytes.len() as u64, others: BTreeMap::new() }
    }
}

impl OciManifest {
    /// Manifest of a component with its config and release file.
    pub fn new(config: &[u8], component: &[u8], release: &str) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            config: OciDescriptor::of(CONFIG, config),
            layers: vec![OciDescriptor::of(COMPONENT, component)],
            annotations: BTreeMap::from([(RELEASE.to_owned(), release.to_owned())]),
            others: BTreeMap::new(),
        }
    }

    /// Digest and size of the component, or the reason why this is not a component's manifest.
    pub fn component(&self) -> Result<(Digest, u64), &'static str> {
        if self.config.media_type != CONFIG {
            return Err("the config has another media type");
        }
        let [layer] = &self.layers[..] else { return Err("the manifest does not have exactly one layer") };
        if layer.media_type != COMPONENT {
            return Err("the layer has another media type");
        }
        if layer.size > MAX_PLUGIN_BYTES as u64 {
            return Err("the component exceeds the size limit of plugins");
        }
        let digest = layer.digest.strip_prefix("sha256:").and_then(|digits| digits.parse().ok());
        Ok((digest.ok_or("the digest of the layer is not a sha256")?, layer.size))
    }

    pub fn release(&self) -> Option<&str> {
        self.annotations.get(RELEASE).map(String::as_str)
    }

    pub fn is_yanked(&self) -> bool {
        self.annotations.get(YANKED).is_some_and(|yanked| yanked == "true")
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ComponentConfig {
    created: String,
    author: Option<String>,
    architecture: &'static str,
    os: &'static str,
    layer_digests: Vec<String>,
    component: ComponentInterfaces,
}

#[derive(Serialize)]
struct ComponentInterfaces {
    exports: Vec<String>,
    imports: Vec<String>,
    target: Option<String>,
}

/// Config of a component, created at `now` (seconds since 1970).
pub(super) fn config(component: &[u8], now: u64) -> Result<Result<Vec<u8>, serde_json::Error>, ManifestError> {
    let interfaces = ComponentInterfaces { exports: exports(component)?, imports: imports(component)?, target: None };
    Ok(serde_json::to_vec(&ComponentConfig {
        created: rfc3339(now),
        author: None,
        architecture: "wasm",
        os: "wasip2",
        layer_digests: vec![format!("{:#}", Digest::of(component))],
        component: interfaces,
    }))
}

/// Formats seconds since 1970 as RFC 3339 in UTC.
fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from `date -u -d @SECONDS`.
    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), date);
        }
    }
}
