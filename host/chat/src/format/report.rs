//! What a run tells about the chat format of its model.

use std::fmt::{Display, Formatter, Result as Written};

use super::ChatFormat;
use super::probe::ResultForm;
use crate::python_json::python_json;

/// What a run tells about the chat format of its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateReport {
    /// Names of the templates, if the model has several.
    pub templates: Vec<String>,
    /// The tool-call format.
    pub tool_format: String,
    /// Whether the template or the run named that format.
    pub tool_format_known: bool,
    /// The marks of thoughts; none if thoughts are not split.
    pub thoughts: Option<(String, String)>,
    /// Texts of the tokens that end a reply.
    pub ends: Vec<String>,
    /// Whether functions are told in the system message.
    pub tells_tools: bool,
    /// Whether instructions are told in the message of the user.
    pub folds_system: bool,
    /// Whether answers of tools are told as messages of the user.
    pub folds_results: bool,
    /// Whether contents are given to the template as lists of parts.
    pub lists_contents: bool,
    /// Whether arguments of calls are given to the template as JSON text.
    pub text_arguments: bool,
    /// Variables of the run for the template, as JSON; empty for none.
    pub switches: String,
    /// Variables of the run for the template that it does not read.
    pub unread_switches: Vec<String>,
}

impl ChatFormat {
    /// What a run tells about the format.
    #[must_use]
    pub fn report(&self) -> TemplateReport {
        let names: Vec<&str> = self.template(true).names().chain(self.template(false).names()).collect();
        let text = |id: &u32| self.encoder.tokenizer().id_to_token(*id).unwrap_or_else(|| format!("token {id}"));
        TemplateReport {
            templates: self.templates.names().into_iter().map(str::to_owned).collect(),
            tool_format: self.tool_format.to_string(),
            tool_format_known: self.tool_format_known,
            thoughts: self.thoughts.as_ref().map(|marks| (marks.open().to_owned(), marks.close().to_owned())),
            ends: self.stop.iter().map(text).collect(),
            tells_tools: self.tells_tools(),
            folds_system: !self.shown.system,
            folds_results: self.shown.results == ResultForm::User,
            lists_contents: self.given.parts,
            text_arguments: self.given.text_arguments,
            switches: if self.switches.is_empty() { String::new() } else { python_json(&self.switches) },
            unread_switches: self.switches.keys().filter(|name| !names.contains(&name.as_str())).cloned().collect(),
        }
    }
}

impl TemplateReport {
    /// What a run whose policy may call functions warns of, each with a hint.
    #[must_use]
    pub fn warnings_of_tools(&self) -> Vec<String> {
        let mut warnings = vec![];
        if !self.tool_format_known {
            warnings.push(format!(
                "the chat template shows no known form of tool calls: calls are read in the format `{}`\nhint: set \
                 policy.tool_format to the format of the model",
                self.tool_format
            ));
        }
        if self.tells_tools {
            warnings.push(
                "the chat template does not list functions: they are listed in the system message\nhint: set \
                 policy.tools_in_prompt = \"system\" to confirm it, or \"template\" to leave them out"
                    .to_owned(),
            );
        }
        if self.folds_results {
            warnings.push(
                "the chat template shows no answers of tools: they are written as messages of the user\nhint: use a model \
                 whose template knows tools, if the answers are to stand apart"
                    .to_owned(),
            );
        }
        warnings
    }

    /// What a run warns of whatever its policy may do. `has_system` tells whether the run has instructions.
    #[must_use]
    pub fn warnings(&self, has_system: bool) -> Vec<String> {
        let mut warnings = vec![];
        if self.folds_system && has_system {
            warnings.push(
                "the chat template shows no system message: policy.system is written before the first message of the \
                 user\nhint: write the instructions into the environment, if they are to stand apart"
                    .to_owned(),
            );
        }
        for name in &self.unread_switches {
            warnings.push(format!(
                "policy.template: the chat template reads no variable `{name}`\nhint: correct the name, or remove it"
            ));
        }
        warnings
    }
}

/// One line for each property.
impl Display for TemplateReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let source = if self.tool_format_known { "" } else { ", because the chat template shows no known form" };
        writeln!(f, "calls: tool_format = \"{}\"{source}", self.tool_format)?;
        match &self.thoughts {
            Some((open, close)) => writeln!(f, "thoughts: between `{open}` and `{close}`")?,
            None => writeln!(f, "thoughts: stay in messages")?,
        }
        writeln!(f, "a reply ends with: `{}`", self.ends.join("`, `"))?;
        if !self.templates.is_empty() {
            writeln!(f, "chat templates: {}", self.templates.join(", "))?;
        }
        if !self.switches.is_empty() {
            writeln!(f, "variables of the template: {}", self.switches)?;
        }
        for (told, what) in [
            (self.tells_tools, "functions are listed in the system message"),
            (self.folds_system, "instructions are written before the first message of the user"),
            (self.folds_results, "answers of tools are written as messages of the user"),
        ] {
            if told {
                writeln!(f, "{what}")?;
            }
        }
        Ok(())
    }
}
