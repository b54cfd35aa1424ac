// An agent's instructions and rights, how it routes, and the sessions in which it spoke lately.
import "../style/details.css";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Schemas, get, path } from "../net/api.js";
import { may, tree } from "../state/app.js";
import type { LogEvent } from "../state/events.js";
import { formatFilter } from "../state/list.js";
import { texts } from "../texts-behind.js";
import { AgentFacts, Fact } from "../ui/agentfacts.js";
import { clock, money } from "../ui/amount.js";
import { Copy } from "../ui/copy.js";
import { Link } from "../ui/link.js";
import { RequestView } from "../ui/request.js";
import { named } from "../ui/title.js";
import { AsIs } from "../ui/words.js";
import { EditBody } from "./body.js";
import { ByHand } from "./byhand.js";

type Agent = Schemas["Agent"];
type Details = Schemas["AgentDetails"];

/** How many sessions are looked at for how an agent routes, and how many are asked for at once. */
const most = 20;
const atOnce = 4;
/** How many runs and transfers of a session are read. */
const atMost = 2000;

/** Asks once for something of an agent, and again when the tree has changed. */
export function useOf<T>(agent: Agent, load: (signal: AbortSignal) => Promise<T>): { readonly value?: T; readonly error?: string } {
  const [got, set] = useState<{ readonly of: string; readonly value?: T; readonly error?: string }>({ of: "" });
  const of = `${tree.value?.revision} ${agent.path}`;
  useEffect(() => {
    const stop = new AbortController();
    load(stop.signal).then(
      (value) => !stop.signal.aborted && set({ of, value }),
      (error: unknown) => !stop.signal.aborted && set({ of, error: error instanceof Error ? error.message : String(error) }),
    );
    return () => stop.abort();
  }, [of]);
  return got.of === of ? got : {};
}

export function AgentDetails({ agent }: { readonly agent: Agent }): JSX.Element {
  return (
    <>
      <AgentFacts agent={agent} />
      {may("inspect") ? <Told agent={agent} /> : <p class="soft">{texts.agent.blind}</p>}
      <Lately agent={agent} />
    </>
  );
}

/** What only users with the right inspect see. */
function Told({ agent }: { readonly agent: Agent }): JSX.Element {
  const { value, error } = useOf(agent, (signal) => get<Details>(path("agents", agent.name), { signal }));
  if (value === undefined) return <p class={error === undefined ? "soft" : "failed"} aria-busy={error === undefined}>{error ?? texts.agent.loading(agent.name)}</p>;
  const { view, instructions, source, guards, limits, workshop } = value;
  return (
    <>
      <dl class="agent-facts fact">
        {source !== undefined && (
          <Fact name={texts.agent.source}>
            <span class="curl code">
              {`${source.file}:${source.line}`} <Copy text={`${source.file}:${source.line}`} what={texts.agent.place} />
            </span>
          </Fact>
        )}
        <Fact name={texts.agent.policy}>{policyOf(agent, value)}</Fact>
        <Fact name={texts.agent.guards}>{guards.length === 0 ? texts.agent.none : guards.join(" · ")}</Fact>
        <Fact name={texts.agent.limits}>{limitsOf(limits)}</Fact>
      </dl>
      {workshop !== undefined && agent.model !== undefined && source?.file.endsWith(".md") === true && <EditBody key={agent.name} agent={agent.name} file={source.file} restart={workshop.restart} />}
      {view !== undefined ? (
        <>
          <h3>{texts.agent.asked}</h3>
          <p class="soft fact">
            {texts.agent.askedOf(view.tokens, view.price === null ? "" : money((view.tokens * view.price.input) / 1e6))}
          </p>
          <RequestView request={view} />
          {workshop !== undefined && <ByHand agent={agent.name} tools={view.tools.filter((t) => workshop.tools.includes(t.function.name))} />}
        </>
      ) : (
        instructions !== undefined && (
          <>
            <h3>{texts.agent.instructions}</h3>
            <AsIs text={instructions} />
          </>
        )
      )}
    </>
  );
}

function policyOf({ subAgents = [] }: Agent, { policy }: Details): string {
  const ways = [subAgents.length > 0 && texts.agent.toSubAgents, policy.toParent && texts.agent.toParent, policy.toPeers && texts.agent.toPeers, policy.toHuman && tree.value?.human !== undefined && texts.agent.toPerson].filter((w) => w !== false);
  return texts.agent.policyOf(ways, policy.holdOnArrival);
}

