//! A plugin's outbound calls: enforces quotas, records answers, and serves recorded answers during a replay.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gymkhana_record::{Boundary, CallSite, Exchange, Function, Part, Question, Refused, Reply};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{Outbound, OutboundError, OutboundFuture, Plugin, Quota};

use crate::tools::for_rewards::RewardTools;

/// Records the outbound calls of one plugin in one episode or one scoring.
pub(crate) struct ExchangeRecorder {
    /// Outbound client; `None` in replays, and if the run grants only tools.
    world: Option<Arc<dyn Outbound>>,
    tools: Option<RewardTools>,
    quota: Quota,
    known: Mutex<Known>,
}

#[derive(Clone, Default)]
struct Known {
    /// Recorded answers that are left in a replay, in order; `None` if real calls are made.
    recorded: Option<Recorded>,
    /// Calls and answers since the last [`ExchangeRecorder::take`].
    heard: Vec<(Question, Reply)>,
    used: Quota,
    /// Total bytes of questions and replies.
    bytes: usize,
    /// Whether the plugin's state is being copied. Outbound calls are refused meanwhile.
    muted: bool,
}

/// Recorded calls, and whether each belongs to a plugin call that is not repeated.
pub(crate) type Recorded = VecDeque<(Exchange, bool)>;

/// Maximum bytes of questions and answers per plugin and episode; the record holds all of them.
const MOST_BYTES: usize = 32 << 20;

/// Whether a plugin can make calls that must be recorded.
fn asks(plugin: &Plugin) -> bool {
    let wants = &plugin.manifest().capabilities;
    [Capability::Model, Capability::Http, Capability::Tools].iter().any(|capability| wants.contains(capability))
}

impl ExchangeRecorder {
    /// Recorder for a plugin, if it can make outbound calls; `recorded` holds the answers of a replay.
    pub(crate) fn of(plugin: &Plugin, recorded: Option<Recorded>) -> Option<Arc<Self>> {
        asks(plugin).then(|| Arc::new(Self::new(plugin, recorded, None, 1)))
    }

    /// Recorder for a reward that scores this number of members and may call these tools.
    pub(crate) fn of_reward(
        plugin: &Plugin,
        recorded: Option<Recorded>,
        members: usize,
        tools: impl FnOnce() -> RewardTools,
    ) -> Option<Arc<Self>> {
        let tools = plugin.manifest().capabilities.contains(&Capability::Tools).then(tools);
        asks(plugin).then(|| Arc::new(Self::new(plugin, recorded, tools, members)))
    }

    fn new(plugin: &Plugin, recorded: Option<Recorded>, tools: Option<RewardTools>, members: usize) -> Self {
        let world = plugin.granted().cloned();
        let granted = world.as_ref().map(|world| world.quota()).unwrap_or_default();
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let quota = Quota {
            model_calls: granted.model_calls.saturating_mul(members),
            model_tokens: granted.model_tokens.saturating_mul(members.into()),
            http_requests: granted.http_requests.saturating_mul(members),
            tool_calls: tools.as_ref().map_or(0, |tools| tools.most_calls().saturating_mul(members)),
        };
        Self { world, tools, quota, known: Mutex::new(Known { recorded, ..Known::default() }) }
    }

    /// Copy for a fork of the episode, with the same usage and the same position in the recorded answers.
    pub(crate) fn copy(&self) -> Arc<Self> {
        let known = Known { heard: vec![], ..self.known().clone() };
        Arc::new(Self { world: self.world.clone(), tools: None, quota: self.quota, known: Mutex::new(known) })
    }

    /// Refuses or allows outbound calls. They are refused while a state is copied, because a replay does not repeat the
    /// copy.
    pub(crate) fn mute(&self, muted: bool) {
        self.known().muted = muted;
    }

    /// Makes real calls from now on.
    pub(crate) fn ask_the_world(&self) {
        self.known().recorded = None;
    }

    /// Removes and returns the calls since the last `take`, as calls of this plugin call.
    pub(crate) fn take(&self, at: &Boundary, site: &CallSite) -> Vec<Exchange> {
        let heard = std::mem::take(&mut self.known().heard);
        let exchange = |(question, reply)| Exchange { at: at.clone(), call_site: site.clone(), question, reply };
        heard.into_iter().map(exchange).collect()
    }

    /// Recorded answers that a replay has not used yet.
    pub(crate) fn left(&self) -> Option<Recorded> {
        self.known().recorded.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers from the record, by a real call or by a tool.
    async fn answer(&self, question: &Question, earlier: u32) -> Result<Reply, OutboundError> {
        let recorded = self.known().recorded.as_mut().map(VecDeque::pop_front);
        match recorded {
            Some(Some((exchange, _))) => Ok(exchange.reply),
            Some(None) => {
                Err(OutboundError("replay diverged: the plugin made more outbound calls than recorded".to_owned()))
            }
            None => match (question, &self.tools, &self.world) {
                (Question::Tool(call), Some(tools), _) => tools.call(call).await,
                (Question::Model(_) | Question::Http(_), _, Some(world)) => world.ask(question, earlier).await,
                _ => Ok(Reply::Refused(Refused::Denied("the run does not grant this kind of call".to_owned()))),
            },
        }
    }
}

impl Outbound for ExchangeRecorder {
    fn quota(&self) -> Quota {
        self.quota
    }

