"""Has conversations by the Responses API through the client that OpenAI wrote.

Input and output are those of responses.mjs."""

import asyncio
import json
import sys

import openai


def assemble(events):
    items, final = {}, None
    for e in events:
        if e.type == "response.output_text.delta":
            items[e.item_id] = items.get(e.item_id, "") + e.delta
        if e.type == "response.output_item.done" and getattr(e.item, "status", "") == "incomplete":
            items.pop(e.item.id, None)
        if e.type == "error":
            raise RuntimeError(e.message)
        if getattr(e, "response", None) is not None:
            final = e.response.to_dict()
    for item in final["output"]:
        for part in item.get("content", []):
            part.pop("parsed", None)  # which the helper adds
    return final, items


def told(r, **more):
    items = [{"type": i["type"], "status": i.get("status"), "agent": i.get("agent"), "name": i.get("name"), "arguments": i.get("arguments"),
              "text": "".join(c["text"] for c in i["content"]) if "content" in i else None} for i in r["output"]]
    return {"id": r["id"], "status": r["status"], "items": items, "usage": (r.get("usage") or {}).get("total_tokens"),
            "code": (r.get("error") or {}).get("code"), "reason": (r.get("incomplete_details") or {}).get("reason"),
            "previous": r.get("previous_response_id"), "metadata": r["metadata"], "arbor": r["arbor"], **more}


async def streamed(client, body):
    events, snapshots = [], 0
    async with client.responses.stream(**body) as stream:
        async for event in stream:
            events.append(event)
            snapshots += event.type == "response.output_text.delta"
        final, texts = assemble(events)
        if final["status"] == "completed":
            assert [i.id for i in (await stream.get_final_response()).output] == [i["id"] for i in final["output"]]
    for i in {1, len(events) // 2, len(events) - 1}:  # the client in JavaScript reads from each
        event = events[i]
        rest = [e async for e in await client.responses.retrieve(final["id"], stream=True, starting_after=event.sequence_number)]
        again = assemble(events[: i + 1] + rest)
        assert again == (final, texts), f"after {event.sequence_number}: {again} is not {(final, texts)}"
    async with client.responses.stream(response_id=final["id"], starting_after=events[1].sequence_number) as stream:
        if final["status"] == "completed":
            assert [i.id for i in (await stream.get_final_response()).output] == [i["id"] for i in final["output"]]
    return told(final, texts=texts, snapshots=snapshots, numbers=[e.sequence_number for e in events])


async def turn(client, c, said, before):
    body = {"model": c["model"], "metadata": {"from": "a test"}}
    if before:
        body["previous_response_id"] = before["id"]
    if isinstance(said, str):
        body["input"] = said
    elif "approve" in said:
        asked = [i for i in (await client.responses.retrieve(before["id"])).output if i.type == "mcp_approval_request"]
        body["input"] = [{"type": "mcp_approval_response", "approval_request_id": i.id, "approve": said["approve"], "reason": said.get("reason")} for i in asked]
    else:
        response = await client.responses.create(**body, input=said["text"], background=True)
        if said.get("cancel"):
            return told((await client.responses.cancel(response.id)).to_dict(), began=response.status)
        while response.status in ("in_progress", "queued"):
            response = await client.responses.retrieve(response.id)
        return told(response.to_dict())
    if c["stream"]:
        return await streamed(client, body)
    response = await client.responses.create(**body)
    again = await client.responses.retrieve(response.id)
    assert again.to_dict()["output"] == response.to_dict()["output"], "the response has changed"
    return told(response.to_dict())


async def conversation(c, http):
    client = openai.AsyncOpenAI(api_key="secret", base_url=c["base"], max_retries=0, timeout=600, http_client=http)
    turns, before = [], None
    for said in c["says"]:
        try:
            before = await turn(client, c, said, before)
            turns.append(before)
        except openai.APIError as e:
            turns.append({"error": {"status": getattr(e, "status_code", 0), "code": e.code or "", "message": e.message}})
        except (AssertionError, RuntimeError) as e:
            turns.append({"error": {"status": 0, "code": "", "message": str(e)}})
    return turns


async def main():
    conversations = json.load(sys.stdin)
    async with openai.DefaultAsyncHttpxClient() as http:  # one for all, because each reads the certificates
        print(json.dumps(await asyncio.gather(*(conversation(c, http) for c in conversations))))


asyncio.run(main())
