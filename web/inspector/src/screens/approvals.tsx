import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { path } from "../net/api.js";
import { may, me } from "../state/app.js";
import { approvals, waiting } from "../state/approvals.js";
import { texts } from "../texts-behind.js";
import { clock, span } from "../ui/amount.js";
import { Link } from "../ui/link.js";
import { usePage } from "../ui/page.js";
import { visible } from "../ui/visible.js";
import { Cards } from "./ask.js";

/** What waits for a decision of the reader, in the sessions of all users. */
export function Approvals(): JSX.Element {
  const all = approvals.value;
  const n = all?.length ?? 0;
  usePage(texts.approvals.tab(n), n > 0 ? "waiting" : "");
  const decides = me.value?.decides ?? false;
  useEffect(() => (decides ? waiting.watch() : undefined), [decides]);
  return (
    <div class="screen">
      <h1 tabIndex={-1}>{texts.approvals.title}</h1>
      {!decides ? (
        <p>{texts.approvals.notYours}</p>
      ) : waiting.error.value !== undefined ? (
        <p class="failed">{waiting.error.value}</p>
      ) : all === undefined ? (
        <p class="soft">{texts.approvals.loading}</p>
      ) : (
        <>
          <p role="status">{n === 0 ? texts.approvals.none : texts.approvals.waiting(n)}</p>
          <Cards
            all={all.map(({ user, session, title, turn, since, question }) => {
              const own = user === me.value?.user;
              const query = own ? {} : { user };
              return {
                name: texts.approvals.call(question.tool),
                place: { path: path("sessions", session), query, refresh: waiting.look },
                turn,
                call: question,
                head: (
                  <>
                    {own || may("inspect") ? <Link to={{ screen: "session", id: session, middle: "talk", ...query }}>{visible(title || session)}</Link> : visible(session)}
                    <span class="soft">
                      {texts.approvals.where(
                        own ? "" : visible(user),
                        question.within?.map(visible) ?? [],
                        <time dateTime={since}>{`${clock(since)}, ${span(Math.max(0, Date.now() - Date.parse(since)))}`}</time>,
                      )}
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
