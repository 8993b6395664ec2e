//! Time of a typical rendering, printed.

use std::hint::black_box;
use std::time::Instant;

use crate::{RenderLimits, Template, Value};

const CHATML: &str = "{% if tools %}{{ '<|im_start|>system\\n' + tools|tojson + '<|im_end|>\\n' }}{% endif %}\
{% for message in messages %}{% if loop.first and message.role != 'system' %}\
{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}\
{{ '<|im_start|>' + message['role'] + '\\n' + message['content']|trim + '<|im_end|>' + '\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Messages of a conversation with this number of bytes each.
fn messages(count: u32, bytes: usize) -> Value {
    let text = "word ".repeat(bytes / 5);
    Value::list((0..count).map(|number| {
        let role = Value::own(if number % 2 == 0 { "user" } else { "assistant" });
        Value::dict([("role", role), ("content", Value::outside(&text, number))])
    }))
}

/// `cargo test --release -p gymkhana-template -- --ignored --nocapture time`
#[test]
#[ignore = "prints times"]
#[allow(clippy::print_stdout)]
fn time_of_renderings() {
    let template = Template::parse(CHATML).unwrap();
    for (count, bytes) in [(1, 200), (10, 200), (10, 20_000), (100, 200), (1000, 200)] {
        let start = Instant::now();
        let repeats = 100_000 / count;
        for _ in 0..repeats {
            let variables = vec![
                ("messages".to_owned(), messages(count, bytes)),
                ("add_generation_prompt".to_owned(), Value::bool(true)),
            ];
            black_box(template.render(variables, &RenderLimits::default()).unwrap());
        }
        println!("{count} messages of {bytes} bytes: {:?}", start.elapsed() / repeats);
    }
    let start = Instant::now();
    for _ in 0..10_000 {
        black_box(Template::parse(black_box(CHATML)).unwrap());
    }
    println!("parsing: {:?}", start.elapsed() / 10_000);
}
