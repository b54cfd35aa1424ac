// Package graphdraw draws graphs of agents: as a Mermaid flowchart, in DOT for Graphviz, or as an SVG picture that
// needs no other program.
//
// A drawing shows the nodes with their agents, the entrypoint, the fallback, and the conditions and transforms of the
// edges. Graphs within graphs are drawn in their own boxes. Whatever names and expressions contain, the drawing is
// well-formed and contains no markup from them; long ones are shortened. Equal graphs have equal drawings.
//
// The package never runs a graph, and has no state.
package graphdraw
