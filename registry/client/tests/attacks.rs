//! Every trick that a registry, a mirror, a network or another user can play: nothing of it is run, each refusal says
//! why, and nothing else in the cache is harmed. Each has a twin that is allowed.

mod common;

use std::fs;
use std::net::SocketAddr;

use common::tricks::{Trick, serve};
use common::{DAY, Made, Shop, User, acme, get, key, name, now, pinned, resolve, root, said, stock, web};
use gymkhana_registry::{
    Authority, ContentFile, Digest, IndexRow, KeyHolder, NamespaceKeys, Release, Rotation, SecretKey,
};
use gymkhana_registry_client::{RegistryClient, RegistryClientError};

/// What is refused, with these words in the reason; the other plugin, fetched before, is still sound.
async fn refused(user: &User, client: &RegistryClient, wanted: &str, words: &str) {
    let cached = user.cached();
    let error = get(client, wanted).await.expect_err(words);
    assert!(said(&error).contains(words), "{}", said(&error));
    assert_eq!(user.cached(), cached, "nothing new is in the cache");
    assert_eq!(fs::read_dir(user.folder.path().join("cache/incoming")).into_iter().flatten().count(), 0);
}

/// A user who has `acme/other` in the cache already.
async fn user(address: SocketAddr) -> User {
    let user = User::new();
    get(&user.client(address), "acme/other").await.expect("the other plugin");
    assert_eq!(user.cached().len(), 1);
    user
}

/// The other plugin can still be had without asking anybody.
async fn other_is_sound(user: &User, address: SocketAddr) {
    let other = get(&user.offline(address), "acme/other").await.expect("it is in the cache");
    assert_eq!(other, stock()[2].component());
}

fn path_in(shop: &Shop, item: &ContentFile) -> std::path::PathBuf {
    shop.registry.content_store().path(item)
}

#[tokio::test]
async fn an_altered_component_is_refused() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let path = shop.registry.path().join(shop.component_path("acme/adder", "1.1.0"));
    let sound = fs::read(&path).expect("a component");
    let mut altered = sound.clone();
    *altered.last_mut().expect("bytes") ^= 1;
    fs::write(&path, &altered).expect("written");
    refused(&user, &user.client(address), "acme/adder", "was altered: its sha256 is").await;
    other_is_sound(&user, address).await;
    fs::write(&path, &sound).expect("written");
    assert_eq!(get(&user.client(address), "acme/adder").await.expect("sound again"), stock()[1].component());
}

#[tokio::test]
async fn an_altered_index_is_refused() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let item = ContentFile::Index(name("acme/adder"), shop.state().checkpoint.index[&name("acme/adder")]);
    let sound = fs::read_to_string(path_in(&shop, &item)).expect("an index file");
    fs::write(path_in(&shop, &item), sound.replace("\"yanked\":false", "\"yanked\":true")).expect("written");
    refused(&user, &user.client(address), "acme/adder", "was altered").await;
    other_is_sound(&user, address).await;
    fs::write(path_in(&shop, &item), sound).expect("written");
    get(&user.client(address), "acme/adder").await.expect("sound again");
}

#[tokio::test]
async fn an_altered_signature_is_refused() {
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
    refused(&user, &user.client(address), "acme/adder", "was altered").await;
    // Even if the registry itself plays along and signs an index that names the altered file.
    let release = Digest::of(altered.as_bytes());
    shop.registry.content_store().write(&ContentFile::Release(release), altered.as_bytes()).expect("written");
    shop.forge("acme/adder", |rows| rows[1].release = release);
    refused(&user, &user.client(address), "acme/adder", "changed version 1.1.0").await;
    let stranger = User::new();
    refused(&stranger, &stranger.client(address), "acme/adder", "not signed as it must be").await;
    other_is_sound(&user, address).await;
    fs::write(&path, &sound).expect("written");
    shop.forge("acme/adder", |rows| rows[1].release = row.release);
    get(&User::new().client(address), "acme/adder").await.expect("sound again");
}

/// Publishes past the rules, as a registry can that plays along.
fn smuggle(shop: &Shop, made: &Made, release: &Release, signer: &SecretKey, component: &[u8]) {
    let file = release.sign(Some(signer)).expect("JSON");
    let row = IndexRow::new(release, &file, Some(signer.public()));
    let contents = shop.registry.content_store();
    contents.write(&ContentFile::Release(row.release), file.as_bytes()).expect("written");
    contents.write(&ContentFile::Component(row.digest), component).expect("written");
    shop.forge(made.name, |rows| rows.push(row));
}

#[tokio::test]
async fn a_release_by_another_key_is_refused() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let made = Made::version("1.2.0");
    smuggle(&shop, &made, &made.release(), &key(9), &made.component());
    refused(&user, &user.client(address), "acme/adder", "which is no key of namespace `acme`").await;
    get(&user.client(address), "acme/adder@=1.1.0").await.expect("an older one");
    // The same by the namespace's own key.
    let made = Made::version("1.3.0");
    smuggle(&shop, &made, &made.release(), &acme(), &made.component());
    get(&user.client(address), "acme/adder").await.expect("signed by acme");
}

