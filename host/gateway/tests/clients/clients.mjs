// The official JavaScript clients: replies, streams and tools, with what each must return.
// Prints one line of JSON for each request: what was sent and what came back.

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const ANSWER = "The answer is 4.";
const parameters = { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } } };

async function recording(url, init) {
  const response = await fetch(url, init);
  const answer = await response.text();
  const line = {
    client: "javascript", method: init.method ?? "GET", path: new URL(url).pathname,
    headers: Object.fromEntries(new Headers(init.headers)), body: init.body ?? "", status: response.status, answer,
    turn: response.status === 200 && (init.method ?? "GET") === "POST",
  };
  console.log(JSON.stringify(line));
  return new Response(answer, { status: response.status, headers: response.headers });
}

function equal(found, expected) {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
  }
}

const openai = new OpenAI({ fetch: recording });
const claude = new Anthropic({ fetch: recording });
const user = (content) => ({ role: "user", content });

const chat = await openai.chat.completions.create({ model: "policy", messages: [user("js: 2 + 2?")] });
equal(chat.choices[0].message.content, ANSWER);

let text = "";
const chunks = await openai.chat.completions.create({
  model: "policy", stream: true, messages: [user("js: 2 + 2?"), chat.choices[0].message, user("sure?")],
});
for await (const chunk of chunks) text += chunk.choices[0]?.delta.content ?? "";
equal(text, ANSWER);

const tools = [{ type: "function", name: "add", parameters, strict: false }];
const called = await openai.responses.create({ model: "policy", input: "js: add 2 and 2", tools });
equal([called.output[0].type, JSON.parse(called.output[0].arguments)], ["function_call", { a: 2, b: 2 }]);

const stream = claude.messages.stream({
  model: "policy", max_tokens: 50, messages: [user("js: add 2 and 2")],
  tools: [{ name: "add", input_schema: parameters }],
});
const message = await stream.finalMessage();
equal([message.content[0].type, message.content[0].input, message.stop_reason], ["tool_use", { a: 2, b: 2 }, "tool_use"]);

try {
  await openai.chat.completions.create({ model: "gpt-9", messages: [user("?")] });
  throw new Error("another model was accepted");
} catch (error) {
  equal(error.status, 404);
}
