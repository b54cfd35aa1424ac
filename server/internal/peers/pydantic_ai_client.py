"""Runs agents of Pydantic AI whose model is an agent behind the server: two turns with a tool, and answers of a type.

The input is {base, model}; the output has what the tool was given and what was said."""

import asyncio
import json
import sys

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

c = json.load(sys.stdin)
server, token, agent = c["base"], "secret", c["model"]


class City(BaseModel):
    city: str
    people: int


out = {"said": [], "typed": [], "given": []}


def show_map(city: str) -> str:
    """Shows a map"""
    out["given"].append(city)
    return "a map of " + city


async def read(_, events):
    async for _ in events:
        pass


async def run(agent, says, stream, **more):
    # run_stream would take the words before a call for the answer
    return await agent.run(says, event_stream_handler=read if stream else None, **more)


async def main():
    provider = OpenAIProvider(base_url=server, api_key=token)
    model = OpenAIChatModel(agent, provider=provider)
    for m in (model, OpenAIResponsesModel(agent, provider=provider)):
        for stream in (False, True):
            guide = Agent(m, tools=[show_map], retries=0)
            first = await run(guide, "Show me the place", stream)
            second = await run(guide, "Thank you", stream, message_history=first.all_messages())
            out["said"] += [first.output, second.output]
            for form in (City, NativeOutput(City)):
                typed = await run(Agent(m, output_type=form, retries=0), "Which city?", stream)
                out["typed"].append(typed.output.model_dump())
    print(json.dumps(out))


asyncio.run(main())
