//! Hostile replies take linear time and never panic.

use std::time::{Duration, Instant};

use super::super::{NewCall, ToolFormat};
use super::outputs::functions;
use super::written;

/// Pieces that are repeated: unclosed marks, and marks whose contents are broken late.
const PIECES: [&str; 46] = [
    "<tool_call>",
    "<tool_call>{\"a\":\"",
    "<tool_call>[",
    "<tool_call>{</tool_call>",
    "<tool_call></tool_call>",
    "<tool_call>\n<function=add>\n<parameter=a>\n",
    "<tool_call><function=add><parameter=a></tool_call>",
    "<function=add><parameter=a></function>x",
    "</parameter></function>",
    "<function=",
    "<seed:tool_call><function=add>",
    "<minimax:tool_call><invoke name=\"add\"><parameter name=\"a\">",
    "<invoke name=\"",
    "<｜DSML｜invoke name=\"add\"><｜DSML｜parameter name=\"a\" string=\"true\">",
    "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>add\n",
    "<function name=\"add\"><param name=\"a\"><![CDATA[",
    "<tool_call>add<arg_key>a</arg_key><arg_value>",
    "<tool_calls><tool_call>add<tool_sep>",
    "<|python_tag|>{\"a\":",
    "{\"a\":",
    "{\"name\": \"",
    "[TOOL_CALLS]",
    "[TOOL_CALLS]add[ARGS]{",
    "[TOOL_CALLS][{\"a\":\"",
    "```json\n",
    "```json\n{\"name\": \"a\", \"arguments\": {\"x\": \"",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    "<｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"x\": \"",
    "<|channel|>",
    "<|start|>assistant<|channel|>commentary to=functions.add",
    "<|channel|>commentary to=functions.add<|message|>{\"a\": \"",
    "<|tool_call_begin|>functions.add:0",
    "<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{\"a\": \"",
    "[f(",
    "[f(a='",
    "[f(a='''",
    "[f(a=[{",
    "<function_calls>f(a='",
    "<|tool_call>call:f{a:<|\"|>",
    "<|tool_call>call:f{a:[",
    "<start_function_call>call:f{a:<escape>",
    "\n[\n",
    "\n[{\"name\": \"a\", \"arguments\": [",
    "<|START_ACTION|>[{\"tool_name\": \"",
    "functools[{<TOOLCALL>[<tool_calls>{<|tool_call|>[\"",
];

/// Texts behind the repeated piece.
const ENDS: [&str; 3] = ["", "\"", "</function><function=x>y</parameter></function></tool_call>"];

/// Repetitions of a piece in the short text and in the long one.
const FEW: usize = 1_000;
const LONG: usize = 10_000;
/// Formats with the parser of `json-list` or `pythonic`.
const SHARED: [ToolFormat; 8] = [
    ToolFormat::Granite,
    ToolFormat::Phi4Mini,
    ToolFormat::Functools,
    ToolFormat::Nemotron,
    ToolFormat::ToolCalls,
    ToolFormat::FunctionCall,
    ToolFormat::Olmo3,
    ToolFormat::Lfm2,
];
/// Repetitions of an opening mark.
const MANY: usize = 100_000;

fn time(format: ToolFormat, text: &str) -> Duration {
    let functions = functions();
    let start = Instant::now();
    assert!(format.parse(text, &functions).message.len() <= text.len());
    start.elapsed()
}

/// The time for ten times the text would be a hundred times as long if it grew with the square. The limits leave room
/// for a busy machine.
#[test]
fn repeated_pieces_take_linear_time() {
    for (piece, end) in PIECES.into_iter().flat_map(|piece| ENDS.map(|end| (piece, end))) {
        let text = |times: usize| format!("{}{end}", piece.repeat(times));
        let (few, long) = (text(FEW), text(LONG));
        // Left out are formats that share a parser, and those to which the marks mean nothing.
        let reads = |format: &ToolFormat| !SHARED.contains(format) && format.parse(piece, &[]).message != piece.trim();
        for format in ToolFormat::ALL.into_iter().filter(reads) {
            let (short, long) = (time(format, &few), time(format, &long));
            let most = Duration::from_secs(1) + short * 30;
            assert!(long < most, "{format}: {piece:?} and {end:?} took {short:?} and then {long:?}");
        }
        let start = Instant::now();
        let _ = ToolFormat::resembles_call(&long);
        assert!(start.elapsed() < Duration::from_secs(5), "resembles_call: {piece:?}");
    }
}

/// A hundred thousand opening marks of each format, of which none is closed.
#[test]
fn unclosed_marks_take_linear_time() {
    let calls = [NewCall { name: "add", arguments: "{\"a\": \"x\"}" }];
    for format in ToolFormat::ALL {
        let text = written(format, &calls);
        let open = text.split("add").next().unwrap_or_default();
        let open = if open.is_empty() { "[" } else { open };
        let taken = time(format, &open.repeat(MANY));
        assert!(taken < Duration::from_secs(10), "{format}: {open:?} took {taken:?}");
    }
}

#[test]
fn deep_values_are_malformed() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(MANY), close.repeat(MANY));
    for (format, before, open, close, behind) in [
        (ToolFormat::Pythonic, "[f(a=", "[", "]", ")]"),
        (ToolFormat::Pythonic, "[f(a=", "{", "}", ")]"),
        (ToolFormat::Pythonic, "[f(a=", "{'a':", "}", ")]"),
        (ToolFormat::Gemma, "<|tool_call>call:f{a:", "[", "]", "}<tool_call|>"),
        (ToolFormat::Gemma, "<|tool_call>call:f{a:", "{a:", "}", "}<tool_call|>"),
        (ToolFormat::Kimi, "<|tool_call_begin|>f<|tool_call_argument_begin|>{\"a\":", "[", "]", "}<|tool_call_end|>"),
    ] {
        let text = format!("{before}{}{behind}", deep(open, close));
        let reply = format.parse(&text, &[]);
        assert!(matches!(&reply.calls[..], [super::WrittenCall::Malformed { .. }]), "{format}: {}", reply.calls.len());
    }
    // A value of untyped text stays text.
    let text = format!("<tool_call>f<arg_key>a</arg_key><arg_value>{}</arg_value></tool_call>", deep("[", "]"));
    assert!(matches!(&ToolFormat::Glm.parse(&text, &[]).calls[..], [super::WrittenCall::Sound { .. }]));
}
