import type { Content } from "./node.js";
import type { Path, Step } from "./path.js";
import { speaker, textField, userContent, userText } from "./payload.js";
import { none, runAt } from "./state.js";
import type { Status, ThreadOptions, ViewCall, ViewNode } from "./thread.js";

export type Draft<T> = { -readonly [K in keyof T]: T[K] };

/** A view node that is being built. */
export interface Message {
  readonly view: Draft<ViewNode>;
  /** The place of its first node. Its nodes end where the next message begins. */
  readonly from: number;
  readonly calls: Draft<ViewCall>[];
  readonly inside: number[]; // runs that began inside it without a call
  readonly inCalls: number[][]; // runs that began in each of its calls
}

/** Builds the view nodes of runs, without the runs that began inside them. */
export class Answers {
  constructor(
    private readonly path: Path,
    private readonly options: ThreadOptions,
  ) {}

  /** Returns the view nodes of a run. A tool result ends an answer: text and calls after it belong to the next one. */
  of(step: Step, messageId: string): Message[] {
    const { path } = this;
    const run = runAt(path.s, step.run);
    const collapsed = path.collapsed.has(run.id);
    const out: Message[] = [];
    let answered = false;
    let ended = false;
    const calls = new Map<string, Draft<ViewCall>>();
    const at = (content: Content, from: number): Message => {
      const last = out.at(-1);
      if (last !== undefined && !answered && last.view.role !== "user") return last;
      answered = ended = false;
      const message = { view: this.assistant(content.id, step.run, messageId, "complete"), from, calls: [], inside: [], inCalls: [] };
      out.push(message);
      return message;
    };
    for (let place = run.first; place !== none; ) {
      const item = path.item(place);
      const { content } = item;
      switch (content.kind) {
        case "user":
          out.push({ view: user(content, messageId), from: place, calls: [], inside: [], inCalls: [] });
          ended = true;
          break;
        case "text": {
          const { view } = at(content, place);
          view.text = (view.text ?? "") + content.text();
          break;
        }
        case "reasoning":
          if (!this.hidesReasoning(run.id)) {
            const { view } = at(content, place);
            view.reasoning = (view.reasoning ?? "") + content.text();
          }
          break;
        case "tool_call": {
          if (collapsed) break;
          const message = at(content, place);
          const call = this.call(step, content);
          calls.set(content.id, call);
          message.calls.push(call);
          message.inCalls.push([]);
          break;
        }
        case "tool_result":
          answered = true;
          break;
        case "tool_progress":
        case "relay": {
          const id = textField(content, "toolCallId");
          const call = calls.get(`${run.id}:${id}`) ?? calls.get(id);
          if (call !== undefined) during(call, content);
          break;
        }
        case "error": {
          const { view } = at(content, place);
          view.status = "error";
          view.error = textField(content, "message");
          ended = item.next === none;
          break;
        }
        case "harness_end":
          ended = true;
          break;
      }
      if (item.spawned !== null && !collapsed) {
        const inside = path.spawnedBy(item).filter((ri) => !path.follows(ri));
        if (content.kind === "tool_call") out.at(-1)!.inCalls.splice(-1, 1, inside);
        else if (inside.length > 0) for (const ri of inside) at(content, place).inside.push(ri);
      }
      place = place === step.cut ? none : item.next;
    }
    ended ||= step.cut !== none;
    if (out.length === 0 && !ended) {
      // The agent has not said anything yet. No node belongs to this view node.
      const view = this.assistant(path.item(run.first).content.id, step.run, messageId, "streaming");
      return [{ view, from: Infinity, calls: [], inside: [], inCalls: [] }];
    }
    this.finish(out, ended);
    return out;
  }

  /** Returns the text of one kind in the message that begins at a place and ends before another place. */
  words(kind: "text" | "reasoning", step: Step, from: number, end: number): string {
    const { path } = this;
    if (kind === "reasoning" && this.hidesReasoning(path.id(step.run))) return "";
    let out = "";
    for (let place = from; place !== none && place < end; ) {
      const item = path.item(place);
      if (item.content.kind === kind) out += item.content.text();
      place = place === step.cut ? none : item.next;
    }
    return out;
  }

  private hidesReasoning(runId: string): boolean {
    return this.options.hideReasoning === true || this.path.collapsed.has(runId);
  }

  private assistant(id: string, ri: number, messageId: string, status: Status): Draft<ViewNode> {
    const run = runAt(this.path.s, ri);
    const agent = speaker(this.path.item(run.first).content);
    return { id, runId: run.id, messageId, role: "assistant", ...(agent !== "" && { agent }), status };
  }

  // finish sets the status that is known only at the end. In a run that has not
  // ended, the last view node and the open calls are streaming. In a run that has
  // ended, a call without a result fails, unless it waits for a decision.
  private finish(messages: Message[], ended: boolean): void {
    for (const { calls, inCalls } of messages) {
      calls.forEach((call, j) => {
        if (call.status !== "streaming" && call.approval === "pending") {
          delete call.approval; // the call continued without a recorded decision
        } else if (call.status === "streaming" && ended && call.approval !== "pending") {
          call.status = "error";
        }
        if (this.options.collapseTools !== true) return;
        calls[j] = { id: call.id, name: call.name, status: call.status };
        inCalls[j] = [];
      });
    }
    const last = messages.at(-1)?.view;
    if (last !== undefined && !ended && last.status !== "error") last.status = "streaming";
  }

  private call(step: Step, content: Content): Draft<ViewCall> {
    const call: Draft<ViewCall> = { id: content.id, name: textField(content, "name"), status: "streaming" };
    const input = content.field("input");
    if (input !== undefined) call.input = input.value;
    const place = this.path.resultOf(step, content.id);
    if (place !== none) {
      call.status = "complete";
      const result = this.path.item(place).content;
      if (result.kind === "tool_result") {
        const output = result.field("output");
        if (output !== undefined) call.output = output.value;
        if (result.field("isError")?.value === true) {
          call.isError = true;
          call.status = "error";
        }
      }
    }
    return call;
  }
}

// during adds an event that occurs while a call runs.
function during(call: Draft<ViewCall>, content: Content): void {
  if (content.kind === "relay") call.approval = content.state === "" ? "pending" : content.state;
  else ((call.progress ??= []) as unknown[]).push(content.field("content")?.value ?? null);
}

function user(said: Content, messageId: string): Draft<ViewNode> {
  const view: Draft<ViewNode> = { id: said.id, runId: said.runId, messageId, role: "user", text: userText(said), status: "complete" };
  if (said.agent !== "") view.agent = said.agent;
  if (typeof userContent(said) !== "string") view.content = said.field("content")!.value;
  return view;
}
