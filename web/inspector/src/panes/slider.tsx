import "./slider.css";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { branch } from "../state/actions.js";
import { mayWrite } from "../state/app.js";
import { checkpointAt } from "../state/checkpoint.js";
import { Course } from "../state/course.js";
import type { OpenSession } from "../state/open.js";
import { type SessionRoute, change, route } from "../state/route.js";
import { tokens } from "../state/session.js";
import { texts } from "../texts-behind.js";
import { Icon } from "../ui/icons.js";
import { useKeys } from "../ui/keys.js";
import { line } from "../ui/line.js";
import { Mark } from "../ui/mark.js";
import { visible } from "../ui/visible.js";
import { EditWords } from "./edit.js";
import { type Paint, draw, scaleOf, seqAt, xOf } from "./strip.js";

/** How long each event is shown while the session is played, in milliseconds. */
const beat = 200;

/** Where the page looks at the session: a bar an event, and buttons and keys that go through them. */
export function Slider({ session }: { readonly session: OpenSession }): JSX.Element {
  const log = session.stored.value;
  const { at } = route.value as SessionRoute;
  const kept = useRef<Course | undefined>(undefined);
  if (kept.current?.log !== log) kept.current = new Course(log);
  const course = kept.current.grow();
  const end = log.end.seq;
  const here = at === undefined ? end : Math.min(at, end);
  const [playing, play] = useState(false);
  const [editing, edit] = useState<number | undefined>(undefined);
  const [legend, explain] = useState(false);

  const to = (seq: number, replace = false): void => {
    if (end > 0) change({ at: seq >= end ? undefined : Math.max(1, seq) }, { replace });
  };
  const fork = checkpointAt(log, here);
  const words = course.turns.findLast((t) => t <= here);
  const writes = mayWrite(session.key.user);
  const forkHere = (): void | false => (fork < 1 || !writes ? false : void branch(session, fork));
  const editHere = (): void | false => (words === undefined || !writes ? false : edit(words));
  const toggle = (): void => {
    if (!playing && at === undefined) to(course.turns.at(-1) ?? 1);
    play(!playing);
  };
  const keys = {
    ArrowLeft: [texts.slider.previousEvent, () => to(here - 1, true)],
    ArrowRight: [texts.slider.nextEvent, () => to(here + 1, true)],
    "shift+ArrowLeft": [texts.slider.previousCheckpoint, () => to(course.beside(here, -1), true)],
    "shift+ArrowRight": [texts.slider.nextCheckpoint, () => to(course.beside(here, 1), true)],
    "alt+ArrowLeft": [texts.slider.previousTurn, () => to(course.turn(here, -1), true)],
    "alt+ArrowRight": [texts.slider.nextTurn, () => to(course.turn(here, 1), true)],
    Space: [texts.slider.playKey, toggle],
    ".": [texts.slider.liveKey, () => to(end)],
  } as const;
  useKeys(writes ? { ...keys, F: [texts.slider.fork, forkHere], E: [texts.slider.editKey, editHere] } : keys);

  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => {
      const now = (route.peek() as SessionRoute).at;
      if (now === undefined) play(false);
      else to(now + 1, true);
    }, beat);
    return () => clearInterval(timer);
  }, [playing, end]);

  const edited = editing === undefined ? undefined : log.event(editing);
  const what = headline(session, here);
  const onKey = (e: KeyboardEvent): void => {
    const name = `${e.altKey ? "alt+" : ""}${e.shiftKey ? "shift+" : ""}${e.key}` as keyof typeof keys;
    if (e.ctrlKey || e.metaKey || !name.includes("Arrow") || keys[name] === undefined) return;
    e.preventDefault();
    keys[name][1]();
  };
  return (
    <div class="slider">
      <Strip session={session} course={course} here={here} to={to}>
        <input
          type="range"
          class="slider-range"
          aria-label={texts.slider.position}
          min={Math.min(1, end)}
          max={end}
          value={here}
          aria-valuetext={end === 0 ? texts.slider.empty : `${here}: ${what}`}
          onInput={(e) => to(Number(e.currentTarget.value), true)}
          onKeyDown={onKey}
        />
      </Strip>
      <div class="slider-line">
        <span class="slider-steps">
          <Step label={texts.slider.previousEvent} does={() => to(here - 1)} off={here <= 1} icon="left" />
          <Step label={texts.slider.nextEvent} does={() => to(here + 1)} off={at === undefined} icon="right" />
          <span class="soft slider-of">{texts.slider.event}</span>
          <Step label={texts.slider.previousTurn} does={() => to(course.turn(here, -1))} off={here <= 1} icon="first" />
          <Step label={texts.slider.nextTurn} does={() => to(course.turn(here, 1))} off={at === undefined} icon="last" />
          <span class="soft slider-of">{texts.slider.turn}</span>
          <button class="button plain" aria-pressed={playing} onClick={toggle} disabled={end === 0}>
            <Icon name={playing ? "stop" : "play"} /> {playing ? texts.slider.stop : texts.slider.play}
          </button>
          <button class="button plain" aria-pressed={at === undefined} onClick={() => to(end)}>
            {texts.slider.live}
          </button>
          <button class="button plain" aria-expanded={legend} onClick={() => explain(!legend)}>
            {texts.slider.legend}
          </button>
        </span>
        <span class="slider-where">
          <b>
            {texts.slider.of(here, end)}
          </b>
          {at === undefined ? ` · ${texts.slider.live}` : ""}
        </span>
        <span class="slider-what soft" title={what}>
          <Facts session={session} here={here} what={what} />
        </span>
        {writes && <span class="slider-does">
          <button class="button" onClick={() => editHere()} disabled={words === undefined} title={texts.slider.editTitle(words)}>
            <Icon name="edit" /> {texts.slider.edit} <kbd>E</kbd>
          </button>
          <button class="button" onClick={() => forkHere()} disabled={fork < 1} aria-description={texts.slider.forkAt(fork)} title={texts.slider.forkTitle(fork)}>
            <Icon name="fork" /> {texts.slider.fork} <kbd>F</kbd>
          </button>
          <span class="fact soft slider-fork">{fork < 1 ? "" : texts.at(fork)}</span>
        </span>}
      </div>
      {legend && <Legend spoke={log.end.facts.spoke} close={() => explain(false)} />}
      {edited?.type === "user" && (
        <section class="slider-edit" aria-label={texts.slider.say}>
          <p class="fact soft">{texts.slider.inPlace(editing ?? 0)}</p>
          <EditWords key={editing} session={session} event={edited} close={() => edit(undefined)} />
        </section>
      )}
    </div>
  );
}

