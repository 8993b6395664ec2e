//! Attacks by registries, mirrors, networks and other users: each is rejected with a reason and leaves the cache intact.
//! Each test also covers the permitted counterpart.

use std::fs;
use std::net::SocketAddr;

use crate::common::tricks::{Trick, serve};
use crate::common::{DAY, Made, Shop, User, acme, get, key, name, now, pinned, resolve, root, said, stock, web};
use gymkhana_registry::{
    Authority, CheckpointError, ContentFile, Digest, IndexRow, KeyHolder, NamespaceKeys, Release, Rotation, SecretKey,
    SignedTextError,
};
use gymkhana_registry_client::{RegistryClient, RegistryClientError};

/// Asserts that a request fails with these words and leaves the cache unchanged.
async fn assert_rejected(user: &User, client: &RegistryClient, wanted: &str, words: &str) {
    let cached = user.cached();
    let error = get(client, wanted).await.expect_err(words);
    assert!(said(&error).contains(words), "{}", said(&error));
    assert_eq!(user.cached(), cached, "nothing new is in the cache");
    assert_eq!(fs::read_dir(user.folder.path().join("cache/incoming")).into_iter().flatten().count(), 0);
}

/// A user with `acme/other` in the cache.
async fn user(address: SocketAddr) -> User {
    let user = User::new();
    get(&user.client(address), "acme/other").await.expect("the other plugin");
    assert_eq!(user.cached().len(), 1);
    user
}

/// Asserts that the other plugin is still usable offline.
async fn assert_other_is_intact(user: &User, address: SocketAddr) {
    let other = get(&user.offline(address), "acme/other").await.expect("it is in the cache");
    assert_eq!(other, stock()[2].component());
}

fn path_in(shop: &Shop, item: &ContentFile) -> std::path::PathBuf {
    shop.registry.content_store().path(item)
}

#[tokio::test]
async fn modified_component_is_rejected() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let path = shop.registry.path().join(shop.component_path("acme/adder", "1.1.0"));
    let sound = fs::read(&path).expect("a component");
    let mut altered = sound.clone();
    *altered.last_mut().expect("bytes") ^= 1;
    fs::write(&path, &altered).expect("written");
    assert_rejected(&user, &user.client(address), "acme/adder", "was modified: its sha256 is").await;
    assert_other_is_intact(&user, address).await;
    fs::write(&path, &sound).expect("written");
    assert_eq!(get(&user.client(address), "acme/adder").await.expect("sound again"), stock()[1].component());
}

#[tokio::test]
async fn modified_index_is_rejected() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let item = ContentFile::Index(name("acme/adder"), shop.state().checkpoint.index[&name("acme/adder")]);
    let sound = fs::read_to_string(path_in(&shop, &item)).expect("an index file");
    fs::write(path_in(&shop, &item), sound.replace("\"yanked\":false", "\"yanked\":true")).expect("written");
    assert_rejected(&user, &user.client(address), "acme/adder", "was modified").await;
    assert_other_is_intact(&user, address).await;
    fs::write(path_in(&shop, &item), sound).expect("written");
    get(&user.client(address), "acme/adder").await.expect("sound again");
}

#[tokio::test]
async fn modified_signature_is_rejected() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let row = shop.rows("acme/adder").remove(1);
    let path = path_in(&shop, &ContentFile::Release(row.release));
    let sound = fs::read_to_string(&path).expect("a release");
    let at = sound.find("\"signature\":\"").expect("a signature") + 13;
    let mut altered = sound.clone();
    altered.replace_range(at..=at, if &sound[at..=at] == "0" { "1" } else { "0" });
    fs::write(&path, &altered).expect("written");
    assert_rejected(&user, &user.client(address), "acme/adder", "was modified").await;
    // Also if the registry signs an index that references the modified file.
    let release = Digest::of(altered.as_bytes());
    shop.registry.content_store().write(&ContentFile::Release(release), altered.as_bytes()).expect("written");
    shop.forge("acme/adder", |rows| rows[1].release = release);
    assert_rejected(&user, &user.client(address), "acme/adder", "the index file modified version 1.1.0").await;
    let stranger = User::new();
    assert_rejected(&stranger, &stranger.client(address), "acme/adder", "the release signature was rejected").await;
    assert_other_is_intact(&user, address).await;
    fs::write(&path, &sound).expect("written");
    shop.forge("acme/adder", |rows| rows[1].release = row.release);
    get(&User::new().client(address), "acme/adder").await.expect("sound again");
}

