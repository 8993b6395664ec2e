//! Requests that are refused by their size, before anything is made of them.

use serde_json::{Value as Json, json};

use super::{ErrorClass, body, chat, play, settings, user};

/// Reasoning, calls and functions become tokens as texts do: they are measured before anything is made of them.
#[tokio::test]
async fn what_cannot_fit_the_context_is_refused_by_its_bytes() {
    let mut small = settings();
    small.limits.context_tokens = 64;
    let most = chat().most_bytes(64).expect("a tokenizer with a bound");
    let long = "a".repeat(most + 1);
    let call =
        |arguments: &str| json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
    let history = |message: Json| body(&[user("a"), message, user("b")]);
    let function = json!({"type": "function", "function": {"name": "f", "description": long}});
    let mut with_function = body(&[user("a")]);
    with_function["tools"] = json!([function]);
    let bodies = [
        body(&[user(&long)]),
        history(json!({"role": "assistant", "content": "b", "reasoning_content": long})),
        history(json!({"role": "assistant", "content": "b", "tool_calls": [call(&long)]})),
        with_function,
    ];
    let left = play(small, &["one"], |client| async move {
        for wrong in bodies {
            let error = client.ask(&wrong).await.unwrap_err();
            assert_eq!(error.class, ErrorClass::ContextFull, "{error}");
            assert!(error.message.contains("bytes do not fit the context of 64 tokens"), "{error}");
        }
        client.ask(&body(&[user("a")])).await.unwrap();
    })
    .await;
    assert_eq!(left.sampled(), [["one"]]);
}
