import type { Graph } from "./graph.js";
import { isObject } from "./json.js";
import { type Content, fieldJSON } from "./node.js";
import { type Active, Path, type Step } from "./path.js";
import { type Part, outputText, textField, userContent } from "./payload.js";
import { find, none } from "./state.js";

/** A message in the form that `arbor conversation reduce --project messages --json` prints. */
export type Message =
  | { readonly role: "user"; readonly content: string | readonly Part[] }
  | { readonly role: "assistant"; readonly content: string | null; readonly tool_calls?: readonly Call[] }
  | { readonly role: "tool"; readonly content: string; readonly tool_call_id: string };

/** A call of a tool in a message. */
export interface Call {
  readonly id: string;
  readonly name: string;
  readonly arguments: object;
}

/** The result that messages returns for a call that has none. */
export const noResult = "This call has no result: it was not finished, and what it did is unknown.";

/**
 * Returns the conversation on the path as messages that a model accepts: the user's
 * messages, the agents' texts and calls, and after each answer one result for each of
 * its calls, in their order. Reasoning, errors, and what sub-agents did inside a call
 * are omitted. Names and arguments that endpoints refuse are made acceptable.
 */
export function messages(graph: Graph, active: Active = {}): Message[] {
  const path = new Path(graph.state, active);
  const { summary, steps } = path.summarized();
  const writer = new Writer(path);
  if (summary !== "") writer.out.push({ role: "user", content: summary });
  for (const step of steps) writer.step(step);
  return writer.out;
}

class Writer {
  readonly out: Message[] = [];
  private named = 0; // calls whose ids are not accepted
  private text = "";
  private calls: Content[] = [];

  constructor(private readonly path: Path) {}

  step(step: Step): void {
    const collapsed = this.path.collapsed.has(this.path.id(step.run));
    let answered = false; // the first result ends an answer
    const close = (): void => {
      this.answer(step);
      answered = false;
    };
    for (const [, { content }] of this.path.inStep(step)) {
      switch (content.kind) {
        case "user":
          close();
          this.user(content);
          break;
        case "text":
          if (answered) close();
          this.text += content.text();
          break;
        case "tool_call":
          if (collapsed) break;
          if (answered) close();
          this.calls.push(content);
          break;
        case "tool_result":
          answered = true;
          break;
      }
    }
    close();
  }

  private user(said: Content): void {
    let content = userContent(said);
    const only = content.length === 1 ? content[0] : undefined;
    if (typeof only === "object" && only.type === "text") content = only.text ?? "";
    if (content.length > 0) this.out.push({ role: "user", content });
  }

  // answer writes the collected text and calls, if any, and starts again.
  private answer(step: Step): void {
    const { text, calls } = this;
    this.text = "";
    this.calls = [];
    if (text === "" && calls.length === 0) return;
    const tool_calls: Call[] = [];
    const results: Message[] = [];
    for (const call of calls) {
      const id = this.callId(call.id);
      tool_calls.push({ id, name: acceptable(textField(call, "name")), arguments: argumentsOf(call) });
      const place = this.path.resultOf(step, call.id);
      const result = place === none ? undefined : this.path.item(place).content;
      results.push({ role: "tool", content: result?.kind === "tool_result" ? outputText(result, "output") : noResult, tool_call_id: id });
    }
    this.out.push({ role: "assistant", content: text === "" ? null : text, ...(calls.length > 0 && { tool_calls }) }, ...results);
  }

  // callId returns a node's id in a form that endpoints accept.
  private callId(id: string): string {
    if (/^[!-~]{1,64}$/.test(id)) return id;
    do id = `call_${++this.named}`;
    while (find(this.path.s, id) !== none);
    return id;
  }
}

function argumentsOf(call: Content): object {
  const input = call.field("input");
  if (input === undefined || input.value === null) return {};
  return isObject(input.value) ? input.value : { raw: fieldJSON(input) };
}

function acceptable(name: string): string {
  name = name.replace(/[^a-zA-Z0-9_-]/gu, "_").slice(0, 64);
  return name === "" ? "tool" : name;
}
