import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Schemas, get, path } from "../net/api.js";
import { agentAt, tree } from "../state/app.js";
import type { OpenSession } from "../state/open.js";
import { change } from "../state/route.js";
import { graphsAt } from "../state/views.js";
import { texts } from "../texts-behind.js";
import { AgentFacts, Fact, heads } from "../ui/agentfacts.js";
import { clock } from "../ui/amount.js";
import { Json } from "../ui/json.js";
import { Link } from "../ui/link.js";
import { PictureView, type Standing, lineKey } from "../ui/picture.js";
import { visible } from "../ui/visible.js";

type Agent = Schemas["Agent"];
type Run = Schemas["GraphRun"];
type Node = Schemas["GraphNode"];
type Edge = Schemas["GraphEdge"];

const phases: { readonly [P in Run["phases"][string]]: readonly [sign: string, tone: Standing["tone"]] } = {
  waiting: ["…", "soft"],
  asking: ["?", "asked"],
  due: ["…", "soft"],
  running: ["▸", "now"],
  paused: ["‖", "asked"],
  finished: ["✓", "done"],
  failed: ["✗", "failed"],
  skipped: ["–", "soft"],
  cancelled: ["⊘", "soft"],
  not_run: ["–", "soft"],
};

type EdgeState = Run["edges"][number]["state"];
const edgeSigns: { readonly [S in EdgeState]: string } = { taken: "✓", not_taken: "–", waiting: "…" };

function ofEdge(state: EdgeState): Standing {
  return { sign: edgeSigns[state], words: texts.graphs.edges[state], tone: state === "taken" ? "done" : "soft", state };
}

const tones: { readonly [S in Run["status"]]?: string } = { failed: "failed", waiting: "asked" };

interface Flat {
  readonly nodes: ReadonlyMap<string, Node>;
  readonly edges: ReadonlyMap<string, Edge>;
}

/** The nodes and edges of a graph and of those within it, by the keys that the drawing has for them. */
function flatten(graph: { readonly nodes?: readonly Node[] | undefined; readonly edges?: readonly Edge[] | undefined }): Flat {
  const nodes = new Map<string, Node>();
  const edges = new Map<string, Edge>();
  const add = (g: typeof graph, folder: string): void => {
    g.edges?.forEach((e, i) => edges.set(lineKey(folder, i), e));
    for (const n of g.nodes ?? []) {
      nodes.set(folder + n.id, n);
      if (n.nodes !== undefined) add(n, `${folder}${n.id}/`);
    }
  };
  add(graph, "");
  return { nodes, edges };
}

interface TopologyProps {
  readonly agent: Agent;
  readonly picture: Schemas["Picture"];
  readonly note?: ComponentChildren;
}

/** A graph without a run. */
export function GraphTopology({ agent, picture, note }: TopologyProps): JSX.Element {
  return <Shown agent={agent} picture={picture} note={note} />;
}

interface RunProps extends TopologyProps {
  readonly run: Run;
  readonly session: string;
  readonly user: string | undefined;
  readonly children: ComponentChildren;
}

/** A graph with one of its runs. */
export function RunOfGraph({ children, ...props }: RunProps): JSX.Element {
  const { run, session, user } = props;
  return (
    <Shown {...props}>
      <div class="graph-bar">
        {children}
        <span class={run.open ? "" : tones[run.status]}>{texts.graphs.outcomes[run.open && run.status !== "waiting" ? "open" : run.status]}</span>
        <span class="soft">{texts.graphs.began(clock(run.time))}</span>
        <Link
          to={{
            screen: "session",
            id: session,
            middle: "runs",
            sel: { kind: "run", id: run.runId },
            ...(user !== undefined && { user }),
          }}
        >
          {texts.graphs.inSession}
        </Link>
        {run.error !== undefined && (
          <span class="failed graph-error">
            {run.error.agent !== undefined && !run.error.message.startsWith(`${run.error.agent}: `) && `${run.error.agent}: `}
            {visible(run.error.message)}
          </span>
        )}
      </div>
    </Shown>
  );
}

