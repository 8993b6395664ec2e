//! Revoked keys: releases signed by one are not resolved, fetched, mirrored or used from the cache.

use crate::common::tricks::{Trick, serve};
use crate::common::{Made, Shop, User, acme, by, get, key, name, resolve, root, said, stock};
use gymkhana_registry::{FolderError, KeyHolder, Namespace, PublicKey, ResolveError, Rotation};
use gymkhana_registry_client::RegistryClientError;

fn namespace() -> Namespace {
    "acme".parse().expect("a namespace")
}

/// Replaces the namespace's key with the key of seed 5.
fn rotate(shop: &Shop, revoke: bool) {
    let rotation = Rotation::new(KeyHolder::Namespace(namespace()), &acme(), key(5).public());
    shop.registry.rotate(rotation, revoke, by(&root())).expect("rotated");
}

fn publish_with_the_new_key(shop: &Shop, made: &Made) {
    let file = made.release().sign(Some(&key(5))).expect("JSON");
    crate::common::add_file(&shop.registry, &file, &made.component(), by(&root())).expect("added");
}

fn assert_revoked<T: std::fmt::Debug>(outcome: Result<T, RegistryClientError>) {
    let error = outcome.expect_err("revoked");
    let words = said(&error);
    assert!(matches!(error, RegistryClientError::Revoked { .. }) && words.contains("has revoked"), "{words}");
}

#[tokio::test]
async fn releases_signed_by_a_revoked_key_are_ignored() {
    let shop = Shop::new();
    let address = shop.serve().await;
    rotate(&shop, true);
    let user = User::new();
    let error = resolve(&user.client(address), "adder").await.expect_err("every release is revoked");
    assert!(said(&error).contains("has no version with a valid signature"), "{}", said(&error));
    publish_with_the_new_key(&shop, &Made::version("1.0.1"));
    let client = user.client(address);
    assert_eq!(resolve(&client, "adder").await.expect("a valid release").version.to_string(), "1.0.1");
    let notices = client.take_notices().concat();
    assert!(notices.contains("`acme/adder` 1.1.0 is ignored, because its signing key was revoked"), "{notices}");
    assert!(notices.contains("using 1.0.1, the newest version with a valid signature"), "{notices}");
    let error = resolve(&user.client(address), "adder@^1.1").await.expect_err("revoked");
    assert!(said(&error).contains("request 1.0.1, the newest version with a valid signature"), "{}", said(&error));
    let RegistryClientError::Unresolved { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, ResolveError::Revoked { newest: Some(_), .. }), "{source}");
    get(&user.client(address), "adder").await.expect("signed by the new key");
}

#[tokio::test]
async fn releases_of_a_retired_key_remain_valid() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = User::new();
    let pinned = resolve(&user.client(address), "adder").await.expect("resolved");
    user.client(address).component(&pinned).await.expect("fetched");
    rotate(&shop, false);
    let client = user.client(address);
    client.component(&pinned).await.expect("cached and valid");
    assert_eq!(client.verify(&pinned).await.expect("valid"), Some(acme().public()));
    assert_eq!(client.take_notices(), Vec::<String>::new());
    assert_eq!(get(&User::new().client(address), "adder").await.expect("fetched"), stock()[1].component());
    let mirrored = user.client(address).mirror("shop", &shop.path("mirror")).await.expect("mirrored");
    assert_eq!((mirrored.versions, mirrored.skipped), (3, 0));
}

#[tokio::test]
async fn revoked_release_is_not_used_from_the_cache() {
    let shop = Shop::new();
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = User::new();
    let pinned = resolve(&user.client(address), "adder").await.expect("resolved");
    user.client(address).component(&pinned).await.expect("fetched");
    rotate(&shop, true);
    user.offline(address).component(&pinned).await.expect("offline before the revocation was seen");
    assert_revoked(user.client(address).component(&pinned).await);
    assert_revoked(user.offline(address).component(&pinned).await);
    assert_revoked(user.client(address).verify(&pinned).await);
    // A new user with a lock file.
    assert_revoked(User::new().client(address).component(&pinned).await);
}

