"""Asks a served agent through litellm, streamed and not, with a tool and for an answer of a type.

The input is {base, model}; the output has what the tool was given and what was said."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched
import litellm
from pydantic import BaseModel

litellm.suppress_debug_info = True  # which it prints
c = json.load(sys.stdin)
server, token, agent = c["base"], "secret", c["model"]


class City(BaseModel):
    city: str
    people: int


show_map = {"type": "function", "function": {"name": "show_map", "description": "Shows a map", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def ask(messages, stream, **more):
    answer = litellm.completion(model="openai/" + agent, api_base=server, api_key=token, messages=messages, stream=stream, num_retries=0, **more)
    return litellm.stream_chunk_builder(list(answer)) if stream else answer


out = {"said": [], "typed": [], "given": []}
for stream in (False, True):
    messages = []
    for says in ("Show me the place", "Thank you"):
        messages.append({"role": "user", "content": says})
        for _ in range(2):
            message = ask(messages, stream, tools=[show_map]).choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                out["said"].append(message.content)
                break
            for call in message.tool_calls:
                city = json.loads(call.function.arguments)["city"]
                out["given"].append(city)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": "a map of " + city})
    answer = ask([{"role": "user", "content": "Which city?"}], stream, response_format=City)
    out["typed"].append(json.loads(answer.choices[0].message.content))
print(json.dumps(out))
