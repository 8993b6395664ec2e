//! A cloned project, or the file of another user, gives no consent in place of the user. Each attack has a permitted
//! counterpart.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};

use crate::common::{Desk, Outcome, finish};

/// A user id that owns no file of these tests.
const NOBODY: u32 = 65_534;

/// An OCI registry that serves `acme`, with more lines in its section.
fn registry(listener: &TcpListener, more: &str) -> String {
    let address = listener.local_addr().expect("it has one");
    format!(
        "[registries.cloud]\noci = 'http://{address}/acme'\nunsigned = true\n{more}\n[namespaces]\nacme = 'cloud'\n"
    )
}

/// A project that names a server and the variable of a password.
#[test]
fn a_project_cannot_send_a_password() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    desk.write("gymkhana.toml", "[plugins]\n\"acme/searcher\" = \"*\"\n");
    let lock = |arguments: &[&str]| finish(desk.command(arguments).env("GYMKHANA_CLOUD", "me:my-password"));
    let secret = "credentials = 'GYMKHANA_CLOUD'";
    desk.write("gymkhana-registries.toml", registry(&listener, secret));
    for arguments in [&["lock"][..], &["run", "run.toml", "--out", "out"], &["search", "x"]] {
        desk.write("run.toml", crate::common::SMALL_RUN);
        let told = lock(arguments).mistake("a secret in a project file");
        assert!(told.contains("names a secret, which only your own configuration may do"), "{told}");
        assert!(told.contains("config/gymkhana/gymkhana-registries.toml"), "{told}");
    }
    let error = listener.accept().expect_err("no command may connect");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    // The same line in the user's own file, which needs no project file.
    fs::create_dir_all(desk.path("config/gymkhana")).expect("created");
    desk.write("config/gymkhana/gymkhana-registries.toml", registry(&listener, secret));
    fs::remove_file(desk.path("gymkhana-registries.toml")).expect("removed");
    let told = lock(&["lock", "--offline"]).mistake("offline");
    assert!(told.contains("--offline disables the network"), "{told}");
}

/// As git, the host uses no project file of another user, because it can stand in any folder above.
#[test]
fn project_files_of_another_user_are_refused() {
    let desk = Desk::new();
    let files = ["gymkhana.toml", "gymkhana-registries.toml"];
    desk.write(files[0], "");
    desk.write(files[1], "");
    let refuses = |outcome: &Outcome| outcome.talk.contains(&format!("belongs to user {NOBODY}"));
    let search = || desk.command(&["search", "x"]);
    assert!(!refuses(&finish(&mut search())));
    let user = fs::metadata(desk.path(files[0])).expect("a file").uid();
    for file in files {
        if let Err(error) = chown(desk.path(file), Some(NOBODY), None) {
            #[allow(clippy::print_stderr, reason = "a test that is left out says why")]
            {
                eprintln!("left out: only root can give a file to another user ({error})");
            }
            return;
        }
        let refused = finish(&mut search());
        assert!(refuses(&refused) && refused.code == Some(2), "{refused:?}");
        // Also in a folder below.
        fs::create_dir_all(desk.path("below")).expect("created");
        let refused = finish(search().current_dir(desk.path("below")));
        assert!(refuses(&refused), "{refused:?}");
        let allowed = finish(search().env("GYMKHANA_SAFE_FOLDERS", desk.path("")));
        assert!(allowed.talk.contains("no registry is configured"), "{allowed:?}");
        chown(desk.path(file), Some(user), None).expect("taken back");
    }
    let own = finish(&mut search());
    assert!(own.talk.contains("no registry is configured"), "{own:?}");
}
