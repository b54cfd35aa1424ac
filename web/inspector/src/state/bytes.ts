// Bytes that are stored next to the log: parts of messages, and files.
import { send } from "../net/api.js";
import { attempt } from "./app.js";

/** Loads bytes. If that fails, it tells the reader and returns undefined. */
export function bytesOf(from: string, user: string | undefined, type: string): Promise<Blob | undefined> {
  return attempt(async () => {
    const bytes = await (await send(from, { query: { user } })).arrayBuffer();
    return new Blob([bytes], { type });
  });
}
