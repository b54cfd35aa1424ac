"""The same on LangGraph, with its checkpointer on SQLite: see cold_test.go.

Its nodes are the two agents, who hand over by a value of the state, as its documentation shows for
agents that stay active. A history is stored with one update of the state, because a checkpoint holds all
messages: storing one a step would take the square of the length.
"""

import json
import os
import sqlite3
import time
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

MESSAGE = "I am charged twice for my subscription"
SENTENCE = "I see two charges and refund one."
seen = 0


class State(TypedDict):
    messages: Annotated[list, add_messages]
    active: str


def support(state: State):
    return {"active": "billing"}


def billing(state: State):
    global seen
    seen = len(state["messages"])
    return {"messages": [AIMessage(SENTENCE, name="billing")]}


def graph(connection):
    g = StateGraph(State)
    g.add_node("support", support)
    g.add_node("billing", billing)
    g.add_conditional_edges(START, lambda s: s.get("active") or "support", ["support", "billing"])
    g.add_edge("support", "billing")
    g.add_edge("billing", END)
    return g.compile(checkpointer=SqliteSaver(connection))


where, fill = os.environ["COLD_WHERE"], int(os.environ["COLD_FILL"])
config = {"configurable": {"thread_id": "s1"}}
began = time.perf_counter()
connection = sqlite3.connect(where, check_same_thread=False)
runs = graph(connection)
if fill:
    runs.invoke({"messages": [HumanMessage(MESSAGE)]}, config)
    past = []
    for _ in range(fill - 1):
        past += [HumanMessage(MESSAGE), AIMessage(SENTENCE, name="billing")]
    runs.update_state(config, {"messages": past}, as_node="billing")
else:
    out = runs.invoke({"messages": [HumanMessage(MESSAGE)]}, config)
    took = time.perf_counter() - began
    assert out["messages"][-1].content == SENTENCE, out["messages"][-1]
    print(json.dumps({"time": int(took * 1e9), "seen": seen}))
connection.close()
