import "./convgraph.css";
import { type Active, type Event, type Graph, reduce, switchTo } from "@agentarbor/conversation";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Schemas, get, path } from "../net/api.js";
import { attempt } from "../state/app.js";
import { type Box, type Boxes, type Zoom, boxesOf } from "../state/boxes.js";
import { type LogEvent, unclip } from "../state/events.js";
import type { OpenSession } from "../state/open.js";
import { type SessionRoute, change, go, route } from "../state/route.js";
import { texts } from "../texts-behind.js";
import { count } from "../ui/amount.js";
import { sign } from "../ui/line.js";
import { Mark } from "../ui/mark.js";
import { Rows } from "../ui/rows.js";
import { visible } from "../ui/visible.js";

const wide = 208;
const high = 40;
const gapX = 28;
const gapY = 20;
const margin = 16;
/** What a lane is to the right of the one before. Boxes of a chain are below each other, so lanes may be narrower than boxes. */
const step = 44;
const zooms: readonly Zoom[] = ["messages", "blocks", "chunks"];
/** Relatives of a session are shown next to it if there are at most this many, and no longer. */
const most = { relatives: 12, events: 20_000 };

/** The conversation as a graph: agents have lanes, what follows is below, and branches are next to each other. */
export function ConversationGraph({ session }: { readonly session: OpenSession }): JSX.Element {
  const moment = session.moment.value;
  const now = route.value as SessionRoute;
  const [zoom, setZoom] = useState<Zoom>("messages");
  const [list, showList] = useState(false);
  const active = useMemo(() => parseActive(now.active), [now.active]);
  const { graph, owners } = useRelatives(session, moment.graph, moment.seq, now.at === undefined);
  // Single letters that are streamed change no box, so they are left until they are stored.
  const boxes = useMemo(() => boxesOf(graph, zoom, active, moment.graph), [moment.seq, graph.size, zoom, active]);
  const choose = (box: Box): void => {
    const owner = moment.graph.node(box.node.id) === undefined ? owners.get(box.node.runId) : undefined;
    const sel = zoom !== "chunks" || box.node.seq === undefined ? ({ kind: "run", id: box.node.runId } as const) : ({ kind: "ev", seq: box.node.seq } as const);
    if (owner !== undefined) go({ ...plain(now), id: owner, sel });
    else if (box.onPath) change({ sel });
    else change({ sel, active: JSON.stringify(switchTo(moment.graph, active, box.node.id)) });
  };
  const { sel } = now;
  const chosen = (box: Box): boolean =>
    sel?.kind === "run" ? zoom !== "chunks" && box.runs.has(sel.id) : zoom === "chunks" && sel?.kind === "ev" && sel.seq === box.node.seq && !owners.has(box.node.runId);
  return (
    <div class="convgraph">
      <div class="convgraph-top">
        {zooms.map((z) => (
          <button key={z} class="button plain" aria-pressed={zoom === z} onClick={() => setZoom(z)}>
            {texts.graph.zooms[z]}
          </button>
        ))}
        <span class="fact soft">{texts.graph.boxes(boxes.boxes.length)}</span>
        <span class="convgraph-space" />
        <button class="button" aria-pressed={list} onClick={() => showList(!list)}>
          {texts.graph.list}
        </button>
      </div>
      {boxes.boxes.length === 0 ? (
        <p class="convgraph-nothing soft">{session.phase.value === "loading" ? texts.graph.loading : texts.graph.none}</p>
      ) : list ? (
        <BoxList boxes={boxes} chosen={chosen} choose={choose} />
      ) : (
        <Picture key={zoom} signed={zoom === "chunks"} boxes={boxes} chosen={chosen} choose={choose} />
      )}
    </div>
  );
}

/** The address without what belongs to one session alone. */
function plain({ at: _, sel: __, active: ___, ...rest }: SessionRoute): SessionRoute {
  return rest;
}

