"""Runs agents of OpenAI's Agents SDK whose model is an agent behind the server, with tools, with a transfer between agents
of the SDK, with an approval of a call of the server's, with an answer of a type, and with a history that the server keeps.

The input is {base, model}; the output has what the tool was given and what was said."""

import asyncio
import json
import sys

from agents import Agent, OpenAIChatCompletionsModel, OpenAIConversationsSession, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

c = json.load(sys.stdin)
server, token, agent = c["base"], "secret", c["model"]
set_tracing_disabled(True)
given, asked = [], []


class City(BaseModel):
    city: str
    people: int


@function_tool
def show_map(city: str) -> str:
    """Shows a map"""
    given.append(city)
    return "a map of " + city


@function_tool
def arbor_approve(tool: str, params: str) -> bool:
    """Decides whether the server may run a tool"""
    asked.append([tool, json.loads(params)])
    return json.loads(params)["amount"] < 10


async def run(starting, says, stream, **more):
    if not stream:
        result = await Runner.run(starting, says, **more)
    else:
        result = Runner.run_streamed(starting, says, **more)
        async for _ in result.stream_events():
            pass
    return result


async def main():
    client = AsyncOpenAI(base_url=server, api_key=token, max_retries=0, timeout=600)
    model = OpenAIResponsesModel(model=agent, openai_client=client)
    chats = OpenAIChatCompletionsModel(model=agent, openai_client=client)
    out = {"said": [], "transferred": [], "typed": [], "approved": [], "items": [], "kept": []}
    for m in (model, chats):
        for stream in (False, True):
            guide = Agent(name="Guide", model=m, tools=[show_map])
            first = await run(guide, "Show me the place", stream)
            second = await run(guide, first.to_input_list() + [{"role": "user", "content": "Thank you"}], stream)
            twice = await run(guide, "Show me two maps", stream)
            out["said"] += [first.final_output, second.final_output, twice.final_output]
            for other in (m, type(m)(model=agent + "/maps", openai_client=client)):
                desk = Agent(name="Desk", model=other, tools=[show_map])
                triage = Agent(name="Triage", model=m, handoffs=[desk])
                moved = await run(triage, "Call the desk", stream)
                out["transferred"].append([moved.last_agent.name, moved.final_output])
            till = Agent(name="Till", model=m, tools=[arbor_approve])
            for says in ("Refund 7", "Refund 70"):
                out["approved"].append((await run(till, says, stream)).final_output)
            typed = await run(Agent(name="Reader", model=m, output_type=City), "Which city?", stream)
            out["typed"].append(typed.final_output.model_dump())
    for stream in (False, True):
        guide, conversation = Agent(name="Guide", model=model, tools=[show_map]), (await client.conversations.create()).id
        last = None
        for says in ("Show me the place", "Thank you"):
            out["said"].append((await run(guide, says, stream, conversation_id=conversation)).final_output)
            last = await run(guide, says, stream, previous_response_id=last and last.last_response_id)
            out["said"].append(last.final_output)
        out["items"].append(len([i async for i in client.conversations.items.list(conversation, limit=2)]))
        session = OpenAIConversationsSession(openai_client=client)
        for says in ("Show me the place", "Thank you"):
            out["kept"].append((await run(guide, says, stream, session=session)).final_output)
        undone = [await session.pop_item() for _ in range(2)]
        out["kept"].append([item["role"] for item in undone])
        out["kept"].append((await run(guide, "Thank you", stream, session=session)).final_output)
        out["kept"].append([item.get("role", item["type"]) for item in await session.get_items()])
        await session.clear_session()
    out["given"], out["asked"] = given, asked
    print(json.dumps(out))


asyncio.run(main())
