//! Warning about replies that a limit of tokens cut.

use gymkhana_config::RunFile;
use gymkhana_health::usual::{CUT_REPLIES, STEPS};

/// Counts the steps with many cut replies; warns once per run.
#[derive(Debug, Default)]
pub(crate) struct CutWatch {
    steps: u32,
    has_warned: bool,
}

impl CutWatch {
    /// Counts a training step; returns the warning.
    pub fn step(&mut self, file: &RunFile, stage: usize, share: f64) -> Option<String> {
        self.steps = if share > CUT_REPLIES { self.steps + 1 } else { 0 };
        if self.steps < STEPS {
            return None;
        }
        self.warn(file, stage, share, "of the last step")
    }

    /// Returns the warning of an evaluation after a stage.
    pub fn evaluated(&mut self, file: &RunFile, stage: usize, share: f64) -> Option<String> {
        if share > CUT_REPLIES { self.warn(file, stage, share, "in the evaluation after it") } else { None }
    }

    fn warn(&mut self, file: &RunFile, stage: usize, share: f64, which: &str) -> Option<String> {
        let name = file.stages.get(stage)?.name();
        if std::mem::replace(&mut self.has_warned, true) {
            return None;
        }
        Some(format!(
            "stage `{name}`: {:.0} % of the replies {which} were cut, by limits.reply_tokens = {} or the end of the \
             context\nhint: raise limits.reply_tokens; a cut reply has no end, and a call in it cannot be read",
            100.0 * share,
            file.rules.limits.reply_tokens
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cut_replies_warn_once_per_run() {
        let text = "success = \"environment.success\"\nlimits.reply_tokens = 20\n[[stages]]\nkind = \"rl\"\n[[stages]]\n\
                    kind = \"rl\"\nname = \"more\"\n";
        let file = RunFile::parse(text, "run.toml", &[]).expect("a run file");
        let mut watch = CutWatch::default();
        let shares = [0.9, 0.9, 0.1, 0.5, 0.5];
        assert!(shares.iter().all(|share| watch.step(&file, 0, *share).is_none()));
        let text = watch.step(&file, 0, 0.56).expect("three steps in a row");
        assert!(text.starts_with("stage `rl`: 56 % of the replies of the last step were cut"), "{text}");
        assert!(text.contains("by limits.reply_tokens = 20 or") && text.contains("\nhint: raise limits.reply_tokens"));
        assert_eq!((watch.step(&file, 0, 0.9), watch.evaluated(&file, 1, 0.9)), (None, None));
        let mut watch = CutWatch::default();
        assert_eq!(watch.evaluated(&file, 1, 0.25), None);
        assert!(watch.evaluated(&file, 1, 0.3).is_some_and(|text| text.starts_with("stage `more`: 30 %")));
    }
}
