"""FastMCP's client: asks a served tree, over HTTP or with a command.

python askfast.py URL TOKEN, or python askfast.py - COMMAND ARG...
"""

import asyncio
import json
import os
import sys

import mcp.types as types
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

where, *rest = sys.argv[1:]
if where == "-":
    transport = StdioTransport(command=rest[0], args=rest[1:], env=dict(os.environ))
else:
    transport = StreamableHttpTransport(where, headers={"Authorization": "Bearer " + rest[0]})
asked, progress = [], []


async def elicit(message, response_type, params, context):
    asked.append(message)
    return {"approved": True}


async def report(done, total, message):
    progress.append(message)


async def main():
    async with Client(transport, elicitation_handler=elicit) as client:
        tools = [t.name for t in await client.list_tools()]
        answers, session = [], None
        for message in ["hello", "what did I say?", "refund"]:
            given = {"message": message}
            if session:
                given["session"] = session
            result = await client.call_tool("ask", given, progress_handler=report, raise_on_error=False)
            session = (result.structured_content or {}).get("session")
            answers.append({"text": result.content[0].text, "isError": result.is_error, "session": session})
        print(json.dumps({"tools": tools, "answers": answers, "asked": asked, "progress": progress}))


asyncio.run(main())
