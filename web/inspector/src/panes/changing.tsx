// What an agent has in a fork instead of what it has in the tree.
import type { JSX } from "preact";
import type { Schemas } from "../net/api.js";
import { get, path } from "../net/api.js";
import { agentAt, tree } from "../state/app.js";
import { branchOf, everyone } from "../state/shape.js";
import { texts } from "../texts-behind.js";
import { Waiting } from "./detail.js";
import { useOf } from "./agent.js";

type Change = Schemas["Change"] & object;
type Part = "description" | "model" | "instructions";

/** How many agents can be chosen. */
const most = 200;

/** The parts that a change names. */
export function partsOf(change: Change): readonly Part[] {
  return (["description", "model", "instructions"] as const).filter((part) => change[part] != null);
}

interface Props {
  readonly change: Change;
  readonly set: (change: Change) => void;
}

export function Changing({ change, set }: Props): JSX.Element {
  const root = tree.value?.root;
  const all = root === undefined ? [] : Array.from(everyone(branchOf(root)), (b) => b.agent);
  const agent = agentAt(change.agent);
  return (
    <div class="fields">
      <label class="fields-one">
        <span class="fact">{texts.whatIf.agent}</span>
        <select class="field" value={change.agent} onChange={(e) => set({ agent: e.currentTarget.value })}>
          {all.slice(0, most).map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      {agent !== undefined && <Parts key={agent.name} agent={agent} change={change} set={set} />}
    </div>
  );
}

function Parts({ agent, change, set }: Props & { readonly agent: Schemas["Agent"] }): JSX.Element {
  const { value, error } = useOf(agent, (signal) => get<Schemas["AgentDetails"]>(path("agents", agent.name), { signal }));
  if (value === undefined) return <Waiting error={error} what={texts.whatIf.instructionsOf(agent.name)} />;
  const old: Readonly<Record<Part, string>> = { description: agent.description ?? "", model: agent.model ?? "", instructions: value.instructions ?? "" };
  const field = (part: Part): JSX.Element => {
    const common = {
      class: "field",
      dir: "auto" as const,
      value: change[part] ?? old[part],
      onInput: (e: { readonly currentTarget: { readonly value: string } }) => {
        const { [part]: _, ...rest } = change;
        const { value } = e.currentTarget;
        set(value === old[part] ? rest : { ...rest, [part]: value });
      },
    };
    return (
      <label class="fields-one">
        <span class="fact">
          {texts.whatIf.parts[part]} {change[part] != null && <span class="soft">{texts.whatIf.changed}</span>}
        </span>
        {part === "model" ? <input {...common} /> : <textarea {...common} rows={part === "description" ? 2 : 6} />}
      </label>
    );
  };
  return (
    <>
      {field("description")}
      {agent.model !== undefined && field("model")}
      {agent.model !== undefined && field("instructions")}
    </>
  );
}
