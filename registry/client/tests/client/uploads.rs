//! Uploads have no total timeout as long as they make progress.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{Made, Shop, TOKEN, User, acme, get, said, web};
use gymkhana_registry_client::{PublishRequest, RegistryClientError, Secrets};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Bytes per read of the slow line and the pause after each: 12 MiB take at least two seconds.
const AT_ONCE: usize = 256 << 10;
const PAUSE: Duration = Duration::from_millis(45);
/// Idle timeout: long enough for a busy machine and shorter than an upload.
const IDLE: Duration = Duration::from_secs(1);

/// A slow TCP proxy in front of a server that stops reading after `stops_after` bytes.
async fn slow_line(to: SocketAddr, stops_after: usize) -> SocketAddr {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(64 << 10).expect("set");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let listener = socket.listen(16).expect("listening");
    let address = listener.local_addr().expect("it has one");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let behind = TcpStream::connect(to).await.expect("connected");
            let (mut from_client, mut to_client) = stream.into_split();
            let (mut from_server, mut to_server) = behind.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            tokio::spawn(async move {
                let (mut piece, mut taken) = (vec![0; AT_ONCE], 0);
                while let Ok(count @ 1..) = from_client.read(&mut piece).await {
                    to_server.write_all(&piece[..count]).await.unwrap_or_default();
                    taken += count;
                    if taken > stops_after {
                        std::future::pending::<()>().await;
                    }
                    // Small requests are not uploads.
                    if count > 4096 {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            });
        }
    });
    address
}

async fn publish(shop: &Shop, line: SocketAddr, made: &Made) -> Result<(), RegistryClientError> {
    thread_local! {
        static SHOWN: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
    }
    SHOWN.set(shop.token(&["acme"]));
    let client = User::new().client_of(&web(line, &format!("token = '{TOKEN}'")), |settings| {
        settings.limits.idle_timeout = IDLE;
        settings.variable = |_| Some(SHOWN.with_borrow(Clone::clone));
    });
    let component = made.component();
    let publishing = PublishRequest { component: &component, report: Some(made.report()), description: None };
    client.publish(publishing, &Secrets { key: Some(acme()), ..Secrets::default() }).await.map(|_| ())
}

#[tokio::test]
async fn upload_may_last_longer_than_the_idle_timeout() {
    let shop = Shop::empty();
    let server = shop.serve().await;
    let made = Made { padding: 12 << 20, ..Made::version("1.0.0") };
    let line = slow_line(server, usize::MAX).await;
    publish(&shop, line, &made).await.expect("taken, slowly");
    assert!(get(&User::new().client(server), "adder").await.expect("whole") == made.component());
}

#[tokio::test]
async fn stalled_upload_is_aborted() {
    let shop = Shop::empty();
    let server = shop.serve().await;
    let made = Made { padding: 12 << 20, ..Made::version("1.0.0") };
    let line = slow_line(server, 1 << 20).await;
    let error = publish(&shop, line, &made).await.expect_err("it stopped");
    assert!(said(&error).contains("upload to `http://") && said(&error).contains("is too slow"), "{}", said(&error));
    assert!(shop.state().checkpoint.index.is_empty(), "nothing is published");
}
