// How projections read payloads. A member of the wrong type counts as absent.
import { isObject, wellFormed } from "./json.js";
import { type Content, fieldJSON } from "./node.js";

/** Returns a member of type string, "" for any other type. */
export function textField(content: Content, name: string): string {
  const value = content.field(name)?.value;
  return typeof value === "string" ? wellFormed(value) : "";
}

/** Returns a member as the text that a model reads: a string unchanged, any other value as its JSON. */
export function outputText(content: Content, name: string): string {
  const f = content.field(name);
  if (f === undefined) return "";
  return typeof f.value === "string" ? wellFormed(f.value) : fieldJSON(f);
}

/** A part of a user's message: a text, an image, a file or audio. data is in base64. */
export interface Part {
  readonly type: string;
  readonly text?: string;
  readonly mediaType?: string;
  readonly data?: string;
  readonly url?: string;
  readonly name?: string;
}

/**
 * Returns the content of a user's message, as text or as parts. Content of an unknown
 * form is returned as text.
 */
export function userContent(content: Content): string | Part[] {
  const value = content.field("content")?.value;
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) {
    const parts = value.map(readPart);
    if (!parts.includes(undefined)) return parts.length === 0 ? "" : (parts as Part[]);
  }
  return outputText(content, "content");
}

/** Returns the text of a user's message. */
export function userText(said: Content): string {
  const content = userContent(said);
  if (typeof content === "string") return content;
  let out = "";
  for (const { type, text = "" } of content) {
    if (type === "text") out += (out === "" ? "" : "\n") + text;
  }
  return out;
}

/** Returns the agent of the run with this first node, or "" if the node names none. */
export function speaker(first: Content): string {
  return first.agent === "" && first.kind === "harness_start" ? textField(first, "agentId") : first.agent;
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

// readPart returns undefined for a value that is not a part.
function readPart(value: unknown): Part | undefined {
  if (!isObject(value)) return undefined;
  const got = { type: "", text: "", mediatype: "", data: "", url: "", name: "" };
  for (const [name, member] of Object.entries(value)) {
    const key = name.toLowerCase(); // as the server reads it
    if (!Object.hasOwn(got, key) || member === null) continue;
    if (typeof member !== "string") return undefined;
    got[key as keyof typeof got] = wellFormed(member);
  }
  got.data = got.data.replace(/[\r\n]/g, "");
  if (!base64.test(got.data)) return undefined;
  if (got.type === "text") return { type: "text", ...(got.text !== "" && { text: got.text }) };
  if (got.type !== "image" && got.type !== "file" && got.type !== "audio") return undefined;
  return {
    type: got.type,
    ...(got.mediatype !== "" && { mediaType: got.mediatype }),
    ...(got.data !== "" && { data: got.data }),
    ...(got.url !== "" && { url: got.url }),
    ...(got.name !== "" && { name: got.name }),
  };
}
