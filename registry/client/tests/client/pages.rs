//! Pages for browsers: the registry's plugins and the description of each.

use gymkhana_registry::{
    Answered, ComponentDescription, EnvironmentDescription, ExampleEntry, FunctionDescription, IndexRow,
    OptionDescription, Release, RewardDescription, SelfDescription, Speaker, SplitDescription, ToolDescription,
};
use serde_json::json;

use crate::common::{Made, Shop, acme, add_file, by, name, reqwest_client, root};

/// The page at `/` shows what publishers wrote and runs none of it.
#[tokio::test]
async fn the_page_lists_plugins_and_escapes_their_texts() {
    let shop = Shop::new();
    let hostile = "<script>alert(1)</script> & \u{202e}txt\" onload='x'";
    shop.add(&Made { description: hostile, ..Made::of("acme/hostile", "2.0.0") });
    shop.registry.yank(&name("acme/adder"), &"1.1.0".parse().expect("a version"), true, by(&root())).expect("yanked");
    let address = shop.serve().await;
    let client = reqwest_client();
    let url = format!("http://{address}/");
    let answer = client.get(&url).send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 200);
    let header = |name: &str| answer.headers()[name].to_str().expect("text").to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert!(header("content-security-policy").starts_with("default-src 'none';"), "{answer:?}");
    assert_eq!(header("x-content-type-options"), "nosniff");
    let page = answer.text().await.expect("a page");
    let row = "<tr><td><a href=\"plugins/acme/adder\">acme/adder</a></td><td>tool</td><td>Adds numbers.</td><td>log</td><td><s>1.1.0</s> (yanked), 1.0.0</td></tr>";
    assert!(page.contains(row), "{page}");
    let text = "<td>&lt;script&gt;alert(1)&lt;/script&gt; &amp; \\u{202e}txt&quot; onload=&#39;x&#39;</td>";
    assert!(page.contains(text) && !page.contains("<script") && !page.contains('\u{202e}'), "{page}");
    let head = client.head(&url).send().await.expect("an answer");
    assert_eq!((head.status().as_u16(), head.text().await.expect("no body")), (200, String::new()));
    // A change is shown at once, and nothing is published here.
    shop.add(&Made::of("acme/another", "1.0.0"));
    let page = client.get(&url).send().await.expect("an answer").text().await.expect("a page");
    assert!(page.contains(">acme/another</a></td>"), "{page}");
    assert_eq!(client.post(&url).send().await.expect("an answer").status().as_u16(), 405);
}

/// A text that would add markup, run a script and reverse the reading direction.
const HOSTILE: &str = "</td><script>alert(1)</script><img src=x onerror='y'>\u{202e}";
const ESCAPED: &str = "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=&#39;y&#39;&gt;\\u{202e}";

/// A description in which every text is `text`.
fn described(text: &str) -> SelfDescription {
    let own = || text.to_owned();
    let options = || vec![OptionDescription { name: own(), kind: own(), default: json!(text), description: own() }];
    let functions = vec![FunctionDescription {
        seat: Some(0),
        name: own(),
        description: own(),
        parameters: json!({ text: text }),
        cost: 0.5,
    }];
    SelfDescription {
        environment: Some(EnvironmentDescription {
            summary: own(),
            seats: vec![own()],
            rewards: [-1.0, 1.0],
            options: options(),
            splits: Answered::Given(vec![SplitDescription { name: own(), tasks: Some(1234) }]),
            first_task: Answered::Failed { error: own() },
            facts: Answered::Given(vec![own()]),
            example: vec![ExampleEntry { seat: 0, by: Speaker::Oracle, text: format!("{text}\nsecond line") }],
            offers: vec![own()],
        }),
        tool: Some(ToolDescription {
            summary: own(),
            options: options(),
            functions: Answered::Given(functions),
            offers: vec![own()],
        }),
        reward: Some(RewardDescription {
            summary: own(),
            range: [0.0, 2.5],
            components: vec![ComponentDescription { name: own(), description: own() }],
            options: options(),
            unscored_without_privileged: Some(own()),
        }),
    }
}

fn add_described(shop: &Shop, made: &Made, description: SelfDescription) -> IndexRow {
    let release = Release { description: Some(description), ..made.release() };
    let file = release.sign(Some(&acme())).expect("JSON");
    add_file(&shop.registry, &file, &made.component(), by(&root())).expect("added")
}

async fn page_of(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    let answer = reqwest_client().get(format!("http://{address}/{path}")).send().await.expect("an answer");
    (answer.status().as_u16(), answer.text().await.expect("a page"))
}

#[tokio::test]
async fn a_plugin_has_a_page_with_what_it_says_about_itself() {
    let shop = Shop::new();
    let description = described("plain");
    add_described(&shop, &Made::version("1.2.0"), description);
    let address = shop.serve().await;
    let (status, page) = page_of(address, "plugins/acme/adder").await;
    assert_eq!(status, 200);
    for part in [
        "<h1>acme/adder 1.2.0</h1>",
        "<tr><td>Add to a project</td><td>host add acme/adder@^1.2.0</td></tr>",
        "<tr><td>Versions</td><td>1.2.0, 1.1.0, 1.0.0</td></tr>",
        "<tr><td>plain</td><td>plain</td><td>&quot;plain&quot;</td><td>plain</td></tr>",
        "<tr><td>plain</td><td>1234</td></tr>",
        "<tr><td>0</td><td>plain</td><td>plain</td><td>{&quot;plain&quot;:&quot;plain&quot;}</td><td>0.5</td></tr>",
        "<p>Not known with default options: plain</p>",
        "<p>Range: 0 to 2.5.</p>",
        "<tr><td>0</td><td>oracle</td><td>plain<br>second line</td></tr>",
        "<h2>Components</h2>\n<table>\n<tr><th>Component</th><th>Measures</th></tr>\n<tr><td>plain</td><td>plain</td></tr>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page_of(address, "").await.1.contains("<a href=\"plugins/acme/adder\">"));
    // A release of an older host has no description.
    let (_, page) = page_of(address, "plugins/acme/other").await;
    assert!(page.contains("The release does not describe options"), "{page}");
    for absent in ["plugins/acme/absent", "plugins/acme", "plugins/acme/adder/", "plugins/%2e%2e/adder"] {
        assert_eq!(page_of(address, absent).await.0, 404, "{absent}");
    }
}

#[tokio::test]
async fn a_hostile_description_runs_nothing_on_the_page() {
    let shop = Shop::empty();
    let made = Made { description: HOSTILE, ..Made::of("acme/hostile", "1.0.0") };
    add_described(&shop, &made, described(HOSTILE));
    let address = shop.serve().await;
    let answer = reqwest_client().get(format!("http://{address}/plugins/acme/hostile")).send().await.expect("a page");
    assert!(answer.headers()["content-security-policy"].as_bytes().starts_with(b"default-src 'none';"), "{answer:?}");
    let page = answer.text().await.expect("text");
    for forbidden in ["<script", "<img", "\u{202e}"] {
        assert!(!page.contains(forbidden), "{forbidden}: {page}");
    }
    assert!(page.matches(ESCAPED).count() >= 20, "{page}");
}
