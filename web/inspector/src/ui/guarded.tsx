import { Component, type ComponentChildren } from "preact";
import { texts } from "../texts.js";

interface Props {
  readonly what: string;
  readonly children: ComponentChildren;
}

/** Shows its children, or one sentence instead if they fail. The rest of the page keeps working. */
export class Guarded extends Component<Props, { failed: string }> {
  static override getDerivedStateFromError(error: unknown): { failed: string } {
    return { failed: error instanceof Error ? error.message : String(error) };
  }

  override render(): ComponentChildren {
    if (!this.state.failed) return this.props.children;
    return (
      <p class="failed" role="alert">
        {texts.frame.notShown(this.props.what, this.state.failed)}
      </p>
    );
  }
}
