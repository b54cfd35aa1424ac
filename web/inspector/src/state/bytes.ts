// Bytes that are kept beside the log: parts of messages, and files.
import { send } from "../net/api.js";
import { attempt } from "./app.js";

/** Asks for bytes; undefined if they cannot be had, which the reader is told. */
export function bytesOf(from: string, user: string | undefined, type: string): Promise<Blob | undefined> {
  return attempt(async () => {
    const bytes = await (await send(from, { query: { user } })).arrayBuffer();
    return new Blob([bytes], { type });
  });
}
