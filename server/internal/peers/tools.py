"""Runs functions of its own for a model, as LangChain's ChatOpenAI and the client that OpenAI wrote call them.

Input and output are those of tools.mjs."""

import json
import sys

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

c = json.load(sys.stdin)
given = []


@tool
def show_map(city: str) -> str:
    """Shows a map"""
    given.append({"city": city})
    return "a map of " + city


def langchain(streams):
    model = ChatOpenAI(model=c["model"], base_url=c["base"], api_key="secret", max_retries=0, streaming=streams).bind_tools([show_map])
    messages = [HumanMessage(c["says"])]
    for _ in range(3):
        if streams:
            answer = None
            for chunk in model.stream(messages):
                answer = chunk if answer is None else answer + chunk
        else:
            answer = model.invoke(messages)
        messages.append(answer)
        if not answer.tool_calls:
            return answer.content
        for call in answer.tool_calls:
            messages.append(ToolMessage(show_map.invoke(call["args"]), tool_call_id=call["id"]))


def responses(streams):
    client = openai.OpenAI(base_url=c["base"], api_key="secret", max_retries=0)
    tools = [{"type": "function", "name": "show_map", "description": "Shows a map", "strict": True,
              "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}]
    before, said = openai.NOT_GIVEN, c["says"]
    for _ in range(3):
        if streams:
            with client.responses.stream(model=c["model"], input=said, tools=tools, previous_response_id=before) as stream:
                answer = stream.get_final_response()
        else:
            answer = client.responses.create(model=c["model"], input=said, tools=tools, previous_response_id=before)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        before, said = answer.id, []
        for call in calls:
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": show_map.invoke(json.loads(call.arguments))})


said = [client(streams) for streams in (False, True) for client in (langchain, responses)]
print(json.dumps({"given": given, "said": said}))
