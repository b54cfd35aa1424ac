"""The official Python client: asks a served tree, over HTTP or with a command.

python ask.py URL TOKEN, or python ask.py - COMMAND ARG...
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

where, *rest = sys.argv[1:]
asked, progress = [], []


def server():
    if where == "-":
        return StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ))
    headers = {"Authorization": "Bearer " + rest[0]}
    return streamable_http_client(where, http_client=httpx2.AsyncClient(headers=headers, timeout=30))


async def elicit(context, params):
    asked.append(params.message)
    return ElicitResult(action="accept", content={"approved": True})


async def report(done, total, message):
    progress.append(message)


async def main():
    async with Client(server(), elicitation_callback=elicit) as client:
        tools = [t.name for t in (await client.list_tools()).tools]
        answers, session = [], None
        for message in ["hello", "what did I say?", "refund"]:
            given = {"message": message}
            if session:
                given["session"] = session
            result = await client.call_tool("ask", given, progress_callback=report)
            session = (result.structured_content or {}).get("session")
            answers.append({"text": result.content[0].text, "isError": result.is_error, "session": session})
        print(json.dumps({"tools": tools, "answers": answers, "asked": asked, "progress": progress}))


asyncio.run(main())
