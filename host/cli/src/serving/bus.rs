//! The bus between `host run`, `host serve`, `host gateway` and `host worker`.

use gymkhana_workers::bus::BusSettings;

use crate::args::BusArgs;

impl BusArgs {
    /// The bus at this address.
    #[must_use]
    pub fn settings(&self, url: &str) -> BusSettings {
        let Self { bus_credentials, bus_nkey, bus_ca } = self;
        BusSettings {
            url: url.to_owned(),
            credentials: bus_credentials.clone(),
            nkey: bus_nkey.clone(),
            ca: bus_ca.clone(),
        }
    }
}
