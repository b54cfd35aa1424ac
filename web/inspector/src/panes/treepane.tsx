import "../style/treepane.css";
import { useComputed } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { agentAt, tree } from "../state/app.js";
import type { OpenSession } from "../state/open.js";
import { type SessionRoute, go, route } from "../state/route.js";
import { texts } from "../texts-behind.js";
import { AgentFacts, AgentList, TreeProblems, drawn, placeOf } from "../ui/agentfacts.js";
import { Icon } from "../ui/icons.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { TreeBar } from "../ui/treebar.js";
import { GraphOfSession } from "./graphrun.js";
import { type Hand, TreeView, type TreeViewProps } from "../ui/treeview.js";

type Agent = Schemas["Agent"];

/** The tree of a session, with the active agent and the transfers of this turn. */
export function TreePane({ session }: { readonly session: OpenSession }): JSX.Element {
  const facts = session.facts.value;
  const { value: spoke } = useComputed(() => session.stored.value.end.facts.spoke);
  const [search, find] = useState("");
  const [list, show] = useState(false);
  const [chosen, choose] = useState<string>();
  const passing = usePassing(session);
  const hands = useHands(session);
  const agents = tree.value;
  if (agents === undefined) return <p class="soft treepane-none">{texts.tree.loading}</p>;
  const { root, human, problems } = agents;
  const agent = chosen === undefined ? undefined : chosen === human?.path ? human : agentAt(chosen);
  const to = (a: Agent) => placeOf(a, session.key.id, session.key.user);
  const gone = facts.active !== "" && facts.active !== human?.name && agentAt(facts.active) === undefined;
  if (root.kind === "graph" && drawn(root)) {
    return (
      <div class="treepane">
        <TreeProblems problems={problems} />
        <p class="treepane-none">
          {texts.treePane.graph} <Link to={to(root)}>{root.name}</Link>
        </p>
        <GraphOfSession session={session} agent={root} />
      </div>
    );
  }
  return (
    <div class="treepane">
      <TreeProblems problems={problems} />
      <TreeBar
        search={search}
        find={find}
        list={list}
        show={show}
        away={() => (route.peek() as SessionRoute).middle === "feed"}
      />
      {list ? (
        <AgentList root={root} human={human} active={facts.active} hands={hands} search={search} to={to} />
      ) : (
        <TreeView
          root={root}
          human={human}
          spoke={spoke}
          active={facts.active}
          busy={facts.turn === "open" && session.state.value === "running"}
          hands={hands}
          passing={passing}
          chosen={chosen}
          search={search}
          choose={(a) => choose(a.path === chosen ? undefined : a.path)}
          open={(a) => go(to(a))}
        />
      )}
      {gone && <p class="treepane-none soft">{texts.treePane.gone(facts.active)}</p>}
      {agent !== undefined && <Card agent={agent} session={session} close={() => choose(undefined)} />}
    </div>
  );
}

function Card({ agent, session, close }: { readonly agent: Agent; readonly session: OpenSession; readonly close: () => void }): JSX.Element {
  const { id, user } = session.key;
  const whose = user === undefined ? {} : { user };
  const now = route.value as SessionRoute;
  return (
    <section class="treepane-card" aria-label={agent.name}>
      <h2>
        <Mark agent={agent.name} /> {agent.name} {agent.kind !== "agent" && <span class="soft">{agent.kind}</span>}
        <button class="button plain" aria-label={texts.close} onClick={close}>
          <Icon name="close" />
        </button>
      </h2>
      <AgentFacts agent={agent} short />
      <p class="treepane-links">
        <Link to={{ screen: "tree", path: agent.path }}>{texts.treePane.inTree}</Link>
        <Link to={{ ...now, middle: "runs", filter: `agent:${agent.name}` }}>{texts.treePane.runs(agent.name)}</Link>
        {(agent.kind === "graph" || agent.kind === "router") && (
          <Link to={{ screen: "graph", name: agent.name, session: id, ...whose }}>{agent.kind === "graph" ? texts.treePane.graph : texts.treePane.decisions}</Link>
        )}
      </p>
    </section>
  );
}

/** Which agent has transferred to which in the turn of the moment. */
function useHands(session: OpenSession): readonly Hand[] {
  return useComputed(() => {
    const { seq, turnId } = session.facts.value;
    const log = session.stored.peek();
    const between = new Map<string, Hand>();
    for (let n = seq; n >= log.from; n--) {
      const e = log.event(n);
      if (e === undefined || e.turnId !== turnId) break;
      if (e.type !== "transfer" || e.outcome !== "committed" || (e.scope ?? "") !== "") continue;
      const key = `${e.from}\n${e.to}`;
      between.set(key, { from: e.from, to: e.to, count: (between.get(key)?.count ?? 0) + 1 });
    }
    return [...between.values()].reverse();
  }).value;
}

/** The last transfer that has come while the page shows the live end. */
function usePassing(session: OpenSession): TreeViewProps["passing"] {
  const known = useRef<number | undefined>(undefined);
  const [passing, pass] = useState<TreeViewProps["passing"]>();
  const { value: seq } = useComputed(() => session.stored.value.end.seq);
  const loading = session.phase.value === "loading";
  useEffect(() => {
    if (loading) return;
    const before = known.current;
    known.current = seq;
    if (before === undefined || session.inPast.peek()) return;
    const log = session.stored.peek();
    for (let n = seq; n > before; n--) {
      const e = log.event(n);
      if (e?.type !== "transfer" || e.outcome !== "committed" || (e.scope ?? "") !== "") continue;
      pass({ id: n, from: e.from, to: e.to });
      return;
    }
  }, [seq, loading]);
  return passing;
}
