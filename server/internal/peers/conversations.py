"""Has a conversation by the Conversations API through the client that OpenAI wrote.

Input and output are those of conversations.mjs."""

import json
import sys

import openai

c = json.load(sys.stdin)
client = openai.OpenAI(base_url=c["base"], api_key="secret", max_retries=0)


def line(item):
    return f"{item.role}: {item.content[0].text}"


def failed(call, **args):
    try:
        call(**args)
    except openai.APIStatusError as e:
        return e.status_code


def refer(item):
    return {"type": "item_reference", "id": item.id}


made = client.conversations.create(metadata={"topic": "money"})
first = client.responses.create(model=c["model"], conversation=made.id, input="one")
second = client.responses.create(model=c["model"], conversation={"id": made.id}, input="two")
items = list(client.conversations.items.list(made.id, order="asc", limit=3))
assert line(client.conversations.items.retrieve(items[1].id, conversation_id=made.id)) == line(items[1])
said = list(client.responses.input_items.list(second.id))
history = [refer(items[0]), refer(items[1]), {"role": "user", "content": "two"}, refer(items[3])]
again = client.responses.create(model=c["model"], input=[*history, {"role": "user", "content": "three"}])
client.responses.delete(first.id)
gone = [failed(client.responses.retrieve, response_id=first.id)]
grows = failed(client.conversations.items.delete, item_id=items[0].id, conversation_id=made.id)
unknown = failed(client.responses.create, model=c["model"], input=[{"type": "item_reference", "id": "msg_1"}])
client.conversations.delete(made.id)
gone.append(failed(client.conversations.retrieve, conversation_id=made.id))
print(json.dumps({"metadata": made.metadata, "items": [line(i) for i in items], "input": [line(i) for i in said], "again": again.output_text,
                  "gone": gone, "grows": grows, "unknown": unknown}))
