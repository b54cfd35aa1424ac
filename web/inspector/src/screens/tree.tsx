import "../style/treepane.css";
import "../style/graph.css";
import "../style/tree.css";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { agentAt, tree } from "../state/app.js";
import { go, route } from "../state/route.js";
import { texts } from "../texts-behind.js";
import { AgentList, TreeProblems, drawn, placeOf } from "../ui/agentfacts.js";
import { AgentDetails } from "../panes/agent.js";
import { clock } from "../ui/amount.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { TreeBar } from "../ui/treebar.js";
import { TreeView } from "../ui/treeview.js";

type Agent = Schemas["Agent"];

/** The tree that is served, without a session. */
export function Tree(): JSX.Element {
  const now = route.value;
  const [search, find] = useState("");
  const [list, show] = useState(false);
  const agents = tree.value;
  if (now.screen !== "tree" || agents === undefined) {
    return (
      <div class="screen">
        <h1 tabIndex={-1}>{texts.tree.tab}</h1>
        <p class="soft">{texts.tree.loading}</p>
      </div>
    );
  }
  const { root, human, problems, changed } = agents;
  const agent = now.path === undefined ? root : now.path === human?.path ? human : agentAt(now.path);
  return (
    <div class="tree-screen">
      <div class="screen-head">
        <h1 tabIndex={-1}>{texts.tree.title(root.name)}</h1>
        {changed !== undefined && <span class="soft">{texts.tree.reloaded(clock(changed))}</span>}
      </div>
      <TreeProblems problems={problems} />
      <section class="tree-drawing" aria-label={texts.tree.agents}>
        <TreeBar search={search} find={find} list={list} show={show} />
        {list ? (
          <AgentList root={root} human={human} search={search} to={(a) => ({ screen: "tree", path: a.path })} />
        ) : (
          <TreeView
            root={root}
            human={human}
            spoke={agent === undefined ? [] : [agent.name]}
            chosen={agent?.path}
            search={search}
            choose={(a) => go({ screen: "tree", path: a.path })}
            open={(a) => go(placeOf(a))}
          />
        )}
      </section>
      <aside class="tree-details" aria-label={texts.tree.chosen}>
        {agent === undefined ? (
          <>
            <h2>{texts.tree.nobody}</h2>
            <p>{texts.tree.missing(now.path)}</p>
            <p>
              <Link to={{ screen: "tree" }}>{texts.tree.first(root.name)}</Link>
            </p>
          </>
        ) : (
          <Details agent={agent} />
        )}
      </aside>
    </div>
  );
}

function Details({ agent }: { readonly agent: Agent }): JSX.Element {
  const { router } = agent;
  const below = [...(agent.subAgents ?? []), ...(agent.agents ?? [])];
  return (
    <>
      <h2 class="tree-agent as-is">
        <Mark agent={agent.name} /> {agent.name} · {agent.kind}
      </h2>
      <AgentDetails key={agent.path} agent={agent} />
      {drawn(agent) && (
        <p>
          <Link to={placeOf(agent)} class="button">
            {texts.tree.drawing}
          </Link>
        </p>
      )}
      {router !== undefined && (
        <>
          <h3>{texts.tree.rules}</h3>
          <ol class="fact">
            {router.rules.map((r) => (
              <li key={r.index}>
                {r.index} → {r.to} <span class="code">{r.when}</span>
              </li>
            ))}
          </ol>
        </>
      )}
      {below.length > 0 && (
        <>
          <h3>{agent.agents === undefined ? texts.tree.subAgents : texts.tree.runs}</h3>
          <ul>
            {below.slice(0, 50).map((a) => (
              <li key={a.path}>
                <Link to={{ screen: "tree", path: a.path }}>{a.name}</Link> <span class="soft">{a.description}</span>
              </li>
            ))}
            {below.length > 50 && <li class="soft">{texts.tree.moreAgents(below.length - 50)}</li>}
          </ul>
        </>
      )}
    </>
  );
}
