//! Bounds of all data that a registry sends, and destinations of what a client sends. Each attack has a permitted
//! counterpart.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use crate::common::tricks::{Heard, Trick, raw, serve};
use crate::common::{Shop, User, acme, get, resolve, said, stock};
use gymkhana_registry_client::{FetchError, OciError, RegistryClientError};

const TAGS: &str = "v2/acme/adder/tags/list";

/// JSON of a tag list.
fn tags(versions: impl Iterator<Item = u32>) -> String {
    let tags: Vec<String> = versions.map(|patch| format!("1.0.{patch}")).collect();
    serde_json::json!({ "name": "acme/adder", "tags": tags }).to_string()
}

/// Header line that names a next page.
fn next(page: u32) -> String {
    format!("link: </{TAGS}?n=1000&last={page}>; rel=\"next\"\r\n")
}

/// An OCI registry that answers tag lists by the number of the last page, and has no manifests.
async fn oci(page: impl Fn(u32) -> Trick + Send + Sync + 'static) -> (SocketAddr, Heard) {
    let empty = tempfile::tempdir().expect("a folder");
    serve(empty.path(), move |path| match path.strip_prefix(TAGS) {
        Some(query) => page(query.split_once("last=").map_or(0, |(_, last)| last.parse().expect("a number"))),
        None => Trick::None,
    })
    .await
}

/// Resolves a plugin in an OCI registry that has no usable version of it.
async fn error_of(address: SocketAddr, wanted: &str) -> RegistryClientError {
    let (user, key) = (User::new(), acme().public());
    let config =
        format!("[registries.cloud]\noci = 'http://{address}'\nkeys = ['{key}']\n[namespaces]\nacme = 'cloud'\n");
    resolve(&user.client_of(&config, |_| ()), wanted).await.expect_err("no version")
}

/// Asserts that a request ended at a limit; returns the amount and the limit.
fn too_much(error: &RegistryClientError, expected: &str) -> (u64, u64) {
    let RegistryClientError::Oci { source, .. } = error else { panic!("{}", said(error)) };
    let OciError::TooMuch { what, found, limit } = **source else { panic!("{}", said(error)) };
    assert_eq!(what, expected);
    let text = said(error);
    assert!(text.contains(&found.to_string()) && text.contains(&limit.to_string()), "{text}");
    (found, limit)
}

#[tokio::test]
async fn endless_pages_of_tags_end_at_a_limit() {
    let (address, heard) = oci(|page| raw("200 OK", &next(page + 1), &tags(page..page + 1))).await;
    assert_eq!(too_much(&error_of(address, "acme/adder").await, "pages of tags"), (101, 100));
    assert_eq!(heard.all().len(), 100);
    // A list that ends is read to its end.
    let (address, heard) = oci(|page| {
        let link = if page < 3 { next(page + 1) } else { String::new() };
        raw("200 OK", &link, &tags(page..page + 1))
    })
    .await;
    let error = error_of(address, "acme/adder").await;
    assert!(said(&error).contains("published: none"), "{}", said(&error));
    let manifests = heard.all().iter().filter(|request| request.contains("/manifests/1.0.")).count();
    assert_eq!(manifests, 4, "{:?}", heard.all());
}

#[tokio::test]
async fn number_of_tags_and_manifests_is_limited() {
    let (address, heard) = oci(|page| raw("200 OK", &next(page + 1), &tags(page * 4000..(page + 1) * 4000))).await;
    assert_eq!(too_much(&error_of(address, "acme/adder").await, "tags"), (12_000, 10_000));
    assert_eq!(heard.all().len(), 3);
    let (address, heard) = oci(|_| raw("200 OK", "", &tags(0..1001))).await;
    assert_eq!(too_much(&error_of(address, "acme/adder").await, "versions that match"), (1001, 1000));
    assert_eq!(heard.all().len(), 1, "no manifest was requested");
    // A requirement of fewer versions is served.
    error_of(address, "acme/adder@=1.0.7").await;
    assert_eq!(heard.all().iter().filter(|request| request.contains("/manifests/")).count(), 1);
}

#[tokio::test]
async fn response_headers_are_limited() {
    let lines = |bytes: usize| (0..50).map(|line| format!("x-{line}: {}\r\n", "y".repeat(bytes))).collect::<String>();
    let (address, _) = oci(move |_| raw("200 OK", &lines(2000), &tags(0..1))).await;
    let error = error_of(address, "acme/adder").await;
    let RegistryClientError::Fetch { source, .. } = &error else { panic!("{}", said(&error)) };
    assert!(matches!(source, FetchError::LargeHeaders { bytes: 100_000.., limit: 65_536, .. }), "{source}");
    let (address, _) = oci(move |_| raw("200 OK", &lines(20), &tags(0..1))).await;
    let error = error_of(address, "acme/adder").await;
    assert!(said(&error).contains("published: none"), "{}", said(&error));
}

/// The HTTP library sends the user name of a URL as an `authorization` header.
#[tokio::test]
async fn user_name_in_a_redirect_is_not_sent() {
    for user_name in ["me:secret@", ""] {
        let shop = Shop::new();
        let folder = shop.registry.path();
        std::fs::copy(folder.join("checkpoint.json"), folder.join("copy.json")).expect("copied");
        let address = Arc::new(OnceLock::<SocketAddr>::new());
        let known = Arc::clone(&address);
        let (bound, heard) = serve(folder, move |path| match path {
            "checkpoint.json" => {
                Trick::Redirect(format!("http://{user_name}{}/copy.json", known.get().expect("it is bound")))
            }
            _ => Trick::None,
        })
        .await;
        address.set(bound).expect("set once");
        let user = User::new();
        assert_eq!(get(&user.client(bound), "acme/adder").await.expect("fetched"), stock()[1].component());
        let heard = heard.all();
        assert!(heard.iter().any(|request| request.starts_with("GET /copy.json ")), "{heard:?}");
        assert!(heard.iter().all(|request| !request.to_lowercase().contains("authorization:")), "{heard:?}");
    }
}
