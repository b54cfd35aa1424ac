// The events of a log as the native API sends them.
import type { Schemas } from "../net/api.js";

/** An event of a type that the page knows. Others have a type of their own and are shown as they are. */
export type LogEvent =
  | Schemas["UserEvent"]
  | Schemas["HarnessStartEvent"]
  | Schemas["TextEvent"]
  | Schemas["ReasoningEvent"]
  | Schemas["ToolCallEvent"]
  | Schemas["ToolProgressEvent"]
  | Schemas["ToolResultEvent"]
  | Schemas["RelayEvent"]
  | Schemas["RelayResolvedEvent"]
  | Schemas["TransferEvent"]
  | Schemas["RouteEvent"]
  | Schemas["HandoffStatusEvent"]
  | Schemas["StateEvent"]
  | Schemas["FileEvent"]
  | Schemas["UsageEvent"]
  | Schemas["RemoteTaskEvent"]
  | Schemas["CompactionEvent"]
  | Schemas["NoticeEvent"]
  | Schemas["DiscardEvent"]
  | Schemas["ErrorEvent"]
  | Schemas["HarnessEndEvent"];

/** Replaces an event that the server does not show to the reader. No event of a log has its type. */
export function hiddenAt(seq: number): LogEvent {
  return { type: "hidden", seq } as unknown as LogEvent;
}

export function isHidden(event: LogEvent | undefined): boolean {
  return (event?.type as string) === "hidden";
}

/** How a text was shortened. The whole text is at the address. */
export interface Clip {
  readonly bytes: number;
  readonly href: string;
}

/** The words of an event, and how they were shortened, if they were. */
export function words(value: Schemas["Words"] | undefined): { readonly text: string; readonly clip?: Clip } {
  if (value === undefined) return { text: "" };
  return typeof value === "string" ? { text: value } : { text: value.clipped, clip: value };
}

/**
 * Puts shortened words of a text, a thought or a user's message into the place of the words, since
 * the graph takes texts only, and records what was shortened.
 */
export function unclip(event: LogEvent): { readonly event: LogEvent; readonly clip?: Clip } {
  if (event.type !== "text" && event.type !== "reasoning" && event.type !== "user") return { event };
  const { content } = event;
  if (typeof content === "string" || Array.isArray(content) || content === undefined) return { event };
  return { event: { ...event, content: content.clipped } as LogEvent, clip: content };
}
