import type { Field } from "./event.js";
import { quote, wellFormed } from "./json.js";

/** Members of every kind of node. */
interface Common {
  /**
   * The id: the event's for text, reasoning, tool_call, tool_progress and relay;
   * CALL:result for a tool_result; RUN:usage:1 and so on for usage; RUN:TYPE for all
   * others. RUN: is put in front of an id that another run had first.
   */
  readonly id: string;
  readonly runId: string;
  readonly agent?: string;
  readonly path?: string;
  readonly seq?: number;
  /** RFC 3339, in UTC. */
  readonly time?: string;
}

/**
 * A node. Nodes are frozen, and a node that does not change is the same object in all
 * graphs. The members of the payload are as they were received, so a member that the
 * sender omitted is absent. Their types are those that Arbor sends; they are not
 * checked.
 */
export type Node = Common &
  (
    | { readonly kind: "text" | "reasoning"; readonly content: string }
    | { readonly kind: "tool_call"; readonly name: string; readonly input: unknown }
    | { readonly kind: "tool_result"; readonly name: string; readonly output: unknown; readonly isError?: boolean }
    | { readonly kind: "tool_progress"; readonly toolCallId: string; readonly name: string; readonly content: unknown }
    | { readonly kind: "user"; readonly content: string | readonly unknown[]; readonly metadata?: unknown }
    | { readonly kind: "harness_start"; readonly agentId: string; readonly input?: unknown }
    | {
        readonly kind: "harness_end";
        readonly agentId: string;
        readonly finishReason?: string;
        readonly target?: string;
        readonly output?: unknown;
      }
    | { readonly kind: "error"; readonly message: string; readonly code?: string; readonly retryable?: boolean }
    | {
        readonly kind: "usage";
        readonly inputTokens: number;
        readonly outputTokens: number;
        readonly cachedTokens?: number;
        readonly model?: string;
      }
    | {
        readonly kind: "relay";
        readonly relayKind: string;
        readonly toolCallId: string;
        readonly tool: string;
        readonly params: unknown;
        /** The decision; absent until there is one. */
        readonly state?: "approved" | "denied";
      }
  );

export type Kind = Node["kind"];

/** The members of a payload that nodes keep, by the event's type. */
export const payloadNames: ReadonlyMap<string, readonly string[]> = new Map([
  ["user", ["content", "metadata"]],
  ["harness_start", ["agentId", "input"]],
  ["harness_end", ["agentId", "finishReason", "target", "output"]],
  ["text", ["content"]],
  ["reasoning", ["content"]],
  ["tool_call", ["name", "input"]],
  ["tool_progress", ["toolCallId", "name", "content"]],
  ["tool_result", ["name", "output", "isError"]],
  ["relay", ["kind", "toolCallId", "tool", "params"]],
  ["usage", ["inputTokens", "outputTokens", "cachedTokens", "model"]],
  ["error", ["code", "message", "retryable"]],
]);

/** Reports whether several events with one id form one node of this kind. */
export function isBlock(kind: Kind): boolean {
  return kind === "text" || kind === "reasoning";
}

/** The content of a node, without its links. It is immutable. */
export class Content {
  private made: Node | undefined;

  constructor(
    readonly id: string,
    readonly runId: string,
    readonly kind: Kind,
    readonly fields: readonly Field[],
    readonly agent: string,
    readonly path: string,
    readonly seq: number,
    readonly time: string,
    readonly event: string, // the event's id, for usage and errors, whose node ids do not contain it
    readonly state: "" | "approved" | "denied", // of a relay
  ) {}

  with(change: { fields?: readonly Field[]; state?: "approved" | "denied" }): Content {
    const { fields = this.fields, state = this.state } = change;
    return new Content(this.id, this.runId, this.kind, fields, this.agent, this.path, this.seq, this.time, this.event, state);
  }

  // nodeField returns the name of a field in a node, because "kind" is taken.
  private nodeField(name: string): string {
    return this.kind === "relay" && name === "kind" ? "relayKind" : name;
  }

  /** Returns the node that callers receive. */
  node(): Node {
    if (this.made === undefined) {
      const node: Record<string, unknown> = { id: this.id, runId: this.runId, kind: this.kind };
      for (const f of this.fields) node[this.nodeField(f.name)] = f.value;
      if (this.state !== "") node["state"] = this.state;
      if (this.agent !== "") node["agent"] = this.agent;
      if (this.path !== "") node["path"] = this.path;
      if (this.seq !== 0) node["seq"] = this.seq;
      if (this.time !== "") node["time"] = this.time;
      this.made = Object.freeze(node) as unknown as Node;
    }
    return this.made;
  }

  /** Returns the node's JSON, with the payload as it was written. */
  json(): string {
    let out = `{"id":${quote(this.id)},"runId":${quote(this.runId)},"kind":"${this.kind}"`;
    for (const f of this.fields) out += `,"${this.nodeField(f.name)}":${fieldJSON(f)}`;
    if (this.state !== "") out += `,"state":"${this.state}"`;
    if (this.agent !== "") out += `,"agent":${quote(this.agent)}`;
    if (this.path !== "") out += `,"path":${quote(this.path)}`;
    if (this.seq !== 0) out += `,"seq":${this.seq}`;
    if (this.time !== "") out += `,"time":"${this.time}"`;
    return out + "}";
  }

  /** Returns a member of the payload, or undefined. */
  field(name: string): Field | undefined {
    return this.fields.find((f) => f.name === name);
  }

  /** Returns the text of a block, "" for other nodes. */
  text(): string {
    const content = isBlock(this.kind) ? this.fields[0]?.value : undefined;
    return typeof content === "string" ? wellFormed(content) : "";
  }

  /** Returns the block with more text, or the same block if the event has none. */
  plus(fields: readonly Field[]): Content {
    const piece = fields[0];
    if (typeof piece?.value !== "string") return this;
    const before = this.fields[0];
    if (typeof before?.value !== "string") return this.with({ fields });
    // JavaScript engines append in constant time as long as no character is read.
    // So this function reads none, and the end of the text is recorded.
    const value = before.value + piece.value;
    const half = piece.value === "" ? before.half : piece.half;
    let json: string | undefined;
    if (before.json !== undefined || piece.json !== undefined || before.half) json = inside(before) + inside(piece);
    return this.with({ fields: [{ name: "content", value, json, half }] });
  }
}

// inside returns the text of a block as JSON, without the quotes.
function inside(f: Field): string {
  return f.json ?? JSON.stringify(f.value).slice(1, -1);
}

/** Returns a member's value as JSON. */
export function fieldJSON(f: Field): string {
  if (f.half !== undefined) return `"${inside(f)}"`;
  return f.json ?? JSON.stringify(f.value) ?? "null"; // a function has no JSON
}
