import "./treeview.css";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import {
  type Branch,
  type Drawn,
  type Item,
  type Placed,
  along,
  box,
  branchOf,
  crowdOf,
  depthOf,
  everyone,
  itemsOf,
  layout,
  standsIn,
  way,
} from "../state/shape.js";
import { texts } from "../texts-behind.js";
import { Canvas } from "./canvas.js";
import { KindSign } from "./kind.js";
import { Mark, hueOf } from "./mark.js";
import { PanZoom, meets } from "./panzoom.js";

type Agent = Schemas["Agent"];

/** How often an agent has transferred to another. */
export interface Hand {
  readonly from: string;
  readonly to: string;
  readonly count: number;
}

export interface TreeViewProps {
  readonly root: Agent;
  readonly human?: Agent | undefined;
  /** The names of agents that are never folded away, unless the reader folds them. */
  readonly spoke: readonly string[];
  readonly active?: string;
  /** Whether the active agent is at work. */
  readonly busy?: boolean;
  readonly hands?: readonly Hand[];
  /** A transfer that has just been committed; each has an id of its own. */
  readonly passing?: { readonly id: number; readonly from: string; readonly to: string } | undefined;
  /** The path of the agent that is chosen. */
  readonly chosen?: string | undefined;
  readonly search: string;
  readonly choose: (agent: Agent) => void;
  readonly open: (agent: Agent) => void;
}

/** More places than this are in the document only near to what is seen. */
const many = 300;

/** The tree from left to right: boxes that are buttons, above lines that screen readers skip. */
export function TreeView(props: TreeViewProps): JSX.Element {
  const { root, human, active = "", hands = [], search } = props;
  const [view] = useState(() => new PanZoom());
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [focus, setFocus] = useState("");
  const moving = useRef(false);
  const nodes = useRef<HTMLDivElement>(null);
  const dot = useRef<HTMLSpanElement>(null);

  const [branch, alone, byName] = useMemo(() => {
    const branch = branchOf(root);
    const alone = human === undefined ? [] : [branchOf(human)];
    const byName = new Map<string, Branch>();
    for (const top of [branch, ...alone]) for (const b of everyone(top)) if (!byName.has(b.agent.name)) byName.set(b.agent.name, b);
    return [branch, alone, byName] as const;
  }, [root, human]);
  const seen = [...props.spoke, active].join("\n");
  const drawn = useMemo(() => {
    const paths = new Set(seen.split("\n").flatMap((name) => byName.get(name)?.agent.path ?? []));
    const others = alone.map((b) => itemsOf(b, folds, paths, search)).filter((i) => i !== undefined);
    return layout(itemsOf(branch, folds, paths, search), others);
  }, [branch, alone, byName, folds, seen, search]);

  const at = standsIn(drawn, byName.get(active));
  const current = drawn.items.has(focus) ? focus : drawn.items.has(props.chosen ?? "") ? props.chosen! : (at?.item.key ?? branch.agent.path);
  const window = view.shown.value;
  const few = drawn.items.size <= many;
  const inside = [...drawn.items.values()].filter((p) => few || p.item.key === current || meets({ x: p.x, y: p.y, ...box }, window));

  // The agent that has the conversation stays in sight, unless the reader has moved the drawing.
  const spot = at?.item.key ?? "";
  const home = at ?? drawn.items.get(current);
  view.home = home && { x: home.x, y: home.y, ...box };
  useEffect(() => {
    if (at !== undefined && !view.moved) view.show({ x: at.x, y: at.y, ...box });
  }, [spot, drawn]);
  useLayoutEffect(() => {
    if (!moving.current) return;
    moving.current = false;
    nodes.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
  }, [current, drawn]);
  useEffect(() => {
    const { passing } = props;
    if (passing !== undefined) run(dot.current!, drawn, byName, passing.from, passing.to);
  }, [props.passing?.id]);

  const fold = (item: Item, open: boolean): void => {
    const next = new Map(folds);
    next.set(item.key, open);
    if (!open) next.delete(crowdOf(item.key));
    setFolds(next);
  };
  const press = (item: Item): void => {
    setFocus(item.key);
    if (item.crowd === undefined) return props.choose(item.branch.agent);
    moving.current = true;
    setFocus(firstOf(item, drawn));
    fold(item, true);
  };
  const key = (e: KeyboardEvent): void => {
    const to = (key: string | undefined): void => {
      if (key === undefined) return;
      moving.current = key !== current;
      setFocus(key);
    };
    const here = drawn.items.get(current);
    if (here === undefined || e.altKey || e.ctrlKey || e.metaKey || e.shiftKey) return;
    const keys = [...drawn.items.keys()];
    const index = keys.indexOf(current);
    const { item } = here;
    if (e.key === "ArrowDown") to(keys[index + 1]);
    else if (e.key === "ArrowUp") to(keys[index - 1]);
    else if (e.key === "Home") to(keys[0]);
    else if (e.key === "End") to(keys.at(-1));
    else if (e.key === "ArrowRight") {
      if (item.crowd !== undefined) press(item);
      else if (item.hidden > 0) fold(item, true);
      else to(item.children[0]?.key);
    } else if (e.key === "ArrowLeft") {
      if (item.open && item.children.length > 0 && search === "") fold(item, false);
      else to(here.parent);
    } else if (e.key === "Enter") item.crowd === undefined ? props.open(item.branch.agent) : press(item);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };

  return (
    <>
      <Canvas view={view} width={drawn.width} height={drawn.height} label={texts.tree.drawn} foot={texts.tree.size(branch.size, depthOf(branch))}>
        <Lines drawn={drawn} hands={hands} byName={byName} />
        <div ref={nodes} role="tree" aria-label={texts.tree.agents} onKeyDown={key}>
          {inside.map((p) => (
            <Node
              key={p.item.key}
              placed={p}
              reachable={p.item.key === current}
              chosen={p.item.crowd === undefined && p.item.key === props.chosen}
              active={p === at}
              busy={p === at && props.busy === true}
              press={press}
            />
          ))}
        </div>
        <div aria-hidden="true">
          {inside.map(({ item, x, y }) =>
            item.crowd === undefined && item.branch.children.length > 0 && search === "" ? (
              <button
                key={item.key}
                tabIndex={-1}
                class="tree-fold"
                data-open={item.open}
                style={{ left: `${x + box.width}px`, top: `${y + 4}px` }}
                onClick={() => fold(item, !item.open)}
              >
                {item.open ? "−" : `+ ${item.hidden}`}
              </button>
            ) : null,
          )}
        </div>
        <span ref={dot} class="tree-dot" aria-hidden="true" />
      </Canvas>
      {drawn.items.size === 0 && <p class="tree-none">{texts.tree.list.none(search)}</p>}
    </>
  );
}