function parseActive(text: string | undefined): Active {
  try {
    const value: unknown = JSON.parse(text ?? "{}");
    return value !== null && typeof value === "object" ? (value as Active) : {};
  } catch {
    return {};
  }
}

/** The graph of the session with what its relatives have besides, and whose session that is, by run. */
function useRelatives(session: OpenSession, own: Graph, seq: number, live: boolean): { readonly graph: Graph; readonly owners: ReadonlyMap<string, string> } {
  const [loaded, set] = useState<readonly { readonly id: string; readonly events: readonly LogEvent[] }[]>([]);
  const family = session.family.value;
  const others = family.filter((s) => s.id !== session.key.id);
  const few = others.length <= most.relatives && others.reduce((sum, s) => sum + s.seq - (s.parent?.seq ?? 0), 0) <= most.events;
  const wanted = live && few ? others.map((s) => `${s.id}@${s.seq}`).join(" ") : "";
  useEffect(() => {
    let gone = false;
    const self = family.find((s) => s.id === session.key.id);
    const load = async (s: Schemas["Session"]): Promise<{ id: string; events: readonly LogEvent[] }> => {
      // What a relative shares with its own parent comes from there.
      const after = s.id === self?.parent?.id ? self.parent.seq : (s.parent?.seq ?? 0);
      const { events } = await get<Schemas["Events"]>(`${path("sessions", s.id)}/events`, { query: { ...session.query, after, limit: 5000, media: "omit", clip: 400 } });
      return { id: s.id, events: events as LogEvent[] };
    };
    if (wanted === "") set([]);
    else
      void attempt(() => Promise.all(others.map(load))).then((all) => {
        if (all !== undefined && !gone) set(all);
      });
    return () => {
      gone = true;
    };
  }, [wanted]);
  return useMemo(() => {
    const owners = new Map<string, string>();
    let graph = own;
    for (const { id, events } of live ? loaded : []) {
      for (const received of events) {
        const { event } = unclip(received);
        if (own.node(event.id ?? "") === undefined && own.last(event.runId ?? "") === undefined) owners.set(event.runId ?? "", id);
        if (owners.has(event.runId ?? "")) graph = reduce(graph, event as Event);
      }
    }
    return { graph, owners };
  }, [loaded, seq, own.size, live]);
}

interface ViewProps {
  readonly boxes: Boxes;
  readonly chosen: (box: Box) => boolean;
  readonly choose: (box: Box) => void;
}

/** Where the columns begin, and where the last one ends. */
function startsOf(columns: readonly number[]): readonly number[] {
  const starts = [margin];
  for (const lanes of columns) starts.push(starts.at(-1)! + (lanes - 1) * step + wide + gapX);
  return starts;
}

const yOf = (b: Box): number => margin + b.layer * (high + gapY);

