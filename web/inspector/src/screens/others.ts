// The screens besides that of a session, which are loaded as one.
export { Desk } from "./desk.js";
export { Diff } from "./diff.js";
export { GraphScreen } from "./graph.js";
export { Sessions } from "./sessions.js";
export { Tree } from "./tree.js";
export { Usage } from "./usage.js";
