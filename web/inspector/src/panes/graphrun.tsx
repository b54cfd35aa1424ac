import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { AgentFacts, Fact } from "../ui/agentfacts.js";
import { clock } from "../ui/amount.js";
import { Json } from "../ui/json.js";
import { Link } from "../ui/link.js";
import { PictureView, type Standing, lineKey } from "../ui/picture.js";
import { visible } from "../ui/visible.js";

type Agent = Schemas["Agent"];
type Run = Schemas["GraphRun"];
type Node = Schemas["GraphNode"];
type Edge = Schemas["GraphEdge"];

const phases: { readonly [P in Run["phases"][string]]: Standing } = {
  waiting: { sign: "…", words: "waiting", tone: "soft" },
  asking: { sign: "?", words: "asks a person", tone: "asked" },
  due: { sign: "…", words: "is next", tone: "soft" },
  running: { sign: "▸", words: "running", tone: "now" },
  paused: { sign: "‖", words: "paused", tone: "asked" },
  finished: { sign: "✓", words: "done", tone: "done" },
  failed: { sign: "✗", words: "failed", tone: "failed" },
  skipped: { sign: "–", words: "skipped", tone: "soft" },
  cancelled: { sign: "⊘", words: "cancelled", tone: "soft" },
  not_run: { sign: "–", words: "not run", tone: "soft" },
};

const edgeStates: { readonly [S in Run["edges"][number]["state"]]: Standing } = {
  taken: { sign: "✓", words: "taken", tone: "done" },
  not_taken: { sign: "–", words: "not taken", tone: "soft" },
  waiting: { sign: "…", words: "waiting", tone: "soft" },
};

const outcomes: { readonly [S in Run["status"]]: readonly [string, string] } = {
  completed: ["✓ done", ""],
  completed_with_errors: ["✓ done, with errors", ""],
  failed: ["✗ failed", "failed"],
  recovered: ["✓ recovered: the fallback has answered after an error", ""],
  waiting: ["? waits for a person", "asked"],
  cancelled: ["⊘ cancelled", ""],
};

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
  const [words, tone] = outcomes[run.status];
  return (
    <Shown {...props}>
      <div class="graph-bar">
        {children}
        <span class={run.open ? "" : tone}>{run.open && run.status !== "waiting" ? "▸ under way, or cut off" : words}</span>
        <span class="soft">began at {clock(run.time)}</span>
        <Link
          to={{
            screen: "session",
            id: session,
            middle: "runs",
            sel: { kind: "run", id: run.runId },
            ...(user !== undefined && { user }),
          }}
        >
          In the session
        </Link>
        {run.error !== undefined && (
          <span class="failed graph-error">
            {run.error.agent !== undefined && `${run.error.agent}: `}
            {visible(run.error.message)}
          </span>
        )}
      </div>
    </Shown>
  );
}

interface ShownProps extends TopologyProps {
  readonly run?: Run;
  readonly children?: ComponentChildren;
}