/// Adds a release without the publishing rules, as a malicious registry can.
fn smuggle(shop: &Shop, made: &Made, release: &Release, signer: &SecretKey, component: &[u8]) {
    let file = release.sign(Some(signer)).expect("JSON");
    let row = IndexRow::new(release, &file, Some(signer.public()));
    let contents = shop.registry.content_store();
    contents.write(&ContentFile::Release(row.release), file.as_bytes()).expect("written");
    contents.write(&ContentFile::Component(row.digest), component).expect("written");
    shop.forge(made.name, |rows| rows.push(row));
}

#[tokio::test]
async fn release_signed_by_another_key_is_rejected() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let made = Made::version("1.2.0");
    smuggle(&shop, &made, &made.release(), &key(9), &made.component());
    assert_rejected(&user, &user.client(address), "acme/adder", "which is not a key of namespace `acme`").await;
    get(&user.client(address), "acme/adder@=1.1.0").await.expect("an older one");
    // The same release signed by the namespace's key.
    let made = Made::version("1.3.0");
    smuggle(&shop, &made, &made.release(), &acme(), &made.component());
    get(&user.client(address), "acme/adder").await.expect("signed by acme");
}

#[tokio::test]
async fn index_that_contradicts_the_release_is_rejected() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    // The index omits a capability of the new version.
    let made = Made { capabilities: &["http", "log"], ..Made::version("1.2.0") };
    smuggle(&shop, &made, &made.release(), &acme(), &made.component());
    shop.forge("acme/adder", |rows| {
        let row = rows.last_mut().expect("a row");
        row.capabilities.retain(|capability| capability.is_free());
    });
    // A user who has not seen the version before.
    let user_new = User::new();
    let error = get(&user_new.client(address), "acme/adder").await.expect_err("a lie");
    assert!(said(&error).contains("contradicts the signed release"), "{}", said(&error));
    assert_other_is_intact(&user, address).await;
}

#[tokio::test]
async fn expired_checkpoint_is_rejected() {
    let shop = Shop::new();
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = user(address).await;
    let in_two_days = |offline| {
        user.client_of(&web(address, ""), |settings| {
            (settings.now, settings.offline) = (Some(now() + 2 * DAY), offline);
        })
    };
    assert_rejected(&user, &in_two_days(false), "acme/adder", "expired").await;
    // Offline mode accepts the last seen state.
    get(&in_two_days(true), "acme/other").await.expect("the last seen state");
    let root = root();
    shop.registry.renew(Authority { root: Some(&root), lifetime: DAY, now: now() + 2 * DAY }).expect("renewed");
    get(&in_two_days(false), "acme/adder").await.expect("a valid checkpoint");
}

#[tokio::test]
async fn rollback_is_rejected() {
    let shop = Shop::new();
    let old = shop.registry.checkpoint_text().expect("text");
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = user(address).await;
    // A vulnerable version is yanked; an attacker serves the previous state.
    let version = "1.1.0".parse().expect("a version");
    shop.registry.yank(&name("acme/adder"), &version, true, crate::common::by(&root())).expect("yanked");
    assert_eq!(resolve(&user.client(address), "acme/adder").await.expect("resolved").version.to_string(), "1.0.0");
    shop.registry.write_checkpoint(&old).expect("shown");
    assert_rejected(&user, &user.client(address), "acme/adder@=1.1.0", "the server returned an old state").await;
    assert_other_is_intact(&user, address).await;
    // A new user cannot detect the rollback before the checkpoint expires.
    get(&User::new().client(address), "acme/adder").await.expect("it has not expired");
}

#[tokio::test]
async fn fork_is_rejected() {
    let shop = Shop::new();
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = user(address).await;
    shop.forge_checkpoint(|checkpoint| {
        checkpoint.sequence -= 1;
        checkpoint.expires += 1;
    });
    assert_rejected(&user, &user.client(address), "acme/adder", "shows different states to different clients").await;
    assert_other_is_intact(&user, address).await;
}

#[tokio::test]
async fn foreign_and_modified_checkpoints_are_rejected() {
    let shop = Shop::new();
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = user(address).await;
    let sound = shop.registry.checkpoint_text().expect("text");
    let stranger = shop.state().checkpoint.sign(Some(&key(9))).expect("JSON");
    shop.registry.write_checkpoint(&stranger).expect("shown");
    assert_rejected(&user, &user.client(address), "acme/adder", "is not signed by the root key").await;
    let altered = sound.replacen(&acme().public().to_string(), &key(9).public().to_string(), 1);
    shop.registry.write_checkpoint(&altered).expect("shown");
    assert_rejected(&user, &user.client(address), "acme/adder", "was modified after signing").await;
    assert_other_is_intact(&user, address).await;
    shop.registry.write_checkpoint(&sound).expect("shown");
    get(&user.client(address), "acme/adder").await.expect("sound again");
}

