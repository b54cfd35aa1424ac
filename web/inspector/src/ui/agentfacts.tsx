import "./agentfacts.css";
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { may } from "../state/app.js";
import type { Route } from "../state/route.js";
import { branchOf, everyone, matches } from "../state/shape.js";
import { counted } from "./amount.js";
import { Json } from "./json.js";
import { Link } from "./link.js";
import { Mark } from "./mark.js";
import type { Hand } from "./treeview.js";
import { visible } from "./visible.js";

type Agent = Schemas["Agent"];

/** Whether the reader may see a drawing of an agent. */
export function drawn({ kind }: Agent): boolean {
  return (kind === "graph" || kind === "router") && may("inspect");
}

/** Where an agent is shown: a graph or a router has a drawing, any other its place in the tree. */
export function placeOf(agent: Agent, session?: string, user?: string): Route {
  if (!drawn(agent)) return { screen: "tree", path: agent.path };
  return { screen: "graph", name: agent.name, ...(session !== undefined && { session }), ...(user !== undefined && { user }) };
}

/** What the server says about an agent: nothing is left out but what it has not. */
export function AgentFacts({ agent, short = false }: { readonly agent: Agent; readonly short?: boolean }): JSX.Element {
  const { edge, router } = agent;
  return (
    <>
      <p class="agent-words">{agent.description === undefined ? <span class="soft">It has no description.</span> : visible(agent.description)}</p>
      <dl class="agent-facts fact">
        {!short && <Fact name="path">{agent.path}</Fact>}
        {agent.model !== undefined && <Fact name="model">{agent.model}</Fact>}
        {agent.remote !== undefined && <Fact name="on another machine">{agent.remote}</Fact>}
        {agent.flow !== undefined && <Fact name="runs its agents">{flows[agent.flow]}</Fact>}
        {agent.nodes !== undefined && (
          <Fact name="graph">
            {counted(agent.nodes.length, "node")}, {counted(agent.edges?.length ?? 0, "edge")}, begins with {agent.entrypoint}
            {agent.fallbackAgent !== undefined && `; after an error ${agent.fallbackAgent}`}
          </Fact>
        )}
        {agent.tools !== undefined && <Fact name="tools">{agent.tools.join(" · ")}</Fact>}
        {agent.targets !== undefined && <Fact name="may transfer to">{agent.targets.join(" · ")}</Fact>}
        {router !== undefined && (
          <Fact name="decides by">
            {counted(router.rules.length, "rule")}, else {router.default}
            {router.sticky && "; the agent that answered keeps the conversation"}
          </Fact>
        )}
        {agent.routes?.map((r) => (
          <Fact key={r.to} name="goes on with">
            {r.to}
            {r.conditional && ", if its condition holds"}
          </Fact>
        ))}
        {edge?.history !== undefined && <Fact name="sees of the conversation">{edge.history}</Fact>}
        {edge?.hideReason && <Fact name="does not read">why the conversation was transferred to it</Fact>}
        {edge?.onError !== undefined && <Fact name="if it fails">{edge.onError} goes on</Fact>}
        {edge?.input !== undefined && !short && (
          <Fact name="a transfer must carry">
            <Json value={edge.input} label="What a transfer must carry" />
          </Fact>
        )}
      </dl>
    </>
  );
}

const flows = { sequential: "one after the other", parallel: "at the same time", loop: "again and again" } as const;

export function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** What is wrong with files that have changed, and that it does not matter yet. */
export function TreeProblems({ problems }: { readonly problems: Schemas["Agents"]["problems"] }): JSX.Element | null {
  if (problems === undefined || problems.length === 0) return null;
  return (
    <div class="tree-problems" role="status">
      <p class="failed">
        The agents' files have changed and cannot be used. The tree from before still answers.
      </p>
      <ul>
        {problems.slice(0, 20).map(({ file, line, message }, i) => (
          <li key={i}>
            {file !== undefined && (
              <span class="code">
                {file}
                {line !== undefined && `:${line}`}{" "}
              </span>
            )}
            {visible(message)}
          </li>
        ))}
      </ul>
      {problems.length > 20 && <p class="soft">and {problems.length - 20} more</p>}
    </div>
  );
}

interface ListProps {
  readonly root: Agent;
  readonly human?: Agent | undefined;
  readonly active?: string;
  readonly hands?: readonly Hand[];
  readonly search: string;
  readonly to: (agent: Agent) => Route;
}

const step = 100;

/** The first of many names: the agent's own page has all. */
function some(names: readonly string[] = []): string {
  const most = 6;
  if (names.length === 0) return "–";
  return names.slice(0, most).join(" · ") + (names.length > most ? ` and ${names.length - most} more` : "");
}

/** The tree as a table, with the facts of the drawing. */
export function AgentList({ root, human, active, hands, search, to }: ListProps): JSX.Element {
  const [rows, more] = useState(step);
  const all = useMemo(() => [...everyone(branchOf(root)), ...(human === undefined ? [] : everyone(branchOf(human)))], [root, human]);
  const found = search.trim() === "" ? all : all.filter((b) => matches(b.agent, search.trim()));
  return (
    <div class="agent-list" tabIndex={0} role="region" aria-label="The tree as a list">
      <table>
        <thead>
          <tr>
            <th scope="col">Agent</th>
            <th scope="col">Depth</th>
            <th scope="col">Below</th>
            <th scope="col">May transfer to</th>
            {hands !== undefined && <th scope="col">Transferred to</th>}
          </tr>
        </thead>
        <tbody>
          {found.slice(0, rows).map(({ agent, level, parent }) => (
            <tr key={agent.path}>
              <th scope="row">
                <Mark agent={agent.name} /> <Link to={to(agent)}>{agent.name}</Link>
                {agent.kind !== "agent" && <span class="soft"> {agent.kind}</span>}
                {agent.name === active && <span class="soft"> has the conversation</span>}
              </th>
              <td>{level}</td>
              <td>{parent?.agent.name ?? "–"}</td>
              <td>{some(agent.targets)}</td>
              {hands !== undefined && (
                <td>
                  {hands
                    .filter((h) => h.from === agent.name)
                    .map((h) => (h.count > 1 ? `${h.to} ×${h.count}` : h.to))
                    .join(" · ") || "–"}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {found.length > rows && (
        <button class="button" onClick={() => more(rows + step)}>
          Show {Math.min(step, found.length - rows)} more of {found.length}
        </button>
      )}
      {found.length === 0 && <p class="soft">No agent is like “{search}”.</p>}
    </div>
  );
}