/** The states of the nodes and edges of a run, by the keys of the drawing. */
function standingOf(run: Run | undefined): ReadonlyMap<string, Standing> {
  const all = new Map<string, Standing>();
  for (const [id, phase] of Object.entries(run?.phases ?? {})) {
    const calls = run?.calls[id] ?? 0;
    const [sign, tone] = phases[phase];
    all.set(id, { sign, tone, words: `${texts.graphs.phases[phase]}${calls > 1 ? ` ⟳${calls}` : ""}` });
  }
  run?.edges.forEach((e, i) => all.set(lineKey("", i), ofEdge(e.state)));
  return all;
}

interface ShownProps extends TopologyProps {
  readonly run?: Run;
  readonly children?: ComponentChildren;
}

function Shown({ agent, picture, run, note, children }: ShownProps): JSX.Element {
  const [chosen, choose] = useState("");
  const graph = useMemo(() => flatten(agent), [agent]);
  const standing = useMemo(() => standingOf(run), [run]);
  const press = (key: string): void => choose(key === chosen ? "" : key);
  const node = graph.nodes.get(chosen);
  const edge = graph.edges.get(chosen);
  return (
    <>
      {children}
      {note}
      <div class="graph-main">
        <section class="graph-drawing" aria-label={texts.graphs.drawing}>
          <PictureView picture={picture} label={texts.graphs.drawn(agent.name)} chosen={chosen} choose={press} standing={standing} />
        </section>
        <section class="graph-details" aria-label={texts.session.details}>
          {node !== undefined ? (
            <NodeFacts id={chosen} node={node} run={run} how={standing.get(chosen)} />
          ) : edge !== undefined ? (
            <EdgeFacts edge={edge} run={chosen.startsWith("#") ? run : undefined} how={standing.get(chosen)} />
          ) : (
            <>
              <h2>{texts.treePane.graph}</h2>
              <AgentFacts agent={agent} />
              <p class="soft">{texts.graphs.choose}</p>
            </>
          )}
        </section>
      </div>
      <Tables graph={graph} run={run} standing={standing} press={choose} />
    </>
  );
}

/** What a node runs that has no agent of its own. */
function runs({ tool, toolsOf }: Node): string {
  if (toolsOf !== undefined) return texts.graphs.toolsOf(toolsOf);
  return tool === undefined ? texts.graphs.inner : texts.graphs.toolOf(tool);
}

interface NodeProps {
  readonly id: string;
  readonly node: Node;
  readonly run: Run | undefined;
  readonly how: Standing | undefined;
}

function NodeFacts({ id, node, run, how }: NodeProps): JSX.Element {
  const own = run !== undefined && id in run.phases;
  return (
    <>
      <h2>{texts.graphs.node}</h2>
      <h3>{id}</h3>
      <dl class="agent-facts fact">
        <Fact name={node.agentRef === undefined ? texts.graphs.runs : texts.cost.agent}>{node.agentRef ?? runs(node)}</Fact>
        {node.agentRef !== undefined && node.tool !== undefined && <Fact name={texts.cost.tool}>{node.tool}</Fact>}
        {how !== undefined && <Fact name={texts.graphs.phase}>{`${how.sign} ${how.words}`}</Fact>}
        {own && <Fact name={texts.graphs.called}>{texts.graphs.times(run.calls[id] ?? 0)}</Fact>}
        {run?.error?.agent === id && (
          <Fact name={texts.why.error}>
            <span class="failed">{visible(run.error.message)}</span>
          </Fact>
        )}
      </dl>
      {own && id in run.inputs && <Value name={texts.graphs.input} value={run.inputs[id]} />}
      {own && id in run.outputs && <Value name={texts.talk.output} value={run.outputs[id]} />}
      {run !== undefined && !own && <p class="soft">{texts.graphs.notRecorded}</p>}
    </>
  );
}

