import type { JSX } from "preact";
import type { OpenSession } from "../state/open.js";
import { Media } from "../ui/media.js";

interface Props {
  readonly session: OpenSession | undefined;
  readonly file: { readonly name: string; readonly mediaType: string; readonly size: number; readonly digest?: string; readonly url?: string };
  /** Whether a picture is shown at once. */
  readonly open?: boolean;
}

/** A file that an agent or a tool has made. */
export function Made({ session, file, open = false }: Props): JSX.Element {
  const { name, mediaType, size, digest, url } = file;
  return (
    <Media
      name={name}
      type={mediaType}
      size={size}
      {...(digest !== undefined && session !== undefined && { from: `${session.path}/files/${encodeURIComponent(digest)}` })}
      {...(url !== undefined && { url })}
      user={session?.key.user}
      open={open}
    />
  );
}
