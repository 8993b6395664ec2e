//! Agent frameworks and the official MCP client as unmodified programs, against a scripted policy.

use std::process::Stdio;
use std::sync::Mutex;

use gymkhana_chat::{Begun, ChatFormat, NewCall, NewReply, ReplyPiece};
use gymkhana_policy::ScriptedPolicy;
use tokio::process::Command;

use crate::served::{ANSWER, chat, serve_by};

/// A reply of the policy.
enum Said {
    Text(&'static str),
    Call(&'static str, &'static str),
}

impl Said {
    fn tokens(&self, chat: &ChatFormat) -> Vec<u32> {
        let tokens = match self {
            Self::Text(text) => chat.encode_reply(&[ReplyPiece::Plain(text)]),
            Self::Call(name, arguments) => {
                chat.write_reply(&NewReply { calls: &[NewCall { name, arguments }], ..NewReply::default() }, Begun::No)
            }
        };
        tokens.expect("a reply")
    }
}

const ADD: Said = Said::Call("add", "{\"a\": 2, \"b\": 2}");
const ANSWERS: Said = Said::Text(ANSWER);

/// A program: the variable that names its interpreter, its file, the replies that it needs, the number of calls of the
/// tool that the session offers, and its output.
struct Program(&'static str, &'static str, &'static [Said], usize, &'static str);

const PYTHON: &str = "GYMKHANA_FRAMEWORKS_PYTHON";
const NODE: &str = "GYMKHANA_CLIENTS_NODE";

const PROGRAMS: &[Program] = &[
    Program(PYTHON, "mcp_program.py", &[ANSWERS], 3, "The answer is 4.\n"),
    Program(
        PYTHON,
        "openai_agents_program.py",
        &[ADD, ANSWERS, ADD, Said::Text("Still 4.")],
        2,
        "The answer is 4.\nStill 4.\n",
    ),
    Program(PYTHON, "langgraph_program.py", &[ADD, ANSWERS], 0, "The answer is 4.\n"),
    Program(
        PYTHON,
        "smolagents_program.py",
        &[
            ADD,
            Said::Call("final_answer", "{\"answer\": \"The answer is 4.\"}"),
            Said::Text("Thought: I add.\n<code>\nfinal_answer(add(2, 2))\n</code>"),
        ],
        0,
        "The answer is 4.\n4\n",
    ),
    Program(
        PYTHON,
        "mini_swe_agent_program.py",
        &[
            Said::Call("bash", "{\"command\": \"echo $((2 + 2))\"}"),
            Said::Call(
                "bash",
                "{\"command\": \"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo 'The answer is 4.'\"}",
            ),
        ],
        0,
        "The answer is 4.\n\n",
    ),
    Program(NODE, "node_agent.mjs", &[ADD, ANSWERS, ADD, Said::Text("Again 4.")], 0, "The answer is 4.\nAgain 4.\n"),
];

#[tokio::test]
#[ignore = "needs the frameworks: cargo xtask test --reference clients"]
async fn agents_of_frameworks_play_to_their_answer() {
    for Program(variable, file, replies, calls, output) in PROGRAMS {
        let Ok(interpreter) = std::env::var(variable) else { panic!("{variable} names no interpreter") };
        let chat = chat();
        let asked = Mutex::new(0);
        let policy = ScriptedPolicy::new(1 << 17, |_| {
            let mut asked = asked.lock().expect("no test panics here");
            *asked += 1;
            replies.get(*asked - 1).map(|reply| reply.tokens(&chat)).unwrap_or_default()
        });
        let (ended, outcome) = serve_by(&policy, |place| async move {
            let mut command = Command::new(interpreter);
            command
                .arg(crate::real::beside_packages(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/agents"), file));
            command.envs(place.variables).stderr(Stdio::inherit()).output().await.expect("the program starts")
        })
        .await;
        let printed = String::from_utf8(ended.stdout).expect("UTF-8");
        assert!(ended.status.success(), "{file}: {printed}");
        assert_eq!(printed, *output, "{file}");
        assert_eq!((outcome.policy_turns.len(), outcome.calls.len()), (replies.len(), *calls), "{file}");
        assert_eq!((outcome.counts.refused, &outcome.fault), (0, &None), "{file}");
        // Each reply is trained on once, with the tokens that were sampled.
        let mut sampled: Vec<Vec<u32>> = vec![];
        for segment in &outcome.segments {
            sampled.extend(segment.replies().map(|place| segment.tokens()[place].to_vec()));
        }
        let expected: Vec<Vec<u32>> = replies.iter().map(|reply| reply.tokens(&chat)).collect();
        assert_eq!(sampled, expected, "{file}");
    }
}
