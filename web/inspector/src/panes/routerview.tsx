import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { agentAt, tree } from "../state/app.js";
import type { Route } from "../state/route.js";
import { texts } from "../texts-behind.js";
import { AgentFacts, Fact, heads } from "../ui/agentfacts.js";
import { clock, decimals, span } from "../ui/amount.js";
import { Link } from "../ui/link.js";
import { PictureView, type Standing, lineKey } from "../ui/picture.js";
import { visible } from "../ui/visible.js";
import { useWatched } from "../ui/watched.js";

type Agent = Schemas["Agent"];
type Decided = Schemas["Decided"];

interface Props {
  readonly agent: Agent;
  readonly picture: Schemas["Picture"];
  readonly session: string | undefined;
  readonly user: string | undefined;
}

/** A router's rules, and with a session what it has decided there lately. */
export function Router({ agent, picture, session, user }: Props): JSX.Element {
  const { value, error } = useWatched<Schemas["DebugBundle"]>(session, "/debug", user);
  const [chosen, choose] = useState("");
  const decisions = useMemo(() => (value?.agentGraph.decisions ?? []).filter((d) => d.from === agent.name), [value, agent.name]);
  const standing = useMemo(() => {
    const all = new Map<string, Standing>();
    const last = decisions.at(-1);
    picture.lines.forEach((line, i) => {
      const to = picture.boxes[line.to]?.id;
      const n = decisions.filter((d) => d.to === to).length;
      if (n > 0) all.set(lineKey("", i), { sign: "●", words: `×${n}`, tone: "done" });
      if (to !== undefined && to === last?.to) all.set(to, { sign: "●", words: texts.routers.last, tone: "now" });
    });
    return all;
  }, [decisions, picture]);
  const line = chosen.startsWith("#") ? picture.lines[Number(chosen.slice(1))] : undefined;
  const to = line === undefined ? undefined : picture.boxes[line.to]?.id;
  const other = line !== undefined || chosen === "" ? undefined : chosen === tree.value?.human?.name ? tree.value.human : agentAt(chosen);
  return (
    <>
      {session !== undefined && value === undefined && <p class="soft graph-bar">{error ?? texts.routers.loading}</p>}
      {value !== undefined && error !== undefined && <p class="failed graph-bar">{texts.graphs.old(error)}</p>}
      <div class="graph-main">
        <section class="graph-drawing" aria-label={texts.graphs.drawing}>
          <PictureView
            picture={picture}
            label={texts.routers.drawn(agent.name)}
            chosen={chosen}
            choose={(key) => choose(key === chosen ? "" : key)}
            standing={standing}
          />
        </section>
        <section class="graph-details" aria-label={texts.session.details}>
          {to !== undefined ? (
            <>
              <h2>{texts.routers.to(to)}</h2>
              <Rules agent={agent} to={to} />
              {session !== undefined && <p class="fact soft">{texts.routers.count(decisions.filter((d) => d.to === to).length)}</p>}
            </>
          ) : (
            <>
              <h2>{(other ?? agent).kind}</h2>
              <h3>{(other ?? agent).name}</h3>
              <AgentFacts agent={other ?? agent} />
            </>
          )}
        </section>
      </div>
      <div class="graph-below">
        {session !== undefined && value !== undefined && <Recent decisions={decisions} agent={agent} session={session} user={user} />}
        <section aria-label={texts.tree.rules}>
          <h2>{texts.tree.rules}</h2>
          <Rules agent={agent} />
        </section>
      </div>
    </>
  );
}

