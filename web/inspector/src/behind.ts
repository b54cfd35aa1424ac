// All that the conversation of a session does not need: it is loaded as one, behind it.
export { ConversationGraph } from "./panes/convgraph.js";
export { Cost } from "./panes/cost.js";
export { Feed } from "./panes/feed.js";
export { Forking } from "./panes/forking.js";
export { Runs } from "./panes/runs.js";
export { Seen } from "./panes/seen.js";
export { Slider } from "./panes/slider.js";
export { TreePane } from "./panes/treepane.js";
export { WhatIf } from "./panes/whatif.js";
export { Why } from "./panes/why.js";
export { Approvals } from "./screens/approvals.js";
export { Desk } from "./screens/desk.js";
export { Diff } from "./screens/diff.js";
export { GraphScreen } from "./screens/graph.js";
export { Sessions } from "./screens/sessions.js";
export { Tree } from "./screens/tree.js";
export { Usage } from "./screens/usage.js";
