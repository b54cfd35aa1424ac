// The views beside the conversation, which are loaded as one behind it.
export { ConversationGraph } from "./convgraph.js";
export { Cost } from "./cost.js";
export { Feed } from "./feed.js";
export { Runs } from "./runs.js";
export { Seen } from "./seen.js";
export { Slider } from "./slider.js";
export { TreePane } from "./treepane.js";
export { WhatIf } from "./whatif.js";
export { Why } from "./why.js";