function limitsOf(limits: Details["limits"]): string {
  const names = ["transfers", "modelCalls", "toolCalls", "steps", "seconds"] as const;
  const bounds = names.filter((name) => limits[name] > 0).map((name) => texts.agent.limit[name](limits[name]));
  return bounds.join(" · ") || texts.agent.none;
}

/** How an agent got the conversation and gave it away, in the sessions that changed last. */
interface Routes {
  readonly sessions: readonly Schemas["Session"][];
  /** The sessions in which the agent ran. */
  readonly spoke: readonly Schemas["Session"][];
  readonly runs: number;
  /** Whether a log has more of such events than were read. */
  readonly cut: boolean;
  readonly into: ReadonlyMap<string, number>;
  readonly out: ReadonlyMap<string, number>;
}

async function routesOf(agent: string, signal: AbortSignal): Promise<Routes> {
  const { sessions } = await get<Schemas["Sessions"]>("/sessions", { query: { limit: most }, signal });
  const [into, out, spoke] = [new Map<string, number>(), new Map<string, number>(), new Set<string>()];
  let [runs, cut] = [0, false];
  const add = (to: Map<string, number>, name: string): void => void to.set(name, (to.get(name) ?? 0) + 1);
  const queue = sessions.values();
  const work = async (): Promise<void> => {
    for (const { id } of queue) {
      const query = { types: "harness_start,transfer", before: "end", clip: 256, limit: atMost };
      const { events } = await get<{ readonly events: readonly LogEvent[] }>(`${path("sessions", id)}/events`, { query, signal });
      cut ||= events.length === atMost;
      for (const e of events) {
        if ((e.scope ?? "") !== "") continue;
        if (e.type === "harness_start" && e.agent === agent) {
          runs++;
          spoke.add(id);
        }
        if (e.type !== "transfer" || e.outcome !== "committed") continue;
        if (e.to === agent) add(into, e.from);
        if (e.from === agent) add(out, e.to);
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return { sessions, spoke: sessions.filter((s) => spoke.has(s.id)), runs, cut, into, out };
}

function Lately({ agent }: { readonly agent: Agent }): JSX.Element {
  const { value, error } = useOf(agent, (signal) => routesOf(agent.name, signal));
  if (value === undefined) return <p class={error === undefined ? "soft" : "failed"} aria-busy={error === undefined}>{error ?? texts.agent.reading}</p>;
  const { sessions, spoke, runs, cut, into, out } = value;
  return (
    <>
      <h3>{texts.agent.routes}</h3>
      <p class="soft fact">
        {sessions.length === 0 ? texts.agent.noSessions(<Link to={{ screen: "sessions" }}>{texts.startOne}</Link>) : texts.agent.lately(sessions.length, runs, agent.name)}
        {cut && texts.agent.bound(atMost)}
      </p>
      {runs > 0 && (
        <table class="d-table">
          <caption class="hidden-words">{texts.agent.transfers(agent.name)}</caption>
          <tbody>
            {shares(into, runs, texts.agent.from, texts.agent.had)}
            {shares(out, runs, texts.agent.to, texts.agent.kept)}
          </tbody>
        </table>
      )}
      {spoke.length > 0 && (
        <>
          <h3>{texts.agent.recent}</h3>
          <ul class="agent-sessions">
            {spoke.slice(0, 5).map((s) => (
              <li key={s.id}>
                <Link to={{ screen: "session", id: s.id, middle: "talk" }}>{named(s.title, s.id)}</Link> <span class="soft fact">{clock(s.updated)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      {sessions.length > 0 && (
        <p class="agent-all">
          <Link to={{ screen: "sessions", filter: formatFilter({ words: "", agent: agent.name }) }}>{texts.agent.all(agent.name)}</Link>
        </p>
      )}
    </>
  );
}

/** Rows that add up to all runs: the agents that took part, and the rest. */
function shares(of: ReadonlyMap<string, number>, runs: number, way: (agent: string) => string, rest: string): JSX.Element[] {
  const rows = [...of].sort((a, b) => b[1] - a[1]).map(([name, n]) => [way(name), n] as const);
  const left = rows.reduce((sum, [, n]) => sum - n, runs);
  return [...rows, ...(left > 0 ? [[rest, left] as const] : [])].map(([what, n]) => (
    <tr key={what}>
      <th scope="row">{what}</th>
      <td>{n}</td>
      <td>{Math.round((100 * n) / runs)} %</td>
    </tr>
  ));
}