function EdgeFacts({ edge, run, how }: { readonly edge: Edge; readonly run: Run | undefined; readonly how: Standing | undefined }): JSX.Element {
  return (
    <>
      <h2>{texts.graphs.edge}</h2>
      <h3>
        {edge.from} → {edge.to}
      </h3>
      <dl class="agent-facts fact">
        {how !== undefined && <Fact name={texts.graphs.inRun}>{`${how.sign} ${how.words}`}</Fact>}
        <Fact name={texts.graphs.condition}>{edge.condition === undefined ? texts.agent.none : <code>{edge.condition}</code>}</Fact>
        <Fact name={texts.graphs.passes}>{edge.transform === undefined ? texts.graphs.asIs : <code>{edge.transform}</code>}</Fact>
        {edge.priority !== undefined && <Fact name={texts.graphs.priority}>{edge.priority}</Fact>}
        {run?.error?.edge === `${edge.from}->${edge.to}` && (
          <Fact name={texts.why.error}>
            <span class="failed">{visible(run.error.message)}</span>
          </Fact>
        )}
      </dl>
      {run !== undefined && edge.from in run.outputs && <Value name={texts.graphs.outputOf(edge.from)} value={run.outputs[edge.from]} />}
      {run !== undefined && edge.to in run.inputs && <Value name={texts.graphs.inputOf(edge.to)} value={run.inputs[edge.to]} />}
    </>
  );
}

function Value({ name, value }: { readonly name: string; readonly value: unknown }): JSX.Element {
  return (
    <>
      <h3>{name}</h3>
      <Json value={value} label={name} />
    </>
  );
}

interface TablesProps {
  readonly graph: Flat;
  readonly run: Run | undefined;
  readonly standing: ReadonlyMap<string, Standing>;
  readonly press: (key: string) => void;
}

const rows = 200;

