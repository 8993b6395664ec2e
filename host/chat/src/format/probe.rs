//! What a template shows: functions, instructions and the answers of tools, found by small renderings.

use gymkhana_record::Function;

use super::ChatFormat;
use crate::encoder::Sourced;
use crate::error::ChatError;
use crate::message::{AnsweredCall, Message, Role, SpokenCall, SpokenParts};
use crate::rendering::{self, Author, FunctionLists, Rendered, ReplyForm};

/// A word that no template holds.
const PROBE: &str = "qzprobexw";

/// The form in which answers of tools are given to the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultForm {
    /// As messages of tools.
    #[default]
    Tool,
    /// As messages of the user, because the template shows no messages of tools.
    User,
}

/// What a template shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Whether it lists functions.
    pub tools: bool,
    /// Whether it shows instructions.
    pub system: bool,
    /// Whether it writes the calls of replies.
    pub calls: bool,
    /// The form of the answers of tools.
    pub results: ResultForm,
    /// The form of replies with calls.
    pub(crate) replies: ReplyForm,
    /// Whether it refuses two messages of the user in a row.
    pub(crate) alternates: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            tools: true,
            system: true,
            calls: true,
            results: ResultForm::default(),
            replies: ReplyForm::StandIn,
            alternates: false,
        }
    }
}

impl ChatFormat {
    /// The format with what its template shows.
    pub(super) fn probed(mut self) -> Self {
        self.probe_contents();
        let user = Message::of_text(Role::User, "?");
        let system = Message::of_text(Role::System, PROBE);
        let functions = [function()];
        // Templates for tool use can fail without functions.
        let usual = if self.probe(&[&user], &[], ReplyForm::StandIn).is_some() { &[][..] } else { &functions };
        let shows_system = self.probe(&[&system, &user], usual, ReplyForm::StandIn);
        let with_tools = self.probe(&[&user], &functions, ReplyForm::StandIn);
        self.shown = Shown {
            system: shows_system.is_some_and(|text| holds(&text, Author::Run)),
            // A template that reads the list and writes none of it leaves it out on purpose.
            tools: with_tools.is_some_and(|rendered| rendered.text.contains(PROBE))
                || self.template(true).names().any(|name| name == "tools"),
            ..Shown::default()
        };
        let functions = if self.shown.tools { &functions[..] } else { &[] };
        let (reply, answer) = called("a1b2c3d4e");
        // Some templates join the arguments to other texts.
        for text_arguments in [false, true, false] {
            self.given.text_arguments = text_arguments;
            self.shown.calls =
                self.shows_calls(&[&user, &reply], functions) || self.shows_calls(&[&user, &reply, &answer], functions);
            if self.shown.calls {
                break;
            }
        }
        // Templates that count turns may count those with calls apart.
        let said = Message::reply("!", vec![0]);
        let (again, answered) = called("f5g6h7i8j");
        let long = [&user, &reply, &answer, &again, &answered, &said, &user];
        let results = [&long[..], &[&user, &reply, &answer, &said, &user], &long[..3]]
            .into_iter()
            .find_map(|messages| self.probe_results(messages, functions));
        (self.shown.results, self.shown.replies) = results.unwrap_or((ResultForm::User, ReplyForm::StandIn));
        self.shown.alternates = self.probe(&[&user, &user], functions, ReplyForm::StandIn).is_none();
        self.given.plain_ids = false;
        let (reply, answer) = called("call_1-a");
        self.given.plain_ids = self.probe(&[&user, &reply, &answer], functions, ReplyForm::Calls).is_none();
        self
    }

    /// Finds whether the template takes contents as texts or as lists of parts: some templates of models with images show
    /// only the parts of a list.
    pub(super) fn probe_contents(&mut self) {
        let (user, reply) = (Message::of_text(Role::User, PROBE), Message::reply("!", vec![0]));
        self.given.parts = false;
        for parts in [false, true, false] {
            self.given.parts = parts;
            // Shapes of the other form.
            self.function_lists = FunctionLists::default();
            let shown = [&[][..], &[function()][..]].map(|functions| {
                let rendered = self.probe(&[&user, &reply], functions, ReplyForm::StandIn);
                rendered.is_some_and(|rendered| holds(&rendered, Author::Observed))
            });
            if shown.contains(&true) {
                return;
            }
        }
    }

    /// Whether the template writes the calls of a reply.
    fn shows_calls(&self, messages: &[&Message], functions: &[Function]) -> bool {
        let written = self.probe(messages, functions, ReplyForm::Calls);
        written.is_some_and(|rendered| holds(&rendered, Author::Reply(1)))
    }

