//! A key that was stolen and revoked: what it signed is not resolved, not fetched, not mirrored, and not run from a cache.

mod common;

use common::tricks::{Trick, serve};
use common::{Made, Shop, User, acme, by, get, key, name, resolve, root, said, stock};
use gymkhana_registry::{FolderError, KeyHolder, Namespace, PublicKey, ResolveError, Rotation};
use gymkhana_registry_client::RegistryClientError;

fn namespace() -> Namespace {
    "acme".parse().expect("a namespace")
}

/// The namespace's key is replaced by that of the seed 5.
fn rotate(shop: &Shop, revoke: bool) {
    let rotation = Rotation::new(KeyHolder::Namespace(namespace()), &acme(), key(5).public());
    shop.registry.rotate(rotation, revoke, by(&root())).expect("rotated");
}

fn publish_by_the_new_key(shop: &Shop, made: &Made) {
    let file = made.release().sign(Some(&key(5))).expect("JSON");
    common::add_file(&shop.registry, &file, &made.component(), by(&root())).expect("added");
}

fn is_revoked<T: std::fmt::Debug>(outcome: Result<T, RegistryClientError>) {
    let error = outcome.expect_err("revoked");
    let words = said(&error);
    assert!(matches!(error, RegistryClientError::Revoked { .. }) && words.contains("has revoked"), "{words}");
}

#[tokio::test]
async fn what_a_revoked_key_signed_is_passed_over() {
    let shop = Shop::new();
    let address = shop.serve().await;
    rotate(&shop, true);
    let user = User::new();
    let error = resolve(&user.client(address), "adder").await.expect_err("none is left");
    assert!(said(&error).contains("there is none that still counts"), "{}", said(&error));
    publish_by_the_new_key(&shop, &Made::version("1.0.1"));
    let client = user.client(address);
    assert_eq!(resolve(&client, "adder").await.expect("one counts").version.to_string(), "1.0.1");
    let notices = client.take_notices().concat();
    assert!(notices.contains("`acme/adder` 1.1.0 is passed over: the key that signed it was revoked"), "{notices}");
    assert!(notices.contains("1.0.1 is the newest that still counts"), "{notices}");
    let error = resolve(&user.client(address), "adder@^1.1").await.expect_err("revoked");
    assert!(said(&error).contains("1.0.1 is the newest that still counts: ask for that"), "{}", said(&error));
    let RegistryClientError::Unresolved { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, ResolveError::Revoked { newest: Some(_), .. }), "{source}");
    get(&user.client(address), "adder").await.expect("signed by the new key");
}

#[tokio::test]
async fn what_a_replaced_key_signed_goes_on_counting() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = User::new();
    let pinned = resolve(&user.client(address), "adder").await.expect("resolved");
    user.client(address).component(&pinned).await.expect("fetched");
    rotate(&shop, false);
    let client = user.client(address);
    client.component(&pinned).await.expect("it is here and counts");
    assert_eq!(client.verify(&pinned).await.expect("it counts"), Some(acme().public()));
    assert_eq!(client.take_notices(), Vec::<String>::new());
    assert_eq!(get(&User::new().client(address), "adder").await.expect("fetched"), stock()[1].component());
    let mirrored = user.client(address).mirror("shop", &shop.path("mirror")).await.expect("mirrored");
    assert_eq!((mirrored.versions, mirrored.skipped), (3, 0));
}

#[tokio::test]
async fn what_a_revoked_key_signed_is_not_run_from_the_cache() {
    let shop = Shop::new();
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = User::new();
    let pinned = resolve(&user.client(address), "adder").await.expect("resolved");
    user.client(address).component(&pinned).await.expect("fetched");
    rotate(&shop, true);
    user.offline(address).component(&pinned).await.expect("whoever asks nobody has not heard of it");
    is_revoked(user.client(address).component(&pinned).await);
    is_revoked(user.offline(address).component(&pinned).await);
    is_revoked(user.client(address).verify(&pinned).await);
    // Nor fetched by somebody who has the lock and nothing else.
    is_revoked(User::new().client(address).component(&pinned).await);
}

/// A registry that says nothing, or nothing that is believed, stops no run that it did not stop before.
#[tokio::test]
async fn a_silent_registry_leaves_what_is_here_as_it_was() {
    let shop = Shop::new();
    let root = common::pinned();
    let broken = |path: &str| if path == "checkpoint.json" { Trick::Broken } else { Trick::None };
    let (sound, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let (silent, heard) = serve(shop.registry.path(), broken).await;
    let user = User::new();
    let pinned = resolve(&user.client(sound), "adder").await.expect("resolved");
    // A folder, whose checkpoint can be taken away.
    let path = shop.registry.path().display().to_string();
    let folder = format!("[registries.shop]\nfolder = '{path}'\nroot = '{root}'\n[namespaces]\nacme = 'shop'\n");
    let client = || user.client_of(&folder, |_| ());
    client().component(&pinned).await.expect("fetched");
    let checkpoint = shop.registry.path().join("checkpoint.json");
    let state = std::fs::read(&checkpoint).expect("a checkpoint");
    std::fs::remove_file(&checkpoint).expect("removed");
    let alone = client();
    alone.component(&pinned).await.expect("what was seen last counts");
    let notices = alone.take_notices().concat();
    assert!(notices.contains("is known as of the last time that it was asked"), "{notices}");
    assert!(notices.contains("holds no registry"), "why: {notices}");
    std::fs::write(&checkpoint, state).expect("written");
    // One that was never seen vouches for nothing.
    user.client(silent).component(&pinned).await.expect_err("never seen");
    assert!(!heard.all().is_empty());
}

#[tokio::test]
async fn a_mirror_leaves_out_what_a_revoked_key_signed_and_goes_on() {
    let shop = Shop::new();
    let address = shop.serve().await;
    rotate(&shop, true);
    publish_by_the_new_key(&shop, &Made::version("1.0.1"));
    let client = User::new().client(address);
    let mirror = shop.path("mirror");
    let mirrored = client.mirror("shop", &mirror).await.expect("mirrored");
    assert_eq!((mirrored.plugins, mirrored.versions, mirrored.fetched, mirrored.skipped), (2, 1, 1, 3));
    let notices = client.take_notices();
    for left_out in ["`acme/adder` 1.0.0", "`acme/adder` 1.1.0", "`acme/other` 1.0.0"] {
        assert!(notices.iter().any(|notice| notice.starts_with(&format!("{left_out} is left out"))), "{notices:?}");
    }
    let (address, _) = serve(&mirror, |_| Trick::None).await;
    assert_eq!(get(&User::new().client(address), "adder").await.expect("fetched"), Made::version("1.0.1").component());
}

#[tokio::test]
async fn a_retired_key_is_revoked_when_its_theft_is_noticed_later() {
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
    get(&User::new().client(address), "adder").await.expect("it still counts");
    let seen = User::new();
    resolve(&seen.client(address), "adder").await.expect("resolved");
    revoke(&acme().public()).expect("revoked");
    not_retired(revoke(&acme().public()));
    let error = resolve(&seen.client(address), "adder").await.expect_err("revoked");
    assert!(said(&error).contains("that its publisher revoked"), "{}", said(&error));
    publish_by_the_new_key(&shop, &Made::version("2.0.0"));
    let pinned = resolve(&seen.client(address), "adder").await.expect("the new key's");
    assert_eq!((pinned.name, pinned.version.to_string().as_str()), (name("acme/adder"), "2.0.0"));
}
