// What somebody writes and has not sent yet. It is kept for each session in this window, and goes
// out with one key as long as it stays the same, so that nothing is sent twice.
import { signal } from "@preact/signals";
import type { Schemas } from "../net/api.js";
import { bytes } from "../ui/amount.js";
import { store, stored } from "../stored.js";
import { texts } from "../texts.js";
import { once } from "./actions.js";
import { tell } from "./app.js";
import type { OpenSession } from "./open.js";

/** What a server takes by default, in bytes: the text of a message, and all of its JSON. */
const mostText = 1 << 20;
const mostBody = (16 << 20) - (64 << 10); // some room for the rest of the body

export interface Attached {
  readonly part: Schemas["Part"];
  readonly name: string;
  readonly size: number;
}

export class Draft {
  readonly text = signal("");
  readonly attached = signal<readonly Attached[]>([]);
  readonly sending = signal(false);
  /** Whether it is sent when the running turn ends. */
  readonly waits = signal(false);
  /** The names of files that were attached before the page was reloaded, until the message is sent or has files again. */
  readonly lost = signal("");
  private key = "";
  private readonly kept: string;

  constructor(session: OpenSession) {
    this.kept = `arbor-draft:${session.key.user ?? ""}/${session.key.id}`;
    const [key = "", ...text] = (stored(this.kept, "sessionStorage") ?? "").split("\n");
    this.key = key;
    this.text.value = text.join("\n");
    this.lost.value = stored(`${this.kept} files`, "sessionStorage") ?? "";
  }

  write(text: string): void {
    if (text === this.text.value) return;
    this.text.value = text;
    this.waits.value = false;
    this.key = "";
    this.keep();
  }

  remove(i: number): void {
    this.attached.value = this.attached.value.filter((_, at) => at !== i);
    this.key = "";
    this.keep();
  }

  async attach(files: Iterable<File>): Promise<void> {
    for (const file of files) {
      const type = file.type.startsWith("image/") ? "image" : file.type.startsWith("audio/") ? "audio" : "file";
      const name = file.name || texts.composer.pasted;
      // Files that are too large are not read.
      const data = file.size > mostBody ? "" : await base64(file);
      this.put({ part: { type, mediaType: file.type || "application/octet-stream", data, name }, name, size: file.size });
    }
  }

  /** Adds a pasted text that is too long for the field as a separate part. */
  attachText(text: string): void {
    this.put({ part: { type: "text", text }, name: texts.composer.pastedText, size: bytesIn(text) });
  }

  private put(one: Attached): void {
    const all = [...this.attached.value, one];
    const text = all.reduce((sum, { part, size }) => sum + (part.type === "text" ? size : 0), bytesIn(this.text.value));
    if (one.part.type === "text" && text > mostText) {
      tell(texts.composer.tooLong(one.name, bytes(one.size)), true);
      return;
    }
    if (one.size > mostBody || all.reduce((sum, { part }) => sum + (part.data?.length ?? 0), 2 * text) > mostBody) {
      tell(texts.composer.tooLarge(one.name), true);
      return;
    }
    this.attached.value = all;
    this.lost.value = "";
    this.key = "";
    this.keep();
  }

  get empty(): boolean {
    return this.text.value.trim() === "" && this.attached.value.length === 0;
  }

  /** Sends what was written; it stays if that fails. */
  async send(by: (content: Schemas["Content"], key: string) => Promise<boolean>): Promise<void> {
    if (this.empty || this.sending.value) return;
    const text = this.text.value;
    const parts = this.attached.value.map((a) => a.part);
    const content = parts.length === 0 ? text : [...(text.trim() === "" ? [] : [{ type: "text" as const, text }]), ...parts];
    this.key ||= once();
    this.keep();
    this.waits.value = false;
    this.sending.value = true;
    const done = await by(content, this.key);
    this.sending.value = false;
    if (!done) return;
    this.key = "";
    if (this.attached.value.length === parts.length) this.attached.value = [];
    this.lost.value = "";
    if (this.text.value === text) this.text.value = "";
    this.keep();
  }

  private keep(): void {
    const { value } = this.text;
    // Files are not kept, so the key of a message with files is not kept either.
    const key = this.attached.value.length === 0 ? this.key : "";
    store(this.kept, value === "" ? null : `${key}\n${value}`, "sessionStorage");
    const files = this.attached.value.map(({ name }) => name).join(", ") || this.lost.value;
    store(`${this.kept} files`, files || null, "sessionStorage");
  }
}

function bytesIn(text: string): number {
  return new Blob([text]).size;
}

async function base64(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

const drafts = new WeakMap<OpenSession, Draft>();

export function draftOf(session: OpenSession): Draft {
  let draft = drafts.get(session);
  if (draft === undefined) drafts.set(session, (draft = new Draft(session)));
  return draft;
}
