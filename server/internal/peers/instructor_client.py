"""Asks a served agent for answers of a type by instructor, which has them as calls of a tool, or as JSON of a schema.

The input is {base, model}; the output has what was parsed."""

import json
import sys

import instructor
import openai
from pydantic import BaseModel

c = json.load(sys.stdin)
server, token, agent = c["base"], "secret", c["model"]


class City(BaseModel):
    city: str
    people: int


out = {"typed": []}
messages = [{"role": "user", "content": "Which city?"}]
for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(openai.OpenAI(base_url=server, api_key=token, max_retries=0), mode=mode)
    city = client.chat.completions.create(model=agent, response_model=City, messages=messages, max_retries=1)
    out["typed"].append(city.model_dump())
    *_, city = client.chat.completions.create_partial(model=agent, response_model=City, messages=messages, max_retries=1)
    out["typed"].append(city.model_dump())
print(json.dumps(out))