    fn ask<'a>(&'a self, question: &'a Question, _earlier: u32) -> OutboundFuture<'a, Reply> {
        Box::pin(async move {
            // A refusal by quota is repeated in a replay, so it is not recorded.
            let permitted = self.known().permit(question, &self.quota);
            let (question, earlier) = match permitted {
                Ok(permitted) => permitted,
                Err(refused) => return Ok(Reply::Refused(refused)),
            };
            let reply = self.answer(&question, earlier).await?;
            let mut known = self.known();
            let reply =
                if known.bytes + size_of_reply(&reply) > MOST_BYTES { Reply::Refused(too_much()) } else { reply };
            known.charge(&reply);
            known.heard.push((question, reply.clone()));
            Ok(reply)
        })
    }

    fn functions(&self) -> Vec<Function> {
        self.tools.as_ref().map(RewardTools::functions).unwrap_or_default()
    }
}

impl Known {
    /// Counts a call against the quota, after recorded calls of plugin calls that are not repeated.
    fn permit(&mut self, question: &Question, quota: &Quota) -> Result<(Question, u32), Refused> {
        if self.muted {
            return Err(Refused::Denied("outbound calls are refused while a state is copied".to_owned()));
        }
        while let Some((skipped, _)) = self.recorded.as_mut().and_then(|left| left.pop_front_if(|(_, gone)| *gone)) {
            self.bytes += size_of_question(&skipped.question);
            // It was permitted in the recorded episode, so the result is ignored.
            let _ = self.used.permit(&skipped.question, &Quota { model_tokens: u64::MAX, ..*quota });
            self.charge(&skipped.reply);
        }
        let bytes = self.bytes + size_of_question(question);
        if bytes > MOST_BYTES {
            return Err(too_much());
        }
        let permitted = self.used.permit(question, quota)?;
        self.bytes = bytes;
        Ok(permitted)
    }

    /// Counts the tokens and bytes of an answer.
    fn charge(&mut self, reply: &Reply) {
        self.bytes += size_of_reply(reply);
        if let Reply::Model(reply) = reply {
            self.used.model_tokens += u64::from(reply.prompt_tokens) + u64::from(reply.completion_tokens);
        }
    }
}

fn size_of_question(question: &Question) -> usize {
    match question {
        Question::Model(request) => {
            let contents = request.messages.iter().map(|message| size_of_content(&message.content)).sum::<usize>();
            contents + request.stop.iter().map(String::len).sum::<usize>()
        }
        Question::Http(request) => request.url.len() + size_of_headers(&request.headers) + request.body.len(),
        Question::Tool(call) => call.name.len() + call.arguments.len(),
    }
}

fn size_of_reply(reply: &Reply) -> usize {
    match reply {
        Reply::Model(reply) => reply.text.len(),
        Reply::Http(response) => size_of_headers(&response.headers) + response.body.len(),
        Reply::Tool(reply) => size_of_content(&reply.content),
        Reply::Refused(_) => 0,
    }
}

fn size_of_headers(headers: &[(String, String)]) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn size_of_content(content: &[Part]) -> usize {
    let part = |part: &Part| match part {
        Part::Text(text) => text.len(),
        Part::Image(media) | Part::Audio(media) | Part::Video(media) | Part::Other(media) => media.bytes.len(),
    };
    content.iter().map(part).sum()
}

fn too_much() -> Refused {
    Refused::Denied(format!("this episode has used up its {MOST_BYTES} bytes of questions and answers"))
}

/// Counting of usage against a quota.
trait Meters {
    /// Counts a call. Returns the question as it may be made and the number of earlier calls of its kind, or an error
    /// if the quota is used up.
    fn permit(&mut self, question: &Question, quota: &Quota) -> Result<(Question, u32), Refused>;
}

impl Meters for Quota {
    fn permit(&mut self, question: &Question, quota: &Quota) -> Result<(Question, u32), Refused> {
        let mut question = question.clone();
        let (used, allowed, what) = match &mut question {
            Question::Model(request) => {
                let left = quota.model_tokens.saturating_sub(self.model_tokens);
                if left == 0 && quota.model_calls > 0 {
                    return Err(used_up(quota.model_tokens, "tokens of its model"));
                }
                request.max_tokens = request.max_tokens.min(u32::try_from(left).unwrap_or(u32::MAX));
                (&mut self.model_calls, quota.model_calls, "completions of its model")
            }
            Question::Http(_) => (&mut self.http_requests, quota.http_requests, "requests over HTTP"),
            Question::Tool(_) => (&mut self.tool_calls, quota.tool_calls, "calls of tools"),
        };
        if *used >= allowed {
            return Err(used_up(allowed.into(), what));
        }
        let earlier = *used;
        *used += 1;
        Ok((question, earlier))
    }
}

fn used_up(allowed: u64, what: &str) -> Refused {
    Refused::Denied(format!("this episode has used up its {allowed} {what}"))
}
