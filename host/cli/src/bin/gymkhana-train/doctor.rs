//! `host doctor --model`: checks of a model's folder, each with a remedy.

use std::path::Path;

use gymkhana_chat::ChatFormat;
use gymkhana_finding::Finding;
use gymkhana_trainer::weight_files::{self, WeightFiles};
use gymkhana_trainer::{
    ADAPTER_CONFIG, Footprint, ModelConfig, ModelFiles, Precision, TokenCount, TrainerSettings, check_base,
};

use gymkhana_cli::args::DoctorArgs;
use gymkhana_cli::doctor::report;
use gymkhana_cli::error::{Classify, CliError, CliResult};
use gymkhana_cli::printer::Printer;
use gymkhana_cli::units::{counted, size};
use gymkhana_orchestration::machine;
use gymkhana_run::setup::chat::chat_files;
use gymkhana_run::setup::models::named;

const CONFIG: &str = "config.json";
/// Copies of the weights during training: the weights, their gradients, and two moments of AdamW.
const TRAINED: u64 = 4;

/// Runs the command, and returns the exit code.
pub fn doctor(args: &DoctorArgs, printer: &Printer) -> u8 {
    let folder = args.model.as_deref().unwrap_or(Path::new("."));
    report(&findings(folder), args.json, printer)
}

/// Findings of all parts of a folder. Parts that need a part which cannot be read are left out.
fn findings(folder: &Path) -> Vec<Finding> {
    if let Err(error) = check_kind(folder) {
        return vec![failure("model", error, "give the folder of a model")];
    }
    let mut findings = Vec::new();
    let config = ModelConfig::read(&folder.join(CONFIG)).user_error();
    let config = config.map_err(|error| {
        findings.push(failure("model", error, "use the config.json of the original model"));
    });
    if let Ok(config) = &config {
        findings.push(Finding::ok("model", described(config)));
        findings.extend(config.warnings().into_iter().map(|warning| Finding::warn("config", warning)));
        findings.push(weights(folder, config));
        findings.push(memory_of(config, machine::memory().map(|memory| memory.available)));
    }
    match ModelFiles::read(folder).user_error() {
        Err(error) => findings.push(failure("tokens", error, "copy the tokenizer's files into the folder")),
        Ok(files) => {
            findings.extend(config.iter().map(|config| tokens(&files, config)));
            findings.extend(chat(&files));
        }
    }
    findings
}

/// Refuses what is not the folder of a whole model.
fn check_kind(folder: &Path) -> CliResult<()> {
    if folder.is_file() && folder.extension().is_some_and(|extension| extension == "gguf") {
        let hint = "convert it with `host model import FILE --out DIR`";
        return Err(CliError::user(format!("`{}` is a GGUF file\nhint: {hint}", folder.display())));
    }
    check_base(folder).user_error()?;
    if folder.is_dir() {
        // The newest model of a run is named.
        return named(folder, None).map(|_| ());
    }
    Err(CliError::user(format!("`{}` is not a folder\nhint: give the folder of a model", folder.display())))
}

/// Family and sizes.
fn described(config: &ModelConfig) -> String {
    format!(
        "{}: {} of width {}, {} ({} of keys and values) of width {}, {} ids of tokens, {} positions, {:.1} million \
         weights{}",
        config.model_type(),
        counted(config.num_hidden_layers as u64, "layer"),
        config.hidden_size,
        counted(config.num_attention_heads as u64, "head"),
        config.num_key_value_heads,
        config.head_size(),
        config.vocab_size,
        config.positions(),
        config.parameter_count() as f64 / 1e6,
        if config.tie_word_embeddings { ", tied embeddings" } else { "" },
    )
}

/// Weight files: all there, whole, with the tensors of the config in number formats that are read.
fn weights(folder: &Path, config: &ModelConfig) -> Finding {
    match weight_files::inspect(folder, config).user_error() {
        Ok(WeightFiles { files, bytes, formats }) => {
            let text = format!("{}, {}, {}", formats.join(" and "), counted(files as u64, "file"), size(bytes));
            if !folder.join(ADAPTER_CONFIG).is_file() {
                return Finding::ok("weights", text);
            }
            let hint = "move the adapter's files into a folder of their own";
            let text = format!("{text}; `{ADAPTER_CONFIG}` is not read here, but transformers reads it");
            Finding::warn("weights", format!("{text}\nhint: {hint}"))
        }
        Err(error) if !has_weights(folder) && has_gguf(folder) => {
            let hint = "convert the GGUF file in the folder with `host model import`";
            Finding::fail("weights", error.with_hint(hint))
        }
        Err(error) => failure("weights", error, "download the file again"),
    }
}