/// Bytes that are not UTF-8 are reported as such and not read as an empty checkpoint.
#[tokio::test]
async fn non_utf8_checkpoint_is_rejected() {
    let shop = Shop::new();
    let tricks = |path: &str| if path == "checkpoint.json" { Trick::Other(b"\xff\n".to_vec()) } else { Trick::None };
    let (address, _) = serve(shop.registry.path(), tricks).await;
    let error = resolve(&User::new().client(address), "acme/adder").await.expect_err("not UTF-8");
    let RegistryClientError::Checkpoint { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source, CheckpointError::Damaged(SignedTextError::NotUtf8(_))), "{source}");
}

#[tokio::test]
async fn namespace_key_swap_is_rejected() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let thief = key(9);
    shop.forge_checkpoint(|checkpoint| {
        let keys = NamespaceKeys { current: [thief.public()].into(), retired: [acme().public()].into() };
        checkpoint.namespaces.insert("acme".parse().expect("a namespace"), keys);
    });
    assert_rejected(&user, &user.client(address), "acme/adder", "which no known key of the namespace endorsed").await;
    assert_other_is_intact(&user, address).await;
    // With a rotation signed by the old key.
    let of = KeyHolder::Namespace("acme".parse().expect("a namespace"));
    shop.forge_checkpoint(|checkpoint| checkpoint.rotations.push(Rotation::new(of, &acme(), thief.public())));
    get(&user.client(address), "acme/adder").await.expect("a rotated key");
}

/// An attacker removes a fixed version from the index to keep users on a vulnerable one.
#[tokio::test]
async fn removed_version_is_detected() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    assert_eq!(resolve(&user.client(address), "acme/adder").await.expect("resolved").version.to_string(), "1.1.0");
    let hidden = shop.rows("acme/adder").remove(1);
    shop.forge("acme/adder", |rows| rows.truncate(1));
    assert_rejected(&user, &user.client(address), "acme/adder", "the index file removed version 1.1.0").await;
    assert_other_is_intact(&user, address).await;
    shop.forge("acme/adder", |rows| rows.push(hidden));
    assert_eq!(resolve(&user.client(address), "acme/adder").await.expect("resolved").version.to_string(), "1.1.0");
}

#[tokio::test]
async fn redirect_to_another_host_is_rejected() {
    let shop = Shop::new();
    let (elsewhere, heard) = serve(shop.registry.path(), |_| Trick::None).await;
    let target = shop.component_path("acme/adder", "1.1.0");
    let trick = move |path: &str| match path {
        path if path == target => Trick::Redirect(format!("http://{elsewhere}/{path}")),
        _ => Trick::None,
    };
    let (address, _) = serve(shop.registry.path(), trick).await;
    let user = user(address).await;
    assert_rejected(&user, &user.client(address), "acme/adder", "which is not the registry").await;
    assert!(heard.all().is_empty(), "the target is not contacted");
    // With the host listed in `also`.
    let client = user.client_of(&web(address, &format!("also = ['http://{elsewhere}']")), |_| ());
    get(&client, "acme/adder").await.expect("a listed host");
    // Within the same origin.
    let moved = |path: &str| match path.strip_prefix("components/") {
        Some(file) => Trick::Redirect(format!("/moved/../{}", file.replace(file, &format!("copies/{file}")))),
        None => Trick::None,
    };
    fs::create_dir(shop.registry.path().join("copies")).expect("created");
    for entry in fs::read_dir(shop.registry.path().join("components")).expect("a folder").flatten() {
        fs::copy(entry.path(), shop.registry.path().join("copies").join(entry.file_name())).expect("copied");
    }
    let (address, _) = serve(shop.registry.path(), moved).await;
    get(&User::new().client(address), "acme/adder").await.expect("the same host");
}

