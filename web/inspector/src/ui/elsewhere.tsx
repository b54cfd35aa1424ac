import "./media.css";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { texts } from "../texts.js";
import { visible } from "./visible.js";

interface Props {
  readonly url: URL;
  /** The alternative text of the picture; may be "". */
  readonly alt: string;
}

/** The address of a picture that can be shown: by http or https, without a user or a password. */
export function pictureAt(href: string): URL | undefined {
  const url = URL.canParse(href) ? new URL(href) : undefined;
  return url !== undefined && /^https?:$/.test(url.protocol) && url.username + url.password === "" ? url : undefined;
}

/**
 * A picture at another host. The page asks that host for nothing before the reader presses the button. Then the picture is
 * in a frame, which the server lets load from that host alone.
 */
export function Elsewhere({ url, alt }: Props): JSX.Element {
  const [shown, show] = useState(false);
  const name = visible(alt.slice(0, 200));
  return (
    <span class="elsewhere">
      <button class="button" aria-expanded={shown} onClick={() => show(!shown)}>
        <span>
          {texts.pieces.picture(shown, name !== "" && <bdi>“{name}”</bdi>, <bdi>{url.host}</bdi>)}
        </span>
      </button>{" "}
      <a href={url.href} target="_blank" rel="noreferrer noopener" title={url.href}>
        {texts.pieces.tab}
      </a>
      {shown && <iframe title={name || texts.pieces.pictureFrom(url.host)} src={`/inspect/picture?${new URLSearchParams({ of: url.href, alt: name }).toString()}`} />}
    </span>
  );
}