function Shown({ agent, picture, run, note, children }: ShownProps): JSX.Element {
  const [chosen, choose] = useState("");
  const graph = useMemo(() => flatten(agent), [agent]);
  const standing = useMemo(() => {
    const all = new Map<string, Standing>();
    for (const [id, phase] of Object.entries(run?.phases ?? {})) {
      const calls = run?.calls[id] ?? 0;
      const how = phases[phase];
      all.set(id, calls > 1 ? { ...how, words: `${how.words} ⟳${calls}` } : how);
    }
    run?.edges.forEach((e, i) => all.set(lineKey("", i), edgeStates[e.state]));
    return all;
  }, [run]);
  const press = (key: string): void => choose(key === chosen ? "" : key);
  const node = graph.nodes.get(chosen);
  const edge = graph.edges.get(chosen);
  return (
    <>
      {children}
      {note}
      <div class="graph-main">
        <section class="graph-drawing" aria-label="Drawing">
          <PictureView picture={picture} label={`Graph ${agent.name}, drawn`} chosen={chosen} choose={press} standing={standing} />
        </section>
        <section class="graph-details" aria-label="Details">
          {node !== undefined ? (
            <NodeFacts id={chosen} node={node} run={run} how={standing.get(chosen)} />
          ) : edge !== undefined ? (
            <EdgeFacts edge={edge} run={chosen.startsWith("#") ? run : undefined} how={standing.get(chosen)} />
          ) : (
            <>
              <h2>Graph</h2>
              <AgentFacts agent={agent} />
              <p class="soft">Choose a node or an edge to see more of it.</p>
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
  if (toolsOf !== undefined) return `the tools of ${toolsOf}`;
  return tool === undefined ? "a graph" : `the tool ${tool}`;
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
      <h2>Node</h2>
      <h3>{id}</h3>
      <dl class="agent-facts fact">
        <Fact name={node.agentRef === undefined ? "is" : "agent"}>{node.agentRef ?? runs(node)}</Fact>
        {node.agentRef !== undefined && node.tool !== undefined && <Fact name="tool">{node.tool}</Fact>}
        {how !== undefined && <Fact name="phase">{`${how.sign} ${how.words}`}</Fact>}
        {own && <Fact name="called">{times(run.calls[id] ?? 0)}</Fact>}
        {run?.error?.agent === id && (
          <Fact name="error">
            <span class="failed">{visible(run.error.message)}</span>
          </Fact>
        )}
      </dl>
      {own && id in run.inputs && <Value name="Input" value={run.inputs[id]} />}
      {own && id in run.outputs && <Value name="Output" value={run.outputs[id]} />}
      {run !== undefined && !own && <p class="soft">The run does not record nodes inside a node.</p>}
    </>
  );
}

function EdgeFacts({ edge, run, how }: { readonly edge: Edge; readonly run: Run | undefined; readonly how: Standing | undefined }): JSX.Element {
  return (
    <>
      <h2>Edge</h2>
      <h3>
        {edge.from} → {edge.to}
      </h3>
      <dl class="agent-facts fact">
        {how !== undefined && <Fact name="in this run">{`${how.sign} ${how.words}`}</Fact>}
        <Fact name="condition">{edge.condition === undefined ? "none" : <code>{edge.condition}</code>}</Fact>
        <Fact name="gives">{edge.transform === undefined ? "the output as it is" : <code>{edge.transform}</code>}</Fact>
        {edge.priority !== undefined && <Fact name="priority">{edge.priority}</Fact>}
        {run?.error?.edge === `${edge.from}->${edge.to}` && (
          <Fact name="error">
            <span class="failed">{visible(run.error.message)}</span>
          </Fact>
        )}
      </dl>
      {run !== undefined && edge.from in run.outputs && <Value name={`Output of ${edge.from}`} value={run.outputs[edge.from]} />}
      {run !== undefined && edge.to in run.inputs && <Value name={`Input of ${edge.to}`} value={run.inputs[edge.to]} />}
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

function times(n: number): string {
  return n === 0 ? "never" : n === 1 ? "once" : `${n} times`;
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
      <summary>As tables</summary>
      <div class="agent-list" tabIndex={0} role="region" aria-label="Nodes and edges">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Agent</th>
              {run !== undefined && <th scope="col">Phase</th>}
              {run !== undefined && <th scope="col">Called</th>}
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
                {run !== undefined && <td>{key in run.calls ? times(run.calls[key]!) : "–"}</td>}
              </tr>
            ))}
          </tbody>
        </table>
        <table>
          <thead>
            <tr>
              <th scope="col">Edge</th>
              <th scope="col">Condition</th>
              {run !== undefined && <th scope="col">In this run</th>}
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
          <p class="soft">The first {rows} of each; the drawing has all.</p>
        )}
      </div>
    </details>
  );
}
