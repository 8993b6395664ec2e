// An agent on the official OpenAI SDK for Node.js, whose helper runs the tools and repeats the requests.

import OpenAI from "openai";

const client = new OpenAI();
const tool = {
  type: "function",
  function: {
    name: "add",
    description: "Adds two numbers.",
    parameters: { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } } },
    parse: JSON.parse,
    function: ({ a, b }) => String(a + b),
  },
};
const question = [{ role: "user", content: "What is 2 + 2?" }];
const runner = client.chat.completions.runTools({ model: "policy", messages: question, tools: [tool] });
console.log(await runner.finalContent());
const streamed = client.chat.completions.runTools({
  model: "policy", messages: [{ role: "user", content: "And 2 + 2 again?" }], tools: [tool], stream: true,
});
console.log(await streamed.finalContent());
