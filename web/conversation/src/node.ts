import type { Field } from "./event.js";
import { quote, wellFormed } from "./json.js";

/** Members that every kind of node has. */
interface Common {
  /**
   * The event's id for text, reasoning, tool_call, tool_progress and relay,
   * CALL:result for a tool_result, RUN:usage:1 and so on for usage, RUN:TYPE for
   * the others. RUN: stands before an id that another run had first.
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
 * A node. Nodes are frozen, and as long as a node says the same it is the same
 * object in all graphs. Members of the payload are as they were received, so
 * that one which the sender left out is not there. Their types are those that
 * Arbor sends; nobody checks what others send.
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
        /** What was decided; absent as long as nothing was. */
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

/** Says whether several events of one id make one node of this kind. */
export function isBlock(kind: Kind): boolean {
  return kind === "text" || kind === "reasoning";
}

/** What a node says, without its links: a change makes another one. */
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
    readonly event: string, // the event's id where the node's id does not tell it: of usage and errors
    readonly state: "" | "approved" | "denied", // of a relay
  ) {}

  with(change: { fields?: readonly Field[]; state?: "approved" | "denied" }): Content {
    const { fields = this.fields, state = this.state } = change;
    return new Content(this.id, this.runId, this.kind, fields, this.agent, this.path, this.seq, this.time, this.event, state);
  }

  // nodeField is the name of a field in a node, where "kind" is taken.
  private nodeField(name: string): string {
    return this.kind === "relay" && name === "kind" ? "relayKind" : name;
  }

  /** The node that callers see. */
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

  /** The node's JSON, with the payload as it was written. */
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

  /** A member of the payload, undefined if it is absent. */
  field(name: string): Field | undefined {
    return this.fields.find((f) => f.name === name);
  }

  /** The words of a block, "" of anything else. */
  text(): string {
    const content = isBlock(this.kind) ? this.fields[0]?.value : undefined;
    return typeof content === "string" ? wellFormed(content) : "";
  }

  /** The block with more words, or the same one if the event has none. */
  plus(fields: readonly Field[]): Content {
    const piece = fields[0];
    if (typeof piece?.value !== "string") return this;
    const before = this.fields[0];
    if (typeof before?.value !== "string") return this.with({ fields });
    // An engine appends in constant time as long as nobody looks at the letters.
    // So nothing here does, and what the text ends in is noted.
    const value = before.value + piece.value;
    const half = piece.value === "" ? before.half : piece.half;
    let json: string | undefined;
    if (before.json !== undefined || piece.json !== undefined || before.half) json = inside(before) + inside(piece);
    return this.with({ fields: [{ name: "content", value, json, half }] });
  }
}

// inside returns what stands between the quotes of a block's words.
function inside(f: Field): string {
  return f.json ?? JSON.stringify(f.value).slice(1, -1);
}

/** A member's value as JSON. */
export function fieldJSON(f: Field): string {
  if (f.half !== undefined) return `"${inside(f)}"`;
  return f.json ?? JSON.stringify(f.value) ?? "null"; // a function has no JSON
}
