// Calls of tools, and what sub-agents do inside of them.
import type { ViewCall, ViewNode } from "@agentarbor/conversation";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { mayWrite } from "../state/app.js";
import { words } from "../state/events.js";
import type { OpenSession } from "../state/open.js";
import { change, route } from "../state/route.js";
import { rowsOf } from "../state/talk.js";
import { wholeEvent } from "../state/whole.js";
import { texts } from "../texts.js";
import { Fold } from "../ui/fold.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { asText, callText, oneLine, visible } from "../ui/visible.js";
import { More, Pre } from "../ui/words.js";
import { Between } from "./between.js";
import { ShowAll } from "./long.js";
import { Said } from "./said.js";

interface CallProps {
  readonly session: OpenSession;
  readonly call: ViewCall;
  readonly depth: number;
}

export function Call({ session, call, depth }: CallProps): JSX.Element {
  const now = route.value;
  const selected = now.screen === "session" && now.sel?.kind === "call" && now.sel.id === call.id;
  const [sign, state] = stands(call, session.state.value === "cut_off");
  return (
    <div class="call" data-selected={selected} data-status={call.status}>
      <Fold
        id={`call:${call.id}`}
        summary={
          <>
            <span class={call.isError === true || call.status === "error" ? "call-sign failed" : "call-sign"}>
              {sign}
              <span class="hidden-words"> {state} </span>
            </span>
            <span class="call-name code" dir="auto">
              {callText(call.name, call.input)}
            </span>
            <span class="call-result fact soft" dir="auto">
              {result(call) || state}
            </span>
          </>
        }
      >
        {() => <Inside session={session} call={call} />}
      </Fold>
      {call.isError === true && call.approval !== "denied" && now.screen === "session" && mayWrite(session.key.user) && (
        <Link to={{ ...now, sel: { kind: "call", id: call.id }, tab: "if" }} class="talk-do fact">
          {texts.talk.tryInFork}
        </Link>
      )}
      {call.branches !== undefined && <Branches session={session} id={call.id} branches={call.branches} depth={depth} />}
    </div>
  );
}

function Inside({ session, call }: Omit<CallProps, "depth">): JSX.Element {
  const { graph } = session.moment.value;
  const seq = (graph.node(`${call.id}:result`) ?? graph.node(`${graph.node(call.id)?.runId}:${call.id}:result`))?.seq;
  const whole = seq === undefined ? undefined : wholeEvent(session, seq);
  const output = whole?.type === "tool_result" ? whole.output : call.output;
  const clipped = clipOf(output);
  return (
    <div class="call-inside">
      <h4>{texts.decide.arguments}</h4>
      <Pre text={asText(call.input, 2)} wrapped label={texts.talk.theArguments} />
      {call.progress !== undefined && (
        <>
          <h4>{texts.talk.progress}</h4>
          <Pre text={call.progress.slice(-50).map((p) => asText(p)).join("\n")} wrapped label={texts.talk.theProgress} />
        </>
      )}
      {output !== undefined && (
        <>
          <h4>{call.isError === true ? texts.talk.error : texts.talk.output}</h4>
          <Pre text={clipped === undefined ? asText(output, 2) : visible(clipped.text)} wrapped label={texts.talk.theOutput} />
          {clipped !== undefined && seq !== undefined && <ShowAll session={session} seqs={[seq]} size={clipped.bytes} />}
        </>
      )}
      <p class="fact">
        <More onClick={() => change({ sel: { kind: "call", id: call.id }, tab: "cost" })}>{texts.talk.cost}</More>
      </p>
    </div>
  );
}

function stands(call: ViewCall, cut: boolean): readonly [sign: string, state: string] {
  const { states } = texts.talk;
  if (call.approval === "denied") return ["✗", states.denied];
  if (call.isError === true) return ["✗", states.failed];
  if (call.status === "error") return ["✗", states.lost];
  if (call.status === "complete") return ["✓", states.done];
  if (call.approval === "pending") return ["?", states.waits];
  return cut ? ["‖", states.cut] : ["…", states.runs];
}

/** What a call returned, or its last progress, on one line. */
function result(call: ViewCall): string {
  if (call.output === undefined) return call.progress === undefined ? "" : oneLine(asText(call.progress.at(-1)));
  const text = clipOf(call.output)?.text ?? asText(call.output);
  return oneLine(visible(text));
}

/** The beginning of an output that was sent shortened. */
function clipOf(output: unknown): { readonly text: string; readonly bytes: number } | undefined {
  if (typeof output !== "object" || output === null || !("clipped" in output) || !("href" in output)) return undefined;
  const { text, clip } = words(output as { clipped: string; bytes: number; href: string });
  return { text, bytes: clip?.bytes ?? 0 };
}

interface BranchesProps {
  readonly session: OpenSession;
  readonly id: string;
  readonly branches: readonly (readonly ViewNode[])[];
  readonly depth: number;
}

/** How many rows of what happened inside are shown at once. */
const few = 12;

/** What agents did inside of a call or a message: one list a run and those that follow it. */
export function Branches({ session, id, branches, depth }: BranchesProps): JSX.Element {
  return (
    <div class="branches">
      {branches.slice(0, few).map((views, i) => {
        const agents = [...new Set(views.map((v) => v.agent ?? ""))].filter((a) => a !== "");
        return (
          <Fold
            key={views[0]?.runId ?? i}
            id={`branch:${id}:${views[0]?.runId ?? i}`}
            open={depth < 1 && branches.length <= 3 && views.length <= few}
            summary={
              <>
                {agents.slice(0, 3).map((agent) => (
                  <Mark key={agent} agent={agent} />
                ))}{" "}
                <bdi>{visible(agents.join(", "))}</bdi> <span class="fact soft">{texts.talk.inside(views.length)}</span>
              </>
            }
          >
            {() => <Branch session={session} views={views} depth={depth + 1} />}
          </Fold>
        );
      })}
      {branches.length > few && <p class="fact soft">{texts.talk.moreRuns(branches.length - few)}</p>}
    </div>
  );
}

function Branch({ session, views, depth }: { readonly session: OpenSession; readonly views: readonly ViewNode[]; readonly depth: number }): JSX.Element {
  const [most, show] = useState(few);
  const rows = rowsOf(session.stored.value, session.moment.value, views);
  const hidden = Math.max(0, rows.length - most);
  return (
    <div class="branch">
      {hidden > 0 && (
        <p class="fact">
          <More onClick={() => show(most + 4 * few)}>{texts.talk.earlier(hidden)}</More>
        </p>
      )}
      {rows.slice(hidden).map((row) => (
        <div key={row.key} class="talk-inner">
          {row.kind === "said" ? <Said session={session} row={row} depth={depth} /> : row.kind === "event" ? <Between row={row} /> : null}
        </div>
      ))}
    </div>
  );
}