/** The rules in their order, or those that lead to one agent. */
function Rules({ agent, to }: { readonly agent: Agent; readonly to?: string }): JSX.Element {
  const { rules, default: otherwise, sticky, onError = {} } = agent.router!;
  const some = rules.filter((r) => to === undefined || r.to === to);
  return (
    <dl class="agent-facts fact router-rules">
      {some.map((r) => (
        <Fact key={r.index} name={`${r.index} → ${r.to}`}>
          <code>{r.when}</code>
          {r.reason !== undefined && <span class="soft"> {visible(r.reason)}</span>}
        </Fact>
      ))}
      {(to === undefined || otherwise === to) && <Fact name={texts.routers.else(otherwise)}>{texts.why.noRule}</Fact>}
      {sticky && to === undefined && <Fact name={texts.why.noRule}>{texts.routers.sticky(otherwise)}</Fact>}
      {Object.entries(onError)
        .filter(([from, next]) => to === undefined || next === to || from === to)
        .map(([from, next]) => (
          <Fact key={from} name={texts.routers.error(next)}>
            {texts.routers.cannot(from)}
          </Fact>
        ))}
    </dl>
  );
}

interface RecentProps {
  readonly decisions: readonly Decided[];
  readonly agent: Agent;
  readonly session: string;
  readonly user: string | undefined;
}

function Recent({ decisions, agent, session, user }: RecentProps): JSX.Element {
  const [all, show] = useState(false);
  if (decisions.length === 0) {
    return (
      <section aria-label={texts.routers.recent}>
        <h2>{texts.routers.recent}</h2>
        <p>{texts.routers.none(agent.name, session)}</p>
      </section>
    );
  }
  const groups = new Map<string, Decided[]>();
  for (const d of decisions) {
    const key = `${d.to}\n${how(d)}`;
    groups.set(key, [...(groups.get(key) ?? []), d]);
  }
  const to = (d: Decided): Route => ({
    screen: "session",
    id: session,
    middle: "talk",
    sel: { kind: "ev", seq: d.seq },
    tab: "why",
    ...(user !== undefined && { user }),
  });
  return (
    <section aria-label={texts.routers.recent}>
      <h2>{texts.routers.recent}</h2>
      <div class="agent-list" tabIndex={0} role="region" aria-label={texts.routers.counts}>
        <table>
          <thead>
            <tr>
              {heads(texts.routers.summary)}
            </tr>
          </thead>
          <tbody>
            {[...groups].map(([key, some]) => (
              <tr key={key}>
                <th scope="row">{some[0]!.to}</th>
                <td>{how(some[0]!)}</td>
                <td>×{some.length}</td>
                <td>{took(some)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <button class="button" aria-expanded={all} onClick={() => show(!all)}>
          {texts.routers.each(all)}
        </button>
        {all && (
          <table>
            <thead>
              <tr>
                {heads(texts.routers.columns)}
              </tr>
            </thead>
            <tbody>
              {[...decisions].reverse().map((d) => (
                <tr key={d.seq}>
                  <th scope="row">
                    <Link to={to(d)}>
                      {clock(d.time)} <span class="hidden-words">{texts.talk.why}</span>
                    </Link>
                  </th>
                  <td>{d.to}</td>
                  <td>{how(d)}</td>
                  <td>{visible(d.reason ?? "–")}</td>
                  <td>{scores(d)}</td>
                  <td>{span(d.latencyMs)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </section>
  );
}

/** What made a decision. */
function how(d: Decided): string {
  return d.failed !== undefined ? texts.routers.failed : texts.between.rule(d.ruleIndex);
}

function scores(d: Decided): string {
  const all = Object.entries(d.sentiment ?? {}).map(([name, score]) => `${name} ${decimals(score, 2)}`);
  if (d.intentLabel !== undefined) all.unshift(`${texts.why.intent} ${d.intentLabel} ${d.intentConfidence === undefined ? "" : decimals(d.intentConfidence, 2)}`);
  return all.join(" · ") || "–";
}

function took(some: readonly Decided[]): string {
  const times = some.map((d) => d.latencyMs);
  const [least, most] = [Math.min(...times), Math.max(...times)];
  return some.length === 1 ? span(most) : texts.routers.between(span(least), span(most));
}