    /// The forms of answers and replies that the template shows, if it shows any. Messages 1 and, if there is one behind the
    /// answer to it, 3 are replies with calls.
    fn probe_results(&self, messages: &[&Message], functions: &[Function]) -> Option<(ResultForm, ReplyForm)> {
        let shown = |form: ReplyForm| {
            let rendered = self.probe(messages, functions, form)?;
            let called = (1..messages.len().min(4)).step_by(2).filter(|place| messages[*place].parts.is_some());
            called.map(|place| self.answer_behind(&rendered, place, form)).collect::<Option<Vec<[String; 2]>>>()
        };
        match (shown(ReplyForm::StandIn), shown(ReplyForm::Calls)) {
            (Some(plain), Some(calls)) if !are_equal(&plain, &calls) => Some((ResultForm::Tool, ReplyForm::Calls)),
            (Some(_), _) => Some((ResultForm::Tool, ReplyForm::StandIn)),
            (None, Some(_)) => Some((ResultForm::Tool, ReplyForm::Calls)),
            (None, None) => None,
        }
    }

    /// The text behind a reply with a call up to the end of the answer, which must be shown, and the text from there to the
    /// next reply.
    fn answer_behind(&self, rendered: &Rendered, reply: usize, form: ReplyForm) -> Option<[String; 2]> {
        let first = rendered.passages.iter().position(|passage| passage.author == Author::Reply(reply))?;
        let end = self.end_of(rendered, first, form)?;
        let of_next = |passage: &&rendering::Passage| matches!(passage.author, Author::Reply(other) if other != reply);
        let mut behind = rendered.passages[first..].iter();
        let holds_probe = |passage: &&rendering::Passage| rendered.text[passage.range.clone()].contains(PROBE);
        let is_answer = |passage: &&rendering::Passage| passage.author == Author::Observed && holds_probe(passage);
        let answer = behind.find(|passage| of_next(passage) || is_answer(passage))?;
        let next = behind.find(of_next).map_or(rendered.text.len(), |passage| passage.range.start);
        let shown = answer.author == Author::Observed;
        let text = |range: std::ops::Range<usize>| Some(rendered.text.get(range)?.to_owned());
        shown.then_some([text(end..answer.range.end)?, text(answer.range.end..next)?])
    }

    fn probe(&self, messages: &[&Message], functions: &[Function], form: ReplyForm) -> Option<Rendered> {
        let tools = self.tools(functions).ok()?;
        let template = self.template(!functions.is_empty());
        rendering::render(template, &tools, messages.iter().copied(), &self.setting(true, form)).ok()
    }

    /// The stop tokens: the first token that the template writes after a reply, and the end-of-sequence token.
    pub(super) fn find_stop(&self) -> Result<Vec<u32>, ChatError> {
        let question = Message::of_text(Role::User, "?");
        let reply = Message::reply("!", vec![0]);
        let setting = self.setting(false, ReplyForm::StandIn);
        let render = |functions: &[Function]| {
            let template = self.template(!functions.is_empty());
            rendering::render(template, &*self.tools(functions)?, [&question, &reply], &setting)
        };
        // Templates for tool use can fail without functions.
        let rendered = render(&[]).or_else(|error| render(&[function()]).map_err(|_| error))?;
        let replied = rendered.passages.iter().find(|passage| matches!(passage.author, Author::Reply(_)));
        let end = replied.ok_or(ChatError::NoReply)?.range.end;
        let tokens = self.encoder.tokens(Sourced::new(&rendered.text[end..], &[]))?;
        let first = tokens.iter().position(|token| self.encoder.is_mark(*token));
        let is_next = |place: &usize| self.decode(&tokens[..*place]).is_ok_and(|before| before.trim().is_empty());
        let eos = self.encoder.tokenizer().token_to_id(&self.named_tokens[1].1);
        let mut stop: Vec<u32> = first.filter(is_next).map(|place| tokens[place]).into_iter().collect();
        stop.extend(eos.filter(|eos| !stop.contains(eos)));
        if stop.is_empty() { Err(ChatError::NoReply) } else { Ok(stop) }
    }
}

/// Whether the texts behind replies are equal, without the beginnings of later replies with calls.
fn are_equal(some: &[[String; 2]], others: &[[String; 2]]) -> bool {
    let last = |texts: &[[String; 2]]| texts.last().map(|[_, behind]| behind.clone());
    some.iter().map(|[answer, _]| answer).eq(others.iter().map(|[answer, _]| answer)) && last(some) == last(others)
}

/// A function.
fn function() -> Function {
    let parameters = "{\"type\": \"object\", \"properties\": {}}".to_owned();
    Function { name: PROBE.to_owned(), description: PROBE.to_owned(), parameters, cost: 0.0 }
}

/// A reply with a call, and the answer to it.
fn called(id: &str) -> (Message, Message) {
    let call = SpokenCall { id: id.to_owned(), name: PROBE.to_owned(), arguments: "{}".to_owned() };
    let answered = AnsweredCall { id: call.id.clone(), name: call.name.clone() };
    let parts = SpokenParts { thoughts: None, message: String::new(), calls: vec![call] };
    (Message::reply("!", vec![0]).with_parts(parts), Message::of_text(Role::Tool, PROBE).answering(answered))
}

/// Whether a rendering has the probe as a text of this author.
fn holds(rendered: &Rendered, author: Author) -> bool {
    let of = |passage: &&rendering::Passage| passage.author == author;
    rendered.passages.iter().filter(of).any(|passage| rendered.text[passage.range.clone()].contains(PROBE))
}
