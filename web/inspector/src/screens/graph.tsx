import "../style/graph.css";
import type { ComponentChildren, JSX } from "preact";
import type { Schemas } from "../net/api.js";
import { agentAt, may, tree } from "../state/app.js";
import { type Route, go, route } from "../state/route.js";
import { texts } from "../texts-behind.js";
import { clock } from "../ui/amount.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { useWatched } from "../ui/watched.js";
import { GraphTopology, RunOfGraph, usePicture } from "../panes/graphrun.js";
import { Router } from "../panes/routerview.js";

type GraphRoute = Extract<Route, { screen: "graph" }>;

/** A graph of agents with its runs, or a router with what it has decided. */
export function GraphScreen(): JSX.Element {
  const now = route.value as GraphRoute;
  return may("inspect") ? <Drawn now={now} /> : <Page now={now} title={now.name}><p>{texts.agent.blind}</p></Page>;
}

function Drawn({ now }: { readonly now: GraphRoute }): JSX.Element {
  const agent = agentAt(now.name);
  const [picture, error] = usePicture(now.name);
  const { session, user } = now;
  if (tree.value === undefined) return <Page now={now} title={now.name}><p class="soft">{texts.tree.loading}</p></Page>;
  if (agent === undefined || error !== undefined) {
    return (
      <Page now={now} title={now.name}>
        <p>{agent === undefined ? texts.graphs.missing(now.name) : error}</p>
        <p>
          <Link to={{ screen: "tree", ...(agent !== undefined && { path: agent.path }) }}>{texts.graphs.showTree}</Link>
        </p>
      </Page>
    );
  }
  if (picture === undefined) return <Page now={now} title={agent.name}><p class="soft">{texts.graphs.loading}</p></Page>;
  return (
    <Page now={now} title={agent.name} kind={agent.kind} wide>
      {agent.router !== undefined ? (
        <Router agent={agent} picture={picture} session={session} user={user} />
      ) : session === undefined ? (
        <GraphTopology agent={agent} picture={picture} />
      ) : (
        <Runs now={now} agent={agent} picture={picture} id={session} />
      )}
    </Page>
  );
}

interface PageProps {
  readonly now: GraphRoute;
  readonly title: string;
  readonly kind?: string;
  readonly wide?: boolean;
  readonly children: ComponentChildren;
}

function Page({ now, title, kind, wide = false, children }: PageProps): JSX.Element {
  const { session, user } = now;
  return (
    <div class={wide ? "graph-screen" : "screen"}>
      <div class="screen-head">
        <Mark agent={title} />
        <h1 tabIndex={-1}>{title}</h1>
        {kind !== undefined && <span class="soft">{kind}</span>}
        {session !== undefined && (
          <Link to={{ screen: "session", id: session, middle: "talk", ...(user !== undefined && { user }) }}>{texts.graphs.session(session)}</Link>
        )}
        {kind !== undefined && <Link to={{ screen: "tree", path: agentAt(title)?.path ?? title }}>{texts.treePane.inTree}</Link>}
      </div>
      {children}
    </div>
  );
}

interface RunsProps {
  readonly now: GraphRoute;
  readonly agent: Schemas["Agent"];
  readonly picture: Schemas["Picture"];
  readonly id: string;
}

function Runs({ now, agent, picture, id }: RunsProps): JSX.Element {
  const { value, error } = useWatched<Schemas["GraphRuns"]>(id, "/graphs", now.user);
  const runs = value?.runs.filter((r) => r.agent === agent.name) ?? [];
  const run = now.run === undefined ? runs.at(-1) : runs.find((r) => r.runId === now.run);
  let says: string | undefined;
  if (value === undefined) says = error ?? texts.runs.loading;
  else if (error !== undefined) says = texts.graphs.old(error);
  else if (runs.length === 0) says = texts.graphs.noRun(agent.name);
  else if (run === undefined) says = texts.graphs.noSuchRun(agent.name, now.run!);
  const note = says === undefined ? null : <p class="soft">{says}</p>;
  if (run === undefined) return <GraphTopology agent={agent} picture={picture} note={note} />;
  const choose = (e: Event): void => go({ ...now, run: (e.currentTarget as HTMLSelectElement).value });
  return (
    <RunOfGraph key={run.runId} agent={agent} picture={picture} run={run} session={id} user={now.user} note={note}>
      <label>
        {texts.graphs.run}{" "}
        <select class="field" value={run.runId} onChange={choose}>
          {runs.map((r, i) => (
            <option key={r.runId} value={r.runId}>
              {texts.graphs.nth(i + 1, runs.length, clock(r.time))}
            </option>
          ))}
        </select>
      </label>
    </RunOfGraph>
  );
}