/// An unreachable registry does not block cached plugins.
#[tokio::test]
async fn unreachable_registry_does_not_block_cached_plugins() {
    let shop = Shop::new();
    let root = crate::common::pinned();
    let broken = |path: &str| if path == "checkpoint.json" { Trick::Broken } else { Trick::None };
    let (sound, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let (silent, heard) = serve(shop.registry.path(), broken).await;
    let user = User::new();
    let pinned = resolve(&user.client(sound), "adder").await.expect("resolved");
    // A folder whose checkpoint is removed.
    let path = shop.registry.path().display().to_string();
    let folder = format!("[registries.shop]\nfolder = '{path}'\nroot = '{root}'\n[namespaces]\nacme = 'shop'\n");
    let client = || user.client_of(&folder, |_| ());
    client().component(&pinned).await.expect("fetched");
    let checkpoint = shop.registry.path().join("checkpoint.json");
    let (signed, state) = (shop.state(), std::fs::read(&checkpoint).expect("a checkpoint"));
    std::fs::remove_file(&checkpoint).expect("removed");
    let alone = client();
    alone.component(&pinned).await.expect("the last seen state is used");
    let notices = alone.take_notices().concat();
    // The time at which the last state was signed, by the system's own calendar.
    let issued = signed.checkpoint.issued;
    let date = std::process::Command::new("date").args(["-u", "-d", &format!("@{issued}"), "+%F %H:%M UTC"]).output();
    let date = String::from_utf8(date.expect("`date`").stdout).expect("text");
    let told = format!("cannot check registry `shop` for revoked keys, using its state of {}: ", date.trim());
    assert!(notices.contains(&told), "{notices}");
    assert!(notices.contains("is not a registry"), "why: {notices}");
    std::fs::write(&checkpoint, state).expect("written");
    // A registry that was never seen gives no provenance.
    user.client(silent).component(&pinned).await.expect_err("never seen");
    assert!(!heard.all().is_empty());
}

#[tokio::test]
async fn mirror_skips_releases_of_a_revoked_key() {
    let shop = Shop::new();
    let address = shop.serve().await;
    rotate(&shop, true);
    publish_with_the_new_key(&shop, &Made::version("1.0.1"));
    let client = User::new().client(address);
    let mirror = shop.path("mirror");
    let mirrored = client.mirror("shop", &mirror).await.expect("mirrored");
    assert_eq!((mirrored.plugins, mirrored.versions, mirrored.fetched, mirrored.skipped), (2, 1, 1, 3));
    let notices = client.take_notices();
    for skipped in ["`acme/adder` 1.0.0", "`acme/adder` 1.1.0", "`acme/other` 1.0.0"] {
        assert!(notices.iter().any(|notice| notice.starts_with(&format!("{skipped} was skipped"))), "{notices:?}");
    }
    let (address, _) = serve(&mirror, |_| Trick::None).await;
    assert_eq!(get(&User::new().client(address), "adder").await.expect("fetched"), Made::version("1.0.1").component());
}

#[tokio::test]
async fn retired_key_is_revoked_later() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let revoke = |key: &PublicKey| shop.registry.revoke(&namespace(), key, by(&root()));
    let not_retired = |outcome: Result<(), FolderError>| {
        let error = outcome.expect_err("not retired");
        assert!(error.to_string().contains("host registry rotate --revoke"), "{error}");
    };
    not_retired(revoke(&acme().public()));
    rotate(&shop, false);
    not_retired(revoke(&key(5).public()));
    get(&User::new().client(address), "adder").await.expect("still valid");
    let seen = User::new();
    resolve(&seen.client(address), "adder").await.expect("resolved");
    revoke(&acme().public()).expect("revoked");
    not_retired(revoke(&acme().public()));
    let error = resolve(&seen.client(address), "adder").await.expect_err("revoked");
    assert!(said(&error).contains("are signed by a revoked key"), "{}", said(&error));
    publish_with_the_new_key(&shop, &Made::version("2.0.0"));
    let pinned = resolve(&seen.client(address), "adder").await.expect("the new key's");
    assert_eq!((pinned.name, pinned.version.to_string().as_str()), (name("acme/adder"), "2.0.0"));
}
