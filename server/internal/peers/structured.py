"""Asks for an answer of a type, as the client that OpenAI wrote and LangChain's ChatOpenAI do.

The input is {base, model}; the output has what was parsed, for chat completions, their stream, responses and LangChain."""

import json
import sys

import openai
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

c = json.load(sys.stdin)


class City(BaseModel):
    city: str
    people: int


server, token, agent = c["base"], "secret", c["model"]
client = openai.OpenAI(base_url=server, api_key=token, max_retries=0)
messages = [{"role": "user", "content": "Which city?"}]
parsed = [client.chat.completions.parse(model=agent, messages=messages, response_format=City).choices[0].message.parsed]
with client.chat.completions.stream(model=agent, messages=messages, response_format=City) as stream:
    parsed.append(stream.get_final_completion().choices[0].message.parsed)
parsed.append(client.responses.parse(model=agent, input="Which city?", text_format=City).output_parsed)
model = ChatOpenAI(model=agent, base_url=server, api_key=token, max_retries=0)
parsed.append(model.with_structured_output(City).invoke("Which city?"))
print(json.dumps([p.model_dump() for p in parsed]))