fn has_weights(folder: &Path) -> bool {
    [weight_files::SINGLE, weight_files::INDEX].iter().any(|name| folder.join(name).exists())
}

fn has_gguf(folder: &Path) -> bool {
    let is_gguf = |path: &Path| path.extension().is_some_and(|extension| extension == "gguf");
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| is_gguf(&entry.path()))
}

/// Memory of training all weights and of generation with the default settings, beside what is available. The cache of keys
/// and values takes what is left, but at least a conversation of full length.
fn memory_of(config: &ModelConfig, available: Option<u64>) -> Finding {
    let settings = TrainerSettings { max_concurrent_sequences: 1, ..TrainerSettings::default() };
    let positions = usize::try_from(config.positions()).unwrap_or(usize::MAX);
    let Footprint { weights, generation, cache, .. } = Footprint::of(config, &settings, positions);
    let training = weights.saturating_mul(TRAINED);
    let frozen = TrainerSettings { precision: Precision::Bfloat16, learns: false, ..settings };
    let frozen = Footprint::of(config, &frozen, positions);
    let text = format!(
        "weights {}, training of all weights {} without activations; frozen in bfloat16 {}, for adapters; generation {}, keys \
         and values of a conversation of {} tokens {}",
        size(weights),
        size(training),
        size(frozen.weights),
        size(generation),
        positions,
        size(cache),
    );
    let Some(available) = available else { return Finding::ok("memory", text) };
    let text = format!("{text}; {} available", size(available));
    let hint = if training.saturating_add(generation) > available {
        "train adapters (policy.lora), or use a smaller model or a machine with more memory"
    } else if training.saturating_add(generation).saturating_add(cache) > available {
        "lower limits.context_tokens in run files"
    } else {
        return Finding::ok("memory", text);
    };
    Finding::warn("memory", format!("{text}\nhint: {hint}"))
}

/// Tokens of the tokenizer beside rows of the embedding.
fn tokens(files: &ModelFiles, config: &ModelConfig) -> Finding {
    let rows = config.vocab_size.unsigned_abs();
    let Some(count) = TokenCount::of(files.tokenizer()) else {
        return Finding::fail("tokens", "tokenizer.json is not JSON\nhint: save the model with a fast tokenizer");
    };
    if let Err(problem) = count.check(config) {
        return Finding::fail("tokens", problem);
    }
    let TokenCount { vocabulary, added } = count;
    let text = format!("{} tokens, {rows} rows in the embedding", vocabulary.max(added));
    if added > rows {
        let hint = "keep texts with these tokens out of episodes, or remove the tokens from tokenizer.json";
        return Finding::warn("tokens", format!("{text}: {} added tokens have no row\nhint: {hint}", added - rows));
    }
    Finding::ok("tokens", text)
}

/// The chat format as it is detected, and what a run would warn of.
fn chat(files: &ModelFiles) -> Vec<Finding> {
    let format = match ChatFormat::new(&chat_files(files)).user_error() {
        Ok(format) => format,
        Err(error) => {
            return vec![failure("chat", error, "use a model with a chat template, or write chat_template.jinja")];
        }
    };
    let report = format.report();
    let told = report.to_string();
    let lines: Vec<&str> = told.lines().collect();
    let warnings = report.warnings_of_tools().into_iter().chain(report.warnings(true));
    let warnings = warnings.map(|warning| Finding::warn("chat", warning));
    [Finding::ok("chat", lines.join("; "))].into_iter().chain(warnings).collect()
}

/// A failed check with an error and its causes, and this remedy if they have none.
fn failure(check: &'static str, error: CliError, hint: &str) -> Finding {
    Finding::fail(check, error.or_hint(hint))
}
