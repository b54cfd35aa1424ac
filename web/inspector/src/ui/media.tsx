import "./media.css";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { bytesOf } from "../state/bytes.js";
import { bytes } from "./amount.js";
import { Elsewhere, pictureAt } from "./elsewhere.js";
import { texts } from "../texts.js";
import { visible } from "./visible.js";

/** Types that a browser shows as a picture, without running anything. */
export const pictures = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];

interface Props {
  readonly name: string;
  readonly type: string;
  readonly size?: number;
  /** Where the bytes are, below the native API. */
  readonly from?: string;
  /** Where they are, if that is another host. The address is shown, and only a picture is loaded, when the reader asks for it. */
  readonly url?: string;
  readonly user?: string | undefined;
  /** Whether a picture that is not large is shown at once. */
  readonly open?: boolean;
}

/** The size of a picture that may be shown without a click, in bytes. */
const small = 1 << 20;

/** An image or a file: a link with its type and size. A picture is shown when the reader asks for it, or at once if `open` says so. */
export function Media({ name, type, size, from, url, user, open = false }: Props): JSX.Element {
  const [shown, show] = useState("");
  const [asking, ask] = useState(false);
  useEffect(() => () => URL.revokeObjectURL(shown), [shown]);
  const facts = [type, ...(size === undefined ? [] : [bytes(size)])].join(" · ");
  const fetched = async (use: (url: string) => void): Promise<void> => {
    ask(true);
    const blob = await bytesOf(from!, user, type);
    ask(false);
    if (blob !== undefined) use(URL.createObjectURL(blob));
  };
  const opens = open && from !== undefined && pictures.includes(type) && size !== undefined && size <= small;
  useEffect(() => {
    if (opens) void fetched(show);
  }, [opens, from]);
  const save = (): Promise<void> =>
    fetched((made) => {
      const a = document.createElement("a");
      a.href = made;
      a.download = name;
      a.click();
      setTimeout(() => URL.revokeObjectURL(made), 60_000);
    });
  if (from === undefined) {
    const http = url !== undefined && /^https?:/i.test(url);
    const picture = type.startsWith("image") ? pictureAt(url ?? "") : undefined;
    if (picture !== undefined) return <Elsewhere url={picture} alt={name} />;
    return (
      <div class="media fact">
        {http ? (
          <a href={url} target="_blank" rel="noreferrer noopener" dir="auto">
            {visible(name || url)}
          </a>
        ) : (
          <bdi>{visible(name || url || texts.pieces.file)}</bdi>
        )}
        <span class="soft">{facts}{http && ` · ${texts.pieces.elsewhere}`}</span>
      </div>
    );
  }
  return (
    <div class="media fact" aria-busy={asking}>
      {pictures.includes(type) ? (
        <button class="button" aria-expanded={shown !== ""} onClick={() => (shown === "" ? void fetched(show) : show(""))}>
          {shown === "" ? texts.pieces.show : texts.pieces.hide} <bdi>{visible(name)}</bdi>
        </button>
      ) : (
        <bdi>{visible(name)}</bdi>
      )}
      <button class="talk-do" onClick={() => void save()} aria-label={texts.copies.download(name)}>
        {texts.pieces.download}
      </button>
      <span class="soft">{facts}</span>
      {shown !== "" && <img src={shown} alt={name} />}
    </div>
  );
}
