"""Has a conversation with an A2A server through RemoteA2aAgent of google-adk, in both of its modes.

Input: {"card": URL, "says": [text]}. Output: for each mode {"streamed": [text], "kept": [text]}: what a reader of the
stream saw of each answer, piece by piece, and which texts the session has afterwards."""

import asyncio
import json
import sys
import warnings

warnings.simplefilter("ignore")

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.runners import InMemoryRunner
from google.genai import types


def text(event):
    return "".join(p.text or "" for p in event.content.parts) if event.content and event.content.parts else ""


async def conversation(card, says, legacy):
    runner = InMemoryRunner(agent=RemoteA2aAgent(name="far", agent_card=card, use_legacy=legacy), app_name="peer")
    session = await runner.session_service.create_session(app_name="peer", user_id="ann")
    pieces = {}
    for said in says:
        message = types.Content(role="user", parts=[types.Part(text=said)])
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        async for e in runner.run_async(user_id="ann", session_id=session.id, new_message=message, run_config=config):
            if e.error_message:
                raise RuntimeError(e.error_message)
            if e.partial:
                pieces[e.id] = pieces.get(e.id, "") + text(e)
    session = await runner.session_service.get_session(app_name="peer", user_id="ann", session_id=session.id)
    kept = [t for e in session.events if e.author != "user" and (t := text(e))]
    return {"streamed": list(pieces.values()), "kept": kept}


async def main():
    asked = json.load(sys.stdin)
    modes = [conversation(asked["card"], asked["says"], legacy) for legacy in (True, False)]
    print(json.dumps(await asyncio.gather(*modes)))


asyncio.run(main())
