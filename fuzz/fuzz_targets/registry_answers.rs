//! Answers of a registry to its client: a static one with a valid signature around forged files, or an OCI registry.
#![no_main]

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use gymkhana_registry::{Digest, Namespace, NamespaceKeys, RegistryCheckpoint, Requirement};
use gymkhana_registry_client::{
    ClientFolders, ClientSettings, RegistryClient, RegistryConfig, TransferLimits, Unpinned,
};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

#[path = "../../registry/tests/common/mod.rs"]
mod common;

use common::{DAY, NOW, acme, name, root};

/// Answers of the server: of a static registry by the start of the path, of another one in turn.
enum Answers {
    Static { checkpoint: String, files: [Vec<u8>; 4] },
    InTurn(VecDeque<Vec<u8>>),
}

static ANSWERS: Mutex<Answers> = Mutex::new(Answers::InTurn(VecDeque::new()));
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// Address of the server, which runs to the end of the process.
static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(answer(&stream))));
    address
});

// The first byte selects the registry; the rest are pieces between NUL characters.
fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    let mut pieces = data.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    let (answers, source) = match kind % 3 {
        0 => {
            let files = std::array::from_fn(|_| pieces.next().unwrap_or_default());
            (
                Answers::Static { checkpoint: checkpoint(&files), files },
                format!("url = 'http://{}/'\nroot = '{}'", *SERVER, root().public()),
            )
        }
        1 => (
            Answers::InTurn(pieces.take(8).collect()),
            format!("oci = 'http://{}'\nkeys = ['{}']", *SERVER, acme().public()),
        ),
        _ => (Answers::InTurn(pieces.take(8).collect()), format!("oci = 'http://{}'\nunsigned = true", *SERVER)),
    };
    *ANSWERS.lock().unwrap_or_else(PoisonError::into_inner) = answers;
    RUNTIME.block_on(use_registry(&source));
});

/// The signed state of a registry with these files: index, catalogue, release, component.
fn checkpoint([index, catalogue, ..]: &[Vec<u8>; 4]) -> String {
    let mut checkpoint = RegistryCheckpoint::empty(Digest::of(catalogue));
    checkpoint.sequence = 1;
    checkpoint.expires = NOW + DAY;
    let keys = NamespaceKeys { current: [acme().public()].into(), retired: [].into() };
    checkpoint.namespaces.insert("acme".parse::<Namespace>().expect("a namespace"), keys);
    checkpoint.index.insert(name("acme/adder"), Digest::of(index));
    checkpoint.sign(Some(&root())).expect("JSON")
}

/// Everything that a client asks of a registry, with a new cache.
async fn use_registry(source: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("[registries.shop]\n{source}\n[namespaces]\nacme = 'shop'\n");
    let config = RegistryConfig::parse(&text, &folder.path().join("gymkhana-registries.toml")).expect("a config");
    let folders = ClientFolders { cache: folder.path().join("cache"), seen: folder.path().join("seen") };
    let mut settings = ClientSettings::new(folders, false);
    settings.now = Some(NOW);
    settings.limits = TransferLimits {
        idle_timeout: Duration::from_secs(2),
        retries: 1,
        retry_delay: Duration::from_millis(1),
        ..TransferLimits::default()
    };
    let client = RegistryClient::new(config, settings).expect("a client");
    let wanted: Requirement = "acme/adder@^1".parse().expect("a requirement");
    if let Ok(pinned) = client.resolve(&[wanted], None, Unpinned::Resolve).await {
        for entry in &pinned {
            let _ = client.component(entry).await;
            let _ = client.verify(entry).await;
        }
    }
    let _ = client.search(&[]).await;
}

/// Answers one request and closes the connection.
fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    let reply = match &mut *ANSWERS.lock().unwrap_or_else(PoisonError::into_inner) {
        Answers::Static { checkpoint, files } => {
            let starts = ["index/", "catalogue/", "releases/", "components/"];
            let found = starts.iter().position(|start| path.starts_with(start));
            let body = found.map_or(checkpoint.as_bytes(), |index| &files[index]);
            response("200 OK", "", body)
        }
        Answers::InTurn(answers) => {
            answers.pop_front().map_or_else(|| response("404 Not Found", "", b""), |piece| of_piece(&piece))
        }
    };
    stream.write_all(&reply)
}

/// A reply of which the first byte selects status and headers.
fn of_piece(piece: &[u8]) -> Vec<u8> {
    let Some((form, body)) = piece.split_first() else { return response("404 Not Found", "", b"") };
    let address = *SERVER;
    match form % 6 {
        0 => response("200 OK", "", body),
        1 => response("200 OK", "link: </v2/acme/adder/tags/list?last=1>; rel=\"next\"\r\n", body),
        2 => response(
            "401 Unauthorized",
            &format!("www-authenticate: Bearer realm=\"http://{address}/token\"\r\n"),
            body,
        ),
        3 => {
            let printable = body.iter().filter(|byte| byte.is_ascii_graphic()).map(|byte| char::from(*byte));
            response("302 Found", &format!("location: {}\r\n", printable.collect::<String>()), b"")
        }
        4 => response("404 Not Found", "", body),
        _ => body.to_vec(),
    }
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}