#[tokio::test]
async fn a_release_that_says_another_thing_than_the_index_is_refused() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    // The index claims that the new version asks for less than it does.
    let made = Made { capabilities: &["http", "log"], ..Made::version("1.2.0") };
    smuggle(&shop, &made, &made.release(), &acme(), &made.component());
    shop.forge("acme/adder", |rows| {
        let row = rows.last_mut().expect("a row");
        row.capabilities.retain(|capability| capability.is_free());
    });
    // Somebody who has not seen the version before.
    let user_new = User::new();
    let error = get(&user_new.client(address), "acme/adder").await.expect_err("a lie");
    assert!(said(&error).contains("than its publisher signed"), "{}", said(&error));
    other_is_sound(&user, address).await;
}

#[tokio::test]
async fn an_expired_or_frozen_checkpoint_is_refused() {
    let shop = Shop::new();
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = user(address).await;
    let in_two_days = |offline| {
        user.client_of(&web(address, ""), |settings| {
            (settings.now, settings.offline) = (Some(now() + 2 * DAY), offline);
        })
    };
    refused(&user, &in_two_days(false), "acme/adder", "expired").await;
    // Whoever asks nobody has said that an old state will do.
    get(&in_two_days(true), "acme/other").await.expect("as it was seen");
    let root = root();
    shop.registry.renew(Authority { root: Some(&root), lifetime: DAY, now: now() + 2 * DAY }).expect("renewed");
    get(&in_two_days(false), "acme/adder").await.expect("it counts again");
}

#[tokio::test]
async fn an_older_state_is_refused_once_a_newer_one_was_seen() {
    let shop = Shop::new();
    let old = shop.registry.checkpoint_text().expect("text");
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = user(address).await;
    // A version with a hole in it is yanked; an attacker goes on showing the state before.
    let version = "1.1.0".parse().expect("a version");
    shop.registry.yank(&name("acme/adder"), &version, true, common::by(&root())).expect("yanked");
    assert_eq!(resolve(&user.client(address), "acme/adder").await.expect("resolved").version.to_string(), "1.0.0");
    shop.registry.write_checkpoint(&old).expect("shown");
    refused(&user, &user.client(address), "acme/adder@=1.1.0", "an old state is being shown").await;
    other_is_sound(&user, address).await;
    // Somebody who comes for the first time cannot know, and takes what still counts.
    get(&User::new().client(address), "acme/adder").await.expect("it has not expired");
}

#[tokio::test]
async fn two_states_of_one_number_are_refused() {
    let shop = Shop::new();
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = user(address).await;
    shop.forge_checkpoint(|checkpoint| {
        checkpoint.sequence -= 1;
        checkpoint.expires += 1;
    });
    refused(&user, &user.client(address), "acme/adder", "shows different states to different clients").await;
    other_is_sound(&user, address).await;
}

#[tokio::test]
async fn a_checkpoint_by_another_key_or_altered_is_refused() {
    let shop = Shop::new();
    let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
    let user = user(address).await;
    let sound = shop.registry.checkpoint_text().expect("text");
    let stranger = shop.state().checkpoint.sign(Some(&key(9))).expect("JSON");
    shop.registry.write_checkpoint(&stranger).expect("shown");
    refused(&user, &user.client(address), "acme/adder", "not signed by its root key").await;
    let altered = sound.replacen(&acme().public().to_string(), &key(9).public().to_string(), 1);
    shop.registry.write_checkpoint(&altered).expect("shown");
    refused(&user, &user.client(address), "acme/adder", "was altered after it was signed").await;
    other_is_sound(&user, address).await;
    shop.registry.write_checkpoint(&sound).expect("shown");
    get(&user.client(address), "acme/adder").await.expect("sound again");
}

#[tokio::test]
async fn a_namespaces_key_is_not_swapped_without_the_old_ones_word() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let thief = key(9);
    shop.forge_checkpoint(|checkpoint| {
        let keys = NamespaceKeys { current: [thief.public()].into(), retired: [acme().public()].into() };
        checkpoint.namespaces.insert("acme".parse().expect("a namespace"), keys);
    });
    refused(&user, &user.client(address), "acme/adder", "no key of the namespace that was known has signed for it")
        .await;
    other_is_sound(&user, address).await;
    // With the old one's word.
    let of = KeyHolder::Namespace("acme".parse().expect("a namespace"));
    shop.forge_checkpoint(|checkpoint| checkpoint.rotations.push(Rotation::new(of, &acme(), thief.public())));
    get(&user.client(address), "acme/adder").await.expect("handed over");
}

