//! `host model import`: converts a GGUF file to a model's folder.

use std::path::Path;

use gymkhana_chat::{ChatError, ChatFormat};
use gymkhana_gguf::GgufModel;
use gymkhana_trainer::{ConvertedModel, TrainerError};

use gymkhana_cli::args::data::ModelImportArgs;
use gymkhana_cli::error::{Classify, CliError, CliResult};
use gymkhana_cli::printer::Printer;
use gymkhana_cli::units::size;
use gymkhana_run::setup::chat::chat_files;

/// Runs the command. Everything is checked before anything is written.
pub fn import(args: &ModelImportArgs, printer: &Printer) -> CliResult<()> {
    let (file, out) = (&args.file, &args.out);
    if out.exists() {
        return Err(CliError::user(TrainerError::Exists { path: out.clone() }));
    }
    let mut gguf = GgufModel::open(file).user_error()?;
    let model = converted(&gguf, file)?;
    warn_of_template(&model, printer)?;
    printer.status(format!("writing {} of weights in float32", size(model.bytes())));
    model.write(out, |name| gguf.values(name)).user_error()?;
    printer.result(format!("wrote `{}`", out.display()));
    Ok(())
}

/// The model in the form that the trainer writes, if it is one that the trainer loads.
fn converted<R: std::io::Read + std::io::Seek>(gguf: &GgufModel<R>, file: &Path) -> CliResult<ConvertedModel> {
    let texts = gguf.files().iter().map(|(name, text)| (*name, text.clone()));
    let shape = |sizes: &[usize]| sizes.iter().map(|size| *size as i64).collect();
    let tensors = gguf.tensors().map(|(name, sizes)| (name.to_owned(), shape(sizes))).collect();
    let hint = "the file is damaged, or of another architecture than it declares: convert the model again";
    let model = ConvertedModel::new(file, gguf.config().clone(), texts, tensors);
    model.user_error().map_err(|error| error.or_hint(hint))
}

/// Refuses a tokenizer that cannot be loaded. A model without a usable chat template is still a model.
fn warn_of_template(model: &ConvertedModel, printer: &Printer) -> CliResult<()> {
    let Err(error) = ChatFormat::new(&chat_files(&model.files)) else { return Ok(()) };
    let is_tokenizers = matches!(error, ChatError::Malformed { .. });
    let error = Err::<(), _>(error).user_error();
    if is_tokenizers {
        return error.map_err(|error| error.or_hint("the tokenizer is damaged: convert the model again"));
    }
    let hint = "write a template into chat_template.jinja of the new folder";
    error.or_else(|error| {
        printer.warn(format!("warning: {}", error.or_hint(hint)));
        Ok(())
    })
}
