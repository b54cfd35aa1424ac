import type { JSX } from "preact";
import { tree } from "../state/app.js";
import { texts } from "../texts.js";
import type { Sign } from "./page.js";

const signs: Readonly<Record<string, string>> = { running: "▸", waiting: "●", cut_off: "‖", done: "✓", failed: "✗", canceled: "–" };

interface Props {
  readonly state: string | undefined;
  /** The agent that has the conversation. */
  readonly active?: string;
  /** The status of the handoff to a person, where it is known. */
  readonly handoff?: string;
}

/** The state of a session as a sign and a word; a fork without a turn of its own is new. */
export function State({ state, active = "", handoff = "" }: Props): JSX.Element {
  const person = active === (tree.value?.human?.name ?? "human") && (state === "done" || state === "waiting");
  const style = person || state === "waiting" ? "asked" : state === "failed" || state === "cut_off" ? "failed" : "soft";
  const words = !person ? (texts.states[state ?? ""] ?? texts.newState) : handoff === "" ? texts.handed : withPerson.includes(handoff) ? texts.withPerson : texts.states["waiting"];
  return (
    <span class={`state ${style}`}>
      <span aria-hidden="true">{person ? signs["waiting"] : (signs[state ?? ""] ?? "○")}</span> {words}
    </span>
  );
}

/** States of a handoff in which a person has the conversation. */
const withPerson: readonly string[] = ["connected", "on_hold"];

/** What the browser's tab shows of a state. */
export function signOf(state: string | undefined): Sign {
  return state === "running" || state === "waiting" || state === "failed" ? state : "";
}
