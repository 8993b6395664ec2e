"""The official Python clients: every kind of request, with what each must return.

Prints one line of JSON for each request: what was sent and what came back. A wrong result ends the program.
"""

import json

import anthropic
import httpx2 as httpx
import openai

ANSWER = "The answer is 4."
QUESTION = {"role": "user", "content": "What is 2 + 2?"}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
CHAT_TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": SCHEMA}}

turn = True


def record(request: httpx.Request, response: httpx.Response) -> None:
    line = {
        "client": "python",
        "method": request.method,
        "path": request.url.raw_path.decode(),
        "headers": dict(request.headers),
        "body": request.content.decode(),
        "status": response.status_code,
        "answer": response.text,
        "turn": turn and response.status_code == 200,
    }
    print(json.dumps(line, ensure_ascii=False))


class Recorder(httpx.HTTPTransport):
    """Records each request; loses the answer of those that `lose` counts, as a broken network does."""

    lose = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        response = super().handle_request(request)
        body = response.read()
        record(request, httpx.Response(response.status_code, content=body))
        if Recorder.lose > 0:
            Recorder.lose -= 1
            raise httpx.ReadError("the answer was lost")
        headers = [(k, v) for k, v in response.headers.items() if k.lower() != "content-encoding"]
        return httpx.Response(response.status_code, headers=headers, content=body)


client = openai.OpenAI(http_client=httpx.Client(transport=Recorder()))
claude = anthropic.Anthropic(http_client=httpx.Client(transport=Recorder()))


def side(call):
    """Runs a call that is no turn."""
    global turn
    turn = False
    try:
        return call()
    finally:
        turn = True


def equal(found, expected) -> None:
    if found != expected:
        raise SystemExit(f"{found!r} is not {expected!r}")


def chat() -> None:
    reply = client.chat.completions.create(model="policy", messages=[QUESTION], logprobs=True)
    equal((reply.choices[0].message.content, reply.choices[0].finish_reason), (ANSWER, "stop"))
    equal("".join(token.token for token in reply.choices[0].logprobs.content).startswith(ANSWER), True)
    text, usage = "", None
    other = {"role": "user", "content": "And 1 + 3?"}
    history = [QUESTION, {"role": "assistant", "content": ANSWER}, other]
    for chunk in client.chat.completions.create(
        model="policy", messages=history, stream=True, stream_options={"include_usage": True}
    ):
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        usage = chunk.usage or usage
    equal((text, usage.total_tokens > 0), (ANSWER, True))
    messages = [{"role": "system", "content": "Use tools."}, QUESTION]
    reply = client.chat.completions.create(model="policy", messages=messages, tools=[CHAT_TOOL])
    call = reply.choices[0].message.tool_calls[0]
    equal((call.function.name, json.loads(call.function.arguments)), ("add", {"a": 2, "b": 2}))
    equal(reply.choices[0].finish_reason, "tool_calls")
    messages += [reply.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "4"}]
    with client.chat.completions.stream(model="policy", messages=messages, tools=[CHAT_TOOL]) as stream:
        equal(stream.get_final_completion().choices[0].message.content, ANSWER)


def responses() -> None:
    tool = {"type": "function", "name": "add", "description": "Adds.", "parameters": SCHEMA, "strict": False}
    reply = client.responses.create(model="policy", instructions="Be brief.", input="Is 2 + 2 = 4?")
    equal((reply.output_text, reply.status), (ANSWER, "completed"))
    after = client.responses.create(
        model="policy", instructions="Be brief.", input="Sure?", previous_response_id=reply.id
    )
    equal((after.output_text, after.usage.input_tokens_details.cached_tokens > 0), (ANSWER, True))
    items = [{"role": "user", "content": "Add 2 and 2."}]
    with client.responses.stream(model="policy", input=items, tools=[tool]) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    equal("response.function_call_arguments.delta" in kinds, True)
    call = final.output[0]
    equal((call.type, call.name, json.loads(call.arguments)), ("function_call", "add", {"a": 2, "b": 2}))
    items += [call.model_dump(include={"type", "call_id", "name", "arguments"})]
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "4"}]
    with client.responses.stream(model="policy", input=items, tools=[tool]) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    equal(text, ANSWER)


def messages() -> None:
    tool = {"name": "add", "description": "Adds.", "input_schema": SCHEMA}
    system = [{"type": "text", "text": "Be exact.", "cache_control": {"type": "ephemeral"}}]
    asked = [{"role": "user", "content": "Two and two?"}]
    counted = side(lambda: claude.messages.count_tokens(model="policy", system=system, messages=asked))
    reply = claude.messages.create(model="policy", max_tokens=50, system=system, messages=asked)
    equal((reply.content[0].text, reply.stop_reason), (ANSWER, "end_turn"))
    equal(reply.usage.input_tokens, counted.input_tokens)
    asked = [{"role": "user", "content": "Add two and two."}]
    with claude.messages.stream(model="policy", max_tokens=50, messages=asked, tools=[tool]) as stream:
        reply = stream.get_final_message()
    call = reply.content[0]
    equal((call.type, call.name, call.input, reply.stop_reason), ("tool_use", "add", {"a": 2, "b": 2}, "tool_use"))
    asked += [
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in reply.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "4"}]},
    ]
    with claude.messages.stream(model="policy", max_tokens=50, messages=asked, tools=[tool]) as stream:
        equal("".join(stream.text_stream), ANSWER)


def errors() -> None:
    try:
        side(lambda: client.chat.completions.create(model="gpt-9", messages=[QUESTION]))
        raise SystemExit("another model was accepted")
    except openai.NotFoundError as error:
        equal("gpt-9" in error.message, True)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    try:
        asked = [{"role": "user", "content": [image]}]
        side(lambda: claude.messages.create(model="policy", max_tokens=5, messages=asked))
        raise SystemExit("an image was accepted")
    except anthropic.BadRequestError as error:
        equal(error.body["error"]["type"], "invalid_request_error")
    equal([model.id for model in side(client.models.list)], ["policy"])
    equal([model.id for model in side(claude.models.list)], ["policy"])


def lost_answers() -> None:
    """Both requests reach the gateway; the second gets the answer of the first, which is one turn."""
    for create in (
        lambda: client.chat.completions.create(model="policy", messages=[{"role": "user", "content": "lost?"}]),
        lambda: claude.messages.create(
            model="policy", max_tokens=50, messages=[{"role": "user", "content": "lost again?"}]
        ),
    ):
        global turn
        Recorder.lose = 1
        original = Recorder.handle_request

        def once(self, request):
            global turn
            try:
                return original(self, request)
            finally:
                turn = False

        Recorder.handle_request = once
        create()
        Recorder.handle_request = original
        turn = True


for scenario in (chat, responses, messages, errors, lost_answers):
    scenario()