/// An attacker wants the version with the hole: the newer one vanishes from the index.
#[tokio::test]
async fn a_version_does_not_vanish() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    assert_eq!(resolve(&user.client(address), "acme/adder").await.expect("resolved").version.to_string(), "1.1.0");
    let hidden = shop.rows("acme/adder").remove(1);
    shop.forge("acme/adder", |rows| rows.truncate(1));
    refused(&user, &user.client(address), "acme/adder", "no longer has version 1.1.0").await;
    other_is_sound(&user, address).await;
    shop.forge("acme/adder", |rows| rows.push(hidden));
    assert_eq!(resolve(&user.client(address), "acme/adder").await.expect("resolved").version.to_string(), "1.1.0");
}

#[tokio::test]
async fn nobody_is_sent_to_another_host() {
    let shop = Shop::new();
    let (elsewhere, heard) = serve(shop.registry.path(), |_| Trick::None).await;
    let target = shop.component_path("acme/adder", "1.1.0");
    let trick = move |path: &str| match path {
        path if path == target => Trick::Redirect(format!("http://{elsewhere}/{path}")),
        _ => Trick::None,
    };
    let (address, _) = serve(shop.registry.path(), trick).await;
    let user = user(address).await;
    refused(&user, &user.client(address), "acme/adder", "which is not the registry").await;
    assert!(heard.all().is_empty(), "it is not even asked");
    // Where the user has named it.
    let client = user.client_of(&web(address, &format!("also = ['http://{elsewhere}']")), |_| ());
    get(&client, "acme/adder").await.expect("a named host");
    // Within the same one.
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
async fn bodies_that_do_not_end_well_are_refused() {
    for (trick, words) in [
        (Trick::Endless, "sends more than the"),
        (Trick::Oversize, "sends more than the"),
        (Trick::Truncated, "broke off"),
        (Trick::Slow, "too slow"),
        (Trick::Broken, "answered 503"),
        (Trick::Redirect("/again".to_owned()), "404"),
    ] {
        // Large enough that the slow one is caught before its end.
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
        refused(&user, &user.client(address), "acme/adder", words).await;
        let other = get(&user.offline(address), "acme/other").await.expect("it is in the cache");
        assert_eq!(other.len(), Made { padding: 30_000, ..stock()[2].clone() }.component().len());
        // The checkpoint itself, to one who comes for the first time.
        if !matches!(trick, Trick::Slow) {
            let tricks = move |path: &str| if path == "checkpoint.json" { trick.clone() } else { Trick::None };
            let (address, _) = serve(shop.registry.path(), tricks).await;
            let fresh = User::new();
            refused(&fresh, &fresh.client(address), "acme/adder", words).await;
        }
        let (address, _) = serve(shop.registry.path(), |_| Trick::None).await;
        get(&user.client(address), "acme/adder").await.expect("a sound server");
    }
}

#[tokio::test]
async fn a_cache_file_that_was_changed_is_not_used() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    let pinned = resolve(&user.client(address), "acme/adder").await.expect("resolved");
    user.client(address).component(&pinned).await.expect("fetched");
    let client = user.client(address);
    let path = client.cache().path(&ContentFile::Component(pinned.digest));
    fs::write(&path, stock()[0].component()).expect("written");
    let error = user.offline(address).component(&pinned).await.expect_err("changed");
    assert!(said(&error).contains("was changed or damaged"), "{}", said(&error));
    assert_eq!(client.component(&pinned).await.expect("fetched again"), stock()[1].component());
    assert!(client.take_notices().concat().contains("was changed since it was fetched"));
    assert_eq!(fs::read(&path).expect("read"), stock()[1].component(), "the cache is put right");
    other_is_sound(&user, address).await;
}

/// A wasmtime file would run without the sandbox's checks, so that nothing but a component ever counts as a plugin.
#[tokio::test]
async fn a_precompiled_file_in_place_of_a_component_is_refused() {
    let shop = Shop::new();
    let address = shop.serve().await;
    let user = user(address).await;
    // An ELF file, as precompiled components are, signed by the publisher and by the registry.
    let elf = [b"\x7fELF\x02\x01\x01\0".as_slice(), &[0; 200]].concat();
    let made = Made::version("1.2.0");
    let mut release = made.release();
    (release.digest, release.size) = (Digest::of(&elf), elf.len() as u64);
    release.report.as_mut().expect("a report").digest = release.digest;
    smuggle(&shop, &made, &release, &acme(), &elf);
    refused(&user, &user.client(address), "acme/adder", "not WebAssembly").await;
    // The server does not take it either.
    let file = release.sign(Some(&acme())).expect("JSON");
    let shop = Shop::new();
    let error = common::add_file(&shop.registry, &file, &elf, common::by(&root())).expect_err("no component");
    assert!(said(&error).contains("not WebAssembly"), "{}", said(&error));
}

#[tokio::test]
async fn a_namespace_is_served_by_its_registry_and_no_other() {
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
    let error = resolve(&user.client_of(&config, |_| ()), "strange/adder").await.expect_err("nobody's");
    assert!(error.to_string().contains("no registry serves namespace `strange`"), "{error}");
    let config = config.replace("acme = 'one'", "acme = 'other'");
    resolve(&user.client_of(&config, |_| ()), "acme/adder").await.expect("the other has it");
}
