import type { Graph } from "./graph.js";
import type { Content } from "./node.js";
import { type Active, type Beginnings, Path, type Step } from "./path.js";
import { textField, userContent } from "./payload.js";
import { none, runAt } from "./state.js";

export type Status = "streaming" | "complete" | "error";

/**
 * One message of a chat window: what the user said, or one answer of a model with
 * its calls and their results. Members without a value are absent.
 */
export interface ViewNode {
  /** That of the first graph node that it shows. */
  readonly id: string;
  readonly runId: string;
  readonly role: "user" | "assistant" | "summary";
  readonly agent?: string;
  readonly text?: string;
  /** The user's content as it was received, if it is not just text. */
  readonly content?: unknown;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ViewCall[];
  /** The runs that began inside of this one without a call, such as the children of a workflow. */
  readonly branches?: readonly (readonly ViewNode[])[];
  readonly status: Status;
  readonly error?: string;
  /** If several runs can stand here: their first nodes, this one's among them, from the oldest to the newest. */
  readonly alternatives?: readonly string[];
}

/** A call of a tool. */
export interface ViewCall {
  readonly id: string;
  readonly name: string;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly isError?: true;
  readonly progress?: unknown[];
  /** There if somebody is asked. */
  readonly approval?: "pending" | "approved" | "denied";
  /** What sub-agents do inside of the call, one list a run and those that follow it. */
  readonly branches?: readonly (readonly ViewNode[])[];
  readonly status: Status;
}

export interface ThreadOptions {
  /** Leaves out what models thought. */
  readonly hideReasoning?: boolean;
  /** Keeps of calls their ids, names and status. */
  readonly collapseTools?: boolean;
}

/**
 * Returns the conversation on the path as a chat window shows it. An agent that
 * has begun and said nothing yet has a view node without words.
 */
export function thread(graph: Graph, active: Active = {}, options: ThreadOptions = {}): ViewNode[] {
  const path = new Path(graph.state, active);
  const threader = new Threader(path, options);
  const { summary, before, steps } = path.summarized();
  const out: ViewNode[] = [];
  if (before.length > 0) {
    const first = runAt(graph.state, before[0]!.run);
    const node = { id: path.item(first.first).content.id, runId: first.id, role: "summary" as const };
    out.push(summary === "" ? { ...node, status: "complete" } : { ...node, text: summary, status: "complete" });
  }
  for (const node of threader.thread(steps)) out.push(node);
  // Agents can nest deeply: a list of what is still to be done takes the place of
  // recursion.
  for (let next = threader.todo.pop(); next !== undefined; next = threader.todo.pop()) {
    for (const node of threader.thread(path.onward(next.run))) next.to.push(node);
  }
  return out;
}

type Draft<T> = { -readonly [K in keyof T]: T[K] };

interface Message {
  view: Draft<ViewNode>;
  calls: Draft<ViewCall>[];
  inside: number[]; // runs that began inside of it without a call
  inCalls: number[][]; // and in each of its calls
}

class Threader {
  readonly todo: { run: number; to: ViewNode[] }[] = [];
  private readonly beginnings: Beginnings;

  constructor(
    private readonly path: Path,
    private readonly options: ThreadOptions,
  ) {
    this.beginnings = path.beginnings();
  }

  thread(steps: readonly Step[]): ViewNode[] {
    const out: ViewNode[] = [];
    for (const step of steps) {
      const nodes = this.step(step);
      const alternatives = this.alternatives(step.run);
      if (nodes[0] !== undefined && alternatives.length > 1) nodes[0].alternatives = alternatives;
      for (const node of nodes) out.push(node);
    }
    return out;
  }

  private alternatives(ri: number): string[] {
    const { path } = this;
    const { parent } = runAt(path.s, ri);
    let runs: readonly number[] = [];
    if (path.follows(ri)) runs = path.followers(path.item(parent).run);
    else if (parent === none) runs = this.beginnings.after.get(this.beginnings.before.get(ri)!) ?? [];
    return runs.map((run) => path.item(runAt(path.s, run).first).content.id);
  }

