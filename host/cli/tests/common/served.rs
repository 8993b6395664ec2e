//! Runs that serve metrics or their page, servers of finished runs, and a client of both.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use super::{Desk, WORD_PROBLEMS, run_arguments};

/// A program that serves metrics or pages.
pub struct Served {
    child: Child,
    url: String,
    talk: BufReader<ChildStderr>,
}

/// A run that serves metrics.
pub fn serve(desk: &Desk) -> Served {
    start(desk, &["--metrics", "127.0.0.1:0"], "serving metrics at ")
}

/// A run that serves its page.
pub fn serve_page(desk: &Desk) -> Served {
    start(desk, &["--page=127.0.0.1:0"], "page of the run: ")
}

/// As [`serve_page`], of a run that may have this number of files open.
pub fn serve_page_with_handles(desk: &Desk, handles: u32) -> Served {
    let host = desk.command(&run_arguments(WORD_PROBLEMS, &["--page=127.0.0.1:0"]));
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {handles}; exec \"$0\" \"$@\"")]).arg(host.get_program());
    command.args(host.get_args()).envs(host.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(host.get_current_dir().expect("the desk's folder")).stdin(Stdio::null());
    listen(command, "page of the run: ")
}

/// A server of the page of the finished run `out`.
pub fn serve_folder(desk: &Desk, arguments: &[&str]) -> Served {
    let page = ["page", "out", "--listen", "127.0.0.1:0"];
    listen(desk.command(&[&page[..], arguments].concat()), "serving 1 run at ")
}

/// Starts a run and waits for the line that has this beginning and then the address.
fn start(desk: &Desk, arguments: &[&str], beginning: &str) -> Served {
    listen(desk.command(&run_arguments(WORD_PROBLEMS, arguments)), beginning)
}

/// Starts a program and waits for the line that has this beginning and then the address.
fn listen(mut command: Command, beginning: &str) -> Served {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the host can be started");
    let mut talk = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.starts_with(beginning) {
        line.clear();
        assert!(talk.read_line(&mut line).expect("it is text") > 0, "the program ended and said no address");
    }
    Served { child, url: line[beginning.len()..].trim().to_owned(), talk }
}

impl Served {
    /// Address of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All pages until the run ends, which must be a success.
    pub fn pages(mut self) -> Vec<String> {
        let pages = pages(&self.url);
        self.finish();
        pages
    }

    /// The page at a path, which must be a success. The server ends afterwards with this object.
    pub fn get(&self, path: &str) -> String {
        answer(path, |client| client.get(format!("{}{path}", self.url)))
    }

    /// The answer to a form of the page, as for [`Self::get`].
    pub fn post(&self, path: &str) -> String {
        answer(path, |client| client.post(format!("{}{path}", self.url)).header("origin", &self.url))
    }

    /// Waits for the end of the run, which must be a success.
    fn finish(&mut self) {
        let mut rest = String::new();
        self.talk.read_to_string(&mut rest).expect("it is text");
        assert!(self.child.wait().expect("it ends").success(), "{rest}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A run has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client() -> (reqwest::Client, tokio::runtime::Runtime) {
    // Fails if a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    (client, tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"))
}

fn answer(path: &str, request: impl FnOnce(&reqwest::Client) -> reqwest::RequestBuilder) -> String {
    let (client, runtime) = client();
    runtime.block_on(async {
        let response = request(&client).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{path}");
        response.text().await.expect("text")
    })
}

/// All pages until the server stops.
fn pages(url: &str) -> Vec<String> {
    let (client, runtime) = client();
    let mut pages = vec![];
    runtime.block_on(async {
        while let Ok(response) = client.get(url).send().await {
            assert_eq!(response.status(), 200);
            match response.text().await {
                Ok(page) => pages.push(page),
                Err(_) => break,
            }
        }
    });
    pages
}
