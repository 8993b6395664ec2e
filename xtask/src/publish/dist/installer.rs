//! The installer of the archive: `deploy/install.sh` with its version and checksum.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::{Release, VERSION, sha256};

/// The script, with names between `@` in place of values.
const SCRIPT: &str = include_str!("../../../../deploy/install.sh");

/// Writes the installer of an archive.
pub fn write(release: &Release<'_>, archive: &Path, glibc: &str) -> anyhow::Result<()> {
    let name = archive.file_name().context("the archive has no name")?.to_string_lossy();
    let script = fill(&[
        ("VERSION", VERSION),
        ("ARCHIVE", &name),
        ("SHA256", &sha256(archive)?),
        ("FOLDER", &Release::name()),
        ("GLIBC", glibc),
    ])?;
    fs::write(release.out.join("install.sh"), script).context("cannot write `install.sh`")
}

fn fill(values: &[(&str, &str)]) -> anyhow::Result<String> {
    let mut script = SCRIPT.to_owned();
    for (name, value) in values {
        let place = format!("@{name}@");
        if !script.contains(&place) || value.contains(['\'', '\n']) {
            bail!("the installer has no place for {name} `{value}`");
        }
        script = script.replace(&place, value);
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;
    use std::process::{Command, Output};

    /// An installer with an archive of a program that prints a word.
    struct Desk {
        home: tempfile::TempDir,
        archive: PathBuf,
    }

    impl Desk {
        fn new(word: &str) -> Self {
            let home = tempfile::tempdir().expect("a folder");
            let archive = home.path().join("a.tar.gz");
            let desk = Self { home, archive };
            desk.release(word);
            desk
        }

        fn path(&self, name: &str) -> PathBuf {
            self.home.path().join(name)
        }

        /// Replaces archive and installer by those of another program.
        fn release(&self, word: &str) {
            let bin = self.path("parts/folder/bin");
            fs::create_dir_all(&bin).expect("a folder");
            fs::write(bin.join("host"), format!("#!/bin/sh\necho {word}\n")).expect("written");
            fs::set_permissions(bin.join("host"), fs::Permissions::from_mode(0o755)).expect("executable");
            fs::write(self.path("parts/folder/gymkhana-version"), word).expect("written");
            let mut tar = Command::new("tar");
            tar.arg("-czf").arg(&self.archive).arg("-C").arg(self.path("parts")).arg("folder");
            assert!(tar.status().expect("tar").success());
            let digest = sha256(&self.archive).expect("read");
            let values =
                [("VERSION", word), ("ARCHIVE", "a.tar.gz"), ("SHA256", &digest), ("FOLDER", "folder"), ("GLIBC", "2")];
            fs::write(self.path("install.sh"), fill(&values).expect("filled")).expect("written");
        }

        fn command(&self, arguments: &[&str]) -> Command {
            let mut command = Command::new("sh");
            command.arg(self.path("install.sh")).args(arguments).current_dir(self.home.path());
            command.env("HOME", self.path("home")).env_remove("GYMKHANA_URL");
            command
        }

        fn run(&self, arguments: &[&str]) -> Output {
            self.command(arguments).output().expect("sh")
        }

        /// Text of a refusal, after which no file of an installation exists.
        fn refusal(&self, arguments: &[&str]) -> String {
            let done = self.run(arguments);
            assert!(!done.status.success(), "{done:?}");
            assert!(!self.path("home/.local/share/gymkhana").exists(), "{done:?}");
            let left = fs::read_dir(self.path("home/.local/share")).into_iter().flatten().count();
            assert_eq!(left, 0, "files of an unfinished installation are removed");
            String::from_utf8(done.stderr).expect("a text")
        }
    }

    fn output(program: &Path) -> String {
        let done = Command::new(program).output().expect("it starts");
        String::from_utf8(done.stdout).expect("a text")
    }

    const LOCAL: [&str; 2] = ["--archive", "a.tar.gz"];

    #[test]
    fn an_archive_is_installed_upgraded_and_removed() {
        let desk = Desk::new("first");
        let [host, second] = ["host", "gymkhana"].map(|name| desk.path("home/.local/bin").join(name));
        let done = desk.run(&LOCAL);
        assert!(done.status.success(), "{done:?}");
        assert_eq!((output(&host), output(&second)), ("first\n".to_owned(), "first\n".to_owned()));
        desk.release("second");
        assert!(desk.run(&LOCAL).status.success(), "an upgrade");
        assert_eq!(output(&second), "second\n");
        assert_eq!(fs::read_dir(desk.path("home/.local/share")).expect("listed").count(), 1, "nothing else stays");
        fs::remove_file(&second).expect("removed");
        fs::write(&second, "the user's own").expect("written");
        assert!(desk.run(&["--uninstall"]).status.success());
        assert!(!desk.path("home/.local/share/gymkhana").exists() && fs::symlink_metadata(&host).is_err());
        assert!(second.exists(), "a program of the user stays");
        let done = desk.run(&["--uninstall"]);
        assert_eq!(done.status.code(), Some(2), "nothing is left to remove");
    }

    #[test]
    fn folders_of_the_user_are_chosen_and_foreign_ones_stay() {
        let desk = Desk::new("word");
        let own = ["--archive", "a.tar.gz", "--prefix", "own folder", "--bin", "my bin"];
        assert!(desk.run(&own).status.success());
        assert_eq!(output(&desk.path("my bin/gymkhana")), "word\n");
        fs::create_dir(desk.path("foreign")).expect("a folder");
        fs::write(desk.path("foreign/file"), "").expect("written");
        for arguments in
            [&["--prefix", "foreign", "--archive", "a.tar.gz"][..], &["--prefix", "foreign", "--uninstall"]]
        {
            let done = desk.run(arguments);
            assert_eq!(done.status.code(), Some(2), "{done:?}");
            assert!(desk.path("foreign/file").exists());
        }
    }

    #[test]
    fn a_damaged_archive_is_refused_before_anything_is_unpacked() {
        let desk = Desk::new("word");
        let whole = fs::read(&desk.archive).expect("read");
        fs::write(&desk.archive, &whole[..whole.len() - 10]).expect("written");
        assert!(desk.refusal(&LOCAL).contains("its SHA-256 is"), "truncated");
        let mut changed = whole.clone();
        changed[20] ^= 1;
        fs::write(&desk.archive, changed).expect("written");
        assert!(desk.refusal(&LOCAL).contains("nothing was changed"));
        assert!(desk.refusal(&["--archive", "absent"]).contains("there is no such file"));
        fs::write(&desk.archive, whole).expect("written");
        assert!(desk.run(&LOCAL).status.success());
    }

    #[test]
    fn a_refused_upgrade_keeps_the_installation() {
        let desk = Desk::new("first");
        assert!(desk.run(&LOCAL).status.success());
        fs::write(&desk.archive, "no archive").expect("written");
        assert!(!desk.run(&LOCAL).status.success());
        assert_eq!(output(&desk.path("home/.local/bin/host")), "first\n");
    }

    /// Root may write everywhere; a path below a file is refused to everybody.
    #[test]
    fn a_prefix_that_cannot_be_written_is_named() {
        let desk = Desk::new("word");
        fs::write(desk.path("file"), "").expect("written");
        let text = desk.refusal(&["--archive", "a.tar.gz", "--prefix", "file/below"]);
        assert!(text.contains("cannot create") && text.contains("pass --prefix DIR"), "{text}");
        let text = desk.refusal(&["--archive", "a.tar.gz", "--bin", "file/below"]);
        assert!(text.contains("cannot create"), "{text}");
    }

    #[test]
    fn archives_are_downloaded_from_a_folder_by_curl_or_wget() {
        let desk = Desk::new("word");
        assert!(desk.refusal(&[]).contains("set GYMKHANA_URL"));
        let has_curl = Command::new("curl").arg("--version").output().is_ok();
        if has_curl {
            let url = |folder: &str| format!("file://{}", desk.path(folder).display());
            let missing = desk.command(&[]).env("GYMKHANA_URL", url("absent")).output().expect("sh");
            assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot download"), "{missing:?}");
            let done = desk.command(&[]).env("GYMKHANA_URL", url("")).output().expect("sh");
            assert!(done.status.success(), "{done:?}");
            assert_eq!(output(&desk.path("home/.local/bin/host")), "word\n");
        }
    }

    #[test]
    fn other_systems_and_arguments_are_refused() {
        let desk = Desk::new("word");
        let bin = desk.path("programs");
        fs::create_dir(&bin).expect("a folder");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
        for (system, machine, found) in [("Darwin", "arm64", "on Darwin"), ("Linux", "aarch64", "on aarch64")] {
            let script = format!("#!/bin/sh\ncase $1 in -s) echo {system} ;; *) echo {machine} ;; esac\n");
            fs::write(bin.join("uname"), script).expect("written");
            fs::set_permissions(bin.join("uname"), fs::Permissions::from_mode(0o755)).expect("executable");
            let done = desk.command(&LOCAL).env("PATH", &path).output().expect("sh");
            let text = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.code() == Some(2) && text.contains(found) && text.contains("pip install"), "{text}");
        }
        for arguments in [&["--prefix"][..], &["--prefix", ""], &["--install"]] {
            assert!(desk.refusal(arguments).contains("hint: sh install.sh"));
        }
    }

    #[test]
    fn every_place_has_a_value() {
        assert!(fill(&[("ABSENT", "x")]).is_err());
        assert!(fill(&[("VERSION", "it's")]).is_err(), "a value ends the quotes");
        let values = ["VERSION", "ARCHIVE", "SHA256", "FOLDER", "GLIBC"].map(|name| (name, "x"));
        let script = fill(&values).expect("filled");
        assert!(!script.contains('@'), "a place is left");
    }
}