interface NodeProps {
  readonly placed: Placed;
  readonly reachable: boolean;
  readonly chosen: boolean;
  readonly active: boolean;
  readonly busy: boolean;
  readonly press: (item: Item) => void;
}

function Node({ placed: { item, x, y }, reachable, chosen, active, busy, press }: NodeProps): JSX.Element {
  const { agent, inner } = item.branch;
  const folds = item.crowd !== undefined || item.branch.children.length > 0;
  return (
    <button
      role="treeitem"
      class="tree-node"
      style={{ left: `${x}px`, top: `${y}px`, width: `${box.width}px`, height: `${box.height}px` }}
      data-hue={item.crowd === undefined || active ? hueOf(agent.name) : "none"}
      data-active={active}
      data-busy={busy}
      data-inner={inner}
      data-crowd={item.crowd !== undefined}
      aria-level={item.level}
      aria-posinset={item.place}
      aria-setsize={item.among}
      aria-selected={chosen}
      aria-expanded={folds ? item.open : undefined}
      tabIndex={reachable ? 0 : -1}
      title={item.crowd === undefined ? agent.name : undefined}
      onClick={() => press(item)}
    >
      {item.crowd === undefined ? (
        <>
          <Mark agent={agent.name} />
          <span class="tree-name">{agent.name}</span>
          <KindSign kind={agent.kind} />
          {agent.kind !== "agent" && <span class="hidden-words">, {agent.kind}</span>}
        </>
      ) : (
        <span class="tree-name">{texts.tree.crowd(item.crowd)}</span>
      )}
      {active && <span class="hidden-words">, {texts.tree.list.active}</span>}
    </button>
  );
}

interface LinesProps {
  readonly drawn: Drawn;
  readonly hands: readonly Hand[];
  readonly byName: ReadonlyMap<string, Branch>;
}

function Lines({ drawn, hands, byName }: LinesProps): JSX.Element {
  const [owned, run] = useMemo(() => {
    const lines: [string[], string[]] = [[], []];
    for (const p of drawn.items.values()) {
      const parent = p.parent === undefined ? undefined : drawn.items.get(p.parent);
      if (parent !== undefined) lines[p.item.branch.inner && p.item.crowd === undefined ? 1 : 0].push(way(parent, p));
    }
    return lines.map((all) => all.join(""));
  }, [drawn]);
  const between = new Map<string, { readonly from: Placed; readonly to: Placed; readonly name: string; count: number }>();
  for (const { from: name, to: other, count } of hands) {
    const [from, to] = [standsIn(drawn, byName.get(name)), standsIn(drawn, byName.get(other))];
    if (from === undefined || to === undefined || from === to) continue;
    const key = `${from.item.key}\n${to.item.key}`;
    const known = between.get(key);
    if (known === undefined) between.set(key, { from, to, name, count });
    else known.count += count;
  }
  return (
    <svg width={drawn.width} height={drawn.height} aria-hidden="true">
      <path class="tree-line" d={owned} />
      <path class="tree-line run" d={run} />
      {[...between].map(([key, { from, to, name, count }]) => {
        const { x, y } = along(from, to, 0.68);
        return (
          <g key={key} class="tree-hand" data-hue={hueOf(name)}>
            <path d={way(from, to)} />
            <circle cx={x} cy={y} r="4.5" />
            {count > 1 && (
              <text x={x + 8} y={y + 4}>
                ×{count}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

/** The agent that gets the focus after a row of several agents is unfolded. */
function firstOf(row: Item, drawn: Drawn): string {
  const first = row.branch.children.find((b) => !drawn.items.has(b.agent.path));
  return first?.agent.path ?? row.branch.agent.path;
}

/** Lets a dot run along a way, once. */
function run(dot: HTMLElement, drawn: Drawn, byName: ReadonlyMap<string, Branch>, from: string, to: string): void {
  const [a, b] = [standsIn(drawn, byName.get(from)), standsIn(drawn, byName.get(to))];
  if (a === undefined || b === undefined || a === b || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  dot.dataset["hue"] = hueOf(from);
  dot.style.offsetPath = `path("${way(a, b)}")`;
  const frames = [{ offsetDistance: "0%", opacity: 1 }, { offsetDistance: "100%", opacity: 1 }];
  dot.animate(frames, { duration: 240, easing: "ease-out" });
}
