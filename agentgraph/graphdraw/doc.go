// Package graphdraw draws graphs of agents: as a flowchart for Mermaid, in DOT for
// Graphviz, or as an SVG picture that needs no other program.
//
// A drawing shows the nodes with their agents, where a run begins, where an error
// leads, and on the edges their conditions and transforms. Graphs within graphs have
// boxes of their own. Whatever the names and the expressions contain, the drawing is
// well-formed and contains no markup of theirs; long ones are shortened. Equal graphs
// have equal drawings.
//
// It imports agentgraph and a layout, never runs a graph, and has no state.
package graphdraw
