"""Has conversations by chat completions through the client that OpenAI wrote, or LangChain's ChatOpenAI.

Input and output are those of chat.mjs; "langchain" in a conversation chooses the client."""

import asyncio
import json
import sys

import openai

conversations = json.load(sys.stdin)
if any(c.get("langchain") for c in conversations):  # before a connection waits for it, because it takes its time
    from langchain_openai import ChatOpenAI


def failed(e):
    return {"status": getattr(e, "status_code", 0), "code": e.code, "type": e.type, "message": e.message}


async def turn(client, c, messages):
    headers = c.get("headers") or {}
    if not c["stream"]:
        raw = await client.chat.completions.with_raw_response.create(model=c["model"], messages=messages, extra_headers=headers)
        data = raw.parse()
        choice = data.choices[0]
        return {"content": choice.message.content, "finish": choice.finish_reason, "usage": data.usage.total_tokens,
                "arbor": data.arbor, "session": raw.headers["arbor-session"]}
    stream = await client.chat.completions.create(model=c["model"], messages=messages, stream=True,
                                                  stream_options={"include_usage": True}, extra_headers=headers)
    out = {"content": "", "chunks": 0, "session": stream.response.headers["arbor-session"]}
    try:
        async for chunk in stream:
            for choice in chunk.choices:
                if choice.delta.content:
                    out["content"] += choice.delta.content
                    out["chunks"] += 1
                if choice.finish_reason:
                    out["finish"] = choice.finish_reason
                    out["arbor"] = chunk.arbor
            if chunk.usage:
                out["usage"] = chunk.usage.total_tokens
    except openai.APIError as e:
        out["error"] = failed(e)
    return out


async def langchain(model, c, messages):
    if not c["stream"]:
        m = await model.ainvoke(messages)
        return {"content": m.content, "finish": m.response_metadata["finish_reason"], "usage": m.usage_metadata["total_tokens"]}
    out = {"content": "", "chunks": 0}
    try:
        async for m in model.astream(messages):
            if m.content:
                out["content"] += m.content
                out["chunks"] += 1
            if m.response_metadata.get("finish_reason"):
                out["finish"] = m.response_metadata["finish_reason"]
            if m.usage_metadata:
                out["usage"] = m.usage_metadata["total_tokens"]
    except openai.APIError as e:
        if not out["content"]:
            raise
        out["error"] = failed(e)
    return out


async def conversation(c):
    if c.get("langchain"):
        model = ChatOpenAI(model=c["model"], base_url=c["base"], api_key="secret", max_retries=0, timeout=600, stream_usage=True, default_headers=c.get("headers"))
    else:
        client = openai.AsyncOpenAI(api_key="secret", base_url=c["base"], max_retries=c.get("retries", 0), timeout=600)
    messages, turns = [{"role": "system", "content": "Be a chat window."}], []
    for said in c["says"]:
        messages.append({"role": "user", "content": said})
        try:
            out = await (langchain(model, c, messages) if c.get("langchain") else turn(client, c, messages))
        except openai.APIError as e:
            out = {"error": failed(e)}
        if out.get("content"):
            messages.append({"role": "assistant", "content": out["content"]})
        turns.append(out)
    return turns


async def main():
    print(json.dumps(await asyncio.gather(*(conversation(c) for c in conversations))))


asyncio.run(main())