/** What the bars mean: their heights, and their colours. */
function Legend({ spoke, close }: { readonly spoke: readonly string[]; readonly close: () => void }): JSX.Element {
  return (
    <section
      class="slider-edit slider-legend"
      aria-label={texts.slider.legendName}
      onKeyDown={(e) => {
        if (e.key !== "Escape") return;
        e.stopPropagation();
        close();
      }}
    >
      <p>{texts.slider.bars}</p>
      <ul>
        {texts.slider.heights.map((what, i) => (
          <li key={what}>
            <i style={{ height: `${(i + 1) * 5}px` }} aria-hidden="true" /> {what}
          </li>
        ))}
      </ul>
      <p>
        <span class="slider-user" aria-hidden="true" /> {texts.slider.user}
        {spoke.slice(0, 12).map((agent) => (
          <span key={agent} class="slider-agent">
            <Mark agent={agent} /> {visible(agent)}
          </span>
        ))}
        {spoke.length > 12 && ` ${texts.slider.more(spoke.length - 12)}`}
      </p>
      <p class="soft">{texts.slider.pause}</p>
      <button class="button" onClick={close}>
        {texts.close}
      </button>
    </section>
  );
}

/** What happened at a position, in one line. */
function headline(session: OpenSession, seq: number): string {
  const event = session.stored.value.event(seq);
  return event === undefined ? (seq === 0 ? texts.slider.nothing : texts.slider.notLoaded) : line(event, 80) || event.type;
}

