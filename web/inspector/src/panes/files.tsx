import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { OpenSession } from "../state/open.js";
import { versionsOf } from "../state/values.js";
import { filesAt } from "../state/views.js";
import { clock } from "../ui/amount.js";
import { visible } from "../ui/visible.js";
import { texts } from "../texts-behind.js";
import { Place, Waiting, lastOf } from "./detail.js";
import { address, path } from "../net/api.js";
import { Media } from "../ui/media.js";
import { Made } from "./made.js";

/** How many files are shown at first. */
const few = 20;

/** The session as a file: what each is for, how its name ends, its type, and the format of the export. */
const exported = [
  ["toRead", "md", "text/markdown", "md"],
  ["events", "jsonl", "application/jsonl", "jsonl"],
  ["evalCase", "yaml", "application/yaml", "case"],
] as const;

/** The files that agents and tools have made up to the moment, the last one first, and the session itself as files. */
export function Files({ session }: { readonly session: OpenSession }): JSX.Element {
  const { seq } = session.facts.value;
  const { value, error } = filesAt(session, lastOf(session, seq, "file"));
  const [most, show] = useState(few);
  const versions = versionsOf(value ?? [], seq);
  return (
    <div class="details-body">
      {value === undefined ? (
        <Waiting error={error} what={texts.files.what} />
      ) : (
        <section>
          <h2>{texts.files.at(seq)}</h2>
          {versions.length === 0 && <p class="soft">{texts.files.none}</p>}
          <ul class="d-samples">
            {versions.slice(0, most).map(({ file, version, of }) => (
              <li key={file.seq}>
                <Made session={session} file={file} open />
                <p class="soft fact">
                  {texts.files.by(version, of, visible(file.agent))}, <Place seq={file.seq}>{texts.at(file.seq)}</Place>, {clock(file.time)}
                </p>
              </li>
            ))}
          </ul>
          {versions.length > most && (
            <button class="button" onClick={() => show(most + 5 * few)}>
              {texts.files.more(versions.length)}
            </button>
          )}
        </section>
      )}
      <section>
        <h2>{texts.files.session}</h2>
        <ul class="d-samples">
          {exported.map(([what, ending, type, format]) => (
            <li key={format}>
              <Media name={`${session.key.id}.${ending}`} type={type} from={address(path("sessions", session.key.id, "export"), { format, at: seq })} user={session.key.user} />
              <p class="soft fact">{texts.files[what]}</p>
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}
