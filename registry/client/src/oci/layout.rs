//! The JSON of an OCI registry, as `wkg` writes it and as the CNCF's guidance for components asks.

use std::collections::BTreeMap;

use gymkhana_registry::{Digest, MAX_PLUGIN_BYTES, ManifestError, exports, imports};
use serde::{Deserialize, Serialize};

/// The type of a manifest.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The type of the config beside a component.
pub(super) const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The type of a component.
pub(super) const COMPONENT: &str = "application/wasm";
/// The annotation with the release file.
pub(super) const RELEASE: &str = "dev.gymkhana.release";
/// The annotation that withdraws a version.
pub(super) const YANKED: &str = "dev.gymkhana.yanked";

/// A manifest; what it holds besides is kept when it is written again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}

/// What names a blob.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub media_type: String,
    pub digest: String,
    pub size: u64,
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}

impl Descriptor {
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        let digest = format!("{:#}", Digest::of(bytes));
        Self { media_type: media_type.to_owned(), digest, size: bytes.len() as u64, others: BTreeMap::new() }
    }
}

impl Manifest {
    /// The manifest of a component with this config and this release file.
    pub fn new(config: &[u8], component: &[u8], release: &str) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            config: Descriptor::of(CONFIG, config),
            layers: vec![Descriptor::of(COMPONENT, component)],
            annotations: BTreeMap::from([(RELEASE.to_owned(), release.to_owned())]),
            others: BTreeMap::new(),
        }
    }

    /// The component's digest and size, if this is a component's manifest.
    pub fn component(&self) -> Result<(Digest, u64), &'static str> {
        if self.config.media_type != CONFIG {
            return Err("its config is of another type");
        }
        let [layer] = &self.layers[..] else { return Err("it has not exactly one layer") };
        if layer.media_type != COMPONENT {
            return Err("its layer is of another type");
        }
        if layer.size > MAX_PLUGIN_BYTES as u64 {
            return Err("it is larger than any plugin may be");
        }
        let digest = layer.digest.strip_prefix("sha256:").and_then(|digits| digits.parse().ok());
        Ok((digest.ok_or("its layer's digest is no sha256")?, layer.size))
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
struct Config {
    created: String,
    author: Option<String>,
    architecture: &'static str,
    os: &'static str,
    layer_digests: Vec<String>,
    component: World,
}

#[derive(Serialize)]
struct World {
    exports: Vec<String>,
    imports: Vec<String>,
    target: Option<String>,
}

/// The config beside a component, made `now`.
pub(super) fn config(component: &[u8], now: u64) -> Result<Result<Vec<u8>, serde_json::Error>, ManifestError> {
    let world = World { exports: exports(component)?, imports: imports(component)?, target: None };
    Ok(serde_json::to_vec(&Config {
        created: rfc3339(now),
        author: None,
        architecture: "wasm",
        os: "wasip2",
        layer_digests: vec![format!("{:#}", Digest::of(component))],
        component: world,
    }))
}

/// Seconds since 1970 as a date and a time in UTC.
fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from 1 March of year 0, so that a leap day is the last of its year (Hinnant's algorithm).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `date -u -d @SECONDS` says.
    #[test]
    fn dates_are_those_of_the_calendar() {
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
