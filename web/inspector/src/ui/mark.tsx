import "./mark.css";
import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { type Agent, tree } from "../state/app.js";
import { lettersOf } from "../state/letters.js";
import { open } from "../state/open.js";

const hues = 7;

const nobody: readonly string[] = [];
/** The agents that have spoken, in order. Marks follow this, which no delta changes, and not the moment. */
const spoke = computed((): readonly string[] => open.value?.facts.value.spoke ?? nobody);

/** The place of an agent among those that have spoken in the open session; "none" before it speaks. */
export function hueOf(agent: string): string {
  const place = spoke.value.indexOf(agent);
  return place < 0 ? "none" : String(place % hues);
}

/** The letters of all agents of the tree, and of those that have spoken. */
const letters = computed(() => lettersOf([...names(tree.value?.root), ...spoke.value]));

function names(agent: Agent | undefined): readonly string[] {
  return agent === undefined ? [] : [agent.name, ...[...(agent.subAgents ?? []), ...(agent.agents ?? [])].flatMap(names)];
}

/** An agent's badge: its letters in its colour. The name is next to it, so screen readers skip the badge. */
export function Mark({ agent, active = false }: { readonly agent: string; readonly active?: boolean }): JSX.Element {
  const place = spoke.value.indexOf(agent);
  return (
    <span class="mark" data-hue={hueOf(agent)} data-round={place >= hues ? "second" : undefined} data-active={active} aria-hidden="true">
      {letters.value.get(agent) ?? lettersOf([agent]).get(agent)}
    </span>
  );
}
