//! Provenance: a cached component is used only for sources that vouched for it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::tricks::{Trick, serve};
use crate::common::{DAY, Made, Shop, User, acme, get, key, now, pinned, resolve, said};
use gymkhana_registry::{Authority, LockEntry, RegistryFolder};
use gymkhana_registry_client::{RegistryClient, RegistryClientError};

/// Creates an unsigned folder with these components.
fn unsigned(folder: &Path, made: &[Made]) -> RegistryFolder {
    let authority = Authority { root: None, lifetime: DAY, now: now() };
    let registry = RegistryFolder::create(folder, authority).expect("a registry");
    for made in made {
        let file = made.release().sign(None).expect("JSON");
        crate::common::registry::add_file(&registry, &file, &made.component(), authority).expect("added");
    }
    registry
}

/// A user with a signed and an unsigned source, one of which serves `acme`.
struct Both {
    user: User,
    folder: PathBuf,
    signed: std::net::SocketAddr,
}

impl Both {
    fn client(&self, serving: &str, offline: bool) -> RegistryClient {
        let (folder, signed, root) = (self.folder.display(), self.signed, pinned());
        let config = format!(
            "[registries.mine]\nfolder = '{folder}'\nunsigned = true\n[registries.shop]\nurl = 'http://{signed}/'\nroot = '{root}'\n[namespaces]\nacme = '{serving}'\n"
        );
        self.user.client_of(&config, |settings| settings.offline = offline)
    }

    async fn component(
        &self,
        serving: &str,
        offline: bool,
        pinned: &LockEntry,
    ) -> Result<Vec<u8>, RegistryClientError> {
        self.client(serving, offline).component(pinned).await
    }
}

fn assert_no_provenance(outcome: Result<Vec<u8>, RegistryClientError>) {
    let error = outcome.expect_err("provenance of the other source");
    assert!(matches!(error, RegistryClientError::NoProvenance { .. }), "{}", said(&error));
}

#[tokio::test]
async fn unsigned_source_gives_no_provenance_for_a_signed_one() {
    let shop = Shop::new();
    let (signed, heard) = serve(shop.registry.path(), |_| Trick::None).await;
    // One component that both sources have, and a different component with an equal version.
    let (same, other) = (Made::version("1.0.0"), Made { padding: 7, ..Made::version("1.1.0") });
    let user = User::new();
    let folder = user.folder.path().join("mine");
    unsigned(&folder, &[same.clone(), other.clone()]);
    let both = Both { user, folder, signed };
    let mut pins = Vec::new();
    for (wanted, made) in [("adder@=1.0.0", &same), ("adder@=1.1.0", &other)] {
        let pinned = resolve(&both.client("mine", false), wanted).await.expect("resolved");
        assert_eq!(both.component("mine", false, &pinned).await.expect("fetched"), made.component());
        assert_eq!(both.component("mine", true, &pinned).await.expect("it is here"), made.component());
        pins.push(pinned);
    }
    for pinned in &pins {
        assert_no_provenance(both.component("shop", true, pinned).await);
    }
    let is_another = async |offline| {
        let error = both.component("shop", offline, &pins[1]).await.expect_err("another component");
        assert!(said(&error).contains("releases are immutable"), "{}", said(&error));
    };
    is_another(false).await;
    // A copied provenance record is ignored, because it has no signer.
    let notes = both.user.folder.path().join("cache/provenance");
    let note = |source: &Path, pinned: &LockEntry| source.join(format!("{}.json", pinned.digest));
    assert_eq!(
        both.component("shop", false, &pins[0]).await.expect("provenance of the signed source"),
        same.component()
    );
    let sources: Vec<PathBuf> =
        fs::read_dir(&notes).expect("records").map(|entry| entry.expect("one").path()).collect();
    assert_eq!(sources.len(), 2);
    let (mine, shops): (Vec<_>, Vec<_>) = sources.iter().partition(|source| note(source, &pins[1]).exists());
    fs::copy(note(mine[0], &pins[1]), note(shops[0], &pins[1])).expect("copied");
    is_another(true).await;
    // A record with a signer that did not sign is ignored.
    let forged = fs::read_to_string(note(shops[0], &pins[0])).expect("a record");
    fs::write(note(shops[0], &pins[1]), forged).expect("written");
    is_another(true).await;
    // The common component was not downloaded again.
    assert_eq!(both.component("shop", true, &pins[0]).await.expect("provenance"), same.component());
    assert!(heard.all().iter().all(|request| !request.contains("/components/")), "{:?}", heard.all());
}

#[tokio::test]
async fn signed_source_gives_no_provenance_for_an_unsigned_one() {
    let shop = Shop::new();
    let (signed, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = User::new();
    let folder = user.folder.path().join("mine");
    unsigned(&folder, &[Made::version("1.0.0")]);
    let both = Both { user, folder, signed };
    let mut pins = Vec::new();
    for wanted in ["adder@=1.0.0", "adder@=1.1.0"] {
        let pinned = resolve(&both.client("shop", false), wanted).await.expect("resolved");
        both.component("shop", false, &pinned).await.expect("fetched");
        pins.push(pinned);
    }
    both.component("mine", false, &pins[0]).await.expect("it has that one");
    let error = both.component("mine", false, &pins[1]).await.expect_err("it has no such version");
    assert!(said(&error).contains("no version matches"), "{}", said(&error));
    both.component("shop", true, &pins[1]).await.expect("provenance of the signed source");
}

/// One location with another root key is another source.
#[tokio::test]
async fn unpinned_root_key_gives_no_provenance() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = User::new();
    let pinned_version = resolve(&user.client(address), "adder").await.expect("resolved");
    user.client(address).component(&pinned_version).await.expect("fetched");
    user.offline(address).component(&pinned_version).await.expect("it is here");
    let config = crate::common::web(address, "").replace(&pinned().to_string(), &key(9).public().to_string());
    let strange = |offline| user.client_of(&config, move |settings| settings.offline = offline);
    assert_no_provenance(strange(true).component(&pinned_version).await);
    let error = strange(false).component(&pinned_version).await.expect_err("another root");
    assert!(said(&error).contains("is not signed by the root key"), "{}", said(&error));
    assert_eq!(user.client(address).verify(&pinned_version).await.expect("signed"), Some(acme().public()));
    get(&user.offline(address), "adder").await.expect("as before");
}