/** Boxes in sight, above the lines between them. */
function Picture({ boxes: { boxes, columns, lanes, layers }, chosen, choose, signed }: ViewProps & { readonly signed: boolean }): JSX.Element {
  const starts = startsOf(columns);
  const xOf = (b: Box): number => starts[b.column]! + b.lane * step;
  const box = useRef<HTMLDivElement>(null);
  const [see, look] = useState({ x: 0, y: 0, w: 0, h: 0 });
  useLayoutEffect(() => {
    const el = box.current!;
    const at = (): void => look({ x: el.scrollLeft, y: el.scrollTop, w: el.clientWidth, h: el.clientHeight });
    const selected = boxes.find(chosen);
    el.scrollTop = selected === undefined ? el.scrollHeight : yOf(selected) - el.clientHeight / 2;
    const sized = new ResizeObserver(at);
    sized.observe(el);
    el.addEventListener("scroll", at, { passive: true });
    return () => {
      sized.disconnect();
      el.removeEventListener("scroll", at);
    };
  }, []);
  const inSight = (x: number, y: number, w: number, h: number): boolean => x < see.x + see.w + 200 && x + w > see.x - 200 && y < see.y + see.h + 120 && y + h > see.y - 120;
  const shown = boxes.filter((b) => inSight(xOf(b), yOf(b), wide, high)).slice(0, 400);
  const edges = boxes.filter((b) => {
    if (b.parent < 0) return false;
    const above = boxes[b.parent]!;
    return inSight(Math.min(xOf(b), xOf(above)), yOf(above), Math.abs(xOf(b) - xOf(above)) + wide, yOf(b) - yOf(above) + high);
  });
  const width = starts.at(-1)! - gapX + margin;
  const height = 2 * margin + layers * (high + gapY) - gapY;
  return (
    <div class="convgraph-box" ref={box} tabIndex={0} role="group" aria-label={texts.graph.name}>
      <div class="convgraph-lanes" style={{ width: `${width}px` }} aria-hidden="true">
        {lanes.map((agent, i) => (
          <span key={agent} style={{ left: `${margin + i * step}px` }}>
            {agent === "" ? texts.you : <Mark agent={agent} />}
          </span>
        ))}
      </div>
      <div class="convgraph-all" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg class="convgraph-edges" width={width} height={height} aria-hidden="true">
          <marker id="convgraph-arrow" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0L6 3L0 6z" />
          </marker>
          {edges.slice(0, 600).map((b) => {
            const above = boxes[b.parent]!;
            const [x1, y1, x2, y2] = [xOf(above) + 20, yOf(above) + high, xOf(b) + 20, yOf(b)];
            const to = x2 < x1 ? -6 : 6;
            const d = x1 === x2 ? `M${x1} ${y1}V${y2}` : `M${x1} ${y1}V${y2 - gapY + 8}q0 4 ${to} 4H${x2 - to}q${to} 0 ${to} 4V${y2}`;
            // An arrow where one agent has the conversation from another.
            const passed = above.agent !== "" && b.agent !== "" && b.agent !== above.agent;
            return <path key={b.id} d={d} class={b.onPath && above.onPath ? "on-path" : ""} marker-end={passed ? "url(#convgraph-arrow)" : undefined} />;
          })}
        </svg>
        {shown.map((b) => (
          <button
            key={b.id}
            class="convgraph-node"
            data-path={b.onPath}
            data-kind={b.node.kind}
            aria-pressed={chosen(b)}
            aria-label={texts.graph.box(b.agent, b.node.kind, visible(b.label), b.calls, b.onPath)}
            style={{ transform: `translate(${xOf(b)}px, ${yOf(b)}px)` }}
            onClick={() => choose(b)}
          >
            {b.agent === "" ? <span class="convgraph-user">{texts.you}</span> : <Mark agent={b.agent} />}
            {signed && (
              <span class="convgraph-sign" aria-hidden="true">
                {sign(b.node.kind)}
              </span>
            )}
            <span class="convgraph-label">{visible(b.label)}</span>
            {b.calls > 0 && (
              <span class="convgraph-sign" aria-hidden="true">
                {sign("tool_call").repeat(Math.min(b.calls, 3))}
              </span>
            )}
          </button>
        ))}
      </div>
    </div>
  );
}


/** The same facts as rows. */
function BoxList({ boxes: { boxes }, chosen, choose }: ViewProps): JSX.Element {
  const at = boxes.findIndex(chosen);
  return (
    <Rows
      label={texts.graph.asList}
      list={{ length: boxes.length, key: (i) => i + 1 }}
      columns={texts.graph.columns}
      name="convgraph"
      cells={(i) => {
        const b = boxes[i]!;
        return [
          count(i + 1),
          b.agent === "" ? texts.you : b.agent,
          b.node.kind,
          b.label,
          b.parent < 0 ? "" : texts.graph.follows(b.parent + 1),
          b.onPath ? texts.graph.shown : texts.graph.other,
        ];
      }}
      selected={at < 0 ? undefined : at + 1}
      select={(i) => choose(boxes[i]!)}
    />
  );
}