  // step returns the view nodes of a run. A result ends an answer: words and calls
  // behind it are the next one.
  private step(step: Step): Draft<ViewNode>[] {
    const { path } = this;
    const run = runAt(path.s, step.run);
    const collapsed = path.collapsed.has(run.id);
    const out: Message[] = [];
    let answered = false;
    let ended = false;
    const calls = new Map<string, [Message, number]>();
    const at = (content: Content): Message => {
      const last = out.at(-1);
      if (last !== undefined && !answered && last.view.role !== "user") return last;
      answered = ended = false;
      const message: Message = { view: this.assistant(content.id, step.run, "complete"), calls: [], inside: [], inCalls: [] };
      out.push(message);
      return message;
    };
    for (const [, item] of path.inStep(step)) {
      const { content } = item;
      switch (content.kind) {
        case "user":
          out.push({ view: user(content), calls: [], inside: [], inCalls: [] });
          ended = true;
          break;
        case "text": {
          const { view } = at(content);
          view.text = (view.text ?? "") + content.text();
          break;
        }
        case "reasoning":
          if (!collapsed && this.options.hideReasoning !== true) {
            const { view } = at(content);
            view.reasoning = (view.reasoning ?? "") + content.text();
          }
          break;
        case "tool_call": {
          if (collapsed) continue;
          const message = at(content);
          calls.set(content.id, [message, message.calls.length]);
          message.calls.push(this.call(step, content));
          message.inCalls.push([]);
          break;
        }
        case "tool_result":
          answered = true;
          break;
        case "tool_progress":
        case "relay": {
          const id = textField(content, "toolCallId");
          const found = calls.get(`${run.id}:${id}`) ?? calls.get(id);
          if (found !== undefined) during(found[0].calls[found[1]]!, content);
          break;
        }
        case "error": {
          const { view } = at(content);
          view.status = "error";
          view.error = textField(content, "message");
          ended = item.next === none;
          break;
        }
        case "harness_end":
          ended = true;
          break;
      }
      const inside = path.spawnedBy(item).filter((ri) => !path.follows(ri));
      if (inside.length > 0 && !collapsed) {
        const found = calls.get(content.id);
        if (found !== undefined) found[0].inCalls[found[1]] = inside;
        else at(content).inside.push(...inside);
      }
    }
    if (out.length === 0 && !ended && step.cut === none) {
      return [this.assistant(path.item(run.first).content.id, step.run, "streaming")];
    }
    return this.finish(out, ended || step.cut !== none);
  }

  private assistant(id: string, ri: number, status: Status): Draft<ViewNode> {
    const run = runAt(this.path.s, ri);
    const first = this.path.item(run.first).content;
    const agent = first.agent === "" && first.kind === "harness_start" ? textField(first, "agentId") : first.agent;
    return { id, runId: run.id, role: "assistant", ...(agent !== "" && { agent }), status };
  }

  // later notes that the threads of runs are still to be made, and returns the list
  // in which they will stand.
  private later(runs: readonly number[]): ViewNode[][] {
    return runs.map((run) => {
      const to: ViewNode[] = [];
      this.todo.push({ run, to });
      return to;
    });
  }

  // finish sets what can be said only at the end: in a run that goes on, its last
  // view node and its open calls are streaming; in one that is over, a call that
  // nobody answered and nobody can decide about has failed.
  private finish(messages: Message[], ended: boolean): Draft<ViewNode>[] {
    return messages.map(({ view, calls, inside, inCalls }, i) => {
      if (view.text === "") delete view.text;
      if (view.reasoning === "") delete view.reasoning;
      if (view.error === "") delete view.error;
      if (inside.length > 0) view.branches = this.later(inside);
      calls.forEach((call, j) => {
        if (call.status !== "streaming" && call.approval === "pending") {
          delete call.approval; // it went on without a decision that was recorded
        } else if (call.status === "streaming" && ended && call.approval !== "pending") {
          call.status = "error";
        }
        const runs = inCalls[j]!;
        if (this.options.collapseTools === true) calls[j] = { id: call.id, name: call.name, status: call.status };
        else if (runs.length > 0) call.branches = this.later(runs);
      });
      if (calls.length > 0) view.toolCalls = calls;
      if (i === messages.length - 1 && !ended && view.status !== "error") view.status = "streaming";
      return view;
    });
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

// during adds to a call what happens while it runs.
function during(call: Draft<ViewCall>, content: Content): void {
  if (content.kind === "relay") call.approval = content.state === "" ? "pending" : content.state;
  else (call.progress ??= []).push(content.field("content")?.value ?? null);
}

function user(said: Content): Draft<ViewNode> {
  const view: Draft<ViewNode> = { id: said.id, runId: said.runId, role: "user", status: "complete" };
  if (said.agent !== "") view.agent = said.agent;
  const content = userContent(said);
  if (typeof content === "string") {
    view.text = content;
  } else {
    view.content = said.field("content")!.value;
    view.text = "";
    for (const part of content) {
      if (part.type === "text") view.text += (view.text === "" ? "" : "\n") + (part.text ?? "");
    }
  }
  return view;
}