function Facts({ session, here, what }: { readonly session: OpenSession; readonly here: number; readonly what: string }): JSX.Element {
  const facts = session.facts.value;
  const { at } = route.value as SessionRoute;
  if (session.phase.value === "loading") return <>{texts.slider.loading}</>;
  if (here === 0) return <>{texts.slider.nothing}</>;
  if (session.beyond.value) return <>{texts.slider.beyond(at ?? 0)}</>;
  if (facts.seq !== here) return <>{texts.slider.loadingBefore(session.stored.value.from)}</>;
  return <>{texts.slider.facts(here, what, facts.active, facts.questions.map((q) => q.tool).join(", "), tokens(facts).all)}</>;
}

function Step({ label, does, off, icon }: { readonly label: string; readonly does: () => void; readonly off: boolean; readonly icon: "left" | "right" | "first" | "last" }): JSX.Element {
  return (
    <button class="button plain slider-step" aria-label={label} title={label} onClick={does} disabled={off}>
      <Icon name={icon} />
    </button>
  );
}

interface StripProps {
  readonly session: OpenSession;
  readonly course: Course;
  readonly here: number;
  readonly to: (seq: number, replace?: boolean) => void;
  readonly children: JSX.Element;
}

/** The bars with the position on them. Only what changes is drawn again: a step moves one element. */
function Strip({ session, course, here, to, children }: StripProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const probe = useRef<HTMLSpanElement>(null);
  const [width, measure] = useState(0);
  const [theme, repaint] = useState(0);
  const log = session.stored.value;
  const end = log.end;
  const scale = scaleOf(course, Math.min(1, end.seq), end.seq, Math.max(1, width));
  const marks = session.checkpoints.value;

  useLayoutEffect(() => {
    const sized = new ResizeObserver(() => measure(box.current?.clientWidth ?? 0));
    sized.observe(box.current!);
    const anew = (): void => repaint((n) => n + 1);
    const schemes = [matchMedia("(prefers-color-scheme: dark)"), matchMedia("(prefers-contrast: more)"), matchMedia(`(resolution: ${devicePixelRatio}dppx)`)];
    for (const s of schemes) s.addEventListener("change", anew);
    const chosen = new MutationObserver(anew);
    chosen.observe(document.documentElement, { attributes: true });
    void document.fonts.ready.then(anew);
    return () => {
      sized.disconnect();
      chosen.disconnect();
      for (const s of schemes) s.removeEventListener("change", anew);
    };
  }, []);
  useLayoutEffect(() => {
    if (canvas.current !== null && probe.current !== null && width > 0) draw(canvas.current, course, scale, end.facts.spoke, paintOf(probe.current), log.whole ? [] : marks);
  }, [log, end.seq, width, theme, marks]);

  const drag = (e: PointerEvent): void => {
    if (e.buttons === 0 && e.type !== "pointerdown") return;
    const x = e.clientX - box.current!.getBoundingClientRect().left;
    const seq = seqAt(scale, x);
    if (seq !== here) to(seq, true);
  };
  return (
    <div
      class="slider-strip"
      ref={box}
      onPointerDown={(e) => {
        if (e.button !== 0) return;
        e.currentTarget.setPointerCapture(e.pointerId);
        drag(e);
      }}
      onPointerMove={drag}
    >
      {children}
      <canvas ref={canvas} aria-hidden="true" />
      <span class="slider-past" style={{ transform: `translateX(${xOf(scale, here) + scale.unit}px)` }} />
      <span class="slider-probe" ref={probe} aria-hidden="true">
        {["0", "1", "2", "3", "4", "5", "6"].map((hue) => (
          <i key={hue} data-hue={hue} />
        ))}
        <b class="edge" />
        <b class="ink" />
        <b class="soft" />
        <b class="line" />
      </span>
    </div>
  );
}

function paintOf(probe: HTMLElement): Paint {
  const colours = (of: string): string[] => [...probe.querySelectorAll(of)].map((el) => getComputedStyle(el).color);
  const [nobody = "", user = "", soft = "", line = ""] = colours("b");
  return { hues: colours("i"), nobody, user, soft, line, font: "11px Inter, system-ui, sans-serif" };
}
