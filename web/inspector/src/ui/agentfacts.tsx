import "./agentfacts.css";
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { may } from "../state/app.js";
import type { Route } from "../state/route.js";
import { branchOf, everyone, matches } from "../state/shape.js";
import { texts } from "../texts-behind.js";
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

/** Everything that the server reports about an agent. */
export function AgentFacts({ agent, short = false }: { readonly agent: Agent; readonly short?: boolean }): JSX.Element {
  const { edge, router } = agent;
  return (
    <>
      <p class="agent-words">{agent.description === undefined ? <span class="soft">{texts.agent.noDescription}</span> : visible(agent.description)}</p>
      <dl class="agent-facts fact">
        {!short && <Fact name={texts.agent.path}>{agent.path}</Fact>}
        {agent.model !== undefined && <Fact name={texts.agent.model}>{agent.model}</Fact>}
        {agent.remote !== undefined && <Fact name={texts.agent.remote}>{agent.remote}</Fact>}
        {agent.flow !== undefined && <Fact name={texts.agent.flow}>{texts.agent.flows[agent.flow]}</Fact>}
        {agent.nodes !== undefined && (
          <Fact name={texts.agent.graph}>{texts.agent.graphOf(agent.nodes.length, agent.edges?.length ?? 0, agent.entrypoint, agent.fallbackAgent)}</Fact>
        )}
        {agent.tools !== undefined && <Fact name={texts.agent.tools}>{agent.tools.join(" · ")}</Fact>}
        {agent.targets !== undefined && <Fact name={texts.agent.targets}>{agent.targets.join(" · ")}</Fact>}
        {router !== undefined && (
          <Fact name={texts.agent.router}>{texts.agent.routerOf(router.rules.length, router.default, router.sticky)}</Fact>
        )}
        {agent.routes?.map((r) => (
          <Fact key={r.to} name={texts.agent.route}>
            {texts.agent.routeTo(r.to, r.conditional === true)}
          </Fact>
        ))}
        {edge?.history !== undefined && <Fact name={texts.agent.history}>{edge.history}</Fact>}
        {edge?.hideReason && <Fact name={texts.agent.hidden}>{texts.agent.reason}</Fact>}
        {edge?.onError !== undefined && <Fact name={texts.agent.onError}>{texts.agent.continues(edge.onError)}</Fact>}
        {edge?.input !== undefined && !short && (
          <Fact name={texts.agent.input}>
            <Json value={edge.input} label={texts.agent.inputLabel} />
          </Fact>
        )}
      </dl>
    </>
  );
}

/** The heads of a table's columns. */
export function heads(names: readonly string[]): JSX.Element[] {
  return names.map((name) => (
    <th key={name} scope="col">
      {name}
    </th>
  ));
}

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
      <p class="failed">{texts.tree.broken}</p>
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
      {problems.length > 20 && <p class="soft">{texts.tree.more(problems.length - 20)}</p>}
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
  return names.slice(0, most).join(" · ") + (names.length > most ? ` ${texts.tree.more(names.length - most)}` : "");
}

/** The tree as a table, with the facts of the drawing. */
export function AgentList({ root, human, active, hands, search, to }: ListProps): JSX.Element {
  const [rows, more] = useState(step);
  const all = useMemo(() => [...everyone(branchOf(root)), ...(human === undefined ? [] : everyone(branchOf(human)))], [root, human]);
  const found = search.trim() === "" ? all : all.filter((b) => matches(b.agent, search.trim()));
  return (
    <div class="agent-list" tabIndex={0} role="region" aria-label={texts.tree.list.name}>
      <table>
        <thead>
          <tr>
            {heads(texts.tree.list.columns.slice(0, hands === undefined ? -1 : undefined))}
          </tr>
        </thead>
        <tbody>
          {found.slice(0, rows).map(({ agent, level, parent }) => (
            <tr key={agent.path}>
              <th scope="row">
                <Mark agent={agent.name} /> <Link to={to(agent)}>{agent.name}</Link>
                {agent.kind !== "agent" && <span class="soft"> {agent.kind}</span>}
                {agent.name === active && <span class="soft"> {texts.tree.list.active}</span>}
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
          {texts.tree.list.more(Math.min(step, found.length - rows), found.length)}
        </button>
      )}
      {found.length === 0 && <p class="soft">{texts.tree.list.none(search)}</p>}
    </div>
  );
}
