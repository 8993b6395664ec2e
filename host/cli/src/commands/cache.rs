//! `host cache`: lists and removes compiled plugins, and removes the bases of quick builds.

use std::fs;
use std::time::{Duration, SystemTime};

use gymkhana_orchestration::code_cache;
use gymkhana_sandbox::{CacheEntry, CacheFolder};
use serde_json::json;

use crate::args::CacheCommand;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;
use crate::units;

/// Runs the command.
pub fn cache(command: &CacheCommand, printer: &Printer) -> CliResult<()> {
    let folder = code_cache::folder()
        .ok_or_else(|| CliError::user("there is no folder for compiled plugins\nhint: set HOME or XDG_CACHE_HOME"))?;
    let folder = CacheFolder::new(&folder);
    match command {
        CacheCommand::List { json } => list(&folder, *json, printer),
        CacheCommand::Clean { older_than } => {
            clean(&folder, *older_than, printer)?;
            if older_than.is_none() { clean_bases(printer) } else { Ok(()) }
        }
    }
}

fn list(folder: &CacheFolder, as_json: bool, printer: &Printer) -> CliResult<()> {
    let (entries, limit) = (folder.entries().user_error()?, code_cache::max_bytes()?);
    let total = total(&entries);
    if as_json {
        let rows: Vec<_> = entries.iter().map(json_row).collect();
        let folder = folder.path().display().to_string();
        printer.json(json!({ "folder": folder, "limit_bytes": limit, "total_bytes": total, "entries": rows }));
        return Ok(());
    }
    if !entries.is_empty() {
        printer.result(row("plugin", "digest", "size", "last use"));
    }
    for entry in &entries {
        let used = format!("{} ago", units::age(age(entry)));
        let digest = format!("{:.12}", entry.component.to_string());
        printer.result(row(entry.plugin.as_deref().unwrap_or("-"), &digest, &units::size(entry.bytes), &used));
    }
    let (total, limit) = (units::size(total), units::size(limit));
    printer.result(format!("total {total} of {limit} in {}", folder.path().display()));
    Ok(())
}

fn row(plugin: &str, digest: &str, size: &str, used: &str) -> String {
    format!("{plugin:<40} {digest:<12} {size:>10}  {used}")
}

fn json_row(entry: &CacheEntry) -> serde_json::Value {
    let used = entry.last_used.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    json!({ "plugin": entry.plugin, "digest": entry.component, "bytes": entry.bytes, "last_used": used })
}

/// Removes the entries that were not used for this time, or all.
fn clean(folder: &CacheFolder, unused_for: Option<Duration>, printer: &Printer) -> CliResult<()> {
    let removed = match unused_for {
        None => folder.trim(0).user_error()?,
        Some(unused_for) => {
            let mut entries = folder.entries().user_error()?;
            entries.retain(|entry| age(entry) >= unused_for);
            entries.iter().try_for_each(|entry| folder.remove(entry)).user_error()?;
            entries
        }
    };
    let noun = if removed.len() == 1 { "entry" } else { "entries" };
    let bytes = units::size(total(&removed));
    printer.result(format!("removed {} {noun}, {bytes}, from {}", removed.len(), folder.path().display()));
    Ok(())
}

/// Removes the bases of quick builds. Their number is bounded, so that they have no age limit.
fn clean_bases(printer: &Printer) -> CliResult<()> {
    let Some(folder) = code_cache::bases().filter(|folder| folder.exists()) else { return Ok(()) };
    fs::remove_dir_all(&folder)
        .user_context(format!("`{}` cannot be removed\nhint: remove it by hand", folder.display()))?;
    printer.result(format!("removed the bases of quick builds in {}", folder.display()));
    Ok(())
}

/// Time since the last use.
fn age(entry: &CacheEntry) -> Duration {
    SystemTime::now().duration_since(entry.last_used).unwrap_or_default()
}

/// Size of entries in bytes.
pub fn total(entries: &[CacheEntry]) -> u64 {
    entries.iter().map(|entry| entry.bytes).sum()
}