#[tokio::test]
async fn invalid_bodies_are_rejected() {
    for (trick, words) in [
        (Trick::Endless, "sends more than the expected"),
        (Trick::Oversize, "sends more than the expected"),
        (Trick::Truncated, "closed the connection after"),
        (Trick::Slow, "is too slow"),
        (Trick::Broken, "answered 503"),
        (Trick::Redirect("/again".to_owned()), "404"),
    ] {
        // Large enough for the minimum rate to apply before the end.
        let shop = Shop::empty();
        for made in stock() {
            shop.add(&Made { padding: 30_000, ..made });
        }
        let target = shop.component_path("acme/adder", "1.1.0");
        let on_component = trick.clone();
        let target_there = target.clone();
        let tricks = move |path: &str| if path == target_there { on_component.clone() } else { Trick::None };
        let (address, _) = serve(shop.registry.path(), tricks).await;
        let user = user(address).await;
        assert_rejected(&user, &user.client(address), "acme/adder", words).await;
        let other = get(&user.offline(address), "acme/other").await.expect("it is in the cache");
        assert_eq!(other.len(), Made { padding: 30_000, ..stock()[2].clone() }.component().len());
        // The checkpoint of a new user.
        if !matches!(trick, Trick::Slow) {
            let tricks = move |path: &str| if path == "checkpoint.json" { trick.clone() } else { Trick::None };
            let (address, _) = serve(shop.registry.path(), tricks).await;
            let fresh = User::new();
            assert_rejected(&fresh, &fresh.client(address), "acme/adder", words).await;
        }
        let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
        get(&user.client(address), "acme/adder").await.expect("a sound server");
    }
}

#[tokio::test]
async fn modified_cache_file_is_not_used() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let pinned = resolve(&user.client(address), "acme/adder").await.expect("resolved");
    user.client(address).component(&pinned).await.expect("fetched");
    let client = user.client(address);
    let path = client.cache().path(&ContentFile::Component(pinned.digest));
    fs::write(&path, stock()[0].component()).expect("written");
    let error = user.offline(address).component(&pinned).await.expect_err("changed");
    assert!(said(&error).contains("was modified or damaged"), "{}", said(&error));
    assert_eq!(client.component(&pinned).await.expect("fetched again"), stock()[1].component());
    assert!(client.take_notices().concat().contains("was modified in the cache"));
    assert_eq!(fs::read(&path).expect("read"), stock()[1].component(), "the cache is repaired");
    assert_other_is_intact(&user, address).await;
}

/// A precompiled file would bypass the sandbox's checks, so only components are accepted as plugins.
#[tokio::test]
async fn precompiled_file_is_rejected() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    // An ELF file, the format of precompiled components, signed by publisher and registry.
    let elf = [b"\x7fELF\x02\x01\x01\0".as_slice(), &[0; 200]].concat();
    let made = Made::version("1.2.0");
    let mut release = made.release();
    (release.digest, release.size) = (Digest::of(&elf), elf.len() as u64);
    release.report.as_mut().expect("a report").digest = release.digest;
    smuggle(&shop, &made, &release, &acme(), &elf);
    assert_rejected(&user, &user.client(address), "acme/adder", "not WebAssembly").await;
    // The server rejects it as well.
    let file = release.sign(Some(&acme())).expect("JSON");
    let shop = Shop::new();
    let error =
        crate::common::add_file(&shop.registry, &file, &elf, crate::common::by(&root())).expect_err("no component");
    assert!(said(&error).contains("not WebAssembly"), "{}", said(&error));
}

#[tokio::test]
async fn namespace_is_served_by_one_registry() {
    let (one, other) = (Shop::empty(), Shop::new());
    let (one, other) = (one.serve().await, other.serve().await);
    let root = pinned();
    let config = format!(
        "[registries.one]\nurl = 'http://{one}/'\nroot = '{root}'\n[registries.other]\nurl = 'http://{other}/'\nroot = '{root}'\n[namespaces]\nacme = 'one'\nothers = 'other'\n"
    );
    let user = User::new();
    let error = resolve(&user.client_of(&config, |_| ()), "acme/adder").await.expect_err("one has none");
    assert!(matches!(error, RegistryClientError::UnknownPlugin { .. }), "{error}");
    let error = resolve(&user.client_of(&config, |_| ()), "adder").await.expect_err("nor by its short name");
    assert!(matches!(error, RegistryClientError::UnknownShortName { .. }), "{error}");
    let error = resolve(&user.client_of(&config, |_| ()), "strange/adder").await.expect_err("an unserved namespace");
    assert!(error.to_string().contains("no registry serves namespace `strange`"), "{error}");
    let config = config.replace("acme = 'one'", "acme = 'other'");
    resolve(&user.client_of(&config, |_| ()), "acme/adder").await.expect("the other has it");
}