function Tables({ graph, run, standing, press }: TablesProps): JSX.Element {
  const says = (key: string): string => {
    const how = standing.get(key);
    return how === undefined ? "–" : `${how.sign} ${how.words}`;
  };
  return (
    <details class="graph-tables">
      <summary>{texts.graphs.tables}</summary>
      <div class="agent-list" tabIndex={0} role="region" aria-label={texts.graphs.all}>
        <table>
          <thead>
            <tr>
              {heads(run === undefined ? texts.graphs.nodeColumns : [...texts.graphs.nodeColumns, ...texts.graphs.runColumns])}
            </tr>
          </thead>
          <tbody>
            {[...graph.nodes].slice(0, rows).map(([key, node]) => (
              <tr key={key}>
                <th scope="row">
                  <button class="button plain" onClick={() => press(key)}>
                    {key}
                  </button>
                </th>
                <td>{node.agentRef ?? runs(node)}</td>
                {run !== undefined && <td>{says(key)}</td>}
                {run !== undefined && <td>{key in run.calls ? texts.graphs.times(run.calls[key]!) : "–"}</td>}
              </tr>
            ))}
          </tbody>
        </table>
        <table>
          <thead>
            <tr>
              {heads(run === undefined ? texts.graphs.edgeColumns : [...texts.graphs.edgeColumns, texts.graphs.edgeRun])}
            </tr>
          </thead>
          <tbody>
            {[...graph.edges].slice(0, rows).map(([key, edge]) => (
              <tr key={key}>
                <th scope="row">
                  <button class="button plain" onClick={() => press(key)}>
                    {edge.from} → {edge.to}
                  </button>
                </th>
                <td class="code">{edge.condition ?? "–"}</td>
                {run !== undefined && <td>{says(key)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
        {(graph.nodes.size > rows || graph.edges.size > rows) && (
          <p class="soft">{texts.graphs.first(rows)}</p>
        )}
      </div>
    </details>
  );
}

/** The drawing of an agent, asked for again when the tree has changed. */
export function usePicture(name: string): readonly [Schemas["Picture"] | undefined, string | undefined] {
  const [got, set] = useState<{ readonly of: string; readonly picture?: Schemas["Picture"]; readonly error?: string }>();
  const revision = tree.value?.revision;
  useEffect(() => {
    const stop = new AbortController();
    if (revision === undefined) return;
    get<Schemas["Picture"]>(`${path("agents", name)}/drawing`, { signal: stop.signal }).then(
      (picture) => set({ of: name, picture }),
      (error: unknown) => {
        if (!stop.signal.aborted) set({ of: name, error: error instanceof Error ? error.message : String(error) });
      },
    );
    return () => stop.abort();
  }, [name, revision]);
  return got?.of === name ? [got.picture, got.error] : [undefined, undefined];
}

/** The last run of a graph at the shown moment, or the run of a message. */
function useRun(session: OpenSession, which: (run: Run) => boolean): { readonly run?: Run | undefined; readonly error?: string | undefined } {
  const { value, error } = graphsAt(session, session.facts.value.seq);
  const last = useRef<Run | undefined>(undefined); // what was known before is shown until there is an answer
  if (value !== undefined) last.current = value.runs.findLast(which);
  return { run: last.current, error };
}

/** A graph at the root, with the edges that were taken last. A node and an edge lead to why the node ran. */
export function GraphOfSession({ session, agent }: { readonly session: OpenSession; readonly agent: Agent }): JSX.Element {
  const [picture, failed] = usePicture(agent.name);
  const { run, error = failed } = useRun(session, (r) => r.agent === agent.name);
  const standing = useMemo(() => standingOf(run), [run]);
  const choose = (key: string): void => {
    const id = key.startsWith("#") ? agent.edges?.[Number(key.slice(1))]?.to : key;
    const began = session.stored.value.events.findLast((e) => e.type === "harness_start" && e.scope?.startsWith(`${run?.runId}.`) && e.scope.endsWith(`/${id}`));
    change({ sel: { kind: "ev", seq: began?.seq ?? run?.seq ?? 1 }, tab: "why" });
  };
  if (error !== undefined) return <p class="failed treepane-none">{error}</p>;
  if (picture === undefined) return <p class="soft treepane-none">{texts.graphs.loading}</p>;
  return <PictureView picture={picture} label={texts.graphs.drawn(agent.name)} chosen="" choose={choose} standing={standing} />;
}

/** Which edges of a graph led to a run of one of its nodes, or to its own answer, and which did not. */
export function EdgesOf({ session, runId, scope }: { readonly session: OpenSession; readonly runId: string; readonly scope: string }): JSX.Element | null {
  const { run } = useRun(session, (r) => r.runId === runId || scope.startsWith(`${r.runId}.`));
  if (run === undefined) return null;
  const graph = agentAt(run.agent);
  const node = run.runId === runId ? "" : scope.slice(scope.lastIndexOf("/") + 1);
  const edges = run.edges.filter(({ to }) => node === "" || to === node);
  const fallback = graph?.fallbackAgent !== undefined && run.error !== undefined && (node === "" || node === graph.fallbackAgent);
  return (
    <section>
      <h2>{texts.graphs.edgesOf(run.agent)}</h2>
      {node !== "" && node === graph?.entrypoint && <p>{texts.graphs.begins(run.agent, node)}</p>}
      {fallback && (
        <p>
          {texts.graphs.fallback(graph.fallbackAgent!, run.error?.agent)} <span class="failed">{visible(run.error!.message)}</span>
        </p>
      )}
      <ul class="d-targets">
        {edges.map(({ from, to, state }, i) => {
          const condition = graph?.edges?.find((e) => e.from === from && e.to === to)?.condition;
          const { sign, words } = ofEdge(state);
          return (
            <li key={i} data-chosen={state === "taken"}>
              <p>
                {sign} {from} → <b>{to}</b> <span class="soft">{words}</span>
              </p>
              {condition !== undefined && <p class="code d-when">{texts.graphs.when(condition)}</p>}
            </li>
          );
        })}
      </ul>
      <p>
        <Link to={{ screen: "graph", name: run.agent, session: session.key.id, run: run.runId, ...session.query }}>{texts.graphs.show}</Link>
      </p>
    </section>
  );
}
