//! Contact with a registry, without a plugin.

use std::net::SocketAddr;

use crate::common::tricks::{Trick, serve};
use crate::common::{Shop, User, web};
use gymkhana_registry_client::{RegistryClient, RegistryClientError};

/// An address at which nothing listens.
fn closed() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it has one")
}

fn oci(user: &User, address: SocketAddr, offline: bool) -> RegistryClient {
    let config = format!("[registries.cloud]\noci = 'http://{address}/'\nunsigned = true\n");
    user.client_of(&config, |settings| settings.offline = offline)
}

#[tokio::test]
async fn the_state_of_a_registry_is_read_and_verified() {
    let (shop, user) = (Shop::new(), User::new());
    let (address, heard) = serve(shop.registry.path(), |_| Trick::None).await;
    let client = user.client(address);
    assert_eq!(client.registry_names().collect::<Vec<_>>(), ["shop"]);
    client.contact("shop").await.expect("it can be read");
    assert!(!heard.all().is_empty());

    let (damaged, _) = serve(shop.registry.path(), |_| Trick::Other(b"nothing".to_vec())).await;
    User::new().client(damaged).contact("shop").await.expect_err("a damaged state");
    let error = User::new().client_of(&web(closed(), ""), |_| ()).contact("shop").await.expect_err("closed");
    assert!(matches!(error, RegistryClientError::Fetch { .. }), "{error}");
    let error = client.contact("other").await.expect_err("not configured");
    assert!(matches!(error, RegistryClientError::UnknownRegistry { .. }), "{error}");
}

#[tokio::test]
async fn any_answer_of_an_oci_registry_suffices() {
    let (folder, user) = (tempfile::tempdir().expect("a folder"), User::new());
    let (address, heard) = serve(folder.path(), |_| Trick::Broken).await;
    oci(&user, address, false).contact("cloud").await.expect("it answers");
    assert_eq!(heard.all().len(), 1);
    let error = oci(&user, address, true).contact("cloud").await.expect_err("offline");
    assert!(matches!(error, RegistryClientError::Offline { .. }), "{error}");
    assert_eq!(heard.all().len(), 1, "nothing was sent");
    let error = oci(&user, closed(), false).contact("cloud").await.expect_err("closed");
    assert!(matches!(error, RegistryClientError::Fetch { .. }), "{error}");
}
