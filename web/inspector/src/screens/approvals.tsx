import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { path } from "../net/api.js";
import { may, me } from "../state/app.js";
import { approvals, waiting } from "../state/approvals.js";
import { clock, counted, span } from "../ui/amount.js";
import { Link } from "../ui/link.js";
import { usePage } from "../ui/page.js";
import { visible } from "../ui/visible.js";
import { Cards } from "./ask.js";

/** What waits for a decision of the reader, in the sessions of all users. */
export function Approvals(): JSX.Element {
  const all = approvals.value;
  const n = all?.length ?? 0;
  usePage(n > 0 ? `${n} waiting · Approvals` : "Approvals", n > 0 ? "waiting" : "");
  const decides = me.value?.decides ?? false;
  useEffect(() => (decides ? waiting.watch() : undefined), [decides]);
  return (
    <div class="screen">
      <h1 tabIndex={-1}>Approvals</h1>
      {!decides ? (
        <p>This list is for users who decide in other users' sessions. Calls that wait in your own sessions are under Sessions.</p>
      ) : waiting.error.value !== undefined ? (
        <p class="failed">{waiting.error.value}</p>
      ) : all === undefined ? (
        <p class="soft">Loading…</p>
      ) : (
        <>
          <p role="status">{n === 0 ? "Nothing waits for you. Calls that need your decision appear here." : `${counted(n, "call waits", "calls wait")} for your decision.`}</p>
          <Cards
            all={all.map(({ user, session, turn, since, question }) => {
              const own = user === me.value?.user;
              const query = own ? {} : { user };
              return {
                name: `${question.tool} waits`,
                place: { path: path("sessions", session), query, refresh: waiting.look },
                turn,
                call: question,
                head: (
                  <>
                    {own || may("inspect") ? <Link to={{ screen: "session", id: session, middle: "talk", ...query }}>{visible(session)}</Link> : visible(session)}
                    <span class="soft">
                      in {own ? "your session" : `a session of ${visible(user)}`}
                      {question.within?.map((agent) => ` · inside of ${visible(agent)}`)} · since{" "}
                      <time dateTime={since}>{`${clock(since)}, ${span(Math.max(0, Date.now() - Date.parse(since)))}`}</time>
                    </span>
                  </>
                ),
              };
            })}
          />
        </>
      )}
    </div>
  );
}
