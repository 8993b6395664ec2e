//! Consent to secrets and to project files comes from the user: a cloned project cannot give it. Each attack has a
//! permitted counterpart.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;

use crate::common::tricks::{Trick, raw, serve};
use crate::common::{User, acme, resolve, said};
use gymkhana_registry_client::{
    CONFIG_FILE, ClientFolders, ClientSettings, OwnerError, RegistryClient, RegistryConfig, RegistryConfigError,
    TrustedOwners,
};

/// The header that `me:password` gives.
const SECRET: &str = "authorization: Basic bWU6cGFzc3dvcmQ=";
/// A user id that owns no file of these tests.
const NOBODY: u32 = 65_534;

/// A user with a configuration folder and a cloned project.
struct Home {
    user: User,
    project: PathBuf,
    config: PathBuf,
}

impl Home {
    fn new() -> Self {
        let user = User::new();
        let (project, config) = (user.folder.path().join("project"), user.folder.path().join("config"));
        fs::create_dir(&project).expect("created");
        fs::create_dir(&config).expect("created");
        Self { user, project, config }
    }

    fn config(&self) -> Result<RegistryConfig, RegistryConfigError> {
        RegistryConfig::find(&self.project, Some(&self.config), &TrustedOwners::of_process())
    }

    /// A client with the registries of the project and the user's password.
    fn client(&self) -> RegistryClient {
        let folder = self.user.folder.path();
        let folders = ClientFolders { cache: folder.join("cache"), seen: folder.join("seen") };
        let mut settings = ClientSettings::new(folders, false);
        settings.variable = |name| (name == "GYMKHANA_CLOUD").then(|| "me:password".to_owned());
        RegistryClient::new(self.config().expect("a config"), settings).expect("a client")
    }

    /// Writes both files and asks the project's registry for a plugin, which it does not have.
    async fn ask(&self, project: &str, user: &str) {
        fs::write(self.project.join(CONFIG_FILE), project).expect("written");
        fs::write(self.config.join(CONFIG_FILE), user).expect("written");
        resolve(&self.client(), "acme/adder").await.expect_err("it demands a password");
    }
}

/// An OCI registry for `acme` below a path, with more lines in its section.
fn registry(address: SocketAddr, path: &str, more: &str) -> String {
    let key = acme().public();
    format!(
        "[registries.cloud]\noci = 'http://{address}/{path}'\nkeys = ['{key}']\n{more}\n[namespaces]\nacme = 'cloud'\n"
    )
}

const NAMES_SECRET: &str = "credentials = 'GYMKHANA_CLOUD'";

#[tokio::test]
async fn project_cannot_send_a_password_to_its_server() {
    let home = Home::new();
    let demand = |_: &str| raw("401 Unauthorized", "www-authenticate: Basic realm=\"x\"\r\n", "");
    let (stranger, heard) = serve(&home.project, demand).await;
    // The project names the server and the variable.
    fs::write(home.project.join(CONFIG_FILE), registry(stranger, "evil", NAMES_SECRET)).expect("written");
    let error = home.config().expect_err("a secret in a project file");
    let text = said(&error);
    assert!(matches!(error, RegistryConfigError::SecretInProject { .. }), "{text}");
    let users = home.config.join(CONFIG_FILE);
    assert!(text.contains("`cloud`") && text.contains(users.to_str().expect("UTF-8")), "{text}");
    // The project names the server, and the user's file gives the password to another one.
    let (trusted, trusted_heard) = serve(&home.project, demand).await;
    home.ask(&registry(stranger, "evil", ""), &registry(trusted, "acme", NAMES_SECRET)).await;
    // The user's file gives the password to another path of the same server.
    home.ask(&registry(stranger, "evil", ""), &registry(stranger, "acme", NAMES_SECRET)).await;
    let heard = heard.all();
    assert!(!heard.is_empty() && heard.iter().all(|request| !request.contains("authorization")), "{heard:?}");
    // The user's file names the project's server.
    home.ask(&registry(trusted, "acme/plugins", ""), &registry(trusted, "acme", NAMES_SECRET)).await;
    let heard = trusted_heard.all();
    assert!(heard.iter().any(|request| request.contains(SECRET)), "{heard:?}");
}

/// A registry's `also` lists the token endpoints that may receive a password; a project's `also` must not add one.
#[tokio::test]
async fn project_cannot_add_a_token_endpoint() {
    let home = Home::new();
    fs::write(home.project.join("token"), r#"{"token":"t"}"#).expect("written");
    let (endpoint, heard) = serve(&home.project, |_| Trick::None).await;
    let challenge = format!("www-authenticate: Bearer realm=\"http://{endpoint}/token\"\r\n");
    let (trusted, _) = serve(&home.project, move |_| raw("401 Unauthorized", &challenge, "")).await;
    let also = format!("also = ['http://{endpoint}']");
    home.ask(&registry(trusted, "acme", &also), &registry(trusted, "acme", NAMES_SECRET)).await;
    assert!(heard.all().is_empty(), "{:?}", heard.all());
    let user = registry(trusted, "acme", &format!("{NAMES_SECRET}\n{also}"));
    home.ask(&registry(trusted, "acme", &also), &user).await;
    assert!(heard.all().iter().any(|request| request.contains(SECRET)), "{:?}", heard.all());
}

#[test]
fn project_files_of_another_user_are_refused() {
    let home = Home::new();
    let file = home.project.join(CONFIG_FILE);
    fs::write(&file, "[registries.mine]\nfolder = 'r'\nunsigned = true\n").expect("written");
    assert_eq!(home.config().expect("this user's own file").registries.len(), 1);
    if let Err(error) = chown(&file, Some(NOBODY), None) {
        #[allow(clippy::print_stderr, reason = "a skipped test must be visible")]
        {
            eprintln!("SKIPPED: only root can give a file to another user ({error})");
        }
        return;
    }
    let user = fs::metadata(&home.project).expect("a folder").uid();
    for path in [file, home.project.clone()] {
        chown(&path, Some(NOBODY), None).expect("given away");
        let refused = home.config().expect_err("another user's");
        let RegistryConfigError::Owner(OwnerError::OtherUser { path: named, owner, .. }) = &refused else {
            panic!("{}", said(&refused))
        };
        assert_eq!((named.file_name(), *owner), (path.file_name(), NOBODY));
        chown(&path, Some(user), None).expect("taken back");
    }
    home.config().expect("this user's own file again");
}
